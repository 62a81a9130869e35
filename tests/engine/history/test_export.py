from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.history.export_files import ExportedConversation, ExportedTurn, destination, export
from counsel.errors import Conflict, FileNotAllowed, InvalidArgument


def conversation(*texts: str, id: str = "conv_1", **metadata: Any) -> ExportedConversation:  # noqa: A002 - the field's name
    turns = tuple(ExportedTurn(f"ask {text}", f"answer {text}", {"model": "m"}) for text in texts)
    return ExportedConversation(id, turns, metadata)


def tree(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != "metadata.json"}


def test_an_export_has_converses_layout(tmp_path: Path) -> None:
    folder = export(conversation("ä", "b", title="T"), tmp_path, tmp_path)
    assert folder == tmp_path / "conv_1"
    assert tree(folder) == {
        "1_request.txt": "ask ä",
        "1_response.txt": "answer ä",
        "2_request.txt": "ask b",
        "2_response.txt": "answer b",
    }
    about = json.loads((folder / "metadata.json").read_text())
    assert (about["continuation_id"], about["title"], about["turns"]) == ("conv_1", "T", [{"model": "m"}] * 2)


def test_no_other_user_can_read_it(tmp_path: Path) -> None:
    folder = export(conversation("a"), tmp_path, tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_turn_without_an_answer_has_only_a_request(tmp_path: Path) -> None:
    folder = export(ExportedConversation("c", (ExportedTurn("q", None),)), tmp_path, tmp_path)
    assert tree(folder) == {"1_request.txt": "q"}


def test_exporting_again_adds_and_leaves_no_drafts(tmp_path: Path) -> None:
    export(conversation("a"), tmp_path, tmp_path)
    folder = export(conversation("a", "b"), tmp_path, tmp_path)
    assert len(tree(folder)) == 4
    assert sorted(json.loads((folder / "metadata.json").read_text())["files"]) == sorted(tree(folder))


def test_our_own_file_is_brought_up_to_date(tmp_path: Path) -> None:
    export(conversation("half"), tmp_path, tmp_path)
    assert tree(export(conversation("whole"), tmp_path, tmp_path))["1_response.txt"] == "answer whole"


def test_files_that_a_person_changed_or_added_stay(tmp_path: Path) -> None:
    folder = export(conversation("a"), tmp_path, tmp_path)
    (folder / "1_response.txt").write_text("my words")
    (folder / "notes.md").write_text("my notes")
    for _ in range(2):
        result = tree(export(conversation("a", "b"), tmp_path, tmp_path))
        assert result["1_response.txt"] == "my words"
        assert result["notes.md"] == "my notes"
        assert result["2_response.txt"] == "answer b"


def test_a_file_that_a_person_puts_back_is_brought_up_to_date_again(tmp_path: Path) -> None:
    file = export(conversation("half"), tmp_path, tmp_path) / "1_response.txt"
    file.write_text("my words")
    export(conversation("whole"), tmp_path, tmp_path)
    assert file.read_text() == "my words"
    file.write_text("answer half")
    export(conversation("whole"), tmp_path, tmp_path)
    assert file.read_text() == "answer whole"


def test_a_deleted_file_comes_back(tmp_path: Path) -> None:
    folder = export(conversation("a"), tmp_path, tmp_path)
    (folder / "1_request.txt").unlink()
    assert "1_request.txt" in tree(export(conversation("a"), tmp_path, tmp_path))


def conflict(tmp_path: Path, conversation: ExportedConversation) -> None:
    def look() -> dict[str, bytes | None]:
        return {str(path): path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}

    before = look()
    with pytest.raises(Conflict) as excinfo:
        export(conversation, tmp_path, tmp_path)
    assert excinfo.value.hint
    assert look() == before


def test_a_foreign_folder_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "conv_1").mkdir()
    (tmp_path / "conv_1" / "1_request.txt").write_text("theirs")
    conflict(tmp_path, conversation("a"))


@pytest.mark.parametrize(
    "mark", ["{}", "not json", "[]", '{"counsel_export": 1, "continuation_id": "other", "files": {}}']
)
def test_a_folder_of_another_conversation_is_a_conflict(tmp_path: Path, mark: str) -> None:
    (tmp_path / "conv_1").mkdir()
    (tmp_path / "conv_1" / "metadata.json").write_text(mark)
    conflict(tmp_path, conversation("a"))


def test_a_foreign_file_inside_our_folder_is_a_conflict(tmp_path: Path) -> None:
    folder = export(conversation("a"), tmp_path, tmp_path)
    (folder / "2_request.txt").write_text("theirs")
    conflict(tmp_path, conversation("a", "b"))


def test_a_file_of_the_folders_name_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "conv_1").write_text("theirs")
    conflict(tmp_path, conversation("a"))


def test_symlinks_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "conv_1").symlink_to(outside)
    with pytest.raises(Conflict):
        export(conversation("a"), root, root)
    folder = export(conversation("a", id="conv_2"), root, root)
    (outside / "precious").write_text("precious")
    (folder / "2_request.txt").symlink_to(outside / "precious")
    with pytest.raises(Conflict):
        export(conversation("a", "b", id="conv_2"), root, root)
    (folder / "metadata.json").unlink()
    (folder / "metadata.json").symlink_to(outside / "precious")
    with pytest.raises(Conflict):
        export(conversation("a", id="conv_2"), root, root)
    assert [path.read_text() for path in outside.iterdir()] == ["precious"]


@pytest.mark.parametrize("id", ["..", ".", "...", "a/b", "../x", "", "x" * 65, "a\0", "a\n", "ä"])
def test_bad_ids_name_no_folder(tmp_path: Path, id: str) -> None:  # noqa: A002 - the field's name
    with pytest.raises(InvalidArgument):
        export(conversation("a", id=id), tmp_path / "in", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["../", "link", "a/../..", "/"])
def test_nothing_is_written_outside(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(FileNotAllowed):
        export(conversation("a"), root / target, root)
    assert {path.name for path in tmp_path.iterdir()} == {"root"}


def test_a_missing_target_is_created(tmp_path: Path) -> None:
    assert export(conversation("a"), tmp_path / "x" / "y", tmp_path) == tmp_path / "x" / "y" / "conv_1"


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_an_unwritable_disk_is_named_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: Any
) -> None:
    folder = export(conversation("a"), tmp_path, tmp_path)
    before = tree(folder)

    def broken(*_args: Any, **_options: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(FileNotAllowed, match=os.strerror(code)) as excinfo:
        export(conversation("a", "b"), tmp_path, tmp_path)
    assert excinfo.value.file == str(folder)
    assert tree(folder) == before


def test_a_crash_between_two_files_is_repaired_by_the_next_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, successes = os.rename, iter([True, True, False])

    def fail_sometimes(*args: Any, **options: Any) -> None:
        if not next(successes):
            raise OSError(errno.ENOSPC, "full")
        real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail_sometimes)
        with pytest.raises(FileNotAllowed):
            export(conversation("a"), tmp_path, tmp_path)
    assert len(tree(export(conversation("a"), tmp_path, tmp_path))) == 2


def test_the_folders_that_a_caller_may_export_to(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "more").mkdir()
    env = {"HOME": str(tmp_path / "h"), "COUNSEL_ALLOWED_DIRS": str(tmp_path / "more")}
    caller = Caller(cwd=project, settings=settings.load(env))
    assert destination(True, caller) == (project, project)
    assert destination("notes/x", caller) == (project / "notes" / "x", project)
    assert destination(str(tmp_path / "more"), caller) == (tmp_path / "more", tmp_path / "more")
    for wish in ("..", "/etc", "../project2", "~/x"):
        with pytest.raises(FileNotAllowed):
            destination(wish, caller)
    with pytest.raises(InvalidArgument):
        destination(True, Caller(settings=settings.load(env)))
