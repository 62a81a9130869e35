"""`counsel doctor`: budgets that are used up, and budgets of providers that do not exist."""

from __future__ import annotations

import time
from collections.abc import Iterator

from counsel import amounts
from counsel import budgets as budgets_
from counsel.caller import Caller
from counsel.doctor.messages import Finding, finding
from counsel.engine.store import DATABASE, open_store
from counsel.paths import exists
from counsel.setting_values import env_name
from counsel.settings import Settings
from counsel.types import Json

_LEAST = 0.0001  # dollars: less is nothing


def budgets(caller: Caller) -> Iterator[Finding]:
    settings = caller.settings
    if not budgets_.apply(settings):
        return
    yield from _unknown(caller)
    if not exists(settings.home / DATABASE):
        return
    import asyncio  # few users have budgets

    entries = asyncio.run(_report(settings))
    for row, entry in zip(budgets_.current(settings, time.time()), entries, strict=True):
        if entry["left_usd"] < _LEAST:
            yield finding(
                "budgets.used_up",
                title=row.title,
                limit=amounts.dollars(row.usd),
                spent=amounts.dollars(entry["spent_usd"]),
                until=entry["until"][:16].replace("T", " "),
                setting=row.setting,
            )


async def _report(settings: Settings) -> list[Json]:
    from counsel.engine.history import budget_report

    store = open_store(settings.home, without_loop=True)
    try:
        return await budget_report.report(store, settings)
    finally:
        await store.close()


def _unknown(caller: Caller) -> Iterator[Finding]:
    from counsel.models.catalog import Catalog

    known = {env_name(row.provider.name) for row in Catalog.load(caller.settings).providers()}
    for row in caller.settings.provider_budgets:
        if env_name(row.provider) not in known:
            yield finding("budgets.unknown", provider=row.provider, source=row.source)
