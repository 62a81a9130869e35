"""Writes that are interrupted or fail in the middle."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from configfiles.writing import apply, put
from counsel.configfiles.write import disk, safewrite
from counsel.configfiles.write.safewrite import plan
from counsel.configfiles.write.undo_log import UndoLog
from counsel.errors import CounselError


def test_an_interruption_waits_for_what_was_begun(tmp_path: Path, home: Path) -> None:
    """Ctrl-C while other threads write: none of their files may stay behind."""
    files = [tmp_path / name / "f.json" for name in "123"]

    def interrupted(_: object) -> list[Path]:
        signal.raise_signal(signal.SIGINT)
        return []

    with pytest.raises(KeyboardInterrupt):
        safewrite.write([plan(put(file, "a")) for file in files], home, interrupted)
    assert list(tmp_path.iterdir()) == [home]


def test_an_interruption_while_waiting_waits_all_the_same() -> None:
    ends: list[int] = []
    first, interrupted = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def interruption(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def slow() -> None:
        first.wait()
        while not interrupted.wait(0.05):  # a signal just before the wait would wake nobody
            signal.pthread_kill(main, signal.SIGINT)
        ends.append(1)

    before = signal.signal(signal.SIGINT, interruption)
    try:
        with pytest.raises(KeyboardInterrupt):
            disk.run_all([first.set, slow])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ends == [1]


def test_without_threads_the_steps_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    steps: list[int] = []
    disk.run_all([lambda: steps.append(1), lambda: steps.append(2)])
    assert sorted(steps) == [1, 2]


def test_what_was_written_before_an_interruption_can_be_undone(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    undo_log = UndoLog(home)

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_folder", interrupted)
        with pytest.raises(KeyboardInterrupt):
            apply(undo_log, put(file, "a"))
    assert file.read_text() == '{"b": 2, "a": 1}'
    undo_log.undo()
    assert file.read_text() == '{"b": 2}'


def test_a_folder_that_cannot_be_read_is_no_failure(tmp_path: Path) -> None:
    disk.sync_folder(tmp_path / "gone")


@pytest.mark.parametrize("exists", [True, False])
def test_a_write_that_was_killed_just_before_the_replacement_needs_no_undo(
    exists: bool, tmp_path: Path, home: Path
) -> None:
    """The change is recorded and the file has a second name, but was not replaced: undo takes the change before it."""
    file, older = tmp_path / "a.json", tmp_path / "older.json"
    if exists:
        file.write_text('{"b": 2}')
    undo_log = UndoLog(home)
    apply(undo_log, put(older, "a"))
    code = f"""
import os
from pathlib import Path
from counsel.configfiles.write import safewrite
from counsel.configfiles.edits import Put
from counsel.configfiles.write.undo_log import UndoLog
from counsel.configfiles.write.safewrite import Target, by_edits, plan
safewrite._StagedWrite._swap = lambda _: os._exit(9)
planned = plan(by_edits(Target(Path({str(file)!r}), "json"), lambda _: [Put(("a",), 1)]))
UndoLog(Path({str(home)!r})).apply([planned], "test")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert undo_log.undo()[1] is None
    assert file.exists() is exists
    undo_log.undo()
    assert not older.exists()


def test_a_replacement_that_fails_keeps_no_second_name(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, remaining = tmp_path / "a.json", tmp_path / "kept"
    file.write_text("{}")
    planned = plan(put(file, "a"))
    monkeypatch.setattr(safewrite._StagedWrite, "_swap", lambda _: file.rmdir())  # not a folder
    with pytest.raises(CounselError):
        safewrite.write([planned], home, lambda _: [remaining])
    assert file.stat().st_nlink == 1
    assert not remaining.exists()


def test_a_backup_that_does_not_fit_leaves_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COUNSEL_HOME is on another file system, which is full, so that copying the file fails."""
    file, undo_log = tmp_path / "a.json", UndoLog(home)
    file.write_text('{"b": 2}')

    def fail_to_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    write_all = disk._write_all

    def full(file: io.FileIO, data: bytes | memoryview) -> None:
        write_all(file, data[:4])
        if data == b'{"b": 2}':
            raise OSError(errno.ENOSPC, "no space")
        write_all(file, data[4:])

    monkeypatch.setattr(os, "link", fail_to_link)
    monkeypatch.setattr(disk, "_write_all", full)
    with pytest.raises(CounselError, match=r"backups.*the disk is full"):
        apply(undo_log, put(file, "a"))
    assert file.read_text() == '{"b": 2}'
    assert list((home / "backups").iterdir()) == []
