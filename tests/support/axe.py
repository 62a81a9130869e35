"""What axe-core finds wrong with a page for people who use a keyboard, a screen reader, or need contrast."""

from __future__ import annotations

from playwright.sync_api import Page

from support.client_programs import ROOT

AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
_CALM = """() => Promise.allSettled(
    document.getAnimations().filter((one) => one.effect.getTiming().iterations !== Infinity).map((one) => one.finished)
)"""


def violations(page: Page) -> list[str]:
    """Each rule with the elements that break it. Transitions are over: half-transparent text has no contrast."""
    page.evaluate(_CALM)
    page.evaluate(AXE.read_text(encoding="utf-8"))  # no script tag: the page's own policy would refuse it
    report = page.evaluate("axe.run()")
    return [
        f"{rule['id']}: {' | '.join(node['html'][:200] for node in rule['nodes'])}"
        for rule in report["violations"]
    ]
