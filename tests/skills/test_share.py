"""Share and unshare exactly the requested skills: nothing is lost, nothing is left behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from counsel.skills import share, undo_log
from skills.sample_skills import add_skill, plain, write
from support.user import User


def tree(top: Path) -> dict[str, str]:
    """Every file, link and folder below a folder, with its content."""
    return {
        str(path.relative_to(top)): f"-> {path.readlink()}"
        if path.is_symlink()
        else path.read_text()
        if path.is_file()
        else "/"
        for path in sorted(top.rglob("*"))
    }


def accepting(user: User, name: str) -> set[str]:
    document = user.run("list", "--json").json["skills"]
    return {skill["agent"] for skill in document if skill["accepted"] and skill["name"] == name}


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("how", [(), ("--copy",)], ids=["link", "copy"])
def test_share_everywhere_and_undo_leave_the_disk_as_it_was(
    user: User, scope: str, how: tuple[str, ...]
) -> None:
    add_skill(user, "~/.claude" if scope == "user" else ".claude", "gem")
    before = tree(user.home), tree(user.project)

    document = user.run("share", "gem", "--everywhere", "--scope", scope, *how, "--json").json
    assert accepting(user, "gem") == {"claude", "codex", "gemini", "cursor"}
    assert [step["fate"] for step in document["steps"]].count("shared") == 1  # one place serves all of them

    assert user.run("undo", "--json").json["steps"][0]["fate"] == "removed"
    assert (tree(user.home), tree(user.project)) == before


def test_a_dry_run_changes_nothing(user: User, tmp_path: Path) -> None:
    add_skill(user, "~/.claude", "gem")
    before = tree(tmp_path)
    document = user.run("share", "gem", "--to", "codex,gemini", "--dry-run", "--json").json
    assert document["id"] is None
    assert [(step["fate"], step["agents"]) for step in document["steps"]] == [("share", ["codex", "gemini"])]
    assert tree(tmp_path) == before


def test_links_inside_a_project_are_relative(user: User) -> None:
    add_skill(user, ".claude", "gem")
    user.run("share", "gem", "--to", "codex", "--scope", "project")
    link = user.project / ".agents" / "skills" / "gem"
    assert str(link.readlink()) == "../../.claude/skills/gem"


def test_from_the_shared_folder_only_claude_needs_a_link(user: User) -> None:
    add_skill(user, "~/.agents", "gem")
    document = user.run("share", "gem", "--everywhere", "--json").json
    fates = {agent: step["fate"] for step in document["steps"] for agent in step["agents"]}
    assert fates == {"claude": "shared", "codex": "already", "gemini": "already", "cursor": "already"}


def test_an_existing_skill_is_not_replaced_without_confirmation(user: User, tmp_path: Path) -> None:
    add_skill(user, "~/.claude", "gem", plain("gem", "new"))
    add_skill(user, "~/.agents", "gem", plain("gem", "old"))
    before = tree(tmp_path)
    output = user.run("share", str(user.home / ".claude" / "skills" / "gem"), "--to", "codex", "--json")
    assert output.code == 1
    assert output.json["code"] == "CONFLICT"
    assert "Use --yes to continue: the existing files are moved to the backups." in output.json["hint"]
    after = {path: content for path, content in tree(tmp_path).items() if not path.startswith("counsel")}
    assert after == {path: content for path, content in before.items() if not path.startswith("counsel")}


def test_a_skill_that_was_replaced_comes_back_on_undo(user: User) -> None:
    new = add_skill(user, "~/.claude", "gem", plain("gem", "new"))
    old = add_skill(user, "~/.agents", "gem", plain("gem", "old"))
    before = tree(user.home)
    step = user.run("share", str(new), "--to", "codex", "--yes", "--json").json["steps"][0]
    assert step["fate"] == "replaced"
    assert "old" in (Path(step["backup"]) / "SKILL.md").read_text()
    assert old.is_symlink()

    user.run("undo")
    assert tree(user.home) == before


def test_another_skill_of_that_name_elsewhere_asks_first(user: User) -> None:
    new = add_skill(user, "~/.claude", "gem")
    add_skill(user, "~/.gemini", "gem", plain("gem", "Gemini's own"))
    output = user.run("share", str(new), "--to", "gemini", "--json")
    assert output.json["code"] == "CONFLICT"
    assert ".gemini" in output.json["error"]


def test_a_link_beside_another_of_its_name_replaces_nothing(user: User) -> None:
    new = add_skill(user, "~/.claude", "gem")
    own = add_skill(user, "~/.codex", "gem", plain("gem", "Codex's own"))
    (preview,) = user.run("share", str(new), "--to", "codex", "--dry-run", "--json").json["steps"]
    assert preview["fate"] == "beside"
    reply = user.run("share", str(new), "--to", "codex", "--json").json
    assert "backups" not in reply["hint"]
    (step,) = user.run("share", str(new), "--to", "codex", "--yes", "--json").json["steps"]
    assert (step["fate"], step["backup"]) == ("shared", None)
    assert own.is_dir()


def test_a_skill_created_since_the_plan_is_not_replaced(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    add_skill(user, "~/.claude", "gem")
    place = user.home / ".agents" / "skills" / "gem"
    real_new_id = undo_log.new_id

    def create_first() -> str:
        write(place / "SKILL.md", plain("gem", "somebody's own"))
        return real_new_id()

    monkeypatch.setattr(share, "new_id", create_first)
    assert user.run("share", "gem", "--to", "codex", "--json").json["code"] == "CONFLICT"
    assert "somebody's own" in (place / "SKILL.md").read_text()


def test_remove_leaves_other_projects_alone(user: User, tmp_path: Path) -> None:
    add_skill(user, "~/.claude", "gem")
    project = tmp_path / "other"
    (project / ".git").mkdir(parents=True)
    for folder in (user.project, project):
        user.run("share", "gem", "--to", "codex", "--scope", "project", "--project", str(folder))
    user.run("share", "gem", "--remove")
    assert not (user.project / ".agents").exists()
    assert (project / ".agents" / "skills" / "gem").is_symlink()
    document = user.run("share", "gem", "--remove", "--json").json
    assert (document["code"], str(project) in document["error"]) == ("NOT_FOUND", True)
    assert user.run("share", "gem", "--remove", "--project", str(project)).code == 0
    assert not (project / ".agents").exists()


def test_remove_takes_back_only_what_was_shared(user: User) -> None:
    mine = add_skill(user, "~/.agents", "other")
    add_skill(user, "~/.claude", "gem")
    user.run("share", "gem", "--to", "codex")
    document = user.run("share", "gem", "--remove", "--json").json
    assert [step["fate"] for step in document["steps"]] == ["removed"]
    assert mine.is_dir()
    assert user.run("share", "other", "--remove", "--json").json["code"] == "NOT_FOUND"
    assert user.run("share", "gem", "--remove", "--json").json["code"] == "NOT_FOUND"


def test_a_link_that_became_something_else_is_left_alone(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    user.run("share", "gem", "--to", "codex")
    link = user.home / ".agents" / "skills" / "gem"
    link.unlink()
    write(link / "SKILL.md", plain("gem", "somebody's own"))
    document = user.run("share", "gem", "--remove", "--json").json
    assert [step["fate"] for step in document["steps"]] == ["kept"]
    assert (link / "SKILL.md").exists()


def test_a_copy_that_was_edited_is_not_thrown_away(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    user.run("share", "gem", "--to", "codex", "--copy")
    write(user.home / ".agents" / "skills" / "gem" / "notes.md", "hard work")
    step = user.run("undo", "--json").json["steps"][0]
    assert (Path(step["backup"]) / "notes.md").read_text() == "hard work"
    assert not (user.home / ".agents").exists()


def test_undo_by_id_and_nothing_to_undo(user: User) -> None:
    assert user.run("undo", "--json").json["code"] == "NOT_FOUND"
    add_skill(user, "~/.claude", "one")
    add_skill(user, "~/.claude", "two")
    first = user.run("share", "one", "--to", "codex", "--json").json["id"]
    user.run("share", "two", "--to", "codex")
    user.run("undo", first)
    assert [path.name for path in (user.home / ".agents" / "skills").iterdir()] == ["two"]
    assert user.run("undo", first, "--json").json["code"] == "NOT_FOUND"


def test_a_journal_cut_short_by_a_crash_is_still_read(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    user.run("share", "gem", "--to", "codex")
    with (user.counsel_home / "backups" / "skills" / "journal.jsonl").open("a") as journal:
        journal.write('{"id": "2026')
    assert user.run("undo").code == 0
    assert not (user.home / ".agents").exists()
    assert user.run("undo", "--json").json["code"] == "NOT_FOUND"  # that it was removed is known, too


def test_the_journal_is_private(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    user.run("share", "gem", "--to", "codex")
    folder = user.counsel_home / "backups" / "skills"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "journal.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_is_reported_and_leaves_nothing(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    write(user.home / ".agents", "a file where a folder should be")
    output = user.run("share", "gem", "--to", "codex", "--json")
    assert output.code == 1
    assert output.json["code"] == "CONFLICT"
    assert (user.home / ".agents").read_text() == "a file where a folder should be"
    assert user.run("undo", "--json").json["code"] == "NOT_FOUND"


def test_an_agent_that_would_refuse_it_is_named(user: User) -> None:
    add_skill(user, "~/.claude", "gem", "---\nname: gem\n---\nno description\n")
    warnings = user.run("share", "gem", "--to", "codex", "--json").json["warnings"]
    assert any("Codex does not use" in warning and "description" in warning for warning in warnings)


def test_a_link_that_the_agent_refuses_is_not_made_twice(user: User) -> None:
    add_skill(user, "~/.claude", "gem", "---\nname: gem\n---\nno description\n")
    assert user.run("share", "gem", "--to", "codex", "--json").json["steps"][0]["fate"] == "shared"
    again = user.run("share", "gem", "--to", "codex", "--json").json
    assert again["id"] is None, "nothing was changed"
    (step,) = again["steps"]
    assert (step["fate"], step["words"]) == ("already", "already there")
    assert Path(step["path"]) == user.home / ".agents" / "skills" / "gem"


def test_of_different_skills_with_one_name_the_one_shared_is_named(user: User) -> None:
    add_skill(user, "~/.claude", "gem", plain("gem", "one"))
    add_skill(user, "~/.gemini", "gem", plain("gem", "other"))
    warnings = user.run("share", "gem", "--to", "codex", "--json").json["warnings"]
    assert any("different skills" in warning and ".claude" in warning for warning in warnings)


def test_a_skill_without_a_folder_of_its_own_is_not_shared(user: User) -> None:
    write(user.home / ".agents" / "skills" / "SKILL.md", plain("loose"))
    assert user.run("share", "loose", "--to", "claude", "--json").json["code"] == "INVALID_ARGUMENT"


def test_a_link_out_of_the_project_is_warned_about(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    document = user.run("share", "gem", "--to", "codex", "--scope", "project", "--json").json
    assert any("--copy" in warning for warning in document["warnings"])


def test_a_skill_of_the_user_is_copied_into_the_project_for_others(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    document = user.run("share", "gem", "--everywhere", "--scope", "project", "--copy", "--json").json
    assert {step["fate"] for step in document["steps"]} == {"shared"}
    for folder in (".claude", ".agents"):
        assert (user.project / folder / "skills" / "gem" / "SKILL.md").is_file()
    assert any(
        "Claude Code does not use" in words for words in document["warnings"]
    )  # the user's own comes first
    user.run("undo")
    assert not any((user.project / folder).exists() for folder in (".claude", ".agents"))


def test_a_backup_folder_that_cannot_be_made_is_reported(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    user.counsel_home.mkdir(parents=True)
    (user.counsel_home / "backups").write_text("a file where a folder should be")
    output = user.run("share", "gem", "--to", "codex", "--json")
    assert output.json["code"] == "CONFLICT"
    assert "COUNSEL_HOME" in output.json["hint"]
    assert not (user.home / ".agents").exists()


def test_a_person_confirms_a_replacement(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    new = add_skill(user, "~/.claude", "gem", plain("gem", "new"))
    add_skill(user, "~/.agents", "gem", plain("gem", "old"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_args, **_more: False)
    output = user.run("share", str(new), "--to", "codex")
    assert (output.code, "Nothing was changed" in output.err) == (1, True)
    monkeypatch.setattr("click.confirm", lambda *_args, **_more: True)
    assert user.run("share", str(new), "--to", "codex").code == 0
    assert (user.home / ".agents" / "skills" / "gem").is_symlink()


def test_a_link_is_not_taken_from_agents_that_were_not_named(user: User) -> None:
    add_skill(user, "~/.claude", "gem")
    user.run("share", "gem", "--to", "codex,gemini")
    document = user.run("share", "gem", "--remove", "--to", "codex", "--json").json
    assert (document["code"], "gemini" in document["error"]) == ("CONFLICT", True)
    assert accepting(user, "gem") >= {"codex", "gemini"}
    assert user.run("share", "gem", "--remove", "--to", "codex,gemini").code == 0


def test_the_old_skill_is_back_when_its_replacement_cannot_be_made(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = add_skill(user, "~/.claude", "gem", plain("gem", "new"))
    add_skill(user, "~/.agents", "gem", plain("gem", "old"))
    before = tree(user.home)

    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(share, "_make", disk_full)
    reply = user.run("share", str(new), "--to", "codex", "--yes", "--json").json
    assert reply["code"] == "CONFLICT"
    assert "No space left" in reply["error"]
    assert tree(user.home) == before


def test_half_a_copy_is_not_left_behind(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    new = add_skill(user, "~/.claude", "gem")
    before = tree(user.home)
    copy = shutil.copytree

    def disk_full(*args: Any, **options: Any) -> None:
        copy(*args, **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", disk_full)
    reply = user.run("share", str(new), "--to", "codex", "--copy", "--json").json
    assert "No space left" in reply["error"]
    assert tree(user.home) == before
