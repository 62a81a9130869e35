"""Reads unified diffs, narrows their context, and writes them for models with the new file's line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from counsel.engine.consult.review import functions
from counsel.engine.context.files import attribute
from counsel.lazy_dataclass import dataclass

NEAR_CHANGE = 3  # lines: a finding this close to a changed line is about the change
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@").match
_ESCAPE = re.compile(r'\\([0-7]{3}|["\\abfnrtv])')
_ESCAPES = {'"': 34, "\\": 92, "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


@dataclass(frozen=True, slots=True)
class Hunk:
    old: int  # number of the first line on each side
    new: int
    lines: tuple[str, ...]  # each begins with " ", "+" or "-"

    def numbered(self) -> Iterator[tuple[int, int, str]]:
        """Each line with its number in the old and the new file; where a file lacks it, the number of the next line."""
        old, new = self.old, self.new
        for line in self.lines:
            yield old, new, line
            old += line[0] != "+"
            new += line[0] != "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    path: str  # the new path; for a deleted file, the old one
    old_path: str | None = None  # for a renamed file
    status: str = "modified"  # added, deleted, modified or renamed
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False
    submodule: bool = False
    combined: bool = False  # the diff of a merge, with several old sides
    cut: bool = False  # a hunk has fewer lines than its header says

    @property
    def changed(self) -> frozenset[int]:
        """Numbers of lines in the new file that were added, or that are next to removed ones."""
        numbers: set[int] = set()
        for hunk in self.hunks:
            for _, new, line in hunk.numbered():
                if line[0] == "+":
                    numbers.add(new)
                elif line[0] == "-":
                    numbers |= {max(1, new - 1), new}
        return frozenset(numbers)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of added and removed lines."""
        marks = [line[0] for hunk in self.hunks for line in hunk.lines]
        return marks.count("+"), marks.count("-")

    @property
    def last_line(self) -> int | None:
        """The number of the new file's last line, if the diff shows it."""
        if self.status == "added":
            return sum(line[0] != "-" for hunk in self.hunks for line in hunk.lines)
        return None

    def side(self, mark: str) -> str:
        """The text of one side (`+` new, `-` old), as far as the diff shows it."""
        other_mark = "-" if mark == "+" else "+"
        return "\n".join(line[1:] for hunk in self.hunks for line in hunk.lines if line[0] != other_mark)

    def narrowed(self, context: int, *, whole_functions: bool = False) -> FileDiff:
        """The diff with at most `context` unchanged lines around each change, or also the function around it."""
        hunks = tuple(
            part
            for hunk in self.hunks
            for part in _split(
                hunk, context, functions.around_changes(hunk.lines) if whole_functions else set()
            )
        )
        return replace(self, hunks=hunks)

    def unified(self) -> str:
        """The file as a unified diff that `parse` can read."""
        old, new = _quoted(f"a/{self.old_path or self.path}"), _quoted(f"b/{self.path}")
        head = [f"diff --git {old} {new}"]
        if self.status == "renamed" and self.old_path:
            head += [f"rename from {_quoted(self.old_path)}", f"rename to {_quoted(self.path)}"]
        head.append(f"--- {'/dev/null' if self.status == 'added' else old}")
        head.append(f"+++ {'/dev/null' if self.status == 'deleted' else new}")
        return "\n".join([*head, *(line for hunk in self.hunks for line in _hunk_lines(hunk))]) + "\n"

    def for_model(self) -> str:
        """The file for a model. Each line of content begins with its number, so that it cannot fake a block's end."""
        before = f' renamed_from="{attribute(self.old_path)}"' if self.old_path else ""
        head = f'<file path="{attribute(self.path)}" status="{self.status}"{before}>'
        parts = [head]
        for number, hunk in enumerate(self.hunks):
            parts += ["      …"] if number else []
            parts += [
                f"{'' if line[0] == '-' else new:>5} {line[0]} {line[1:]}" for _, new, line in hunk.numbered()
            ]
        return "\n".join([*parts, "</file>"])


def _split(hunk: Hunk, context: int, extra: set[int]) -> Iterator[Hunk]:
    changes = [at for at, line in enumerate(hunk.lines) if line[0] != " "]
    indices = sorted(extra | {at for mark in changes for at in range(mark - context, mark + context + 1)})
    numbers = list(hunk.numbered())
    start: int | None = None
    before = -2
    for at in [*(at for at in indices if 0 <= at < len(hunk.lines)), -1]:
        if start is not None and at != before + 1:
            yield Hunk(numbers[start][0], numbers[start][1], hunk.lines[start : before + 1])
            start = None
        if at >= 0 and start is None:
            start = at
        before = at


def _hunk_lines(hunk: Hunk) -> Iterator[str]:
    old = sum(line[0] != "+" for line in hunk.lines)
    new = sum(line[0] != "-" for line in hunk.lines)
    yield f"@@ -{hunk.old - (not old)},{old} +{hunk.new - (not new)},{new} @@"
    yield from hunk.lines


def write(files: Iterable[FileDiff]) -> str:
    return "".join(file.unified() for file in files)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def parse(text: str) -> list[FileDiff]:
    """The files of a unified diff, with or without git's headers. Lines that are not part of a diff are skipped."""
    lines = text.split("\n")
    files: list[FileDiff] = []
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        is_plain = line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
        if line.startswith("diff --git ") or is_plain:
            file, at = _file(lines, at)
            if file:
                files.append(file)
        else:
            at += 1
    return files


def _file(lines: list[str], at: int) -> tuple[FileDiff | None, int]:
    names: dict[str, str] = {}
    facts: set[str] = set()
    hunks: list[Hunk] = []
    first = True
    while at < len(lines):
        line = lines[at].rstrip("\r")
        if line.startswith("diff --git "):
            if not first:
                break
            names["git"] = line.removeprefix("diff --git ")
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            if hunks or "old" in names:
                break
            names["old"], names["new"] = line[4:], lines[at + 1].rstrip("\r")[4:]
            at += 1
        elif match := _HUNK(line):
            hunk, at, is_cut = _hunk(lines, at + 1, match)
            hunks.append(hunk)
            facts |= {"cut"} if is_cut else set()
            first = False
            continue
        elif hunks:
            break
        else:
            _note(line, names, facts)
        first = False
        at += 1
    return _file_diff(names, facts, tuple(hunks)), at


_FACTS = (
    "new file mode",
    "deleted file mode",
    "Binary files ",
    "GIT binary patch",
    "rename from ",
    "rename to ",
)


def _note(line: str, names: dict[str, str], facts: set[str]) -> None:
    for fact in _FACTS:
        if line.startswith(fact):
            facts.add(fact.strip())
            if fact.startswith("rename"):
                names[fact.strip()] = _unquoted(line.removeprefix(fact))
    if line.startswith("@@@ "):
        facts.add("combined")
    if line.endswith(" 160000"):
        facts.add("submodule")


def _file_diff(names: dict[str, str], facts: set[str], hunks: tuple[Hunk, ...]) -> FileDiff | None:
    old, new = _path(names.get("old"), "a/"), _path(names.get("new"), "b/")
    if "git" in names and not (old or new):
        old, new = _split_names(names["git"])
    old_name = names.get("rename from")
    path = names.get("rename to") or new or old
    if not path:
        return None
    is_added = "new file mode" in facts or names.get("old", "").startswith("/dev/null")
    is_deleted = "deleted file mode" in facts or names.get("new", "").startswith("/dev/null")
    subproject = any(line[1:].startswith("Subproject commit ") for hunk in hunks for line in hunk.lines)
    status = "renamed" if old_name else "added" if is_added else "deleted" if is_deleted else "modified"
    return FileDiff(
        path=path,
        old_path=old_name,
        status=status,
        hunks=hunks,
        binary=bool(facts & {"Binary files", "GIT binary patch"}),
        submodule="submodule" in facts or subproject,
        combined="combined" in facts,
        cut="cut" in facts,
    )


def _hunk(lines: list[str], at: int, match: re.Match[str]) -> tuple[Hunk, int, bool]:
    """The hunk, the index of the line after it, and whether lines are missing.

    The counts in the header decide where it ends, since a removed line may look like a header.
    """
    old, new = int(match[2] or 1 if match[2] != "0" else 0), int(match[4] or 1 if match[4] != "0" else 0)
    start_old, start_new = int(match[1]) + (not old), int(match[3]) + (not new)
    body: list[str] = []
    while at < len(lines) and (old > 0 or new > 0):
        line = lines[at].removesuffix("\r")
        mark = line[:1] or " "  # mail programs strip the blank in an empty line
        if mark == "\\":
            at += 1
            continue
        if mark not in " +-":
            break
        old -= mark != "+"
        new -= mark != "-"
        body.append(mark + line[1:])
        at += 1
    if at < len(lines) and lines[at].startswith("\\"):
        at += 1
    return Hunk(start_old, start_new, tuple(body)), at, old > 0 or new > 0


def _path(name: str | None, prefix: str) -> str | None:
    if name is None or name.startswith("/dev/null"):
        return None
    is_quoted = name.startswith('"')
    plain = _unquoted(name[: _end_of_quoted(name)] if is_quoted else name.partition("\t")[0])
    return plain.removeprefix(prefix)


def _split_names(names: str) -> tuple[str | None, str | None]:
    """Split `a/x b/x` of a file without hunks: both halves are equal except for their prefix, unless it was renamed."""
    if names.startswith('"'):
        old = names[: _end_of_quoted(names)]
        return _path(old, "a/"), _path(names[len(old) + 1 :], "b/")
    middle = len(names) // 2
    old, new = names[:middle], names[middle + 1 :]
    return (_path(old, "a/"), _path(new, "b/")) if old[2:] == new[2:] else (None, None)


def _end_of_quoted(text: str) -> int:
    at = 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _unquoted(name: str) -> str:
    """A name from git's notation, which has quotes and escapes around special characters."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    data = bytearray()
    at = 0
    inner = name[1:-1]
    for match in _ESCAPE.finditer(inner):
        data += inner[at : match.start()].encode()
        code = match[1]
        data.append(int(code, 8) & 255 if len(code) == 3 else _ESCAPES[code])
        at = match.end()
    data += inner[at:].encode()
    return data.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    return '"' + "".join(_escaped(byte) for byte in name.encode("utf-8", "replace")) + '"'


def _escaped(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
