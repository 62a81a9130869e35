"""Claude Code's lock folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from configfiles.writing import put
from counsel.configfiles.write import locks, safewrite
from counsel.configfiles.write.safewrite import plan
from counsel.errors import Conflict


def test_a_held_lock_folder_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.json.lock").mkdir()
    with pytest.raises(Conflict), locks.claude_lock(tmp_path / "c.json", seconds=0.05):
        pass
    assert (tmp_path / "c.json.lock").exists()


def test_a_stale_lock_folder_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "c.json.lock"
    folder.mkdir()
    old = time.time() - locks.STALE - 1
    os.utime(folder, (old, old))
    with locks.claude_lock(tmp_path / "c.json", seconds=1) as still_held:
        assert still_held()
    assert not folder.exists()


def test_a_lock_that_was_taken_over_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "c.json.lock"
    with locks.claude_lock(tmp_path / "c.json") as still_held:
        os.utime(folder, (1, 1))
        assert not still_held()
    assert folder.exists()


def test_the_lock_exists_while_we_write(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "c.json"
    lock_states: list[bool] = []
    write = plan(put(file, "a", claude_lock=True))

    def look(_: object) -> list[Path]:
        lock_states.append((tmp_path / "c.json.lock").is_dir())
        return [tmp_path / "kept"]

    safewrite.write([write], home, look)
    assert lock_states == [True]
    assert not (tmp_path / "c.json.lock").exists()
