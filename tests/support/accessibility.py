"""Violations that axe-core finds on a page."""

from __future__ import annotations

from functools import cache
from typing import cast

from playwright.sync_api import Page

from support.client_programs import ROOT

# Wait for transitions: half-transparent text lacks contrast.
_CALM = """() => Promise.allSettled(
    document.getAnimations().filter((one) => one.effect.getTiming().iterations !== Infinity).map((one) => one.finished)
)"""


@cache
def _source() -> str:
    return (ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """One line for each element that violates a rule.

    axe is evaluated, because the page's Content-Security-Policy refuses an added script.
    """
    page.evaluate(_CALM)
    page.evaluate(_source())
    results = page.evaluate(
        """async () => (await axe.run()).violations.flatMap(({ id, nodes }) =>
            nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`))"""
    )
    return cast("list[str]", results)
