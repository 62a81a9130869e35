"""Every screen, empty and filled, its dialogs, menus and messages, in both themes, at desktop and phone width: no
finding of axe, nothing to scroll sideways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from support import sample_home, sample_jobs
from support.accessibility import violations
from support.browser import Console

SCREENS = ("ask", "consensus", "jobs", "servers", "skills", "usage", "agents", "settings")
WIDTHS = (1280, 390)


def problems(console: Console, addresses: list[str], theme: str) -> list[str]:
    """Violations and sideways scrolling, by address and width."""
    page = console.new_page(theme=theme)
    wrong: list[str] = []
    for address in addresses:
        page.goto(f"{console.url}/{address}")
        wait_until_loaded(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 860})
            wrong += [f"{address} at {width}: {line}" for line in violations(page)]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append(f"{address} at {width}: it scrolls sideways")
    return wrong


def wait_until_loaded(page: Page) -> None:
    """Wait until the screen has its heading, and no text says that it is still loading."""
    expect(page.locator("#main h1").first).to_be_attached()
    expect(page.get_by_text(re.compile(r"^(Reading|Looking|Loading|Checking)\b.* …$"))).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_empty_screen_has_a_finding_of_axe_or_scrolls_sideways(console: Console, theme: str) -> None:
    assert problems(console, [f"#/{screen}" for screen in SCREENS], theme) == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_filled_screen_has_a_finding_of_axe_or_scrolls_sideways(console: Console, theme: str) -> None:
    sample_home.fill(console.home, console.project)
    ids = sample_jobs.ask(console)
    addresses = [
        *(f"#/{screen}" for screen in SCREENS),
        f"#/ask/{ids['conversation']}",
        f"#/consensus/{ids['consensus']}",
        f"#/jobs/{ids['job']}",
        f"#/jobs/{ids['failed']}",
        "#/skills?view=matrix",
        "#/skills/release",
        "#/skills/code-review",
    ]
    assert problems(console, addresses, theme) == []


Step = tuple[str, Callable[[Page], object]]


def button(name: str, *, exact: bool = True) -> Callable[[Page], object]:
    return lambda page: page.get_by_role("button", name=name, exact=exact).last.click()


def dialogs(ids: dict[str, str]) -> Iterator[tuple[str, list[Step], str]]:
    """An address, the steps there, and the text that is visible afterwards."""
    bad_setting = lambda page: (  # noqa: E731 - a table of steps
        page.get_by_role("form", name="max_files").get_by_role("textbox").fill("0"),
        page.keyboard.press("Enter"),
    )
    palette = lambda page: page.keyboard.press("Control+k")  # noqa: E731 - a table of steps
    nothing = lambda page: page.get_by_label("Find an action").fill("no action has this")  # noqa: E731 - a table of steps
    add = ("add", button("Add server"))
    fill_server = lambda page: (  # noqa: E731 - a table of steps
        page.get_by_label("Name", exact=True).fill("x"),
        page.get_by_role("textbox", name="Command").fill("npx"),
    )
    review = ("review", button("Review the changes"))
    wrong_paste = lambda page: (  # noqa: E731 - a table of steps
        page.get_by_text("Paste JSON or TOML").click(),
        page.get_by_role("textbox", name="JSON or TOML").fill("{"),
    )
    wrong_key = lambda page: (  # noqa: E731 - a table of steps
        page.get_by_label("Key", exact=True).fill("not a key"),
        page.keyboard.press("Enter"),
    )
    yield "#/usage", [("palette", palette)], "Go to Jobs"
    yield "#/usage", [("palette", palette), ("nothing", nothing)], "No action matches"
    yield "#/ask", [("models", lambda page: page.get_by_role("button", name="Model: ").click())], "gpt-5"
    yield (
        f"#/ask/{ids['conversation']}",
        [("delete", button("Delete", exact=False))],
        "Delete this conversation?",
    )
    yield f"#/jobs/{ids['job']}", [("delete", button("Delete"))], "Delete this job?"
    yield "#/servers/github?at=codex:user", [], "Differs between agents"
    yield "#/servers/github?at=codex:user", [("edit", button("Edit"))], "Edit github"
    yield "#/servers/github?at=codex:user", [("rename", button("Rename"))], "New name"
    yield "#/servers/github?at=codex:user", [("copy", button("Copy to …"))], "References to variables"
    yield "#/servers/scratch?at=claude:local", [("check", button("Check"))], "Failed"
    yield "#/servers", [add, ("empty", button("Review the changes"))], "The server needs a name."
    yield "#/servers", [add, ("fill", fill_server), review], "Nothing is written before you confirm"
    yield "#/servers", [add, ("paste", wrong_paste), review], "CONFIG_INVALID"
    yield "#/servers", [("history", button("Changes"))], "Changes"
    yield "#/servers", [("project", button("Project: project"))], "Folder on the machine"
    yield (
        "#/skills/code-review",
        [("share", button("Share …"))],
        "Replaced files are moved to the backups",
    )
    yield "#/settings", [("key", button("Set the key of Mistral")), ("wrong", wrong_key)], "This is not a key"
    yield "#/settings", [("setting", bad_setting)], "INVALID_ARGUMENT"
    yield (
        "#/settings",
        [("switch", lambda page: page.get_by_role("switch", name="summaries").click())],
        "summaries is true.",
    )
    yield "#/usage", [("table", button("As a table"))], "As a table"


@pytest.mark.slow
def test_no_dialog_menu_or_message_has_a_finding_of_axe_or_scrolls_sideways(console: Console) -> None:
    sample_home.fill(console.home, console.project)
    ids = sample_jobs.ask(console)
    wrong: list[str] = []
    themes = ("light", "dark")
    for number, (address, steps, text) in enumerate(dialogs(ids)):
        page = console.page
        page.goto("about:blank")  # the same address twice is no navigation
        page.set_viewport_size({"width": 1280, "height": 860})
        page.goto(f"{console.url}/{address}")
        wait_until_loaded(page)
        for _, act in steps:
            act(page)
        expect(page.get_by_text(text).first).to_be_visible()
        for width, theme in zip(WIDTHS, (themes[number % 2], themes[1 - number % 2]), strict=True):
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            page.set_viewport_size({"width": width, "height": 860})
            where = f"{address} {[name for name, _ in steps]} at {width}, {theme}"
            wrong += [f"{where}: {line}" for line in violations(page)]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append(f"{where}: it scrolls sideways")
    console.errors.clear()  # the browser logs every refusal
    assert wrong == []
