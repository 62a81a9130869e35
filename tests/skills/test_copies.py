"""Copies of a skill, whether they are still identical, and removal of exactly what was shared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counsel.errors import CounselError
from counsel.skills import drift
from counsel.skills.share import share_skill
from counsel.skills.show import show_skill
from counsel.skills.undo_log import UndoEntry, UndoLog, restore
from counsel.skills.unshare import undo_sharing, unshare_skill
from skills.sample_skills import add_skill, plain
from support.user import User


def folder(top: Path, **files: str) -> Path:
    for name, text in files.items():
        path = top / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return top


def test_files_are_listed_by_name_with_their_sizes_and_without_git(tmp_path: Path) -> None:
    folder(tmp_path, b="12", a="1", sub__c="123", __pycache____x="1")
    folder(tmp_path / ".git", config="1")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert drift.files_of(tmp_path) == [("a", 1), ("b", 2), ("sub/c", 3)]


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, a="1", b="1", c="1", sub__d="1")
    monkeypatch.setattr(drift, "MOST_FILES", 2)
    assert drift.files_of(tmp_path) == [("a", 1), ("b", 1)]
    monkeypatch.setattr(drift, "MOST_FILES", 3)
    assert len(drift.files_of(tmp_path)) == 3
    monkeypatch.setattr(drift, "MOST_FILES", 4)
    assert len(drift.files_of(tmp_path)) == 4


def test_folders_are_equal_by_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = drift.folder_digest(folder(tmp_path / "one", a="text"))
    assert drift.folder_digest(folder(tmp_path / "two", a="text")) == digest
    assert drift.folder_digest(folder(tmp_path / "three", a="texT")) != digest
    assert drift.folder_digest(folder(tmp_path / "four", b="text")) != digest
    assert drift.folder_digest(folder(tmp_path / "five", a="text", c="")) != digest
    monkeypatch.setattr(drift, "MOST_BYTES", 3)  # too large to be read: it counts by its size
    assert drift.folder_digest(tmp_path / "one") == drift.folder_digest(tmp_path / "three")
    monkeypatch.setattr(drift, "MOST_BYTES", 4)
    assert drift.folder_digest(tmp_path / "one") != drift.folder_digest(tmp_path / "three")


def notes(user: User, name: str) -> dict[str, list[str]]:
    rows = user.run("list", "--json").json["skills"]
    return {row["agent"]: row["codes"] for row in rows if row["name"] == name}


def test_two_copies_that_differ_are_both_marked(user: User) -> None:
    add_skill(user, "~/.claude", "gem", plain("gem", "one"))
    add_skill(user, "~/.codex", "gem", plain("gem", "two"))
    assert "drift" in notes(user, "gem")["claude"]
    assert "drift" in notes(user, "gem")["codex"]


def test_a_note_about_a_difference_names_a_copy_that_differs(user: User) -> None:
    add_skill(user, "~/.claude", "gem", plain("gem", "one"))
    add_skill(user, "~/.codex", "gem", plain("gem", "one"))
    add_skill(user, "~/.gemini", "gem", plain("gem", "two"))
    rows = {row["agent"]: row for row in user.run("list", "--json").json["skills"] if row["name"] == "gem"}
    texts = {agent: " ".join(row["problems"]) for agent, row in rows.items()}
    assert f"differs from the copy in {user.home}/.gemini/skills/gem." in texts["claude"]
    assert f"differs from the copy in {user.home}/.gemini/skills/gem." in texts["codex"]
    assert f"differs from the copy in {user.home}/.claude/skills/gem." in texts["gemini"]


def test_two_equal_copies_are_not_marked(user: User) -> None:
    add_skill(user, "~/.claude", "gem", plain("gem", "one"))
    add_skill(user, "~/.codex", "gem", plain("gem", "one"))
    assert not any("drift" in codes for codes in notes(user, "gem").values())


def test_from_python_sharing_is_no_dry_run(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    plan = share_skill("gem", to=("codex",), dry_run=True, project=user.project)
    link = user.home / ".agents" / "skills" / "gem"
    assert plan.id == ""
    assert not link.is_symlink()
    sharing = share_skill("gem", to=("codex",), project=user.project)
    assert link.is_symlink()
    assert sharing.id
    assert [step.fate for step in sharing.steps] == ["shared"]

    preview = undo_sharing(dry_run=True)
    assert (preview.id, [step.fate for step in preview.steps]) == ("", ["removed"])
    assert link.is_symlink()
    removal = unshare_skill("gem", project=user.project)
    assert removal.id == sharing.id
    assert (removal.skill, removal.scope) == ("gem", "user")
    assert not link.is_symlink()
    with pytest.raises(CounselError, match="No skill is shared: there is nothing to undo"):
        undo_sharing()
    with pytest.raises(CounselError, match="There is no share 'x' to undo"):
        undo_sharing("x")


def test_an_unknown_id_is_answered_with_the_last_ones(user: User) -> None:
    ids = []
    for number in range(6):
        add_skill(user, "~/.claude", f"gem-{number}")
        ids.append(share_skill(f"gem-{number}", to=("codex",), project=user.project).id)
    with pytest.raises(CounselError) as refusal:
        undo_sharing("x")
    latest = ", ".join(f"{ids[number]} (gem-{number})" for number in range(5, 0, -1))
    assert refusal.value.hint == f"The last ones are {latest}."


def test_a_skill_may_be_unshared_by_the_name_of_its_folder_or_its_path(user: User) -> None:
    for name in ("gem", str(user.home / ".agents" / "skills" / "gem")):
        add_skill(user, "~/.claude", "gem")
        share_skill("gem", to=("codex",), project=user.project)
        assert unshare_skill(name, project=user.project).steps[0].fate == "removed"
    with pytest.raises(CounselError, match="counsel has not shared 'gem'"):
        unshare_skill("gem", project=user.project)


def test_of_a_skill_listed_several_times_the_one_that_is_used_is_shown(user: User) -> None:
    add_skill(user, "~/.claude", "gem", plain("gem", "one"))
    alone = show_skill("gem", agents=("claude",), project=user.project)
    assert (alone.skill.agent, alone.others) == ("claude", ())
    add_skill(user, "~/.codex", "gem", "no header")
    both = show_skill("gem", agents=("claude", "codex"), project=user.project)
    assert both.skill.accepted
    assert both.skill.agent == "claude"
    assert [skill.agent for skill in both.others] == ["codex"]


def test_a_link_that_no_longer_exists_is_reported(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    share_skill("gem", to=("codex",), project=user.project)
    (user.home / ".agents" / "skills" / "gem").unlink()
    (step,) = unshare_skill("gem", project=user.project).steps
    assert (step.fate, step.message, step.blocked) == ("removed", "it no longer exists", False)


def test_a_changed_copy_is_moved_into_the_backups(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    share_skill("gem", to=("codex",), copy=True, project=user.project)
    copy = user.home / ".agents" / "skills" / "gem"
    (copy / "more.txt").write_text("mine")
    (preview,) = undo_sharing(dry_run=True).steps
    assert "backups" in preview.message
    (step,) = undo_sharing().steps
    assert step.backup is not None
    assert (step.backup / "more.txt").read_text() == "mine"
    assert not copy.exists()


def entry(tmp_path: Path, **fields: object) -> UndoEntry:
    arguments = {
        "id": "i",
        "skill": "s",
        "agents": ("codex",),
        "scope": "user",
        "kind": "link",
        "source": "x",
        **fields,
    }
    return UndoEntry(path=str(tmp_path / "made" / "deep" / "s"), **arguments)  # type: ignore[arg-type]


def test_folders_that_were_made_go_and_those_that_are_used_stay(tmp_path: Path) -> None:
    folders = (str(tmp_path / "made"), str(tmp_path / "made" / "deep"))
    (tmp_path / "made" / "deep").mkdir(parents=True)
    (tmp_path / "made" / "used").touch()
    restore(entry(tmp_path, made=folders))
    assert not (tmp_path / "made" / "deep").exists()
    assert (tmp_path / "made").exists()
    (tmp_path / "made" / "used").unlink()
    restore(entry(tmp_path, made=folders[:1]))
    assert not (tmp_path / "made").exists()


def test_what_was_replaced_comes_back_unless_its_place_is_taken(tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("old")
    path = tmp_path / "made" / "deep" / "s"
    path.parent.mkdir(parents=True)
    path.write_text("taken")
    restore(entry(tmp_path, backup=str(tmp_path / "backup")))
    assert path.read_text() == "taken"
    path.unlink()
    restore(entry(tmp_path, backup=str(tmp_path / "backup")))
    assert path.read_text() == "old"
    assert not (tmp_path / "backup").exists()


def test_the_log_keeps_the_last_entry_for_each_path(tmp_path: Path) -> None:
    log = UndoLog({"COUNSEL_HOME": str(tmp_path)})
    assert log.entries() == []
    with log.locked():
        first, second = entry(tmp_path), entry(tmp_path, id="other")
        log.append(first)
        log.append(second)
        log.mark_undone(first)
    assert log.active() == [second]
    assert [item.taken_back for item in log.entries()] == [True, False]
    with log.path.open("a") as file:
        file.write('{"id": "cut sho')
    log.append(entry(tmp_path, id="third"))
    assert [item.id for item in log.active()] == ["other", "third"]


def test_backups_of_one_name_are_stored_side_by_side(tmp_path: Path) -> None:
    log = UndoLog({"COUNSEL_HOME": str(tmp_path)})
    names = []
    for _ in range(3):
        path = log.backup_path("i", "s")
        names.append(path.name)
        path.touch()
    assert names == ["s", "s.2", "s.3"]
