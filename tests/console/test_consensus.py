"""Consensus: several models side by side, live, refined, blind, stopped, and after a reload or a crash of the
server."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from support import council
from support.accessibility import violations
from support.browser import Console

GPT, CLAUDE, GEMINI = "gpt-6.1-sol", "claude-opus-5-5", "gemini-4-argon"
PANEL = (GPT, CLAUDE, GEMINI)
REFINED = "refined answer"  # words of the second round's prompt
NAMES = re.compile(r"gpt|claude|opus|gemini|argon|openai|anthropic|google", re.IGNORECASE)


def ask(page: Page, question: str, models: tuple[str, ...] = PANEL) -> None:
    page.get_by_role("textbox", name="Question").fill(question)
    search = page.get_by_role("combobox", name="Add a model")
    for model in models:
        search.fill(model)
        search.press("Enter")
        expect(page.get_by_role("button", name=f"Remove {model}")).to_be_visible()
    page.get_by_role("button", name="Ask the panel").click()
    page.wait_for_url("**/#/consensus/job_*")


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def script_rounds(console: Console) -> None:
    """`claude` changes its mind, `gpt` keeps its answer."""
    vendors = console.vendors
    vendors.script(model="claude", contains=REFINED, text="A modular monolith is enough here.", times=None)
    vendors.script(model="gpt", contains=REFINED, text="Take one monolith, then measure it.", times=None)
    vendors.script(model="claude", text="Services suit separate teams.", thinking="Five people.", times=None)
    vendors.script(model="gpt", text="Take one monolith, then measure.", times=None)


def test_three_models_answer_live_and_refine_and_the_failure_comes_first(console: Console) -> None:
    vendors = console.vendors
    vendors.script(model="gemini", status=401, times=None)
    vendors.script(model="claude", contains=REFINED, gate="second", text="A modular monolith is enough here.")
    vendors.script(model="gpt", contains=REFINED, text="Take one monolith, then measure it.")
    vendors.script(model="gpt", text="Take one monolith, then measure.", gate="first", gate_after=1)
    vendors.script(model="claude", text="Services suit separate teams.", thinking="Five people.")
    page = console.open("#/consensus")
    ask(page, "Monolith or services?")
    expect(page.get_by_role("heading", level=1)).to_have_text("Monolith or services?")
    expect(column(page, GPT)).to_contain_text("Take one")
    expect(column(page, GPT)).to_contain_text("writing")
    expect(column(page, CLAUDE)).to_contain_text("first answer done")
    expect(column(page, GEMINI)).to_contain_text("AUTHENTICATION_FAILED")
    expect(page.get_by_role("heading", level=2).first).to_have_text(GEMINI)  # the failure comes first
    expect(page.get_by_role("status").first).to_contain_text("1 of 3 answered")
    assert violations(page) == []
    vendors.open_gate("first")
    expect(page.get_by_role("status").first).to_contain_text("second round")
    expect(column(page, CLAUDE)).to_contain_text("thinking")
    vendors.open_gate("second")

    expect(page.get_by_role("status").first).to_contain_text("2 of 3 answered")
    expect(column(page, CLAUDE)).to_contain_text("A modular monolith is enough here.")
    expect(column(page, CLAUDE)).to_contain_text("tokens")
    expect(column(page, CLAUDE)).to_contain_text("$")
    mark = column(page, CLAUDE).get_by_text("changed its mind")
    expect(mark).to_have_attribute("title", re.compile(r"% of the words .* not meaning"))
    expect(column(page, GPT)).to_contain_text("kept its answer")
    column(page, CLAUDE).get_by_role("tab", name="First").click()
    expect(column(page, CLAUDE)).to_contain_text("Services suit separate teams.")
    column(page, GPT).get_by_role("tab", name="Differences").click()
    expect(column(page, GPT).locator("ins")).to_have_text([" it"])
    page.get_by_role("button", name="Copy all answers as Markdown").click()
    markdown = page.evaluate("navigator.clipboard.readText()")
    assert markdown.startswith("# Monolith or services?\n\n## gemini-4-argon\n\n> Failed: ")
    assert "Services suit separate teams." in markdown
    expect(page.locator("footer code")).to_have_text(
        f"counsel consensus -m {','.join(PANEL)} 'Monolith or services?'"
    )


def test_names_are_checked_before_anything_is_asked_and_the_error_is_at_its_model(console: Console) -> None:
    page = console.open("#/consensus")
    page.evaluate(
        """models => fetch('/api/settings', {method: 'PUT', headers: {'x-counsel': '1', 'content-type': 'application/json'},
            body: JSON.stringify({name: 'consensus_models', value: models})})""",
        ["gpt-5.5", CLAUDE],
    )
    page.reload()
    page.get_by_role("button", name=f"Remove {CLAUDE}").click()  # the panel of the settings is there
    page.get_by_role("button", name="Remove gpt-5.5").click()
    page.get_by_role("textbox", name="Question").fill("Which?")
    (console.project / "plan.md").write_text("the plan: alpha")
    page.locator("input[type=file]").set_input_files(console.project / "plan.md")
    search = page.get_by_role("combobox", name="Add a model")
    for model in ("gpt-5.5", "no-such-model"):  # an exact name comes before gpt-5.5-pro
        search.fill(model)
        search.press("Enter")
    page.get_by_role("button", name="Ask the panel").click()
    chip = page.get_by_role("list", name="Panel").get_by_role("listitem").filter(has_text="no-such-model")
    expect(chip).to_contain_text("MODEL_NOT_FOUND")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
    assert violations(page) == []
    assert console.vendors.calls == []
    console.errors.clear()  # the browser reports the 404
    page.get_by_role("button", name="Remove no-such-model").click()
    search.fill("gpt-5.5")
    search.press("Enter")  # the same model twice
    page.get_by_role("button", name="Ask the panel").click()
    expect(column(page, "gpt-5.5#2")).to_contain_text("done")
    expect(page.get_by_role("status").first).to_contain_text("2 of 2 answered")
    assert "the plan: alpha" in str(console.vendors.calls[0]["body"])
    page.get_by_role("link", name="Ask again").click()
    expect(page.get_by_role("textbox", name="Question")).to_have_value("Which?")
    expect(page.get_by_role("button", name="Remove gpt-5.5#2")).to_be_visible()
    expect(page.get_by_role("region", name="Recent")).to_contain_text("Which?")


def test_blind_reading_hides_every_name_until_it_is_revealed(console: Console) -> None:
    vendors = console.vendors  # the default answer says the model's name; the second round names the others
    vendors.script(model="gemini", status=401, times=None)
    page = console.open("#/consensus")
    page.get_by_role("switch", name="Blind").click()
    ask(page, "Which is best?")
    expect(page.get_by_role("status").first).to_contain_text("2 of 3 answered")
    for name in ("Model A", "Model B", "Model C"):
        expect(column(page, name)).to_be_visible()
    order = page.get_by_role("heading", level=2).all_inner_texts()
    for _ in ("live", "reloaded"):
        expect(page.get_by_role("main")).to_contain_text("says: You and 1 other")
        assert not NAMES.search(page.get_by_role("main").inner_text())
        assert not NAMES.search(page.get_by_role("main").inner_html())
        assert page.get_by_role("heading", level=2).all_inner_texts() == order
        page.reload()
        expect(page.get_by_role("status").first).to_contain_text("2 of 3 answered")
    assert violations(page) == []
    page.get_by_role("button", name="Reveal").click()
    expect(column(page, GPT)).to_contain_text(f"{GPT} says: You and 1 other")
    expect(column(page, GEMINI)).to_contain_text("Google refused the key")
    page.reload()
    expect(column(page, CLAUDE)).to_be_visible()


def test_one_model_is_stopped_and_the_others_go_on(console: Console) -> None:
    script_rounds(console)
    console.vendors.script(model="gemini", text="one two three", hang_after=1, times=None)
    page = console.open("#/consensus")
    ask(page, "Which?")
    console.vendors.wait_for(model="gemini", deltas=1)
    page.get_by_role("button", name=f"Stop {GEMINI}").click()
    expect(column(page, GEMINI)).to_contain_text("stopped")
    expect(page.get_by_role("status").first).to_contain_text("2 of 3 answered")
    expect(column(page, CLAUDE)).to_contain_text("changed its mind")
    expect(column(page, GEMINI)).to_contain_text("CANCELLED")


def test_all_models_are_stopped_from_the_palette(console: Console) -> None:
    console.vendors.script(text="one two three", hang_after=1, times=None)
    page = console.open("#/consensus")
    ask(page, "Which?", (GPT, CLAUDE))
    console.vendors.wait_for(deltas=1, count=2)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find an action").fill("stop all")
    expect(page.get_by_role("listbox", name="Actions").get_by_role("option")).to_contain_text(
        "counsel cancel job_"
    )
    page.keyboard.press("Enter")
    expect(page.get_by_text("It was stopped before a model answered.")).to_be_visible()
    expect(page.get_by_role("link", name="Ask again")).to_be_visible()
    assert violations(page) == []


def test_a_reload_and_a_killed_server_lose_no_word(console: Console) -> None:
    vendors = console.vendors
    vendors.script(
        model="claude", contains=REFINED, text="Refined by the second one.", gate="g", gate_after=1
    )
    vendors.script(
        model="claude", contains=REFINED, text="Refined by the second one.", gate="h", gate_after=1
    )
    vendors.script(model="claude", text="The first words of the second one.", times=None)
    vendors.script(model="gpt", text="The first words of the first one.", times=None)
    page = console.open("#/consensus")
    ask(page, "Which?", (GPT, CLAUDE))
    vendors.wait_for(model="claude", contains=REFINED, deltas=1)
    expect(column(page, CLAUDE)).to_contain_text("writing")
    page.reload()
    expect(column(page, CLAUDE)).to_contain_text("Refined")
    column(page, CLAUDE).get_by_role("tab", name="First").click()
    expect(column(page, CLAUDE)).to_contain_text("The first words of the second one.")
    console.kill_and_restart()
    vendors.wait_for(model="claude", contains=REFINED, deltas=1, count=2)
    expect(column(page, CLAUDE)).to_contain_text("The first words of the second one.")
    vendors.open_gate("h")
    expect(page.get_by_role("status").first).to_contain_text("2 of 2 answered")
    column(page, CLAUDE).get_by_role("tab", name="Refined").click()
    expect(column(page, CLAUDE).get_by_role("tabpanel")).to_contain_text("Refined by the second one.")
    column(page, GPT).get_by_role("tab", name="First").click()
    expect(column(page, GPT).get_by_role("tabpanel")).to_contain_text("The first words of the first one.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_at_phone_width_one_model_is_shown_and_the_keyboard_does_everything(
    console: Console, theme: str
) -> None:
    script_rounds(console)
    page = console.new_page(width=390, height=844, theme=theme)
    page.goto(f"{console.url}/#/consensus")
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    page.keyboard.type("Monolith or services?")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("combobox", name="Add a model")).to_be_focused()
    for name in ("gpt-6.1-s", "opus-5-5"):
        page.keyboard.type(name)
        options = page.get_by_role("listbox", name="Models").get_by_role("option", selected=True)
        expect(options).to_contain_text(name)
        page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").first).to_contain_text("2 of 2 answered")
    expect(column(page, GPT)).to_be_visible()
    expect(column(page, CLAUDE)).to_be_hidden()
    page.get_by_role("navigation", name="Models").get_by_role("button", name=CLAUDE).press("Enter")
    expect(column(page, GPT)).to_be_hidden()
    column(page, CLAUDE).get_by_role("tab", name="Refined").press("ArrowRight")
    expect(column(page, CLAUDE).get_by_role("tab", name="Differences")).to_be_focused()
    expect(column(page, CLAUDE).locator("del").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    wide = console.new_page(theme=theme)
    wide.goto(page.url)
    expect(column(wide, GPT)).to_contain_text("kept its answer")
    assert violations(wide) == []


def test_a_verdict_and_a_vote_come_before_the_answers(console: Console) -> None:
    vendors = console.vendors
    choices = {"gpt": "Monolith", "claude": "Monolith", "gemini": "Services"}
    positions = [
        {"answers": ["A", "B"], "position": "one deployment"},
        {"answers": ["C"], "position": "teams ship alone"},
    ]
    judgement = council.verdict(
        consensus=["Small teams pay for every network call."],
        contradictions=[{"topic": "Deployment", "positions": positions}],
        blind_spots=["Who is on call?"],
        choice="Monolith",
        recommendation="Start with **one** monolith.",
    )
    vendors.script(contains=council.JUDGING, text=judgement, gate="judge", gate_after=1, times=None)
    for model, choice in choices.items():
        vendors.script(model=model, text=council.picks(choice, f"{choice} suits a team of four."), times=None)
    page = console.open("#/consensus")
    page.locator("details.more summary").click()
    page.get_by_label("Refine", exact=True).select_option("disagreement")
    expect(page.get_by_role("alert")).to_contain_text("choose a judge, or write choices")
    page.get_by_label("Choices for a vote").fill("Monolith\nServices")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_label("Judge", exact=True).select_option("gpt-5")
    page.get_by_role("textbox", name="Question").fill("Monolith or services?")
    search = page.get_by_role("combobox", name="Add a model")
    for model in PANEL:
        search.fill(model)
        search.press("Enter")
    page.get_by_label(f"Role of {GPT}").fill("security reviewer")
    page.get_by_label(f"Stance of {CLAUDE}").select_option("against")
    assert violations(page) == []
    command = (
        f"counsel consensus -m {','.join(PANEL)} --role '{GPT}=security reviewer' --stance {CLAUDE}=against "
        "--judge gpt-5 --choice Monolith --choice Services --refine disagreement 'Monolith or services?'"
    )
    expect(page.locator("form code")).to_have_text(command)
    page.get_by_role("button", name="Ask the panel").click()
    expect(page.get_by_text("The judge (gpt-5) compares the answers")).to_be_visible()
    page.reload()  # while the judge writes
    expect(page.get_by_text("The judge (gpt-5) compares the answers")).to_be_visible()
    vendors.open_gate("judge")

    vote = page.get_by_role("region", name="Vote")
    expect(vote.get_by_role("heading").first).to_contain_text("Monolith")
    expect(vote.get_by_role("heading").first).to_contain_text("67% of the votes")
    expect(vote.get_by_role("row", name="Services")).to_contain_text(GEMINI)
    expect(vote.get_by_role("listitem")).to_have_text(
        f"Services ({GEMINI}): Services suits a team of four."
    )  # dissent
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict.locator(".recommendation strong")).to_have_text("one")
    expect(verdict).to_contain_text("picks Monolith")
    expect(verdict).to_contain_text("Small teams pay")
    expect(verdict).to_contain_text("teams ship alone")
    expect(column(page, CLAUDE)).to_contain_text("kept its position")
    expect(column(page, CLAUDE)).to_contain_text("Monolith suits a team of four.")
    assert violations(page) == []
    job = page.url.rpartition("/")[2]
    page.get_by_role("button", name="Blind").click()
    expect(verdict).to_contain_text("Model ")
    assert not NAMES.search(page.get_by_role("main").inner_text())
    page.get_by_role("button", name="Reveal").click()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    page.get_by_role("link", name="Ask again").click()
    expect(page.locator("form code")).to_have_text(command)
    page.goto(page.url.partition("#")[0] + f"#/jobs/{job}")
    expect(
        page.get_by_role("table", name="Timeline").get_by_role("row").filter(has_text="Verdict")
    ).to_have_count(1)
    answers = page.get_by_role("region", name="Answers")
    expect(answers.get_by_role("group").last).to_contain_text("Verdict by gpt-5")
    expect(answers.locator("strong", has_text="one")).to_be_visible()
    expect(answers).not_to_contain_text("Who is on call?")  # the judge's JSON
    roles = [str(call["body"]) for call in vendors.calls if "security reviewer" in str(call["body"])]
    assert roles


def test_a_failed_refinement_keeps_the_first_answer(console: Console) -> None:
    console.vendors.script(model="claude", contains=REFINED, status=401, times=None)
    script_rounds(console)
    job = console.ask("Monolith or services?", models=[GPT, CLAUDE])
    page = console.open(f"#/consensus/{job}")
    status = page.get_by_role("status").first
    expect(status).to_contain_text("2 of 2 answered")
    expect(status).to_contain_text("1 answer not refined")
    expect(status).not_to_contain_text("without an answer")
    expect(column(page, CLAUDE)).to_contain_text("not refined")
    expect(column(page, CLAUDE)).to_contain_text("Its first answer stands")
    expect(column(page, CLAUDE)).to_contain_text("Services suit separate teams.")
    page = console.open(f"#/jobs/{job}")
    expect(page.get_by_role("region", name="Answers")).to_contain_text("Services suit separate teams.")
    expect(page.get_by_role("alert")).to_contain_text("AUTHENTICATION_FAILED")


def test_a_named_panel_is_offered_and_asked(console: Console) -> None:
    (console.counsel_home / "config.toml").write_text(f'[panels]\npair = ["{GPT}", "{CLAUDE}"]\n')
    page = console.open("#/consensus")
    page.get_by_role("textbox", name="Question").fill("Which?")
    search = page.get_by_role("combobox", name="Add a model")
    search.fill("@pair")
    search.press("Enter")
    page.get_by_role("button", name="Ask the panel").click()
    expect(page.get_by_role("status").first).to_contain_text("2 of 2 answered")
    expect(column(page, CLAUDE)).to_be_visible()
