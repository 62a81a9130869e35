"""`counsel doctor`: budgets that are used up, and budgets of unknown providers."""

from __future__ import annotations

import time
from collections.abc import Iterator

from counsel import amounts
from counsel import budgets as budgets_
from counsel.caller import Caller
from counsel.doctor.messages import Finding, finding
from counsel.engine.history.documents import BudgetReport
from counsel.engine.store import DATABASE, open_store
from counsel.models.catalog import Catalog
from counsel.paths import exists
from counsel.settings import Settings
from counsel.settings.values import env_name

_MIN_LEFT = 0.0001  # dollars; with less left, a budget is used up


def budgets(caller: Caller) -> Iterator[Finding]:
    settings = caller.settings
    yield from _unknown_providers(settings)
    if not budgets_.apply(settings) or not (settings.database or exists(settings.home / DATABASE)):
        return
    import asyncio  # few users have budgets

    entries = asyncio.run(_report(settings))
    for row, entry in zip(budgets_.current(settings, time.time()), entries, strict=True):
        if entry["left_usd"] < _MIN_LEFT:
            yield finding(
                "budgets.used_up",
                title=row.title,
                limit=amounts.dollars(row.usd),
                spent=amounts.dollars(entry["spent_usd"]),
                until=entry["until"][:16].replace("T", " "),
                setting=row.setting,
            )


def _unknown_providers(settings: Settings) -> Iterator[Finding]:
    """Report a budget with a misspelt name: it limits nothing, and nothing else would show it."""
    if not settings.provider_budgets:
        return
    names = [row.provider.name for row in Catalog.load(settings).providers()]
    env_names = {env_name(name) for name in names}
    for row in budgets_.current(settings, time.time()):
        if row.provider and env_name(row.provider) not in env_names:
            yield finding("budgets.unknown_provider", title=row.title, providers=", ".join(names))


async def _report(settings: Settings) -> list[BudgetReport]:
    from counsel.engine.history import budget_report

    store = open_store(settings.home, without_loop=True)
    try:
        return await budget_report.report(store, settings)
    finally:
        await store.close()
