"""What is left of each budget, for `counsel usage`, `/api/usage` and Python. Reads only."""

from __future__ import annotations

import time
from datetime import datetime

from counsel import budgets
from counsel.engine.history.documents import BudgetReport
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import BudgetLimit
from counsel.settings import Settings


async def report(store: Store, settings: Settings, now: float | None = None) -> list[BudgetReport]:
    """One entry for each budget of a day or month. Reads nothing if there is no budget."""
    if not budgets.apply(settings):
        return []
    rows = budgets.current(settings, time.time() if now is None else now)
    limits = [BudgetLimit(row.usd, row.since, provider=row.provider) for row in rows]
    states = await store.budget_states(limits)
    dead = await _reserved_by_dead_processes(store, settings)
    entries: list[BudgetReport] = []
    for row, state in zip(rows, states, strict=True):
        dead_usd = sum(usd for provider, usd in dead if row.provider in {"", provider})
        reserved = max(0.0, state.reserved - dead_usd)
        entries.append(
            {
                "budget": row.name,
                "period": row.period,
                "provider": row.provider or None,
                "limit_usd": row.usd,
                "spent_usd": round(state.spent, 6),
                "reserved_usd": round(reserved, 6),
                "left_usd": round(max(0.0, row.usd - state.spent - reserved), 6),
                "since": _iso(row.since),
                "until": _iso(row.until),
            }
        )
    return entries


async def _reserved_by_dead_processes(store: Store, settings: Settings) -> list[tuple[str, float]]:
    """The reservations of dead processes, by provider: they are freed as soon as a call needs the money."""
    reservations = await store.open_reservations()
    if not reservations:
        return []
    # On demand: it imports parts of asyncio, and few reports have open reservations.
    from counsel.engine.jobs import ownership

    owners = {row.owner for row in reservations}
    if store.team:
        states = await store.team.presence.states(owners)
    else:
        folder = settings.home / "run" / "owners"
        states = {owner: ownership.state(folder, owner) for owner in owners}
    dead = {owner for owner, state in states.items() if state == "dead"}
    return [(row.provider, row.usd) for row in reservations if row.owner in dead]


def _iso(moment: float) -> str:
    """ISO 8601 in this machine's time zone, which determines when days begin."""
    return datetime.fromtimestamp(moment).astimezone().isoformat()
