"""Every write can be undone exactly, also after others' edits, or undo is refused."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from configfiles.writing import apply, put
from counsel.configfiles.edits import Drop, Put
from counsel.configfiles.write import disk, safewrite
from counsel.configfiles.write.safewrite import Target, by_edits
from counsel.configfiles.write.undo_log import KEEP, UndoLog
from counsel.errors import ConfigInvalid, Conflict, NotFound


def test_undo_gives_the_old_bytes_back(tmp_path: Path, home: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text('{ "b":2 }')
    undo_log = UndoLog(home)
    apply(undo_log, put(old, "a"), put(new, "a"))
    undo_log.undo()
    assert old.read_text() == '{ "b":2 }'
    assert not new.exists()
    with pytest.raises(NotFound):
        undo_log.undo()


def test_undo_can_itself_be_undone_by_its_id(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    undo_log = UndoLog(home)
    apply(undo_log, put(file, "a"))
    _, undo = undo_log.undo()
    undo_log.undo(undo)
    assert file.read_text() == '{\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ('{"top": 0, "b": 2, "a": {"k": 1}}', '{"top": 0, "b": 2}'),
        ('{"b": 2, "a": {"k": 1}, "end": 0}', '{"b": 2, "end": 0}'),
        ('{"top": 0, "b": 2, "a": {"k": 1}, "end": 0}', '{"top": 0, "b": 2, "end": 0}'),
        ('{"b": 2, "a": {"k": 1, "mine": 2}}', '{"b": 2, "a": {"mine": 2}}'),
    ],
)
def test_undo_takes_back_only_our_change(since: str, expected: str, tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    undo_log = UndoLog(home)
    apply(undo_log, put(file, "a", {"k": 1}))
    assert file.read_text() == '{"b": 2, "a": {"k": 1}}'
    file.write_text(since)
    undo_log.undo()
    assert file.read_text() == expected


def test_undo_refuses_what_was_changed_since(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    undo_log = UndoLog(home)
    apply(undo_log, put(file, "b", 3))
    file.write_text('{"b": 4}')
    with pytest.raises(Conflict):
        undo_log.undo()
    assert file.read_text() == '{"b": 4}'


@pytest.mark.parametrize("empty", ["null", "[]", '""', "false"])
def test_what_was_no_object_does_not_become_an_empty_one(empty: str, tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(f'{{"b": {empty}}}')
    undo_log = UndoLog(home)
    apply(undo_log, put(file, "b", {"k": 1}))
    file.write_text('{"b": {"k": 1, "theirs": 2}}')
    with pytest.raises(Conflict):
        undo_log.undo()
    assert file.read_text() == '{"b": {"k": 1, "theirs": 2}}'


def test_undo_never_leaves_half_a_server(tmp_path: Path, home: Path) -> None:
    """Codex adds `tools` when a person approves one permanently; a server without a command breaks all of Codex."""
    file = tmp_path / "config.toml"
    file.write_text("model = 'x'\n")
    undo_log = UndoLog(home)
    server = {"command": "x"}
    apply(undo_log, by_edits(Target(file, "toml"), lambda _: [Put(("mcp_servers", "s"), server)]))
    mine = file.read_text() + '\n[mcp_servers.s.tools.t]\napproval_mode = "approve"\n'
    file.write_text(mine)
    with pytest.raises(Conflict, match=r"mcp_servers\.s was changed") as refusal:
        undo_log.undo()
    assert "servers remove" in (refusal.value.hint or "")
    assert file.read_text() == mine


def test_undoing_a_removal_brings_the_comments_back(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    text = '{\n  "s": {\n    "x": { // mine\n      "k": 1\n    }\n  }\n}'
    file.write_text(text)
    undo_log = UndoLog(home)
    target = Target(file, "jsonc")
    apply(undo_log, by_edits(target, lambda _: [Drop(("s", "x"))]))
    file.write_text(file.read_text().replace("\n}", ',\n  "later": 1\n}'))
    undo_log.undo()
    assert file.read_text() == text.replace("\n}", ',\n  "later": 1\n}')


def test_undo_joins_a_line_that_was_cut_in_two(tmp_path: Path, home: Path) -> None:
    """A comment stayed when its key was removed; the key returns to the comment's line, not to a new line above it."""
    file = tmp_path / "config.toml"
    file.write_text("k = 1 # why\nl = 2\n")
    undo_log = UndoLog(home)
    apply(undo_log, by_edits(Target(file, "toml"), lambda _: [Drop(("k",))]))
    assert file.read_text() == "# why\nl = 2\n"
    file.write_text("# by hand\n# why\nl = 2\n")
    undo_log.undo()
    assert file.read_text() == "# by hand\nk = 1 # why\nl = 2\n"


def test_undo_knows_what_was_written_in_the_middle(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer without a lock writes between staging and replacing: the record describes the file that was replaced."""
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    undo_log = UndoLog(home)
    sync, theirs = disk.sync_file, iter(['{"theirs": true}'])

    def sync_and_overwrite(path: Path) -> None:
        sync(path)
        if text := next(theirs, None):
            file.write_text(text)

    monkeypatch.setattr(disk, "sync_file", sync_and_overwrite)
    apply(undo_log, put(file, "a"))
    assert file.read_text() == '{"theirs": true, "a": 1}'
    undo_log.undo()
    assert file.read_text() == '{"theirs": true}'


def test_a_file_with_two_names_is_copied(tmp_path: Path, home: Path) -> None:
    """A program that writes through the other name must not write into the backup."""
    file, second_name = tmp_path / "a.json", tmp_path / "other.json"
    file.write_text('{"b": 2}')
    second_name.hardlink_to(file)
    undo_log = UndoLog(home)
    apply(undo_log, put(file, "a"))
    second_name.write_text("something else")
    undo_log.undo()
    assert file.read_text() == '{"b": 2}'


def test_a_backup_that_a_late_writer_wrote_into_is_not_restored(tmp_path: Path, home: Path) -> None:
    """A client that opened the file before counsel replaced it writes into what is now the backup."""
    file = tmp_path / "a.json"
    file.write_text('{"b": 2}')
    undo_log = UndoLog(home)
    with file.open("r+") as late_writer:
        apply(undo_log, put(file, "a"))
        late_writer.write('{"b": "later"}')
    with pytest.raises(Conflict, match="another program") as failure:
        undo_log.undo()
    assert file.read_text() == '{"b": 2, "a": 1}'
    backup = Path((failure.value.hint or "").removeprefix("That program's version is in ").rstrip("."))
    assert backup.read_text() == '{"b": "later"}'


def test_a_write_that_was_cut_between_two_files_is_taken_back(tmp_path: Path, home: Path) -> None:
    """The process was killed after it replaced the first of two files: undo restores only that one."""
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for file in (first, second):
        file.write_text("{}")
    code = f"""
import os
from pathlib import Path
from counsel.configfiles.write import safewrite
from counsel.configfiles.edits import Put
from counsel.configfiles.write import undo_log as journal_module
from counsel.configfiles.write.undo_log import KEEP, UndoLog
from counsel.configfiles.write.safewrite import Target, by_edits, plan
real, calls = safewrite._replace, []
safewrite._replace = lambda *given: os._exit(9) if calls else calls.append(real(*given))
files = {[str(first), str(second)]!r}
planned = [plan(by_edits(Target(Path(file), "json"), lambda _: [Put(("a",), 1)])) for file in files]
UndoLog(Path({str(home)!r})).apply(planned, "test")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert (first.read_text() == "{}", second.read_text()) == (False, "{}")
    UndoLog(home).undo()
    assert (first.read_text(), second.read_text()) == ("{}", "{}")


def test_backups_are_private(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"secret": "s"}')
    undo_log = UndoLog(home)
    name = apply(undo_log, put(file, "a"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (home / "backups" / name).iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((home / "backups").stat().st_mode) == 0o700


def test_undo_ignores_changes_that_are_gone_already(tmp_path: Path, home: Path) -> None:
    """A person removed the change from one file by hand: it is still undone in the other one."""
    by_hand, untouched, deleted = (tmp_path / name for name in ("1.json", "2.json", "3.json"))
    for file in (by_hand, untouched, deleted):
        file.write_text('{"b": 2}')
    undo_log = UndoLog(home)
    apply(undo_log, *(put(file, "a") for file in (by_hand, untouched, deleted)))
    by_hand.write_text('{"b": 3}')
    deleted.unlink()
    undo_log.undo()
    assert (by_hand.read_text(), untouched.read_text()) == ('{"b": 3}', '{"b": 2}')
    assert not deleted.exists()


@pytest.mark.parametrize("since", ["m = 2\n", "[mcp_servers.other]\ncommand = 'o'\n"])
def test_undo_ignores_a_member_whose_table_is_gone(since: str, tmp_path: Path, home: Path) -> None:
    file, undo_log = tmp_path / "config.toml", UndoLog(home)
    file.write_text("[mcp_servers.a]\ncommand = 'a'\n")
    apply(undo_log, by_edits(Target(file, "toml"), lambda _: [Put(("mcp_servers", "b"), {"command": "b"})]))
    file.write_text(since)
    undo_log.undo()
    assert file.read_text() == since


def test_undo_gives_no_field_back_to_a_server_that_is_gone(tmp_path: Path, home: Path) -> None:
    file, undo_log = tmp_path / "a.json", UndoLog(home)
    file.write_text('{"mcpServers": {"s": {"command": "c", "cwd": "d"}}}')
    apply(undo_log, by_edits(Target(file, "json"), lambda _: [Drop(("mcpServers", "s", "cwd"))]))
    file.write_text('{"mcpServers": {}}')
    with pytest.raises(Conflict):
        undo_log.undo()
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
    undo_log = UndoLog(home)
    apply(undo_log, by_edits(Target(file, kind), lambda _: [Drop(path)]))  # type: ignore[arg-type]
    file.write_text(since)
    undo_log.undo()
    after = safewrite.document(file.read_bytes(), kind, file)  # type: ignore[arg-type]
    assert after.get(path) == safewrite.document(text.encode(), kind, file).get(path)  # type: ignore[arg-type]
    assert "mine" in file.read_text() or kind == "json"


def test_undo_finds_its_place_between_edits_on_both_sides(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    text = '{\n  "k": 1,\n  "m": { // mine\n    "x": [1,  2]\n  },\n  "z": 1\n}'
    file.write_text(text)
    undo_log = UndoLog(home)
    apply(undo_log, by_edits(Target(file, "jsonc"), lambda _: [Drop(("m",))]))
    file.write_text(file.read_text().replace('"k": 1', '"k": 5').replace('"z": 1', '"z": 10'))
    undo_log.undo()
    assert file.read_text() == text.replace('"k": 1', '"k": 5').replace('"z": 1', '"z": 10')


def test_undo_in_what_is_nested_too_deeply_is_refused(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1, "deep": ' + '{"b":' * 600 + "1" + "}" * 601)
    undo_log = UndoLog(home)
    apply(undo_log, put(file, "a", 2))
    mine = f"{file.read_text()}\n"
    file.write_text(mine)
    with pytest.raises(ConfigInvalid, match="nested too deeply"):
        undo_log.undo()
    assert file.read_text() == mine


def test_beyond_the_space_for_backups_only_the_last_change_can_be_undone(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.configfiles.write.undo_log.KEEP_BYTES", 1_000)
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"big": "x" * 5_000}))
    undo_log = UndoLog(home)
    for number in range(3):
        apply(undo_log, put(file, "a", number))
    assert len(undo_log.operations()) == 1
    undo_log.undo()
    assert json.loads(file.read_text())["a"] == 1


def test_undo_is_of_the_last_change_after_many_within_a_second(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names contain seconds only: within one second, the time of the records decides which is the newest."""
    monkeypatch.setattr(time, "strftime", lambda _form: "20261115-120000")
    file = tmp_path / "a.json"
    file.write_text("{}")
    undo_log = UndoLog(home)
    for number in range(KEEP + 5):
        apply(undo_log, put(file, "a", number))
    assert len(undo_log.operations()) == KEEP
    for number in range(KEEP + 3, KEEP - 7, -1):
        undo_log.undo()
        assert json.loads(file.read_text()) == {"a": number}
    with pytest.raises(NotFound) as failure:
        undo_log.find("20261115-115959-000000")
    assert f"the last {KEEP} changes" in str(failure.value.hint)
