"""Tables at every width of a terminal (tests/golden/tables.txt), and moments as people read them.

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from counsel.cli.terminal import tables, times

GOLDEN = Path(__file__).parent.parent / "golden" / "tables.txt"
JOBS = (
    ("id", "title", "status", "started"),
    [
        ("7f3a1c2d", "Compare two designs of a queue", "completed", "2 min ago"),
        ("0b", "", "running", "just now"),
        ("99aabbcc", "日本語のタイトル Ünïcödé e\u0301", "failed", "2026-01-02"),
    ],
)
LONG_WORDS = (
    ("name", "address", "note"),
    [
        ("one", "https://a-very-long.example/without/any/space/in/it", ""),
        ("a-name-that-is-itself-long", "short", "some words that can be folded anywhere"),
    ],
)
ONE_COLUMN = (("name",), [("first",), ("a second one",)])
TABLES: dict[str, tuple[Sequence[str], list[tuple[str, ...]]]] = {
    "jobs": (JOBS[0], [*JOBS[1]]),
    "long words": (LONG_WORDS[0], [*LONG_WORDS[1]]),
    "one column": (ONE_COLUMN[0], [*ONE_COLUMN[1]]),
}
WIDTHS = (None, 10, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 100)


def report() -> Iterator[str]:
    for title, (columns, rows) in TABLES.items():
        for shortened in ((), ("title",), ("title", "started")):
            if not set(shortened) <= set(columns):
                continue
            earlier: list[str] = []
            for width in WIDTHS:
                lines = tables.lines(columns, rows, width, shortened)
                if lines != earlier:
                    yield f"# {title}, width {width}, shortened {shortened}"
                    yield from (f"|{line}" for line in lines)
                earlier = lines


def test_a_table_at_every_width() -> None:
    text = "\n".join(report()) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", range(30, 101))
def test_no_line_of_a_folded_table_is_wider_than_the_terminal(width: int) -> None:
    columns, rows = JOBS
    assert max(map(tables.cells, tables.lines(columns, rows, width))) <= width


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "two"]),
        ("one two three", 8, ["one two", "three"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("a bcdefgh", 4, ["a", "bcde", "fgh"]),
        ("日本語", 4, ["日本", "語"]),
        ("", 4, [""]),
    ],
)
def test_text_is_folded_between_words(text: str, width: int, lines: list[str]) -> None:
    assert tables.fold(text, width) == lines


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two", 7, "one two"),
        ("one two", 6, "one t…"),
        ("four two", 7, "four…"),
        ("one two", 4, "one…"),
        ("a bcdefghij", 8, "a bcdef…"),
        ("one two three", 8, "one two…"),
        ("one two three", 10, "one two…"),
        ("日本語日本語", 6, "日本…"),
    ],
)
def test_text_ends_after_its_first_words(text: str, width: int, expected: str) -> None:
    assert tables.ellipsized(text, width) == expected


@pytest.mark.parametrize(
    ("text", "cells"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("a\u200d", 1), ("Ü", 1), ("", 0)]
)
def test_how_many_cells_a_text_takes(text: str, cells: int) -> None:
    assert tables.cells(text) == cells


# ── moments ──


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (-100, "just now"), (0, "just now"), (4.9, "just now"), (5, "5 s ago"), (59.9, "59 s ago"), (60, "1 min ago"),
        (3599, "59 min ago"), (3600, "1 h ago"), (86_399, "23 h ago"), (86_400, "1 day ago"), (172_800, "2 days ago"),
        (60 * 86_400, "60 days ago"), (60 * 86_400 + 1, "2025-11-02"),
    ],
)  # fmt: skip
def test_how_long_ago(age: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_767_268_800.0  # noon of the first of January 2026, UTC
    monkeypatch.setattr("counsel.cli.terminal.times.time.time", lambda: now)
    monkeypatch.setattr("counsel.cli.terminal.times.time.localtime", time.gmtime)
    assert times.ago(now - age) == expected


def test_a_moment_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counsel.cli.terminal.times.time.localtime", time.gmtime)
    assert times.local(1_767_268_800.0) == "2026-01-01 12:00:00"
    assert times.seconds("2026-01-01T12:00:00.000Z") == 1_767_268_800.0


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0.84, "0.8 s"), (9.94, "9.9 s"), (10, "10 s"), (599.4, "599 s"), (600, "10 min"), (10_799, "180 min"),
        (10_800, "3.0 h"), (19_800, "5.5 h"),
    ],
)  # fmt: skip
def test_how_long_it_took(duration: float, expected: str) -> None:
    assert times.took(duration) == expected
