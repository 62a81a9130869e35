"""Helpers that change one member of one file, for the tests of writing and undoing."""

from __future__ import annotations

from pathlib import Path

from counsel.configfiles.edits import Put
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import Change, PlannedWrite, Target, by_edits, plan
from counsel.configfiles.write.undo_log import UndoLog


def put(path: Path, key: str, value: object = 1, **options: object) -> Change:
    return by_edits(Target(path, "json", **options), lambda _: [Put((key,), value)])  # type: ignore[arg-type]


def write(change: Change, home: Path) -> list[PlannedWrite]:
    return safewrite.write([plan(change)], home)


def apply(undo_log: UndoLog, *changes: Change) -> str:
    name = undo_log.apply([plan(change) for change in changes], "test")
    assert name is not None
    return name
