"""axe-core on a page: what it finds wrong."""

from __future__ import annotations

from functools import cache
from typing import cast

from playwright.sync_api import Page

from support.client_programs import ROOT

# Half-transparent text in a transition has no contrast.
_CALM = """() => Promise.allSettled(
    document.getAnimations().filter((one) => one.effect.getTiming().iterations !== Infinity).map((one) => one.finished)
)"""


@cache
def _source() -> str:
    return (ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """One line for each element that breaks a rule; empty: nothing is wrong.

    Evaluated, not added as a script: the page's Content-Security-Policy refuses that.
    """
    page.evaluate(_CALM)
    page.evaluate(_source())
    results = page.evaluate(
        """async () => (await axe.run()).violations.flatMap(({ id, nodes }) =>
            nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`))"""
    )
    return cast("list[str]", results)
