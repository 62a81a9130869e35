from __future__ import annotations

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.configfiles import disk, locks, safewrite
from counsel.configfiles.edits import MISSING, Drop, Put
from counsel.configfiles.journal import Journal
from counsel.configfiles.safewrite import Change, Planned, Target, by_edits, plan
from counsel.errors import ConfigInvalid, Conflict, CounselError, FileNotAllowed, FileTooLarge, NotFound


def put(path: Path, key: str, value: object = 1, **options: object) -> Change:
    return by_edits(Target(path, "json", **options), lambda _: [Put((key,), value)])  # type: ignore[arg-type]


def write(change: Change, home: Path) -> list[Planned]:
    return safewrite.write([plan(change)], home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "counsel"


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
    written = safewrite.write([planned], home)
    assert file.read_text() == '{"b": 3, "c": 4, "a": 1}' == (written[0].after or b"").decode()


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
    with pytest.raises(error) as caught:
        write(put(file, "b"), home)
    assert caught.value.file == str(file)
    assert caught.value.hint
    after = os.lstat(file)
    assert (after.st_ino, after.st_size, after.st_mode) == (before.st_ino, before.st_size, before.st_mode)
    assert list(tmp_path.glob(".*.counsel-tmp")) == []


def test_all_or_none(tmp_path: Path, home: Path) -> None:
    """The second file turns into a folder after all was ready: the first is taken back, the third never made."""
    first, second, third = (tmp_path / name / "f.json" for name in ("1", "2", "3"))
    first.parent.mkdir()
    first.write_text("{ }")
    journal = Journal(home)
    planned = [plan(put(path, "a")) for path in (first, second, third)]

    def spoil(_: object) -> list[Path]:
        second.mkdir(parents=True)  # its folder is being made at the same time
        return [tmp_path / name for name in ("b1", "b2", "b3")]

    with pytest.raises(CounselError):
        safewrite.write(planned, home, spoil)
    assert first.read_text() == "{ }"
    assert not third.parent.exists()
    assert journal.operations() == []


# ── Claude Code's lock ───────────────────────────────────────────────────────────────────────────────


def test_a_held_lock_folder_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.json.lock").mkdir()
    with pytest.raises(Conflict), locks.claude_lock(tmp_path / "c.json", patience=0.05):
        pass
    assert (tmp_path / "c.json.lock").exists()


def test_a_stale_lock_folder_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "c.json.lock"
    folder.mkdir()
    old = time.time() - locks.STALE - 1
    os.utime(folder, (old, old))
    with locks.claude_lock(tmp_path / "c.json", patience=1) as still_held:
        assert still_held()
    assert not folder.exists()


def test_a_lock_that_was_taken_over_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "c.json.lock"
    with locks.claude_lock(tmp_path / "c.json") as still_held:
        os.utime(folder, (1, 1))
        assert not still_held()
    assert folder.exists()


def test_the_lock_stands_while_we_write(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "c.json"
    seen: list[bool] = []
    planned = plan(put(file, "a", claude_lock=True))

    def look(_: object) -> list[Path]:
        seen.append((tmp_path / "c.json.lock").is_dir())
        return [tmp_path / "kept"]

    safewrite.write([planned], home, look)
    assert seen == [True]
    assert not (tmp_path / "c.json.lock").exists()


# ── undo ─────────────────────────────────────────────────────────────────────────────────────────────


def apply(journal: Journal, *changes: Change) -> str:
    name = journal.apply([plan(change) for change in changes], "test")
    assert name is not None
    return name


def test_undo_gives_the_old_bytes_back(tmp_path: Path, home: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text('{ "b":2 }')
    journal = Journal(home)
    apply(journal, put(old, "a"), put(new, "a"))
    journal.undo()
    assert old.read_text() == '{ "b":2 }'
    assert not new.exists()
    with pytest.raises(NotFound):
        journal.undo()


def test_undo_can_itself_be_undone_by_its_id(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    journal = Journal(home)
    apply(journal, put(file, "a"))
    _, undo = journal.undo()
    journal.undo(undo)
    assert file.read_text() == '{\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("since", "restored"),
    [
        ('{"top": 0, "b": 2, "a": {"k": 1}}', '{"top": 0, "b": 2}'),
        ('{"b": 2, "a": {"k": 1}, "end": 0}', '{"b": 2, "end": 0}'),
        ('{"top": 0, "b": 2, "a": {"k": 1}, "end": 0}', '{"top": 0, "b": 2, "end": 0}'),
        ('{"b": 2, "a": {"k": 1, "mine": 2}}', '{"b": 2, "a": {"mine": 2}}'),
    ],
)
def test_undo_takes_back_only_our_change(since: str, restored: str, tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    journal = Journal(home)
    apply(journal, put(file, "a", {"k": 1}))
    assert file.read_text() == '{"b": 2, "a": {"k": 1}}'
    file.write_text(since)
    journal.undo()
    assert file.read_text() == restored


def test_undo_refuses_what_was_changed_since(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    journal = Journal(home)
    apply(journal, put(file, "b", 3))
    file.write_text('{"b": 4}')
    with pytest.raises(Conflict):
        journal.undo()
    assert file.read_text() == '{"b": 4}'


@pytest.mark.parametrize("empty", ["null", "[]", '""', "false"])
def test_what_was_no_object_does_not_become_an_empty_one(empty: str, tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(f'{{"b": {empty}}}')
    journal = Journal(home)
    apply(journal, put(file, "b", {"k": 1}))
    file.write_text('{"b": {"k": 1, "theirs": 2}}')
    with pytest.raises(Conflict):
        journal.undo()
    assert file.read_text() == '{"b": {"k": 1, "theirs": 2}}'


def test_undo_never_leaves_half_a_server(tmp_path: Path, home: Path) -> None:
    """Codex adds `tools` when a person approves one for good; what is left without a command stops it altogether."""
    file = tmp_path / "config.toml"
    file.write_text("model = 'x'\n")
    journal = Journal(home)
    server = {"command": "x"}
    apply(journal, by_edits(Target(file, "toml"), lambda _: [Put(("mcp_servers", "s"), server)]))
    mine = file.read_text() + '\n[mcp_servers.s.tools.t]\napproval_mode = "approve"\n'
    file.write_text(mine)
    with pytest.raises(Conflict, match=r"mcp_servers\.s was changed") as refused:
        journal.undo()
    assert "servers remove" in refused.value.hint
    assert file.read_text() == mine


def test_undoing_a_removal_brings_the_comments_back(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    text = '{\n  "s": {\n    "x": { // mine\n      "k": 1\n    }\n  }\n}'
    file.write_text(text)
    journal = Journal(home)
    target = Target(file, "jsonc")
    apply(journal, by_edits(target, lambda _: [Drop(("s", "x"))]))
    file.write_text(file.read_text().replace("\n}", ',\n  "later": 1\n}'))
    journal.undo()
    assert file.read_text() == text.replace("\n}", ',\n  "later": 1\n}')


def test_undo_joins_a_line_that_was_cut_in_two(tmp_path: Path, home: Path) -> None:
    """A comment stayed when its key went; the key comes back to it, not to a line that others put there."""
    file = tmp_path / "config.toml"
    file.write_text("k = 1 # why\nl = 2\n")
    journal = Journal(home)
    apply(journal, by_edits(Target(file, "toml"), lambda _: [Drop(("k",))]))
    assert file.read_text() == "# why\nl = 2\n"
    file.write_text("# by hand\n# why\nl = 2\n")
    journal.undo()
    assert file.read_text() == "# by hand\nk = 1 # why\nl = 2\n"


def test_undo_knows_what_was_written_in_the_middle(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer without a lock comes between staging and replacing: the record is that of what was replaced."""
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    journal = Journal(home)
    sync, theirs = disk.sync_file, iter(['{"theirs": true}'])

    def meanwhile(path: Path) -> None:
        sync(path)
        if text := next(theirs, None):
            file.write_text(text)

    monkeypatch.setattr(disk, "sync_file", meanwhile)
    apply(journal, put(file, "a"))
    assert file.read_text() == '{"theirs": true, "a": 1}'
    journal.undo()
    assert file.read_text() == '{"theirs": true}'


def test_a_file_with_two_names_is_copied(tmp_path: Path, home: Path) -> None:
    """Whoever writes through the other name must not write into our backup."""
    file, other = tmp_path / "a.json", tmp_path / "other.json"
    file.write_text('{"b": 2}')
    other.hardlink_to(file)
    journal = Journal(home)
    apply(journal, put(file, "a"))
    other.write_text("something else")
    journal.undo()
    assert file.read_text() == '{"b": 2}'


def test_a_backup_that_a_straggler_wrote_into_is_not_given_back(tmp_path: Path, home: Path) -> None:
    """A client that had opened the file before we replaced it writes into what is now our backup."""
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    journal = Journal(home)
    with file.open("r+") as straggler:
        apply(journal, put(file, "a"))
        straggler.write('{"b": "later"}')
    with pytest.raises(Conflict, match="another program") as raised:
        journal.undo()
    assert file.read_text() == '{"b": 2, "a": 1}'
    kept = Path(raised.value.hint.removeprefix("What that program wrote is in ").rstrip("."))
    assert kept.read_text() == '{"b": "later"}'


def test_a_write_that_was_cut_between_two_files_is_taken_back(tmp_path: Path, home: Path) -> None:
    """Killed after the first of two files was replaced: undo knows which."""
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for file in (first, second):
        file.write_text("{}")
    code = f"""
import os
from pathlib import Path
from counsel.configfiles import safewrite
from counsel.configfiles.edits import Put
from counsel.configfiles.journal import Journal
from counsel.configfiles.safewrite import Target, by_edits, plan
real, calls = safewrite._replace, []
safewrite._replace = lambda *given: os._exit(9) if calls else calls.append(real(*given))
files = {[str(first), str(second)]!r}
planned = [plan(by_edits(Target(Path(file), "json"), lambda _: [Put(("a",), 1)])) for file in files]
Journal(Path({str(home)!r})).apply(planned, "test")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert (first.read_text() == "{}", second.read_text()) == (False, "{}")
    Journal(home).undo()
    assert (first.read_text(), second.read_text()) == ("{}", "{}")


def test_backups_are_private(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"secret": "s"}')
    journal = Journal(home)
    name = apply(journal, put(file, "a"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (home / "backups" / name).iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((home / "backups").stat().st_mode) == 0o700


def test_reading_nothing_is_not_reading_an_empty_file(tmp_path: Path) -> None:
    reader = safewrite.Reader()
    assert reader.read(Target(tmp_path / "none.json", "json")) is None
    (tmp_path / "empty.json").write_text("")
    document = reader.read(Target(tmp_path / "empty.json", "json"))
    assert document is not None
    assert document.get(("a",)) is MISSING


# ── what other programs do meanwhile ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("begun", ["", '{"theirs": '])
@pytest.mark.parametrize("when", ["planning", "writing"])
def test_a_file_that_is_being_written_in_place_is_waited_for(
    begun: str, when: str, tmp_path: Path, home: Path
) -> None:
    """Gemini CLI truncates its file and writes: in between it is empty, which is not what its user has."""
    file = tmp_path / "a.json"
    file.write_text('{"mine": 1}')
    planned = plan(put(file, "a")) if when == "writing" else None
    file.write_text(begun)
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
    """All of the operation is recorded again, the first file as it was and not as it is by then."""
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for file in (first, second):
        file.write_text('{"b": 2}')
    take_place = safewrite._Staged._take_place

    def then_somebody_writes(staged: safewrite._Staged) -> None:
        take_place(staged)
        if staged.planned.path == first:
            second.write_text('{"theirs": true}')

    monkeypatch.setattr(safewrite._Staged, "_take_place", then_somebody_writes)
    journal = Journal(home)
    apply(journal, put(first, "a"), put(second, "a"))
    assert second.read_text() == '{"theirs": true, "a": 1}'
    journal.undo()
    assert (first.read_text(), second.read_text()) == ('{"b": 2}', '{"theirs": true}')


# ── interrupted, or failed, in the middle ────────────────────────────────────────────────────────────


def test_an_interruption_waits_for_what_was_begun(tmp_path: Path, home: Path) -> None:
    """Ctrl-C while other threads write: nothing of theirs may stay behind."""
    files = [tmp_path / name / "f.json" for name in "123"]

    def interrupted(_: object) -> list[Path]:
        signal.raise_signal(signal.SIGINT)
        return []

    with pytest.raises(KeyboardInterrupt):
        safewrite.write([plan(put(file, "a")) for file in files], home, interrupted)
    assert list(tmp_path.iterdir()) == [home]


def test_an_interruption_while_waiting_waits_all_the_same() -> None:
    ended: list[int] = []
    first, interrupted = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def interruption(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def slow() -> None:
        first.wait()
        while not interrupted.wait(0.05):  # a signal that comes just before somebody waits wakes nobody
            signal.pthread_kill(main, signal.SIGINT)
        ended.append(1)

    before = signal.signal(signal.SIGINT, interruption)
    try:
        with pytest.raises(KeyboardInterrupt):
            disk.together([first.set, slow])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [1]


def test_without_threads_the_steps_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    taken: list[int] = []
    disk.together([lambda: taken.append(1), lambda: taken.append(2)])
    assert sorted(taken) == [1, 2]


def test_what_was_written_before_an_interruption_can_be_undone(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    journal = Journal(home)

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(disk, "sync_folder", interrupted)
        with pytest.raises(KeyboardInterrupt):
            apply(journal, put(file, "a"))
    assert file.read_text() == '{"b": 2, "a": 1}'
    journal.undo()
    assert file.read_text() == '{"b": 2}'


def test_a_folder_that_cannot_be_read_is_no_failure(tmp_path: Path) -> None:
    disk.sync_folder(tmp_path / "gone")


@pytest.mark.parametrize("exists", [True, False])
def test_a_write_that_was_killed_just_before_the_replacement_needs_no_undo(
    exists: bool, tmp_path: Path, home: Path
) -> None:
    """It is recorded and the file has its second name, but nothing happened: undo goes on to the change before it."""
    file, older = tmp_path / "a.json", tmp_path / "older.json"
    if exists:
        file.write_text('{"b": 2}')
    journal = Journal(home)
    apply(journal, put(older, "a"))
    code = f"""
import os
from pathlib import Path
from counsel.configfiles import safewrite
from counsel.configfiles.edits import Put
from counsel.configfiles.journal import Journal
from counsel.configfiles.safewrite import Target, by_edits, plan
safewrite._Staged._take_place = lambda _: os._exit(9)
planned = plan(by_edits(Target(Path({str(file)!r}), "json"), lambda _: [Put(("a",), 1)]))
Journal(Path({str(home)!r})).apply([planned], "test")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert journal.undo()[1] is None
    assert file.exists() is exists
    journal.undo()
    assert not older.exists()


def test_a_replacement_that_fails_keeps_no_second_name(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, kept = tmp_path / "a.json", tmp_path / "kept"
    file.write_text("{}")
    planned = plan(put(file, "a"))
    monkeypatch.setattr(safewrite._Staged, "_take_place", lambda _: file.rmdir())  # not a folder
    with pytest.raises(CounselError):
        safewrite.write([planned], home, lambda _: [kept])
    assert file.stat().st_nlink == 1
    assert not kept.exists()


def test_a_backup_that_does_not_fit_leaves_nothing(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COUNSEL_HOME is on another file system, so the file is copied, and that one is full."""
    file, journal = tmp_path / "a.json", Journal(home)
    file.write_text('{"b": 2}')

    def elsewhere(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    write_all = disk._write_all

    def full(file: io.FileIO, data: bytes | memoryview) -> None:
        write_all(file, data[:4])
        if data == b'{"b": 2}':
            raise OSError(errno.ENOSPC, "no space")
        write_all(file, data[4:])

    monkeypatch.setattr(os, "link", elsewhere)
    monkeypatch.setattr(disk, "_write_all", full)
    with pytest.raises(CounselError, match=r"backups.*the disk is full"):
        apply(journal, put(file, "a"))
    assert file.read_text() == '{"b": 2}'
    assert list((home / "backups").iterdir()) == []


# ── undo after others' edits ─────────────────────────────────────────────────────────────────────────


def test_undo_of_what_is_gone_already_is_nothing(tmp_path: Path, home: Path) -> None:
    """A person took our server out of one file by hand: the other one is still taken back."""
    by_hand, untouched, deleted = (tmp_path / name for name in ("1.json", "2.json", "3.json"))
    for file in (by_hand, untouched, deleted):
        file.write_text('{"b": 2}')
    journal = Journal(home)
    apply(journal, *(put(file, "a") for file in (by_hand, untouched, deleted)))
    by_hand.write_text('{"b": 3}')
    deleted.unlink()
    journal.undo()
    assert (by_hand.read_text(), untouched.read_text()) == ('{"b": 3}', '{"b": 2}')
    assert not deleted.exists()


@pytest.mark.parametrize("since", ["m = 2\n", "[mcp_servers.other]\ncommand = 'o'\n"])
def test_undo_of_what_went_with_its_table_is_nothing(since: str, tmp_path: Path, home: Path) -> None:
    file, journal = tmp_path / "config.toml", Journal(home)
    file.write_text("[mcp_servers.a]\ncommand = 'a'\n")
    apply(journal, by_edits(Target(file, "toml"), lambda _: [Put(("mcp_servers", "b"), {"command": "b"})]))
    file.write_text(since)
    journal.undo()
    assert file.read_text() == since


def test_undo_gives_no_field_back_to_a_server_that_is_gone(tmp_path: Path, home: Path) -> None:
    file, journal = tmp_path / "a.json", Journal(home)
    file.write_text('{"mcpServers": {"s": {"command": "c", "cwd": "d"}}}')
    apply(journal, by_edits(Target(file, "json"), lambda _: [Drop(("mcpServers", "s", "cwd"))]))
    file.write_text('{"mcpServers": {}}')
    with pytest.raises(Conflict):
        journal.undo()
    assert file.read_text() == '{"mcpServers": {}}'


@pytest.mark.parametrize(
    ("text", "kind", "path", "since"),
    [
        ('{"k": 1}', "json", ("k",), "{ }\n"),
        ('[mcp_servers.x]\ncommand = "a"\n', "toml", ("mcp_servers", "x"), "# mine\n"),
    ],
)
def test_undo_fills_a_file_that_we_had_emptied(
    text: str, kind: str, path: tuple[str, ...], since: str, tmp_path: Path, home: Path
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    journal = Journal(home)
    apply(journal, by_edits(Target(file, kind), lambda _: [Drop(path)]))  # type: ignore[arg-type]
    file.write_text(since)
    journal.undo()
    after = safewrite.document(file.read_bytes(), kind, file)  # type: ignore[arg-type]
    assert after.get(path) == safewrite.document(text.encode(), kind, file).get(path)  # type: ignore[arg-type]
    assert "mine" in file.read_text() or kind == "json"


def test_undo_finds_its_place_between_edits_on_both_sides(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    text = '{\n  "k": 1,\n  "m": { // mine\n    "x": [1,  2]\n  },\n  "z": 1\n}'
    file.write_text(text)
    journal = Journal(home)
    apply(journal, by_edits(Target(file, "jsonc"), lambda _: [Drop(("m",))]))
    file.write_text(file.read_text().replace('"k": 1', '"k": 5').replace('"z": 1', '"z": 10'))
    journal.undo()
    assert file.read_text() == text.replace('"k": 1', '"k": 5').replace('"z": 1', '"z": 10')


def test_undo_in_what_is_nested_too_deeply_is_refused(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1, "deep": ' + '{"b":' * 600 + "1" + "}" * 601)
    journal = Journal(home)
    apply(journal, put(file, "a", 2))
    mine = f"{file.read_text()}\n"
    file.write_text(mine)
    with pytest.raises(ConfigInvalid, match="nested too deeply"):
        journal.undo()
    assert file.read_text() == mine
