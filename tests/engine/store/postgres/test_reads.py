"""Reads of a database whose connections are lost, and reads without an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from counsel.engine.store.postgres import connections, database
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.records import StoreError

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool


class Pool:
    def __init__(self) -> None:
        self.checks = 0

    async def check(self) -> None:
        self.checks += 1


class FailingReads(Database):
    """Reads that fail with these errors, one after another, then succeed."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__("postgresql://127.0.0.1/none")
        self.errors = list(errors)
        self.pool = Pool()
        as_pool: Any = self.pool
        self._pool, self._checked = cast("AsyncConnectionPool[connections.Connection]", as_pool), True

    async def _read(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        if self.errors:
            raise self.errors.pop(0)
        return [(sql, *values)]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


async def test_a_read_whose_connection_is_lost_is_repeated_after_a_pause(pauses: list[float]) -> None:
    reads = FailingReads(psycopg.OperationalError("gone"), psycopg.InterfaceError("the connection is closed"))
    assert await reads.row("SELECT", 1) == ("SELECT", 1)
    assert reads.pool.checks == 2
    assert len(pauses) == 2
    assert all(pauses), "a restarting server gets few requests"


async def test_a_statement_that_fails_is_not_repeated(pauses: list[float]) -> None:
    reads = FailingReads(psycopg.errors.UndefinedTable("no such table"))
    with pytest.raises(StoreError):
        await reads.rows("SELECT")
    assert (reads.pool.checks, pauses) == (0, [])


async def test_a_read_gives_up_on_lost_connections_after_a_while(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "READ_SECONDS", -1.0)
    with pytest.raises(StoreError):
        await FailingReads(psycopg.OperationalError("gone")).rows("SELECT")
    assert pauses == []


async def test_without_rows_there_is_no_first_row() -> None:
    class Empty(FailingReads):
        async def _read(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
            return []

    assert await Empty().row("SELECT") is None


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (psycopg.InterfaceError("closed"), True),
        (psycopg.OperationalError("no state"), True),
        (psycopg.errors.AdminShutdown("restart"), True),
        (psycopg.errors.ConnectionFailure("08006"), True),
        (psycopg.errors.UndefinedTable("no such table"), False),
        (psycopg.DataError("no state"), False),
        (OSError("no route"), False),
    ],
)
def test_which_errors_mean_a_lost_connection(error: Exception, is_lost: bool) -> None:
    assert connections.is_lost(error) == is_lost


async def test_a_command_reads_without_an_event_loop(url: str) -> None:
    reads = Database(url, without_loop=True)
    assert await reads.rows("SELECT 1 + %s", 2) == [(3,)]
    connection = reads._sync_connection
    assert connection is not None
    assert await reads.row("SELECT %s", "a\0b") == ("a\ufffdb",)
    assert reads._sync_connection is connection
    with pytest.raises(StoreError):
        await reads.rows("SELECT nonsense")
    await reads.close()
    assert connection.closed


async def test_a_command_says_which_database_it_cannot_reach() -> None:
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        await Database("postgresql://127.0.0.1:1/none", without_loop=True).rows("SELECT 1")
