"""Every screen with the keyboard alone: reach everything, see the focus, operate it, and get the focus back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support import sample_home
from support.browser import Console

SCREENS = ("ask", "consensus", "jobs", "servers", "skills", "usage", "agents", "settings")
MOST = 400  # presses of Tab

# What can be focused with Tab, in the order of the document; a group of radio buttons counts once.
REACHABLE = """() => [...document.querySelectorAll('main a[href], main button, main input, main select, main textarea, main [tabindex="0"], main summary')]
    .filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true }) && !(element.type === 'radio' && !element.checked))
    .map((element, index) => { element.dataset.reachable = index; return index; })"""
# The frame around a field may show its focus (`:focus-within`).
STILL_THERE = """() => [...document.querySelectorAll('main [data-reachable]')]
    .filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true })).map((element) => Number(element.dataset.reachable))"""
FOCUSED = """() => { const element = document.activeElement;
    const framed = [element, element.parentElement, element.parentElement?.parentElement].some((each) => each && getComputedStyle(each).outlineStyle !== 'none');
    return { index: element.dataset.reachable ?? null, tag: element.outerHTML.slice(0, 120), inside: !!element.closest('main'),
             visible: element.matches(':focus-visible') && framed } }"""


def walk(page: Page) -> tuple[set[int], list[str]]:
    """Tab from "Skip to content" through the screen: what was reached, and what showed no focus."""
    reached: set[int] = set()
    invisible: list[str] = []
    for _ in range(MOST):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if not focused["inside"]:
            break
        if focused["index"] is not None:
            reached.add(int(focused["index"]))
        if not focused["visible"]:
            invisible.append(focused["tag"])
    return reached, invisible


@pytest.mark.parametrize("screen", SCREENS)
def test_every_control_of_a_screen_is_reached_and_shows_the_focus(console: Console, screen: str) -> None:
    sample_home.fill(console.home, console.project)
    page = console.open(f"#/{screen}")
    expect(page.locator("#main h1").first).to_be_attached()
    expect(page.get_by_text(re.compile(r"^(Reading|Looking|Loading|Checking)\b.* …$"))).to_have_count(0)
    page.locator("#main").focus()
    controls = set(page.evaluate(REACHABLE))
    reached, invisible = walk(page)
    assert invisible == []
    remaining = controls & set(page.evaluate(STILL_THERE))  # data that came meanwhile may have replaced some
    assert remaining - reached == set()


def test_skipping_to_the_content_passes_the_navigation(console: Console) -> None:
    page = console.open("#/skills")
    expect(page.get_by_role("heading", name="No skills yet")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("!!document.activeElement.closest('main')")


def test_a_skill_is_shared_and_a_key_is_typed_with_the_keyboard_and_the_focus_returns(
    console: Console,
) -> None:
    sample_home.fill(console.home, console.project)
    page = console.open("#/skills/incident-report")
    share = page.get_by_role("button", name="Share …", exact=True)
    share.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Share incident-report")
    expect(dialog.get_by_role("list", name="What will change")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(share).to_be_focused()
    page.keyboard.press("Enter")
    confirm = dialog.get_by_role("button", name="Share", exact=True)
    expect(confirm).to_be_enabled()  # the plan is shown
    confirm.press("Enter")
    expect(page.get_by_text("incident-report is shared with")).to_be_visible()
    expect(share).to_be_focused()

    console.press_keys("g ,", "Settings · counsel")
    button = page.get_by_role("button", name="Set the key of Mistral")
    button.focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("dialog").get_by_label("Key", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
