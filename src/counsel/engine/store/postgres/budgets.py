"""Reservations: what running calls may cost, and what settled ones cost until their usage record is stored.

Servers decide one after another, under an advisory lock that is held until the commit: the sums that a server read stay
true until its own reservations are visible to the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from counsel.engine.store import reservations
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.connections import Row
from counsel.engine.store.postgres.scope import Statements
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import (
    BudgetLimit,
    BudgetState,
    Granted,
    OpenReservation,
    RateLimit,
    RateState,
    ReservationOutcome,
    ReservationRequest,
)

_MINUTE = 60.0
_INSERT = (
    "INSERT INTO counsel.reservations (id, owner, job, provider, model, at, usd, open, person) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, TRUE, COALESCE((SELECT person FROM counsel.jobs WHERE id = %s), '')) ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, "
    "job = excluded.job, provider = excluded.provider, model = excluded.model, at = excluded.at, "
    "usd = excluded.usd, open = TRUE"
)


class Budgets:
    database: Statements

    def reserve(self, requests: Sequence[ReservationRequest], at: float) -> Pending[list[ReservationOutcome]]:
        async def work(db: Transaction) -> list[ReservationOutcome]:
            limits, rates = reservations.limits_of(requests), reservations.rates_of(requests)
            await _lock(db, limits, rates)
            states = {limit: await _state(db.row, limit) for limit in limits}
            counts = {rate: await _count(db.row, rate, at) for rate in rates}
            outcomes = reservations.decide(requests, states, counts)
            for row, outcome in zip(requests, outcomes, strict=True):
                if isinstance(outcome, Granted):
                    await db.execute(
                        _INSERT, row.id, row.owner, row.job, row.provider, row.model, at, outcome.usd, row.job
                    )
                    await _note_start(db, row, at)
            return outcomes

        return self.database.write(work)

    def settle(self, reservation: str, usd: float, at: float) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "UPDATE counsel.reservations SET usd = %s, at = %s, open = FALSE WHERE id = %s",
                usd,
                at,
                reservation,
            )

        return self.database.write(work, may_wait=True)  # the usage record follows, and replaces it

    def drop_reservations(self, *, ids: Collection[str] = (), owners: Collection[str] = ()) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "DELETE FROM counsel.reservations WHERE open AND (id = ANY(%s::text[]) OR owner = ANY(%s::text[]))",
                list(ids),
                list(owners),
            )

        return self.database.write(work)

    async def open_reservations(self) -> list[OpenReservation]:
        rows = await self.database.rows("SELECT owner, provider, usd FROM counsel.reservations WHERE open")
        return [OpenReservation(*row) for row in rows]

    async def budget_states(self, limits: Sequence[BudgetLimit]) -> list[BudgetState]:
        return [await _state(self.database.row, limit) for limit in limits]


async def replace_with_cost(db: Transaction, ids: Sequence[str], cost: float | None) -> None:
    """A usage record was stored: its cost replaces its reservations'. Without a cost, settled ones still count."""
    condition = "" if cost is not None else " AND open"
    await db.execute(f"DELETE FROM counsel.reservations WHERE id = ANY(%s::text[]){condition}", list(ids))


async def _lock(db: Transaction, limits: Sequence[BudgetLimit], rates: Sequence[RateLimit]) -> None:
    """One lock for everything that servers share, one for each job; always in this order."""
    shared_locks = ["budgets"] if rates or any(limit.is_shared for limit in limits) else []
    for name in shared_locks + sorted({f"budget of job {limit.job}" for limit in limits if limit.job}):
        await db.row("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", name)


async def _state(row: Callable[..., Awaitable[Row | None]], limit: BudgetLimit) -> BudgetState:
    """In one statement, so in one snapshot: a cost that moves from a reservation to its usage record counts once."""
    condition, values = _condition(limit.person, limit.group, limit.provider, limit.job)
    # An open reservation counts in every period: its cost belongs to the period in which it ends.
    sums = await row(
        f"SELECT (SELECT COALESCE(SUM(cost), 0) FROM counsel.usage WHERE at >= %s{condition}) "
        f"+ (SELECT COALESCE(SUM(usd), 0) FROM counsel.reservations WHERE NOT open AND at >= %s{condition}), "
        f"(SELECT COALESCE(SUM(usd), 0) FROM counsel.reservations WHERE open{condition})",
        limit.since,
        *values,
        limit.since,
        *values,
        *values,
    )
    return BudgetState(*map(float, sums or (0, 0)))


def _condition(person: str, group: str, provider: str, job: str = "") -> tuple[str, tuple[str, ...]]:
    columns = {"job": job, "provider": provider, "person": person}
    conditions = [f" AND {name} = %s" for name, value in columns.items() if value]
    if group:
        conditions.append(" AND person IN (SELECT person FROM counsel.members WHERE group_name = %s)")
    return "".join(conditions), (*filter(None, columns.values()), *([group] if group else []))


async def _count(row: Callable[..., Awaitable[Row | None]], rate: RateLimit, now: float) -> RateState:
    condition, values = _condition(rate.person, rate.group, rate.provider)
    if rate.per == "at_once":
        counts = await row(f"SELECT count(*) FROM counsel.reservations WHERE open{condition}", *values)
        return RateState(counts[0] if counts else 0)
    counts = await row(
        "SELECT count(*), (array_agg(at ORDER BY at DESC))[%s] "
        f"FROM counsel.call_starts WHERE at > %s{condition}",
        max(1, rate.max_calls),
        now - _MINUTE,
        *values,
    )
    count, last_to_leave = counts or (0, None)
    return RateState(count, None if last_to_leave is None else last_to_leave + _MINUTE)


async def _note_start(db: Transaction, row: ReservationRequest, at: float) -> None:
    """Store when a call starts, if a limit counts calls per minute."""
    if any(rate.per == "minute" for rate in row.rates):
        await db.execute("DELETE FROM counsel.call_starts WHERE at <= %s", at - _MINUTE)
        await db.execute(
            "INSERT INTO counsel.call_starts (id, person, provider, at) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (id) DO NOTHING",
            row.id,
            row.person,
            row.provider,
            at,
        )
