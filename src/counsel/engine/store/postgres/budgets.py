"""Reservations: what calls that run may cost, and what settled ones did until their usage record is there.

Servers decide one after another, under an advisory lock that is held until the commit: the sums that one has read stay
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
    ReservationOutcome,
    ReservationRequest,
)

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
            limits = reservations.limits_of(requests)
            await _lock(db, limits)
            states = {limit: await _state(db.row, limit) for limit in limits}
            outcomes = reservations.decide(requests, states)
            for row, outcome in zip(requests, outcomes, strict=True):
                if isinstance(outcome, Granted):
                    await db.execute(
                        _INSERT, row.id, row.owner, row.job, row.provider, row.model, at, outcome.usd, row.job
                    )
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

        return self.database.write(work, may_wait=True)  # the usage record follows, and ends it

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


async def recorded(db: Transaction, reserved: Sequence[str], cost: float | None) -> None:
    """A usage record was stored: its cost replaces the reservations'. Without one, theirs go on counting."""
    condition = "" if cost is not None else " AND open"
    await db.execute(
        f"DELETE FROM counsel.reservations WHERE id = ANY(%s::text[]){condition}", list(reserved)
    )


async def _lock(db: Transaction, limits: Sequence[BudgetLimit]) -> None:
    """One lock for everything that servers share, one for each job; always in this order."""
    shared = ["budgets"] if any(limit.is_shared for limit in limits) else []
    for name in shared + sorted({f"budget of job {limit.job}" for limit in limits if limit.job}):
        await db.row("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", name)


async def _state(row: Callable[..., Awaitable[Row | None]], limit: BudgetLimit) -> BudgetState:
    """In one statement, so in one snapshot: a cost that moves from a reservation to its usage record counts once."""
    chosen = {name: value for name, value in (("job", limit.job), ("provider", limit.provider)) if value}
    condition = "".join(f" AND {name} = %s" for name in chosen)
    values = tuple(chosen.values())
    # An open one counts in every period: its cost belongs to the one in which it ends.
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
