"""Writing users' files: modes, owners, links, concurrent writers, and files that cannot be written."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from configfiles.writing import apply, put, write
from counsel.configfiles.edits import MISSING
from counsel.configfiles.write import disk, safewrite
from counsel.configfiles.write.safewrite import Reader, Target, plan
from counsel.configfiles.write.undo_log import UndoLog
from counsel.errors import ConfigInvalid, CounselError, FileNotAllowed, FileTooLarge


def test_mode_is_kept_and_a_new_file_is_private(tmp_path: Path, home: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "deep" / "er" / "new.json"
    old.write_text("{}")
    old.chmod(0o640)
    write(put(old, "a"), home)
    write(put(new, "a"), home)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    assert list(tmp_path.glob("**/*.counsel-tmp")) == []


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    names = (".a.json.old.counsel-tmp", ".a.json.young.counsel-tmp", ".b.json.old.counsel-tmp")
    for name in names:
        (tmp_path / name).write_text("{}")
        if "old" in name:
            os.utime(tmp_path / name, (1, 1))
    write(put(file, "a"), home)
    assert sorted(path.name for path in tmp_path.glob(".*tmp")) == sorted(names[1:])


def test_one_operation_reads_a_file_once_and_sees_one_state(tmp_path: Path) -> None:
    file = Target(tmp_path / "a.json", "json")
    file.path.write_text('{"a": 1}')
    reader = Reader()
    assert reader.bytes_read(file) is None
    first = reader.read(file)
    file.path.write_text('{"a": 2}')
    assert first is not None
    assert reader.read(file) is first
    assert first.value == {"a": 1}
    assert reader.bytes_read(file) == b'{"a": 1}'


@pytest.mark.parametrize("now", [b"aaa", b"aaaaa", b"aab", b"", b"aaaa"])
def test_content_that_was_known_a_moment_ago_is_compared_with_the_file(tmp_path: Path, now: bytes) -> None:
    (tmp_path / "a.json").write_bytes(now)
    os.utime(tmp_path / "a.json", (1, 1))
    assert disk.snapshot(tmp_path / "a.json", b"aaaa").data == now


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_owner_is_kept(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    os.chown(file, 12345, 23456)
    write(put(file, "a"), home)
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


def test_symbolic_links_are_followed(tmp_path: Path, home: Path) -> None:
    real, link, dangling = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "dangling.json"
    real.write_text('{"b": 2}')
    link.symlink_to(real)
    dangling.symlink_to(tmp_path / "dotfiles" / "made.json")
    write(put(link, "a"), home)
    write(put(dangling, "a"), home)
    assert link.is_symlink()
    assert real.read_text() == '{"b": 2, "a": 1}'
    assert (tmp_path / "dotfiles" / "made.json").exists()


def test_an_edit_made_meanwhile_is_kept(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    planned = plan(put(file, "a"))
    file.write_text('{"b": 3, "c": 4}')
    writes = safewrite.write([planned], home)
    assert file.read_text() == '{"b": 3, "c": 4, "a": 1}' == (writes[0].after or b"").decode()


def test_a_writer_without_a_lock_between_staging_and_replacing_is_kept(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    spoilt = iter(['{"other": true}', '{"other": false}'])

    def spoil(_: object) -> list[Path]:
        if text := next(spoilt, None):
            file.write_text(text)
        return [tmp_path / "kept"]

    safewrite.write([plan(put(file, "a"))], home, spoil)
    assert file.read_text() == '{"other": false, "a": 1}'
    assert (tmp_path / "kept").read_text() == '{"other": false}'


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _read_only(path: Path) -> None:
    path.write_text('{"a": 0}')
    path.chmod(0o444)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)


def _malformed(path: Path) -> None:
    path.write_text('{"a": 1')
    os.utime(path, (1, 1))


def _binary(path: Path) -> None:
    path.write_bytes(b'{"a": "\xff"}')
    os.utime(path, (1, 1))


def _fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_loop, ConfigInvalid),
        (_folder, ConfigInvalid),
        (_fifo, ConfigInvalid),
        (_read_only, FileNotAllowed),
        (_large, FileTooLarge),
        (_malformed, ConfigInvalid),
        (_binary, ConfigInvalid),
    ],
)
def test_what_cannot_be_edited_is_named_and_left(
    spoil: Callable[[Path], None], error: type[CounselError], tmp_path: Path, home: Path
) -> None:
    file = tmp_path / "a.json"
    spoil(file)
    before = os.lstat(file)
    with pytest.raises(error) as failure:
        write(put(file, "b"), home)
    assert failure.value.fields["file"] == str(file)
    assert failure.value.hint
    after = os.lstat(file)
    assert (after.st_ino, after.st_size, after.st_mode) == (before.st_ino, before.st_size, before.st_mode)
    assert list(tmp_path.glob(".*.counsel-tmp")) == []


def test_all_or_none(tmp_path: Path, home: Path) -> None:
    """The second file becomes a folder just before the write: the first is restored, the third never created."""
    first, second, third = (tmp_path / name / "f.json" for name in ("1", "2", "3"))
    first.parent.mkdir()
    first.write_text("{ }")
    undo_log = UndoLog(home)
    planned_writes = [plan(put(path, "a")) for path in (first, second, third)]

    def spoil(_: object) -> list[Path]:
        second.mkdir(parents=True)  # its folder is created at the same time
        return [tmp_path / name for name in ("b1", "b2", "b3")]

    with pytest.raises(CounselError):
        safewrite.write(planned_writes, home, spoil)
    assert first.read_text() == "{ }"
    assert not third.parent.exists()
    assert undo_log.operations() == []


def test_reading_nothing_is_not_reading_an_empty_file(tmp_path: Path) -> None:
    reader = safewrite.Reader()
    assert reader.read(Target(tmp_path / "none.json", "json")) is None
    (tmp_path / "empty.json").write_text("")
    document = reader.read(Target(tmp_path / "empty.json", "json"))
    assert document is not None
    assert document.get(("a",)) is MISSING


def test_an_unreadable_file_may_count_as_missing(tmp_path: Path) -> None:
    reader = safewrite.Reader()
    (tmp_path / "valid.json").write_text('{"a": 1}')
    (tmp_path / "broken.json").write_text('{"a": ]}')
    document = reader.read_quietly(Target(tmp_path / "valid.json", "json"))
    assert document is not None
    assert document.value == {"a": 1}
    assert reader.read_quietly(Target(tmp_path / "broken.json", "json")) is None
    assert reader.read_quietly(Target(tmp_path / "none.json", "json")) is None


@pytest.mark.parametrize("partial_text", ["", '{"theirs": '])
@pytest.mark.parametrize("when", ["planning", "writing"])
def test_a_file_that_is_being_written_in_place_is_waited_for(
    partial_text: str, when: str, tmp_path: Path, home: Path
) -> None:
    """Gemini CLI truncates its file, then writes: the empty file in between is not the user's content."""
    file = tmp_path / "a.json"
    file.write_text('{"mine": 1}')
    planned = plan(put(file, "a")) if when == "writing" else None
    file.write_text(partial_text)
    client = threading.Timer(0.1, file.write_text, ['{"theirs": 1}'])
    client.start()
    safewrite.write([planned or plan(put(file, "a"))], home)
    client.join()
    assert file.read_text() == '{"theirs": 1, "a": 1}'


def test_a_file_that_stays_empty_is_edited(tmp_path: Path, home: Path) -> None:
    (tmp_path / "a.json").write_text("")
    write(put(tmp_path / "a.json", "a"), home)
    assert (tmp_path / "a.json").read_text() == '{\n  "a": 1\n}'


def test_a_file_changed_after_another_was_replaced_spoils_no_record(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole operation is recorded again, with the first file's content before the operation."""
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for file in (first, second):
        file.write_text('{"b": 2}')
    take_place = safewrite._StagedWrite._swap

    def replace_and_change_second(staged_write: safewrite._StagedWrite) -> None:
        take_place(staged_write)
        if staged_write.planned.path == first:
            second.write_text('{"theirs": true}')

    monkeypatch.setattr(safewrite._StagedWrite, "_swap", replace_and_change_second)
    undo_log = UndoLog(home)
    apply(undo_log, put(first, "a"), put(second, "a"))
    assert second.read_text() == '{"theirs": true, "a": 1}'
    undo_log.undo()
    assert (first.read_text(), second.read_text()) == ('{"b": 2}', '{"theirs": true}')
