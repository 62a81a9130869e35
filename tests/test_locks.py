"""Lock files, private folders, and whether a path still names the file that was opened."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from counsel import envvars, locks, paths, run_paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_lock_is_private_and_held_until_it_is_closed(tmp_path: Path) -> None:
    file = locks.take(tmp_path / "lock")
    assert file is not None
    assert mode(tmp_path / "lock") == 0o600
    assert locks.take(tmp_path / "lock") is None
    os.close(file)
    again = locks.take(tmp_path / "lock")
    assert again is not None
    os.close(again)


def test_a_lock_counts_only_while_its_path_names_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    file = locks.take(path)
    assert file is not None
    assert locks.is_at(file, path)
    path.rename(tmp_path / "elsewhere")
    assert not locks.is_at(file, path)
    second = locks.take(path)
    assert second is not None
    assert locks.is_at(second, path)
    assert not locks.is_at(file, path)
    os.close(file)
    os.close(second)


def test_what_is_not_there_has_no_identity(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    about = (tmp_path / "file").stat()
    assert locks.identity(tmp_path / "file") == (about.st_dev, about.st_ino)
    assert locks.identity(tmp_path / "missing") is None
    assert locks.identity(tmp_path / "file" / "below") is None


def test_a_pinned_folder_is_there_until_another_has_its_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    folder, missing = locks.PinnedFolder(home), locks.PinnedFolder(tmp_path / "missing")
    assert folder.is_there()
    assert missing.is_there()  # it did not exist, so it cannot be lost
    home.rmdir()
    assert not folder.is_there()
    home.mkdir()
    assert not folder.is_there()
    folder.close()
    folder.close()
    assert folder.is_there()
    missing.close()


def test_a_lock_names_who_signed_it_last(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    file = locks.take(path)
    assert file is not None
    assert locks.holder(path) is None
    locks.sign(file, '{"pid": 123456, "more": "xxxxxxxxxxxxxxx"}')
    assert locks.holder(path) == 123456
    locks.sign(file, '{"pid": 7}')
    assert locks.holder(path) == 7
    assert path.read_text() == '{"pid": 7}'
    os.close(file)
    for wrong in ('{"pid": "7"}', "[]", "{}", "x"):
        path.write_text(wrong)
        assert locks.holder(path) is None
    assert locks.holder(tmp_path / "missing") is None
    locks.sign(-1, "x")  # only people read it: no reason to fail


def test_private_folders_are_private_all_the_way(tmp_path: Path) -> None:
    paths.private_folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3
    (tmp_path / "a").chmod(0o755)
    paths.private_folder(tmp_path / "a" / "b" / "c")  # already there
    assert mode(tmp_path / "a") == 0o755
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        paths.private_folder(tmp_path / "file")
    with pytest.raises(OSError, match=r"."):
        paths.private_folder("")


def test_a_private_folder_is_not_made_in_a_current_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError, match="relative"):
        paths.private_folder("relative")


def test_the_folder_of_a_socket_is_private_and_nobody_elses(tmp_path: Path) -> None:
    folder = tmp_path / "socket"
    run_paths.own_folder(str(folder))
    assert mode(folder) == 0o700
    folder.chmod(0o755)
    run_paths.own_folder(str(folder))
    assert mode(folder) == 0o700
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(folder)
    for kind in ("file", "link"):
        with pytest.raises(PermissionError, match="belongs to another user"):
            run_paths.own_folder(str(tmp_path / kind))


def test_a_private_file_is_written_whole_and_replaced_only_when_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "file"
    paths.write_private(str(path), b"one", replace=False)
    assert mode(path) == 0o600
    with pytest.raises(FileExistsError):
        paths.write_private(str(path), b"two", replace=False)
    assert path.read_bytes() == b"one"
    paths.write_private(str(path), b"three", replace=True)
    assert path.read_bytes() == b"three"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_writing_private_files_leaves_none_of_them_open(tmp_path: Path) -> None:
    for number in range(20):
        paths.write_private(str(tmp_path / str(number)), b"text", replace=False)
    still_open = set()
    for descriptor in range(1024):
        with suppress(OSError):
            still_open.add(os.fstat(descriptor).st_ino)
    assert not [path.name for path in tmp_path.iterdir() if path.stat().st_ino in still_open]


@pytest.mark.parametrize(
    ("value", "unexpanded"),
    [
        ("${env:KEY}", True),
        ("${KEY}", True),
        ("${KEY:-}", True),
        ("$KEY", True),
        ("$OTHER", False),
        ("${KEY:-x}", False),
        ("KEY", False),
        ("", False),
        ("sk-$KEY", False),
    ],
)
def test_references_that_a_client_passed_on_are_no_values(value: str, unexpanded: bool) -> None:
    assert envvars.is_unexpanded("KEY", value) is unexpanded
    assert envvars.expanded({"KEY": value, "KEPT": "x"}) == (
        {"KEPT": "x"} if unexpanded else {"KEY": value, "KEPT": "x"}
    )
