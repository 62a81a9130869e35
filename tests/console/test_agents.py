"""The agents screen: who can be asked, what to do, and what doctor finds."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from support import sample_home
from support.browser import Console


@pytest.fixture
def agents(console: Console) -> Console:
    """Programs of three agents on PATH, and none of this machine's own."""
    console.stop()
    sample_home.fill(console.home, console.project)
    console.env |= sample_home.programs(console.home, console.env)
    console.env["GEMINI_API_KEY"] = ""
    (console.counsel_home / "config.toml").write_text("prot = 1\n")
    (console.counsel_home.parent / "serve.log").write_text("")  # the new port is read from it
    console.start()
    return console


def test_each_agent_says_what_it_is_and_what_to_do(agents: Console) -> None:
    page = agents.open("#/agents")
    codex = page.get_by_role("article", name="Codex")
    expect(codex.get_by_text("Ready")).to_be_visible()
    expect(codex.get_by_text("~/.codex/config.toml")).to_be_visible()
    gemini = page.get_by_role("article", name="Gemini CLI")
    expect(gemini.get_by_text("Not logged in")).to_be_visible()
    expect(gemini.get_by_role("button", name="Copy the command: gemini")).to_be_visible()
    opencode = page.get_by_role("article", name="OpenCode")
    expect(opencode.get_by_text("Not installed")).to_be_visible()
    opencode.get_by_role("button", name="Copy the command: npm install -g opencode-ai").click()
    expect(page.get_by_text("Command copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "npm install -g opencode-ai"
    expect(codex.get_by_role("link", name="2 servers")).to_have_attribute("href", "#/servers?agent=codex")
    codex.get_by_role("link", name="skills").click()
    expect(page).to_have_title("Skills · counsel")
    expect(page.get_by_role("combobox", name="Agent")).to_have_value("codex")


def test_doctor_marks_what_works_what_is_not_set_up_and_what_is_wrong(agents: Console) -> None:
    page = agents.open("#/agents")
    settings = page.get_by_role("region", name="Settings")
    expect(settings.get_by_role("listitem").filter(has_text="prot")).to_contain_text("✗")
    expect(settings).to_contain_text("Correct it")
    providers = page.get_by_role("region", name="Providers")
    expect(providers.get_by_role("listitem").filter(has_text="Mistral")).to_contain_text("–")  # noqa: RUF001 - as it is shown
    expect(providers.get_by_role("listitem").filter(has_text="OpenAI")).to_contain_text("·")  # not tested
    expect(page.get_by_role("status").filter(has_text="1 problem")).to_contain_text("Keys were not tested.")

    (agents.counsel_home / "config.toml").write_text("")
    page.get_by_role("button", name="Check again").click()
    expect(settings.get_by_role("listitem").filter(has_text="prot")).to_have_count(0)

    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/api/doctor?online=*", hold)
    page.get_by_role("button", name="Check online").click()
    expect(page.get_by_role("progressbar", name="Checking online")).to_be_visible()
    expect(page.get_by_role("button", name="Check online")).to_be_disabled()
    waiting[0].continue_()
    expect(page.get_by_role("status").filter(has_text="Checked online.")).to_be_visible()
    expect(page.get_by_text("counsel doctor --online", exact=True).last).to_be_visible()
