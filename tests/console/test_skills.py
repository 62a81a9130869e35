"""The skills screen: lists, verdicts, sharing and undo, with a scratch home whose bytes are compared."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, expect

from support import sample_home
from support.browser import Console


def files(*folders: Path) -> dict[str, bytes | str]:
    """Every file, link and folder, with its content."""
    content: dict[str, bytes | str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            content[str(path)] = (
                str(path.readlink())
                if path.is_symlink()
                else path.read_bytes()
                if path.is_file()
                else "folder"
            )
    return content


def fill_home(console: Console) -> Console:
    sample_home.fill(console.home, console.project)
    return console


def agent(console: Console, name: str) -> Locator:
    return console.page.get_by_role("region", name=name, exact=True)


def test_an_empty_home_is_told_what_a_skill_is_and_sees_the_first_one(console: Console) -> None:
    page = console.open("#/skills")
    expect(page.get_by_role("heading", name="No skills yet")).to_be_visible()
    expect(page.get_by_text("counsel skills list")).to_be_visible()
    sample_home.skill(console.home / ".claude" / "skills" / "greet", "Says hello.", "Say hello.\n")
    page.get_by_role("button", name="Look again").click()
    expect(agent(console, "Claude Code").get_by_role("link", name="greet")).to_be_visible()


def test_skills_are_listed_by_agent_and_scope_with_the_command_that_invokes_each(console: Console) -> None:
    fill_home(console)
    page = console.open("#/skills")
    claude = agent(console, "Claude Code")
    expect(claude.get_by_role("button", name="Copy /release")).to_be_visible()
    expect(claude.get_by_role("button", name="Copy /reports:weekly")).to_be_visible()  # of a plugin
    expect(claude.get_by_role("heading", name="Plugins")).to_be_visible()
    expect(agent(console, "Codex").get_by_role("button", name="Copy $release")).to_be_visible()
    expect(agent(console, "Codex").get_by_role("heading", name="Project")).to_be_visible()
    expect(claude.get_by_text("Copies differ")).to_have_count(1)
    agent(console, "Codex").get_by_role("button", name="Copy $release").click()
    expect(page.get_by_text("$release copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "$release"

    page.get_by_role("searchbox", name="Search skills").fill("report")
    expect(page.get_by_role("link", name="incident-report")).to_have_count(2)  # Claude Code and Cursor
    expect(page.get_by_role("link", name="release")).to_have_count(0)
    page.get_by_role("combobox", name="Agent").select_option("claude")
    expect(page.get_by_role("link", name="incident-report")).to_have_count(1)
    expect(page.get_by_text("counsel skills list report --agent claude")).to_be_visible()
    page.get_by_role("searchbox", name="Search skills").fill("nothing has this")
    page.get_by_role("button", name="Show all").click()

    page.get_by_role("button", name="Matrix").click()
    row = page.get_by_role("row", name="code-review")
    expect(row.get_by_text("2 that differ")).to_be_visible()
    expect(row.get_by_text("Claude Code loads it", exact=True)).to_be_attached()
    expect(page.get_by_role("row", name="incident-report").get_by_text("Cursor refuses it")).to_be_attached()
    page.get_by_role("button", name="Codex does not see diagrams: share it").click()
    dialog = page.get_by_role("dialog", name="Share diagrams")
    expect(dialog.get_by_role("checkbox", name="Codex")).to_be_checked()
    expect(dialog.get_by_role("checkbox", name="Cursor")).not_to_be_checked()


def test_a_skill_shows_its_text_its_files_each_verdict_and_how_to_fix_it(console: Console) -> None:
    fill_home(console)
    page = console.open("#/skills/release")
    text = page.get_by_role("region", name="Text of the skill")
    expect(text.get_by_role("heading", name="Steps")).to_be_visible()
    expect(text.locator("pre")).to_contain_text("make dist")
    expect(page.get_by_text("scripts/check.sh")).to_be_visible()
    expect(page.get_by_text("Follows all of them.")).to_be_visible()
    expect(page.get_by_role("button", name="Copy $release")).to_be_visible()

    console.open("#/skills/incident-report")
    verdicts = page.get_by_role("region", name="How each agent treats it")
    cursor = verdicts.get_by_role("listitem").filter(has_text="Cursor")
    expect(cursor.get_by_text("Refuses it")).to_be_visible()
    expect(cursor).to_contain_text("invalid frontmatter")
    expect(cursor).to_contain_text("Correct the header of SKILL.md")
    expect(
        verdicts.get_by_role("listitem").filter(has_text="Codex").get_by_text("Does not see it")
    ).to_be_visible()
    expect(page.get_by_role("region", name="Rules of agentskills.io")).to_contain_text("not valid YAML")

    console.open("#/skills/code-review")
    copies = page.get_by_role("region", name="Copies that differ")
    expect(copies.get_by_role("listitem")).to_have_count(2)
    expect(text.locator("strong")).to_have_text("bugs")
    copies.get_by_role("link", name="Show").click()
    expect(text.locator("strong")).to_have_count(0)  # the other copy

    console.open("#/skills/no-such-skill")
    expect(page.get_by_role("heading", name="No agent has a skill named no-such-skill")).to_be_visible()


def test_sharing_shows_its_plan_first_and_undo_and_unsharing_restore_every_byte(console: Console) -> None:
    fill_home(console)
    before = files(console.home, console.project)
    link = console.home / ".agents" / "skills" / "incident-report"
    page = console.open("#/skills/incident-report")
    page.get_by_role("button", name="Share …", exact=True).click()
    dialog = page.get_by_role("dialog", name="Share incident-report")
    plan = dialog.get_by_role("list", name="What will change")
    expect(plan).to_contain_text("~/.agents/skills/incident-report")
    expect(plan).to_contain_text("New link")
    expect(
        dialog.get_by_text("counsel skills share incident-report --to codex,gemini", exact=True)
    ).to_be_visible()
    dialog.get_by_role("combobox", name="Where").select_option("project")
    expect(plan).to_contain_text(".agents/skills/incident-report")
    expect(dialog.get_by_text("The link points outside the project")).to_be_visible()
    dialog.get_by_role("combobox", name="Where").select_option("user")
    expect(plan).to_contain_text("~/.agents/skills/incident-report")
    assert files(console.home, console.project) == before
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_text("incident-report is shared with Codex, Gemini CLI.")).to_be_visible()
    assert link.is_symlink()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone: incident-report")).to_be_visible()
    assert files(console.home, console.project) == before

    page.get_by_role("button", name="Share …", exact=True).click()
    expect(plan).to_contain_text("New link")
    dialog.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Stop sharing …").click()
    stop = page.get_by_role("dialog", name="Stop sharing incident-report")
    expect(stop.get_by_role("list", name="What will change")).to_contain_text("Removed")
    assert link.is_symlink()
    stop.get_by_role("button", name="Stop sharing").click()
    expect(page.get_by_text("incident-report is no longer shared.")).to_be_visible()
    assert files(console.home, console.project) == before
    page.get_by_role("button", name="Undo").last.click()
    expect(page.get_by_text("It is shared again.")).to_be_visible()
    assert link.is_symlink()


def test_what_is_in_the_way_is_replaced_only_after_a_confirmation_and_comes_back(console: Console) -> None:
    fill_home(console)
    before = files(console.home, console.project)
    page = console.open("#/skills/code-review")
    page.get_by_role("button", name="Share …", exact=True).click()
    dialog = page.get_by_role("dialog", name="Share code-review")
    expect(dialog.get_by_text("Replaces what is there")).to_be_visible()
    share = dialog.get_by_role("button", name="Share", exact=True)
    expect(share).to_be_disabled()
    dialog.get_by_role("checkbox", name="Continue anyway").check()
    expect(dialog.get_by_text("counsel skills share code-review --everywhere --yes")).to_be_visible()
    share.click()
    expect(page.get_by_text("code-review is shared with")).to_be_visible()
    expect(page.get_by_role("region", name="Copies that differ")).to_have_count(0)
    assert (console.home / ".agents" / "skills" / "code-review").is_symlink()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("region", name="Copies that differ")).to_be_visible()
    assert files(console.home, console.project) == before
