"""The frame of the console: navigation, all actions, themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support.browser import Console

SCREENS = ("Ask", "Consensus", "Jobs", "Servers", "Skills", "Usage", "Agents", "Settings")


def test_every_screen_is_one_click_away(console: Console) -> None:
    navigation = console.page.get_by_role("navigation", name="Screens")
    for name in SCREENS:
        navigation.get_by_role("link", name=name).click()
        expect(console.page).to_have_title(f"{name} · counsel")
        expect(navigation.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")


def test_ctrl_k_finds_an_action_by_its_words_and_shows_its_command(console: Console) -> None:
    page = console.page
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="All actions")
    palette.get_by_role("combobox").fill("go usage")
    expect(palette.get_by_role("option")).to_have_count(1)
    expect(palette.get_by_role("option")).to_contain_text("counsel usage")
    page.keyboard.press("Enter")
    expect(page).to_have_title("Usage · counsel")
    expect(palette).to_be_hidden()


def test_two_letters_open_a_screen_but_not_while_text_is_written(console: Console) -> None:
    page = console.page
    console.press_keys("g j", "Jobs · counsel")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find an action").press_sequentially("gu")
    expect(page).to_have_title("Jobs · counsel")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_theme_is_kept_over_a_reload(console: Console, theme: str) -> None:
    page = console.page
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find an action").fill(f"{theme} theme")
    page.keyboard.press("Enter")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)


def test_at_phone_width_the_navigation_is_behind_a_button(console: Console) -> None:
    page = console.new_page(width=390, height=844)
    expect(page.get_by_role("link", name="Jobs")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Jobs").click()
    expect(page).to_have_title("Jobs · counsel")
    expect(page.get_by_role("link", name="Jobs")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
