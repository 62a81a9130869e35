"""The Usage screen: what calls took and cost, by whom, over time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from counsel.engine.store.records import UsageRecord
from support.accessibility import violations
from support.browser import SECONDS, Console
from support.stored import usage

HOUR = 3600.0
MODELS = (
    ("openai", "gpt-5"),
    ("anthropic", "claude-opus-4-5"),
    ("google", "gemini-2.5-pro"),
    ("openai", "o3"),
)


def calls() -> list[UsageRecord]:
    """Of the last twelve days, so that a week has something to be compared with; one in seven has no price."""
    records = []
    for number in range(96):
        provider, model = MODELS[number % 3]
        records.append(
            usage(
                f"job{number}",
                at=time.time() - 60 - number * 3 * HOUR,
                provider=provider,
                model=model,
                client=("claude", "console")[number % 2],
                project=("/srv/shop/engine", "/srv/shop/site")[number % 2],
                ms=400 + 50 * (number % 20),
                code="RATE_LIMITED" if number % 16 == 5 else "",
                cost=None if number % 7 == 6 else 0.01 * (number % 5),
                input=1000 + number,
                output=200 + number,
            )
        )
    return records


def usage_report(console: Console, *arguments: str) -> Any:
    """`counsel usage --json`."""
    command = [sys.executable, "-m", "counsel", "usage", "--json", *arguments]
    output = subprocess.check_output(command, env=console.env, cwd=console.project, timeout=SECONDS)
    return json.loads(output)


def cells(page: Page, name: str) -> list[str]:
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return [text.strip() for text in row.get_by_role("cell").all_inner_texts()]


def expected(group: Any) -> list[str]:
    more = "+" if group["calls_without_price"] else ""
    usd = group["cost_usd"]
    times = group["response_ms"]
    return [
        f"{group['calls']:,}",
        f"{sum(group['errors'].values()):,}",
        f"{group['input_tokens']:,}",
        f"{group['output_tokens']:,}",
        f"${usd:.3f}{more}" if usd < 1 else f"${usd:.2f}{more}",
        *(
            f"{times[name]} ms" if times[name] < 1000 else f"{times[name] / 1000:.1f} s"
            for name in ("p50", "p95")
        ),
    ]


def test_the_numbers_are_those_of_the_command(console: Console) -> None:
    console.seed_calls(*calls())
    page = console.open("#/usage")
    for title, by, since in (
        ("Model", "model", "7d"),
        ("Provider", "provider", "7d"),
        ("Caller", "client", "30d"),
    ):
        page.get_by_role("radio", name=title, exact=True).check(force=True)
        page.get_by_role("radio", name="30 days" if since == "30d" else "7 days").check(force=True)
        expect(page.get_by_text(f"counsel usage --since {since} --by {by}")).to_be_visible()
        report = usage_report(console, "--since", since, "--by", by)
        assert len(report["groups"]) > 1
        expect(page.get_by_role("heading", name=f"By {'caller' if by == 'client' else by}")).to_be_visible()
        expect(page.get_by_role("rowheader", name=report["groups"][0][by], exact=True)).to_be_visible()
        expect(page.get_by_role("row").last.get_by_role("cell").first).to_have_text(
            str(report["total"]["calls"])
        )
        for group in report["groups"]:
            assert cells(page, group[by]) == expected(group)
        assert cells(page, "Total") == expected(report["total"])
    page.reload()  # the choice is in the link
    expect(page.get_by_role("radio", name="Caller", exact=True)).to_be_checked()
    expect(page.get_by_role("radio", name="30 days")).to_be_checked()
    page.get_by_role("radio", name="Project", exact=True).check(force=True)
    expect(page.get_by_role("rowheader", name="shop/engine")).to_be_visible()
    without_price = usage_report(console, "--since", "30d")["total"]["calls_without_price"]
    expect(page.get_by_text(f"{without_price} calls have no known price")).to_be_visible()


def test_a_chart_has_the_same_numbers_as_a_table(console: Console) -> None:
    console.seed_calls(*calls())
    page = console.open("#/usage?by=provider")
    expect(page.get_by_role("img", name="Calls by provider, last 7 days").locator("canvas")).to_be_visible()
    tile = page.get_by_role("term").filter(has_text="Calls").locator("..")
    expect(tile).to_contain_text("in the 7 days before")
    for metric in ("Cost", "Tokens", "Latency", "Errors", "Calls"):
        page.get_by_role("radio", name=metric, exact=True).check(force=True)
        expect(page.get_by_role("img", name=f"{metric} by provider").locator("canvas")).to_be_visible()
    page.get_by_role("button", name="As a table").click()
    table = page.get_by_role("table", name="Calls by provider, last 7 days")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["From", "anthropic", "openai", "google"], use_inner_text=True
    )
    numbers = [int(text) for text in table.get_by_role("cell").all_inner_texts()]
    assert sum(numbers) == usage_report(console, "--since", "7d")["total"]["calls"]
    calls_header = page.get_by_role("columnheader", name="Calls")
    expect(calls_header).to_have_attribute("aria-sort", "descending")
    calls_header.get_by_role("button").click()
    expect(calls_header).to_have_attribute("aria-sort", "ascending")


def test_an_empty_period_says_what_to_do_and_calls_are_counted_while_it_is_open(console: Console) -> None:
    page = console.open("#/usage?range=24h")
    expect(page.get_by_role("heading", name="No calls in the last 24 hours")).to_be_visible()
    expect(page.get_by_role("link", name="Show 90 days")).to_be_visible()
    console.ask("Count me")
    expect(page.get_by_role("rowheader", name="openai/gpt-5")).to_be_visible()
    assert cells(page, "openai/gpt-5")[0] == "1"
    page.keyboard.press("Control+k")  # all by keyboard
    page.get_by_label("Find an action").fill("usage by provider")
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader", name="openai", exact=True)).to_be_visible()
    page.get_by_role("radio", name="Provider").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="By project")).to_be_visible()
    page.get_by_role("button", name="As a table").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Calls by project")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wrong_for_assistive_programs(console: Console, theme: str) -> None:
    console.seed_calls(*calls())
    for width in (1280, 390):
        page = console.new_page(width=width, theme=theme)
        page.goto(f"{console.url}/#/usage?show=cost")
        expect(page.get_by_role("img", name="Cost by model").locator("canvas")).to_be_visible()
        assert violations(page) == [], width
        page.get_by_role("button", name="As a table").click()
        expect(page.get_by_role("table", name="Cost by model")).to_be_visible()
        assert violations(page) == [], width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
