"""Every screen with the keyboard alone: reach everything, see the focus, operate it, and get the focus back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support import sample_home
from support.browser import Console

SCREENS = ("ask", "consensus", "jobs", "servers", "skills", "usage", "agents", "settings")
MOST = 400  # presses of Tab

# What can be focused with Tab, in the order of the document; a group of radio buttons counts once.
REACHABLE = """() => [...document.querySelectorAll('main a[href], main button, main input, main select, main textarea, main [tabindex="0"], main summary')]
    .filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true }) && !(element.type === 'radio' && !element.checked))
    .map((element, index) => { element.dataset.reachable = index; return index; })"""
# The frame around a field may show its focus (`:focus-within`), and the label of a radio button that is not drawn
# itself.
STILL_THERE = """() => [...document.querySelectorAll('main [data-reachable]')]
    .filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true })).map((element) => Number(element.dataset.reachable))"""
FOCUSED = """() => { const element = document.activeElement;
    const framed = [element, element.nextElementSibling, element.parentElement, element.parentElement?.parentElement].some((each) => each && getComputedStyle(each).outlineStyle !== 'none');
    return { index: element.dataset.reachable ?? null, tag: element.outerHTML.slice(0, 120), inside: !!element.closest('main'),
             visible: element === document.body || element.matches(':focus-visible') && framed } }"""


def walk(page: Page) -> tuple[set[int], list[str]]:
    """Tab from "Skip to content" through the screen: what was reached, and what showed no focus."""
    stops: set[int] = set()
    invisible: list[str] = []
    for _ in range(MOST):
        page.keyboard.press("Tab")
        focus = page.evaluate(FOCUSED)
        if not focus["inside"]:
            break
        if focus["index"] is not None:
            stops.add(int(focus["index"]))
        if not focus["visible"]:
            invisible.append(focus["tag"])
    return stops, invisible


def test_every_control_of_every_screen_is_reached_and_shows_the_focus(console: Console) -> None:
    sample_home.fill(console.home, console.project)
    for screen in SCREENS:
        page = console.open(f"#/{screen}")
        expect(page.locator("#main h1").first).to_be_attached()
        expect(page.get_by_text(re.compile(r"^(Reading|Looking|Loading|Checking)\b.* …$"))).to_have_count(0)
        page.locator("#main").focus()
        controls = set(page.evaluate(REACHABLE))
        stops, invisible = walk(page)
        assert invisible == [], screen
        # Data that arrived meanwhile may have replaced some.
        remaining = controls & set(page.evaluate(STILL_THERE))
        assert remaining - stops == set(), screen


def test_skipping_to_the_content_passes_the_navigation(console: Console) -> None:
    page = console.open("#/skills")
    expect(page.get_by_role("heading", name="No skills yet")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("!!document.activeElement.closest('main')")


class Person:
    """A person without a mouse, who must see where the focus is."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.page = console.page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def leave_dialog(self) -> None:
        """Close the dialog, and wait: the focus returns before the page handles the dialog's end."""
        self.press("Escape")
        expect(self.page.locator("dialog[aria-labelledby]")).to_have_count(0)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def go(self, title: str) -> None:
        """Open a screen with the palette, which also works while text is written."""
        self.act(f"go to {title.lower()}")
        expect(self.page).to_have_title(f"{title} · counsel")

    def act(self, words: str) -> None:
        self.press("Control+k")
        expect(self.page.get_by_role("combobox", name="Find an action")).to_be_focused()
        self.type(words)
        expect(self.page.get_by_role("listbox", name="Actions").get_by_role("option").first).to_be_visible()
        self.press("Enter")

    def reach(self, role: Any, name: str | re.Pattern[str], within: Locator | None = None) -> Locator:
        """Press Tab until this element has the focus; every stop on the way must show its focus."""
        exact = isinstance(name, str)
        element = (within or self.page).get_by_role(role, name=name, exact=exact).last
        expect(element).to_be_attached()
        for _ in range(MOST):
            if element.evaluate("element => element === document.activeElement"):
                return element
            self.press("Tab")
            assert self.page.evaluate(FOCUSED)["visible"], self.page.evaluate(FOCUSED)["tag"]
        raise AssertionError(f"Tab does not reach {name}.")


@pytest.fixture
def person(console: Console) -> Person:
    sample_home.fill(console.home, console.project)
    console.open("#/ask")
    return Person(console)


def test_questions_are_asked_compared_followed_and_cancelled_without_a_mouse(person: Person) -> None:
    page = person.page
    expect(page.locator("#main h1, #main h2").first).to_be_attached()
    person.press("/")
    expect(page.get_by_label("Your question")).to_be_focused()
    person.type("Is this safe?")
    person.press("Enter")
    expect(page.get_by_text("says: Is this safe?")).to_be_visible()

    person.go("Consensus")
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    person.type("Monolith or services?")
    person.press("Control+Enter")
    expect(page.get_by_role("status").first).to_contain_text(re.compile(r"(\d) of \1 answered"))
    tab = person.reach("tab", "Refined")
    person.press("ArrowRight")
    expect(page.get_by_role("tab", name="Differences").last).to_be_focused()
    expect(tab).to_have_attribute("aria-selected", "false")

    person.console.vendors.script(hang_after=0, times=None)
    person.console.ask("Endless")
    person.go("Jobs")
    expect(page.get_by_role("link", name="Endless")).to_be_visible()
    person.press("j", "Enter")
    expect(page.get_by_role("heading", name="Endless")).to_be_visible()
    person.reach("button", re.compile("^Cancel"))
    person.press("Enter")
    expect(page.locator("#main").get_by_text("Cancelled").first).to_be_visible()


def test_servers_and_skills_are_changed_and_undone_without_a_mouse(person: Person) -> None:
    page, claude = person.page, person.console.home / ".claude.json"
    before = claude.read_bytes()
    person.go("Servers")
    add = person.reach("button", "Add server")
    person.press("Enter")
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_be_focused()
    person.leave_dialog()
    expect(add).to_be_focused()
    person.press("Enter")
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_be_focused()
    person.type("typed")
    person.reach("textbox", "Command")
    person.type("npx")
    person.reach("button", "None")
    person.press("Enter")
    person.reach("checkbox", "Claude Code, User")
    person.press("Space")
    person.reach("button", "Review the changes")
    person.press("Enter")
    write = page.get_by_role("dialog", name="Review: Add typed").get_by_role("button", name="Write 1 file")
    expect(write).to_be_enabled()
    person.reach("button", "Write 1 file")
    person.press("Enter")
    expect(page.get_by_role("link", name="typed")).to_be_visible()
    expect(add).to_be_focused()  # after two dialogs
    assert "typed" in json.loads(claude.read_text())["mcpServers"]
    person.reach("button", "Undo")
    person.press("Enter")
    expect(page.get_by_role("link", name="typed")).to_have_count(0)
    assert claude.read_bytes() == before
    person.reach("link", "scratch")
    person.press("Enter")
    expect(page.get_by_role("dialog", name="scratch")).to_be_visible()
    person.leave_dialog()
    expect(page.get_by_role("link", name="scratch")).to_be_focused()

    person.go("Skills")
    person.reach("link", "incident-report")
    person.press("Enter")
    share = person.reach("button", "Share …")
    person.press("Enter")
    dialog = page.get_by_role("dialog", name="Share incident-report")
    expect(dialog.get_by_role("list", name="What will change")).to_be_visible()
    person.leave_dialog()
    expect(share).to_be_focused()
    person.press("Enter")
    expect(dialog.get_by_role("button", name="Share", exact=True)).to_be_enabled()  # the plan is shown
    person.reach("button", "Share", dialog)
    person.press("Enter")
    expect(page.get_by_text("incident-report is shared with")).to_be_visible()
    expect(share).to_be_focused()
    link = person.console.home / ".agents" / "skills" / "incident-report"
    assert link.exists()
    person.reach("button", "Undo")
    person.press("Enter")
    expect(page.get_by_text("Undone: incident-report")).to_be_visible()
    assert not link.exists()


def test_usage_doctor_and_settings_are_used_without_a_mouse(person: Person) -> None:
    page = person.page
    person.console.ask("Counted")
    person.console.vendors.wait_for(contains="Counted", state="finished")
    person.go("Usage")
    expect(page.get_by_role("heading", name="Over time")).to_be_visible()
    person.reach("radio", "7 days")
    person.press("ArrowRight")
    expect(page.get_by_role("radio", name="30 days")).to_be_checked()
    expect(page.get_by_text("counsel usage --since 30d --by model")).to_be_visible()
    person.reach("button", "As a table")
    person.press("Space")
    expect(page.get_by_role("table", name=re.compile("Calls by model"))).to_be_visible()

    person.go("Agents")
    person.reach("button", "Check again")
    with page.expect_response("**/api/doctor*") as answer:
        person.press("Enter")
    assert answer.value.ok

    person.go("Settings")
    button = person.reach("button", "Set the key of Mistral")
    person.press("Space")
    field = page.get_by_role("dialog").get_by_label("Key", exact=True)
    expect(field).to_be_focused()
    person.leave_dialog()
    expect(button).to_be_focused()
    person.press("Enter")
    expect(field).to_be_focused()
    person.type("a-key-that-is-made-up-0123456789")
    person.reach("checkbox", re.compile("Ask Mistral whether"))
    person.press("Space")
    person.reach("button", "Store")
    person.press("Enter")
    expect(page.get_by_text("The key of Mistral is stored.")).to_be_visible()
    expect(page.get_by_role("button", name="Replace the key of Mistral")).to_be_focused()
