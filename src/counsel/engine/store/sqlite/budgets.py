"""The table `reservations`: what running calls may cost, and what settled ones cost until their usage is stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from counsel.engine.store import reservations
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import (
    BudgetLimit,
    BudgetState,
    Granted,
    OpenReservation,
    ReservationOutcome,
    ReservationRequest,
    StoreError,
)
from counsel.engine.store.sqlite.database import Database


class Budgets:
    database: Database

    def reserve(self, requests: Sequence[ReservationRequest], at: float) -> Pending[list[ReservationOutcome]]:
        def work(db: sqlite3.Connection) -> list[ReservationOutcome]:
            if self.database.in_memory and any(limit.is_shared for row in requests for limit in row.limits):
                raise StoreError(
                    "The budget cannot be enforced: counsel's database cannot be written.",
                    hint="Free some disk space or fix the folder's permissions, then ask again.",
                )
            return _reserve(db, requests, at)

        return self.database.quickly(work)

    def settle(self, reservation: str, usd: float, at: float) -> Pending[None]:
        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE reservations SET usd = ?, at = ?, open = 0 WHERE id = ?", (usd, at, reservation)
            )

        return self.database.shortly(work)  # the usage record follows, and replaces it

    def drop_reservations(self, *, ids: Collection[str] = (), owners: Collection[str] = ()) -> Pending[None]:
        def work(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM reservations WHERE open AND id = ?", [(name,) for name in ids])
            db.executemany("DELETE FROM reservations WHERE open AND owner = ?", [(name,) for name in owners])

        return self.database.soon(work)

    async def open_reservations(self) -> list[OpenReservation]:
        rows = self.database.rows("SELECT owner, provider, usd FROM reservations WHERE open")
        return [OpenReservation(*row) for row in rows]

    async def budget_states(self, limits: Sequence[BudgetLimit]) -> list[BudgetState]:
        return [_state(self.database.reader, limit) for limit in limits]


def replace_with_cost(db: sqlite3.Connection, ids: Sequence[str], cost: float | None) -> None:
    """A usage record was stored: its cost replaces its reservations'. Without a cost, settled ones still count."""
    if cost is not None:
        db.executemany("DELETE FROM reservations WHERE id = ?", [(name,) for name in ids])
    else:
        db.executemany("DELETE FROM reservations WHERE open AND id = ?", [(name,) for name in ids])


def _state(db: sqlite3.Connection, limit: BudgetLimit) -> BudgetState:
    condition, values = _condition(limit)
    # An open reservation counts in every period: its cost belongs to the period in which it ends.
    spent, reserved = db.execute(
        f"SELECT (SELECT COALESCE(SUM(cost), 0) FROM ledger WHERE at >= ?1{condition}) "
        f"+ (SELECT COALESCE(SUM(usd), 0) FROM reservations WHERE NOT open AND at >= ?1{condition}), "
        f"(SELECT COALESCE(SUM(usd), 0) FROM reservations WHERE open{condition})",
        (limit.since, *values),
    ).fetchone()
    return BudgetState(float(spent), float(reserved))


def _condition(limit: BudgetLimit) -> tuple[str, tuple[str, ...]]:
    columns = {name: value for name, value in (("job", limit.job), ("provider", limit.provider)) if value}
    condition = "".join(f" AND {name} = ?{number}" for number, name in enumerate(columns, 2))
    return condition, tuple(columns.values())


def _reserve(
    db: sqlite3.Connection, requests: Sequence[ReservationRequest], at: float
) -> list[ReservationOutcome]:
    states = {limit: _state(db, limit) for limit in reservations.limits_of(requests)}
    outcomes = reservations.decide(requests, states)
    db.executemany(
        "INSERT OR REPLACE INTO reservations VALUES (?,?,?,?,?,?,?,1)",
        [
            (row.id, row.owner, row.job, row.provider, row.model, at, outcome.usd)
            for row, outcome in zip(requests, outcomes, strict=True)
            if isinstance(outcome, Granted)
        ],
    )
    return outcomes
