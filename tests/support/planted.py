"""A repository with six planted defects, and the findings of a panel of three."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from counsel.engine.consult.review.findings import RawFinding

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")
VENDORS = ("openai-responses", "anthropic", "gemini")
BEFORE = {
    "store.py": """import sqlite3


def connect(path):
    return sqlite3.connect(path)


def all_names(db):
    return [row[0] for row in db.execute("SELECT name FROM users")]


def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


def page(items, number, size):
    return items[number * size : (number + 1) * size]


def first_page(items):
    return page(items, 0, 20)


def last_page(items):
    return page(items, len(items) // 20, 20)
""",
    "tokens.py": """def is_valid(given, expected):
    return given == expected
""",
}
AFTER = {
    "store.py": """import sqlite3


def connect(path):
    return sqlite3.connect(path)


def all_names(db):
    return [row[0] for row in db.execute("SELECT name FROM users")]


def find_user(db, name):
    return db.execute(f"SELECT * FROM users WHERE name = '{name}'").fetchone()


def load(path, cache={}):
    if path not in cache:
        cache[path] = open(path).read()
    return cache[path]


def total(prices):
    result = 0
    for at in range(1, len(prices)):
        result += prices[at]
    return result


def page(items, number, size):
    return items[number * size : (number + 1) * size]


def first_page(items):
    return page(items, 0, 20)


def last_page(items):
    return page(items, len(items) // 20, 20)
""",
    "tokens.py": """import time


def is_valid(given, expected):
    for one, other in zip(given, expected):
        if one != other:
            return False
    time.sleep(0)
    return True
""",
}


def finding(file: str, line: int, severity: str, title: str, reason: str, fix: str = "") -> dict[str, Any]:
    return {
        "file": file,
        "line": line,
        "end_line": line,
        "severity": severity,
        "title": title,
        "reason": reason,
        "suggestion": fix,
    }


SQL = 'The name is put into the SQL text, so a quote in it ends the string: name = "\' OR 1=1 --" returns a user.'
FINDINGS: tuple[list[dict[str, Any]], ...] = (
    [
        finding("store.py", 13, "critical", "SQL injection through name", SQL, "Pass name as a parameter."),
        finding(
            "store.py",
            18,
            "medium",
            "The opened file is never closed",
            "open(path).read() leaves the handle to the garbage collector.",
            "Use a with statement.",
        ),
        finding(
            "store.py",
            24,
            "high",
            "The first price is skipped",
            "range(1, len(prices)) starts at the second entry, so total([5]) is 0.",
            "Iterate over prices.",
        ),
        finding("cache.py", 3, "low", "The cache has no limit", "It grows with every path."),
    ],
    [
        finding("b/store.py", 13, "high", "SQL injection: name is not escaped", SQL, "Use a placeholder: ?"),
        finding(
            "store.py", 18, "low", "File handle is never closed", "open() without close leaks the handle."
        ),
        finding(
            "store.py",
            16,
            "medium",
            "Mutable default argument is shared by all callers",
            "cache={} is made once, when the function is defined.",
            "Default to None.",
        ),
    ],
    [
        finding("store.py", 13, "critical", "SQL injection in find_user through the name", SQL),
        finding(
            "tokens.py",
            5,
            "high",
            "A prefix of the token is accepted",
            "zip stops at the shorter one, so an empty token is valid.",
            "Compare lengths, or use hmac.compare_digest.",
        ),
        finding(
            "store.py",
            38,
            "medium",
            "last_page is empty for a multiple of 20 items",
            "len(items) // 20 is one too high then.",
        ),
        finding("tokens.py", 7, "low", "time.sleep(0) blocks the event loop", "It suspends the thread."),
    ],
)
# By title: the verdict of the member that checks the finding. The other findings were made by all members.
VERDICTS = {
    "The opened file is never closed": ("confirmed", "Line 18 has no close."),
    "The first price is skipped": ("confirmed", "Index 0 is never read."),
    "The cache has no limit": ("unsure", "cache.py is not shown."),
    "Mutable default argument is shared by all callers": ("unsure", "That may be intended: it is a cache."),
    "A prefix of the token is accepted": ("confirmed", "all of zip('', x) is empty."),
    "last_page is empty for a multiple of 20 items": ("confirmed", "20 // 20 is page 1, which is empty."),
    "time.sleep(0) blocks the event loop": ("disputed", "sleep(0) returns at once, and there is no loop."),
}


def ids() -> dict[str, str]:
    """Each finding's id, by its title."""
    by_title = {}
    for slot, entries in enumerate(FINDINGS):
        for entry in entries:
            raw = RawFinding(
                slot=str(slot),
                file=entry["file"].removeprefix("b/"),
                line=entry["line"],
                end_line=None,
                severity=entry["severity"],
                title=entry["title"],
                reason=entry["reason"],
                suggestion=entry["suggestion"],
            )
            by_title[entry["title"]] = raw.id
    return by_title


def review(slot: int) -> str:
    return json.dumps({"findings": FINDINGS[slot]})


def checks(verdicts: Mapping[str, tuple[str, str]] = VERDICTS) -> str:
    """All verdicts, whichever findings a member checks."""
    finding_ids = ids()
    return json.dumps(
        {
            "verdicts": [
                {"id": finding_ids[title], "verdict": verdict, "reason": reason}
                for title, (verdict, reason) in verdicts.items()
            ]
        }
    )


class Scriptable(Protocol):
    def script(self, **fields: Any) -> Any: ...


def script(fake: Scriptable, **fields: Any) -> None:
    for slot, vendor in enumerate(VENDORS):
        fake.script(vendor=vendor, contains="Review this change", text=review(slot), times=None, **fields)
        fake.script(vendor=vendor, contains="Check these findings", text=checks(), times=None, **fields)


def git(folder: Path, *arguments: str, **env: str) -> str:
    process = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder.parent),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.com",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.com",
            **env,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return process.stdout


def repository(folder: Path, *, commit: bool = False) -> Path:
    """`main` has the code before; the defects are in the working tree, or with `commit` on a branch."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, BEFORE)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Before")
    write(folder, AFTER)
    if commit:
        git(folder, "checkout", "-qb", "change")
        git(folder, "commit", "-qam", "After")
    return folder


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def titles(findings: Sequence[Mapping[str, Any]], status: str) -> list[str]:
    return [entry["title"] for entry in findings if entry["status"] == status]
