"""How diffs are read, narrowed, written and shown, and how findings are read, placed and compared
(tests/golden/review.txt).

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from counsel.engine.consult.review import diff, findings, functions
from counsel.engine.consult.review.diff import FileDiff, Hunk
from counsel.engine.consult.review.findings import RawFinding

GOLDEN = Path(__file__).parents[2] / "golden" / "review.txt"
PYTHON = """\
@@ -1,22 +1,22 @@
 import os


 @cached
 def first(a):
     x = 1
-    y = 2
+    y = 3
     return x


 def second(
     a,
     b,
 ):
     if a:
         z = 1
+        w = 2
     return b


 class Third:
     def method(self):
         return 1
-
-LAST = 1
"""
C = """\
@@ -1,17 +1,17 @@
 #include <x>
 // Adds.
 int add(int a,
         int b)
 {
   if (a) {
-    return 1;
+    return 2;
   }
   return b;
 }

 const f = (a) => {
+  g(a);
   return a;
 };
 x = 1
-y = 2
 z = 3
"""
DIFFS: dict[str, str] = {
    "nothing": "words\n",
    "plain": "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
    "without counts": "--- a/x\n+++ b/x\n@@ -2 +2 @@ def f():\n-b\n+B\nafter\n",
    "added before the first line": "--- a/x\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n",
    "removed to the last line": "--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
    "new by its old name": "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
    "new by its mode": "diff --git a/x b/x\nnew file mode 100644\nindex 0..1\n",
    "deleted by its mode": "diff --git a/x b/x\ndeleted file mode 100644\nindex 0..1\n",
    "renamed with a change": (
        "diff --git a/old b/new\nsimilarity index 90%\nrename from old\nrename to new\n--- a/old\n+++ b/new\n"
        "@@ -1 +1 @@\n-a\n+b\n"
    ),
    "renamed with quotes": 'diff --git "a/\\303\\244" b/b\nrename from "\\303\\244"\nrename to b\n',
    "binary": "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
    "binary patch": "diff --git a/x b/x\nGIT binary patch\nliteral 5\nabc\n\n",
    "submodule by its mode": "diff --git a/lib b/lib\nindex 1..2 160000\n",
    "submodule by its text": "--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n",
    "merge": "diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n",
    "cut": "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n",
    "cut by another file": "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\ndiff --git a/y b/y\nnew file mode 1\n",
    "two files": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n",
    "two files with headers": (
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/y b/y\nindex 1..2\n--- a/y\n+++ b/y\n"
        "@@ -1 +1 @@\n-c\n+d\n"
    ),
    "two hunks": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -9,2 +9 @@\n c\n-d\n",
    "a removed line like a header": "--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- a/y\n+++ b/y\n",
    "names with blanks and dates": "--- a/my file\t2020\n+++ b/my file\t2021\n@@ -1 +1 @@\n-a\n+b\n",
    "quoted names": '--- "a/t\\tb\\"c\\\\"\t2020\n+++ "b/t\\tb\\"c\\\\"\n@@ -1 +1 @@\n-a\n+b\n',
    "no line break at the end": (
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\nwords\n"
    ),
    "Windows": "--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
    "a mail without trailing blanks": "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n",
    "half a name": "--- a/x\nwords\n+++ b/x\n",
    "git's header alone": "diff --git a/x b/x\nold mode 1\nnew mode 2\n",
    "another name without a rename": "diff --git a/x b/y\nold mode 1\nnew mode 2\n",
    "Python": f"--- a/x.py\n+++ b/x.py\n{PYTHON}",
    "C": f"--- a/x.c\n+++ b/x.c\n{C}",
}


def _rows(file: FileDiff) -> dict[str, Any]:
    """What differs from a plain change, without the hunks."""
    usual = FileDiff(path=file.path)
    names = [field.name for field in dataclasses.fields(file)]
    return {
        name: getattr(file, name)
        for name in names
        if name != "hunks" and getattr(file, name) != getattr(usual, name)
    }


def _diffs() -> Iterator[str]:
    for title, text in DIFFS.items():
        yield f"# {title}"
        for file in diff.parse(text):
            about = {
                "changed": sorted(file.changed),
                "counts": file.counts,
                "last_line": file.last_line,
                **_rows(file),
            }
            yield f"  {file.path!r} {json.dumps(about)} sides {file.side('-')!r} {file.side('+')!r}"
            yield from (f"  {hunk.old} {hunk.new} {hunk.lines!r}" for hunk in file.hunks)
            yield from (f"  | {line}" for line in file.for_model().split("\n"))
            yield from (f"  = {line}" for line in file.unified().split("\n"))
            for context, whole in ((0, False), (1, False), (0, True)):
                excerpt = file.narrowed(context, whole_functions=whole)
                lines = [(hunk.old, hunk.new, len(hunk.lines)) for hunk in excerpt.hunks]
                yield f"  {context} lines around{' and whole functions' if whole else ''}: {lines}"


CODE = {
    "a long function": [" def f():", *(f"     x{n} = 1" for n in range(functions.LONGEST + 5)), "+    y = 2"],
    "a far header": [" def f():", *(f"     x{n} = 1" for n in range(functions._FAR + 5)), "+    y = 2"],
    "no function": [" x = [", "+    1,", "     2,", " ]"],
    "an if": [" if x:", "+    y = 1", " z = 2"],
    "tabs": [" func f() {", " \tif x {", "+\t\ty()", " \t}", " }", " func g() {"],
    "a decorator and a comment": [
        " # About f.",
        " @cached",
        " def f():",
        "     pass",
        "+    return 1",
        " ",
        " x = 1",
    ],
    "end": [" def f", "+  1", " end", " x"],
    "an empty line in it": [" def f():", "     a = 1", "+", "     b = 2", " c = 3"],
    "a removed header": ["-def f():", "+def g():", "     a = 1", "+    b = 2"],
    "a method in a class": [
        " class A:",
        "     x = 1",
        "     def f(self):",
        "+        return 1",
        "     def g(self):",
        "         pass",
    ],
    "a comment at the left": [" def f():", " # odd", "+    return 1", " x"],
}


def _functions() -> Iterator[str]:
    for title, lines in CODE.items():
        indices = sorted(functions.around_changes(lines))
        shown = indices if len(indices) < 20 else [*indices[:3], "…", *indices[-3:], len(indices)]
        yield f"# {title}: {shown}"


FILES = [
    FileDiff(path="src/store.py", hunks=(Hunk(10, 10, (" a", "-b", "+B", " c")),)),
    FileDiff(path="new.py", old_path="old.py", status="renamed"),
    FileDiff(path="lib/store.py", status="added", hunks=(Hunk(0, 1, ("+a", "+b")),)),
    FileDiff(path="gone.py", status="deleted", hunks=(Hunk(1, 0, ("-a",)),)),
    FileDiff(path='odd "name".py'),
]
ENTRY = {"file": "src/store.py", "line": 11, "severity": "high", "title": "Title", "reason": "Reason."}
ENTRIES: list[dict[str, Any]] = [
    {}, {"file": "store.py"}, {"file": "a/src/store.py"}, {"file": "./src/store.py"}, {"file": "src\\store.py"},
    {"file": "/home/me/src/store.py"}, {"file": "old.py"}, {"file": "other.py"}, {"file": ""}, {"file": 5},
    {"file": "b/new.py"}, {"file": "odd &quot;name&quot;.py"}, {"file": "/other.py"},
    {"line": "L3-5"}, {"line": "line 7"}, {"line": 3.0}, {"line": 3.5}, {"line": True}, {"line": 0}, {"line": -1},
    {"line": 10**9}, {"line": 10**9 - 1}, {"line": "12345678901"}, {"line": None, "end_line": 5},
    {"line": 9, "end_line": 5}, {"line": 5, "end_line": 5}, {"line": 5, "end_line": 9},
    *({"severity": name} for name in ("BLOCKER", "severe", "error", "warning", "moderate", "minor", "note", "nit", "odd", 5)),
    {"title": ""}, {"title": None, "claim": "Claim"}, {"title": "", "reason": ""}, {"title": "", "reason": "One.\nTwo."},
    {"title": " t "}, {"title": "t" * 400}, {"reason": "r" * 5_000, "suggestion": "s" * 5_000}, {"suggestion": 5},
]  # fmt: skip
ANSWERS = [
    "", "no json", "}{", "{", "[]", '{"findings": 5}', '{"findings": [5, null]}', '{"other": []}',
    'So: ```json\n{"findings": []}\n```', '{"findings": []} and {more}',
]  # fmt: skip


def _finding(**fields: Any) -> RawFinding | None:
    found = findings.read(json.dumps({"findings": [{**ENTRY, **fields}]}), "0", FILES)
    return found[0] if found else None


def _places() -> Iterator[str]:
    for fields in ENTRIES:
        finding = _finding(**fields)
        row = None
        if finding:
            row = dataclasses.asdict(finding)
            row = {
                name: value for name, value in row.items() if name != "slot" and ENTRY.get(name, "") != value
            }
            row = {name: value if len(str(value)) < 60 else len(value) for name, value in row.items()}
        yield f"{json.dumps(fields)[:70]} → {json.dumps(row)}"
    for answer in ANSWERS:
        yield f"{answer!r} → {findings.read(answer, '0', FILES)} {findings.verdicts(answer)}"
    by_path = {file.path: file for file in FILES}
    for name in ("src/store.py", "lib/store.py", "gone.py", "new.py", "other.py"):
        for line in (None, 1, 2, 3, 7, 8, 11, 14, 15, 40):
            finding = _finding(file=name, line=line)
            assert finding
            counts: tuple[int | None, ...] = (None, -1, 11)
            where = [findings.location(finding, by_path, {name: count}.get) for count in counts]
            yield f"{name}:{line} {where}"


PAIRS: list[dict[str, Any]] = [
    {"line": 10, "title": "SQL injection through name", "reason": "A quote ends it."},
    {"line": 15, "title": "Name allows an SQL injection", "reason": "Quotes."},
    {"line": 16, "title": "SQL injection through name", "reason": "A quote ends it."},
    {"line": 10, "end_line": 12, "title": "i < n", "reason": "x"},
    {"line": 12, "title": "I  <  N", "reason": "y"},
    {"line": None, "title": "Missing tests", "reason": "There are none for the store."},
    {"line": None, "title": "No tests", "reason": "The store has none, missing everywhere."},
    {"line": 10, "title": "資料庫注入攻擊", "reason": "因為引號"},
    {"line": 11, "title": "資料庫的注入", "reason": "引號"},
    {"line": 10, "title": "the and for", "reason": "are this that"},
    {"line": 10, "title": "12 or 13", "reason": "13"},
    {"line": 10, "file": "other.py", "title": "SQL injection through name", "reason": "A quote ends it."},
]  # fmt: skip


def _similarities() -> Iterator[str]:
    made = [_finding(**fields) for fields in PAIRS]
    for (first, finding), (second, other) in combinations(enumerate(made), 2):
        assert finding
        assert other
        if score := findings.similarity(finding, other):
            yield f"{first} and {second}: {score:.3f}"
    groups = findings.merge([[entry for entry in made[at::3] if entry] for at in range(3)])
    yield f"groups {[[made.index(entry) for entry in group] for group in groups]}"
    authors = [[RawFinding(slot=slot, file="x", line=1, end_line=None, severity="low", title="t", reason="r", suggestion="") for slot in slots] for slots in ("0", "1", "01", "012", "2", "0", "0")]  # fmt: skip
    yield f"checks {findings.assign(authors, ['0', '1', '2'])}"
    yield f"readable {findings.readable(json.dumps({'findings': [ENTRY, {**ENTRY, 'line': None}]}))!r}"
    yield f"readable {[findings.readable(text) for text in ANSWERS[-2:]]}"
    verdicts = {
        "verdicts": [{"id": " F1 ", "verdict": "Confirmed", "reason": "r"}, {"id": "F2", "verdict": "odd"}, 5]
    }
    yield f"verdicts {findings.verdicts(json.dumps(verdicts))}"
    one = made[0]
    assert one
    yield f"id {one.id} last {one.last} {dataclasses.replace(one, end_line=20).last}"


def test_diffs_and_findings_are_read_as_before() -> None:
    document = "\n".join([*_diffs(), *_functions(), *_places(), *_similarities()]) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(document)
    difference = difflib.unified_diff(
        GOLDEN.read_text().splitlines(), document.splitlines(), "golden", "now", "", "", 2
    )
    assert "\n".join(difference) == ""


def test_many_findings_of_one_member_are_bounded_and_equal_ones_are_one() -> None:
    entries = [{**ENTRY, "line": number} for number in range(1, findings.MOST + 5)]
    found = findings.read(json.dumps({"findings": entries}), "0", FILES)
    assert found is not None
    assert len(found) == findings.MOST
    twice = findings.read(json.dumps({"findings": [ENTRY, ENTRY]}), "0", FILES)
    assert twice is not None
    assert len(twice) == 1
