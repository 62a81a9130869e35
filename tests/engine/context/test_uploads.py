"""Files that were uploaded over HTTP: their names, who can name them, and when they are deleted."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from counsel.engine.context import uploads


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a.txt", "a.txt"),
        ("/etc/passwd", "passwd"),
        ("C:\\Users\\ada\\a.txt", "a.txt"),
        ("a{1-3}\n.txt", "a_1-3__.txt"),
        ("  a  ", "a"),
        ("", "file"),
        (".", "file"),
        ("..", "file"),
        ("a/", "file"),
        (".env", ".env"),
        ("x" * 300, "x" * 200),
        ("x" * 300 + ".txt", "x" * 196 + ".txt"),
        ("x" * 200, "x" * 200),
        ("ü" * 150, "ü" * 100),
        ("a." + "x" * 300, "a." + "x" * 198),
        ("x" * 250 + "." + "e" * 19, "x" * 180 + "." + "e" * 19),
    ],
)
def test_a_name_is_safe_and_short(name: str, safe: str) -> None:
    assert uploads.safe_name(name) == safe


def test_a_file_is_private_and_alone(tmp_path: Path) -> None:
    first, second = uploads.copy(tmp_path, "a.txt", b"one"), uploads.copy(tmp_path, "a.txt", b"two")
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert uploads.is_upload(first, tmp_path)
    assert not uploads.is_upload(tmp_path / "a.txt", tmp_path)


def test_a_file_that_was_not_received_is_discarded(tmp_path: Path) -> None:
    upload = uploads.create(tmp_path, "a.txt")
    upload.discard()
    assert upload.file.closed
    assert not upload.path.parent.exists()


def test_only_whoever_names_a_file_can_send_it(tmp_path: Path) -> None:
    first, second = uploads.copy(tmp_path, "a.txt", b"one"), uploads.copy(tmp_path, "b.txt", b"two")
    assert list(uploads.named(tmp_path, [f"{first}:1-3"])) == [first]
    assert list(uploads.named(tmp_path, [str(second), str(first)])) == [second, first]
    missing = str(second.parent.parent / ("0" * 32) / "c.txt")
    foreign_names = [str(tmp_path / "a.txt"), str(uploads.folder(tmp_path)), "a.txt", missing, f"/x{first}"]
    assert list(uploads.named(tmp_path, foreign_names)) == []


def old_upload(home: Path, age: float, size: int = 1) -> Path:
    path = uploads.copy(home, "a.txt", b"x" * size).parent
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_old_files_are_deleted(tmp_path: Path) -> None:
    uploads.sweep(tmp_path)  # there is none
    old, young = old_upload(tmp_path, uploads.KEEP + 60), old_upload(tmp_path, uploads.KEEP - 60)
    foreign_folder = uploads.folder(tmp_path) / "not-ours"
    foreign_folder.mkdir()
    os.utime(foreign_folder, (0, 0))
    uploads.sweep(tmp_path)
    assert not old.exists()
    assert young.exists()
    assert foreign_folder.exists()


def test_the_oldest_are_deleted_beyond_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [old_upload(tmp_path, 100.0 * n, 10) for n in range(4)]
    monkeypatch.setattr(uploads, "MOST_FILES", 3)
    uploads.sweep(tmp_path)
    assert [path.exists() for path in folders] == [True, True, True, False]
    monkeypatch.setattr(uploads, "MOST_BYTES", 20)
    uploads.sweep(tmp_path)
    assert [path.exists() for path in folders] == [True, True, False, False]
