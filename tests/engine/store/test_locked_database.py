"""Waiting for a locked database, and files that are written completely or not at all."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from counsel.engine.store.sqlite import backups
from counsel.engine.store.sqlite.connections import retry_while_locked


class Step:
    def __init__(self, failures: int, words: str = "database is locked") -> None:
        self.failures, self.words, self.tries = failures, words, 0

    def __call__(self) -> None:
        self.tries += 1
        if self.tries <= self.failures:
            raise sqlite3.OperationalError(self.words)


def test_a_step_is_tried_until_the_lock_is_free() -> None:
    step = Step(3)
    retry_while_locked(step)
    assert step.tries == 4


def test_waiting_is_limited_and_only_for_locks() -> None:
    step = Step(1_000)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        retry_while_locked(step, seconds=0.05)
    assert 1 < step.tries < 1_000
    disk_error = Step(5, "disk I/O error")
    with pytest.raises(sqlite3.OperationalError, match="disk"):
        retry_while_locked(disk_error)
    assert disk_error.tries == 1


def _fill(path: Path) -> None:
    path.write_text("whole")


def test_a_file_is_written_whole_although_an_earlier_attempt_left_a_part(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    draft = tmp_path / f".copy.db.{os.getpid()}"
    draft.write_text("left by a process of this number that died")
    backups.write(_fill, target)
    assert target.read_text() == "whole"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["copy.db"]


def test_a_file_that_could_not_be_filled_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("old")

    def fill(path: Path) -> None:
        path.write_text("half")
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        backups.write(fill, target)
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["copy.db"]
