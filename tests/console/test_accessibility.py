"""Every screen, empty and filled, in both themes, at desktop and phone width: no finding of axe, nothing to scroll sideways."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support import sample_home, sample_jobs
from support.accessibility import violations
from support.browser import Console

SCREENS = ("ask", "consensus", "jobs", "servers", "skills", "usage", "agents", "settings")
WIDTHS = (1280, 390)


def problems(console: Console, addresses: list[str], theme: str) -> list[str]:
    """What is wrong, by address and width."""
    page = console.new_page(theme=theme)
    wrong: list[str] = []
    for address in addresses:
        page.goto(f"{console.url}/{address}")
        shown(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 860})
            wrong += [f"{address} at {width}: {line}" for line in violations(page)]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append(f"{address} at {width}: it scrolls sideways")
    return wrong


def shown(page: Page) -> None:
    """Until the screen has its heading, no request is under way, and nothing says that it is still reading."""
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
