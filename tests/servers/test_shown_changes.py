"""The texts that people read before and after a change: diffs, refusals, missing servers."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counsel.agents.definitions import WITH_SERVERS
from counsel.configfiles.write.safewrite import Change, PlannedWrite, Target
from counsel.servers import diff, selection
from support.user import User


def planned(before: str | None, after: str | None) -> PlannedWrite:
    change = Change(Target(Path("/x/file.json"), "json"), lambda *_: None)
    return PlannedWrite(
        change, None if before is None else before.encode(), None if after is None else after.encode()
    )


def numbered(count: int, **changed_lines: str) -> str:
    return "".join(f"{changed_lines.get(f'l{n}', f'line {n}')}\n" for n in range(1, count + 1))


def lines(text: str) -> list[str]:
    *lines_with_end, rest = text.split("\n")
    return [f"{line}\n" for line in lines_with_end] + (
        [f"{rest}\n\\ No newline at end of file\n"] if rest else []
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (numbered(20), numbered(20, l10="new")),
        (numbered(20), numbered(20, l1="new")),
        (numbered(20), numbered(20, l20="new")),
        (numbered(20), numbered(20, l4="new", l17="newer")),
        (numbered(5), numbered(6)),
        (numbered(6), numbered(5)),
        ("", "a\n"),
        ("a", "b"),
        ("a\u2028b\n", "a\u2028c\n"),
        ("a\na\na\n", "a\na\n"),
    ],
)
def test_a_diff_is_the_librarys_own(before: str, after: str) -> None:
    expected = difflib.unified_diff(lines(before), lines(after), "/x/file.json", "/x/file.json", n=3)
    assert diff.unified(planned(before, after)) == "".join(expected)


def test_a_new_file_is_compared_with_nothing() -> None:
    assert diff.unified(planned(None, "a\n")).startswith(
        "--- /dev/null\n+++ /x/file.json\n@@ -0,0 +1 @@\n+a\n"
    )
    assert diff.unified(planned("a\n", "a\n")) == ""


def test_of_a_large_file_only_the_part_that_differs_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    library = difflib.unified_diff

    def counted(old: list[str], new: list[str], before: str, after: str, n: int) -> Iterator[str]:
        sizes.extend((len(old), len(new)))
        return library(old, new, before, after, n=n)

    monkeypatch.setattr(difflib, "unified_diff", counted)
    text = diff.unified(planned(numbered(5_000), numbered(5_000, l2500="new")))
    assert sizes == [7, 7]
    assert "@@ -2497,7 +2497,7 @@\n" in text


@pytest.mark.parametrize(
    ("agents", "scope", "words"),
    [
        (["claude"], None, "Claude Code has no server 'x'."),
        (["claude"], "user", "Claude Code has no server 'x' in scope user."),
        (["claude", "codex"], None, "None of claude, codex has a server 'x'."),
        (list(WITH_SERVERS), None, "No agent has a server 'x'."),
        ([], None, "None of  has a server 'x'."),
    ],
)
def test_the_agents_that_lack_a_server_are_named(agents: list[str], scope: str | None, words: str) -> None:
    assert selection._no_such_server("x", agents, scope) == words


@pytest.mark.parametrize(
    ("source", "to", "value", "words"),
    [
        ("cursor", "codex", "${workspaceFolder}/bin", "only Cursor fills it in"),
        ("claude", "cursor", "${workspaceFolder}/bin", "would fill in ${workspaceFolder} itself"),
    ],
)
def test_a_placeholder_that_one_client_fills_in_is_not_copied_to_another(
    user: User, source: str, to: str, value: str, words: str
) -> None:
    entry: dict[str, Any] = {"mcpServers": {"x": {"command": "c", "args": [value]}}}
    user.file(source).parent.mkdir(parents=True, exist_ok=True)
    user.file(source).write_text(json.dumps(entry))
    assert words in user.json("copy", "x", "--from", source, "--to", to, code=1)["error"]
    user.file(source).write_text(json.dumps({"mcpServers": {"x": {"command": "c", "args": ["plain"]}}}))
    assert user.json("copy", "x", "--from", source, "--to", to)["results"]
