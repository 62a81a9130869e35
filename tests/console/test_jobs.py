"""The Jobs screen: a live list, and where the time of each job went."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from support import planted
from support.accessibility import violations
from support.browser import Console
from support.seeded import Seed

WORDS = " ".join(f"word{number}" for number in range(60))
PANEL = ["gpt-5", "claude-opus-4-5"]


def row(page: Page, title: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=title)


def open_job(console: Console, job: str) -> Page:
    page = console.open(f"#/jobs/{job}")
    expect(page.get_by_role("button", name="Copy the job's id")).to_be_visible()
    return page


def wait_for_end(console: Console, job: str) -> None:
    """Wait until the job has ended, by following its events."""
    console.api("GET", f"/api/events?job={job}", parse=False)


def test_a_job_appears_in_an_open_list_and_ends_there(console: Console) -> None:
    page = console.open("#/jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    console.vendors.script(gate="g", contains="opinions", times=None)
    console.vendors.script(gate="g", contains="move", times=None)
    console.ask("Will this list move?")
    expect(row(page, "Will this list move?")).to_contain_text("Running")
    expect(page.get_by_role("status")).to_have_text("1 running")
    panel = console.ask("Two opinions", models=PANEL)
    expect(row(page, "Two opinions")).to_contain_text("0/2")
    expect(page.get_by_role("listitem").first).to_contain_text("Two opinions")  # newest first
    console.vendors.open_gate("g")
    expect(row(page, "Will this list move?")).to_contain_text("Done")
    expect(row(page, "Will this list move?")).to_contain_text(re.compile(r"\$0"))
    expect(row(page, "Two opinions")).to_contain_text("Done")
    console.vendors.script(hang_after=0, times=None)
    console.ask("Never ends")
    row(page, "Never ends").get_by_role("button", name="Cancel Never ends").click()
    expect(row(page, "Never ends")).to_contain_text("Cancelled")
    console.api("DELETE", f"/api/jobs/{panel}")  # by another client
    expect(row(page, "Two opinions")).to_have_count(0)


def test_filters_are_in_the_link(console: Console) -> None:
    console.vendors.script(status=401, contains="goose", times=None)
    for prompt, more in (
        ("Which duck?", {}),
        ("Which goose?", {}),
        ("Both birds", {"models": PANEL, "enable_cross_feedback": False}),
    ):
        wait_for_end(console, console.ask(prompt, **more))
    page = console.open("#/jobs")
    expect(page.get_by_role("listitem")).to_have_count(3)
    page.get_by_role("radio", name="Failed").check(force=True)
    expect(page.get_by_role("listitem")).to_have_count(1)
    expect(row(page, "Which goose?")).to_be_visible()
    assert page.url.endswith("#/jobs?status=failed")
    page.reload()
    expect(page.get_by_role("radio", name="Failed")).to_be_checked()
    expect(page.get_by_role("listitem")).to_have_count(1)
    page.get_by_role("link", name="Which goose?").click()  # and back: the filters are still there
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_role("radio", name="Failed")).to_be_checked()
    page.get_by_role("radio", name="All", exact=True).check(force=True)
    page.get_by_label("Tool", exact=True).select_option("consensus")
    expect(page.get_by_role("listitem")).to_have_count(1)
    expect(row(page, "Both birds")).to_be_visible()
    page.get_by_label("Tool", exact=True).select_option("")
    page.get_by_label("Model", exact=True).select_option("claude-opus-4-5")
    expect(page.get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Model", exact=True).select_option("")
    page.get_by_role("searchbox").press_sequentially("which duck")
    expect(page.get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_be_focused()  # the list changes, not what is being written
    console.ask("Which duck again")  # a new job is filtered, too
    expect(page.get_by_role("listitem")).to_have_count(2)
    console.ask("Something else")
    page.get_by_role("searchbox").fill("zebra")
    expect(page.get_by_role("heading", name="No job matches these filters")).to_be_visible()
    page.get_by_role("link", name="Show all jobs").click()
    expect(page.get_by_role("listitem")).to_have_count(5)


def test_a_thousand_jobs_scroll_with_few_nodes(console: Console) -> None:
    console.seed(
        *(
            Seed(
                f"{number:08x}",
                f"{number:08x}",
                console.project,
                title=f"Job number {number}",
                age=number * 60,
            )
            for number in range(1, 1001)
        )
    )
    page = console.open("#/jobs")
    expect(row(page, "Job number 1").first).to_be_visible()
    main = page.locator("#main")
    most = 0
    for pages in range(1, 11):
        expect(page.locator("main ol")).to_have_css("height", f"{pages * 100 * 58}px")
        main.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        most = max(most, page.get_by_role("listitem").count())
    expect(page.get_by_text("That is all: 1,000 jobs.")).to_be_visible()
    main.evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(page.get_by_role("link", name="Job number 1000")).to_be_visible()
    assert most < 80
    assert page.evaluate("document.querySelectorAll('*').length") < 2500
    main.evaluate("element => element.scrollTo(0, 500 * 58)")
    middle = page.get_by_role("link", name="Job number 500")
    expect(middle).to_be_visible()
    position = middle.bounding_box()
    console.vendors.script(gate="new", contains="new", times=None)
    first = console.ask("A new one")  # above: what is read does not move
    expect(page.get_by_role("status")).to_have_text("1 running")
    console.vendors.open_gate("new")
    wait_for_end(console, first)
    wait_for_end(console, console.ask("And another"))
    main.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.locator("[aria-setsize='1002']").first).to_be_attached()
    assert middle.bounding_box() == position
    middle.click()
    expect(page.get_by_role("heading", name="Job number 500")).to_be_visible()
    page.go_back()
    expect(middle).to_be_in_viewport()
    expect(middle).to_be_focused()


def test_a_timeline_shows_retries_and_rounds(console: Console) -> None:
    console.vendors.script(status=503, contains="flaky")
    console.vendors.script(text="**Third** time lucky.", contains="flaky", gate="flaky", times=None)
    flaky = console.ask("A flaky one")
    page = open_job(console, flaky)
    table = page.get_by_role("table", name="Timeline")
    expect(table.get_by_role("row").filter(has_text="Retry").first).to_be_visible()
    console.vendors.open_gate("flaky")
    expect(table.get_by_role("row").filter(has_text=re.compile("^ *Answer"))).to_have_count(1)
    expect(page.locator("strong", has_text="Third")).to_be_visible()
    expect(page.get_by_text(f"counsel jobs {flaky[4:12]}", exact=True)).to_be_visible()
    page.get_by_role("button", name="Copy the job's id").click()
    assert page.evaluate("navigator.clipboard.readText()") == flaky
    expect(page.get_by_role("link", name="Open the conversation")).to_have_attribute(
        "href", re.compile("#/ask/")
    )

    console.vendors.script(status=401, contains="panel", model="claude", times=None)
    console.vendors.script(gate="panel", contains="panel", times=None)
    panel = console.ask("Ask the panel", models=["gpt-5", "o3", "claude-opus-4-5"])
    page.goto(f"{console.url}/#/jobs/{panel}")
    expect(page.get_by_role("alert")).to_have_count(1)  # while the others still answer
    console.vendors.open_gate("panel")
    for words in ("Round 1", "Round 2", "First answer: failed"):
        expect(table.get_by_role("row").filter(has_text=words)).to_have_count(1)
    expect(table.get_by_role("row").filter(has_text="Refined answer")).to_have_count(2)
    expect(page.get_by_role("link", name="Compare the answers")).to_have_attribute(
        "href", f"#/consensus/{panel}"
    )
    expect(page.get_by_role("alert")).to_have_count(1)  # the model that failed says why
    expect(page.get_by_role("heading", name="Ask the panel")).to_be_visible()


def test_a_review_is_shown_as_its_findings(console: Console) -> None:
    planted.script(console.vendors)
    diff = planted.git(planted.repository(console.project / "repository"), "diff", "HEAD")
    body = {"diff": diff, "models": [*planted.MODELS], "mode": "background"}
    job = console.api("POST", "/api/jobs", body)["job_id"]
    wait_for_end(console, job)
    page = open_job(console, job)
    review = page.get_by_role("region", name="Review")
    expect(review).to_contain_text("store.py:13")
    expect(review).to_contain_text("last_page is empty")
    expect(review).not_to_contain_text(re.compile(r"^F[0-9a-f]{8}$", re.MULTILINE))  # of the models' JSON
    timeline = page.get_by_role("table", name="Timeline")
    expect(timeline.get_by_role("row").filter(has_text="Check")).to_have_count(1 + len(planted.MODELS))
    page.set_viewport_size({"width": 800, "height": 860})  # half a screen
    page.goto(f"{console.url}/#/jobs")
    title = row(page, "Review this change").get_by_role("link").bounding_box()
    assert title is not None
    assert title["width"] > 100


def test_a_running_job_is_cancelled_and_then_deleted(console: Console) -> None:
    console.vendors.script(status=401, contains="Refuse me", times=None)
    console.vendors.script(text=WORDS, deltas=60, hang_after=5, times=None)
    job = console.ask("Stop me")
    page = open_job(console, job)
    expect(page.get_by_text("word0 word1")).to_be_visible()
    expect(page.get_by_text(f"counsel cancel {job[4:12]}")).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_text("Cancelled", exact=True)).to_be_visible()
    expect(page.get_by_text("word0 word1")).to_be_visible()  # what it had said
    expect(page.get_by_role("heading", name="Partial answer")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete this job?")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    page.goto(f"{console.url}/#/jobs/{job}")
    expect(page.get_by_role("heading", name="There is no such job")).to_be_visible()
    page = open_job(console, console.ask("Refuse me"))
    expect(page.get_by_role("alert")).to_contain_text("AUTHENTICATION_FAILED")  # once: there is no answer
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("heading", name="answer")).to_have_count(0)
    assert all("404" in error for error in console.errors)
    console.errors.clear()


def test_a_shown_job_survives_a_reload_and_a_killed_server(console: Console) -> None:
    console.vendors.script(text=WORDS, deltas=60, gate="g", gate_after=20, times=None)
    job = console.ask("Go on")
    page = open_job(console, job)
    answer = page.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("word15")
    page.reload()
    expect(answer).to_contain_text("word15")
    expect(page.get_by_text("Running", exact=True)).to_be_visible()
    console.kill_and_restart()
    console.vendors.open_gate("g")
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    expect(answer.locator("p", has_text="word0")).to_have_text(WORDS)
    timeline = page.get_by_role("table", name="Timeline")
    expect(timeline.get_by_role("row").filter(has_text="Restart")).to_have_count(1)
    console.open("#/jobs")
    expect(row(page, "Go on")).to_contain_text("Done")
    console.ask("After the restart")
    expect(row(page, "After the restart")).to_contain_text("Done")  # the list is live again


def test_a_page_whose_session_has_ended_asks_to_sign_in(console: Console) -> None:
    page = console.open("#/jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    second_tab = page.context.new_page()  # another tab signs out
    console.watched(second_tab).goto(f"{console.url}/#/usage")
    expect(second_tab.get_by_role("heading", name="No calls")).to_be_visible()
    second_tab.keyboard.press("Control+k")
    second_tab.get_by_label("Find an action").fill("sign out")
    second_tab.keyboard.press("Enter")
    expect(second_tab.get_by_label("Or paste the link or the token")).to_be_visible()
    expect(page.get_by_label("Or paste the link or the token")).to_be_visible()
    assert all("401" in error for error in console.errors)
    console.errors.clear()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wrong_for_assistive_programs(console: Console, theme: str) -> None:
    console.vendors.script(status=401, contains="panel", model="claude", times=None)
    panel = console.ask("Ask the panel", models=PANEL)
    wait_for_end(console, panel)
    console.vendors.script(status=401, contains="refused", times=None)
    wait_for_end(console, console.ask("This is refused"))
    console.vendors.script(text=WORDS, deltas=60, hang_after=5, times=None)
    running = console.ask("Still running " + "with a long title that does not fit " * 4, models=PANEL)
    for width in (1280, 390):
        page = console.new_page(width=width, theme=theme)
        for path, heading in (
            ("#/jobs", "Jobs"),
            (f"#/jobs/{panel}", "Timeline"),
            (f"#/jobs/{running}", "Timeline"),
        ):
            page.goto(f"{console.url}/{path}")
            expect(page.get_by_role("heading", name=heading).first).to_be_visible()
            assert violations(page) == [], (path, width)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)


def test_the_keyboard_is_enough(console: Console) -> None:
    for number in range(3):
        wait_for_end(console, console.ask(f"Question {number}"))
    console.vendors.script(hang_after=0, times=None)
    console.ask("Endless")
    page = console.open("#/jobs")
    expect(page.get_by_role("listitem")).to_have_count(4)
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Endless")).to_be_focused()
    page.keyboard.press("Control+k")
    page.get_by_label("Find an action").fill("cancel endless")
    expect(page.get_by_role("listbox", name="Actions")).to_contain_text("counsel cancel")
    page.keyboard.press("Enter")
    expect(row(page, "Endless")).to_contain_text("Cancelled")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="Question 1")).to_be_focused()
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="Question 2")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="Question 0")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Question 0")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_label("Find an action").fill("delete this job")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Delete this job?")
    dialog.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("endless")
    expect(page.get_by_role("listitem")).to_have_count(1)
