"""The database of an engine, for tests that change its rows or make it slow."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from counsel.engine.engine import Engine
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from counsel.engine.store.postgres.store import PostgresStore

# Where a statement names a table, and the tables with another name in PostgreSQL.
_TABLE = re.compile(r"\b(FROM|UPDATE|INTO|JOIN) (\w+)")
_NAMES = {"ledger": "usage"}
_FULL = (
    """
    CREATE FUNCTION counsel.full() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$
    """,
    "CREATE TRIGGER full_disk BEFORE INSERT ON counsel.messages EXECUTE FUNCTION counsel.full()",
)


def database(engine: Engine) -> Database:
    assert isinstance(engine.store, SqliteStore)
    return engine.store.database


def postgres(engine: Engine) -> PostgresStore:
    from counsel.engine.store.postgres.store import PostgresStore

    assert isinstance(engine.store, PostgresStore)
    return engine.store


async def change(engine: Engine, sql: str, *values: Any) -> None:
    """Execute a statement, written for SQLite, in either store."""
    if isinstance(engine.store, SqliteStore):
        await engine.store.database.write(lambda db: db.execute(sql, values))
    else:
        await postgres(engine).database.write(lambda db: db.execute(_for_postgres(sql), *values))


async def rows(engine: Engine, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a query, written for SQLite, in either store."""
    if isinstance(engine.store, SqliteStore):
        return [tuple(row) for row in engine.store.database.rows(sql, *values)]
    return [tuple(row) for row in await postgres(engine).database.rows(_for_postgres(sql), *values)]


async def value(engine: Engine, sql: str, *values: Any) -> Any:
    """The first column of the only row."""
    ((first, *_),) = await rows(engine, sql, *values)
    return first


async def named_rows(engine: Engine, columns: str, rest: str) -> list[Mapping[str, Any]]:
    names = columns.split(", ")
    return [dict(zip(names, row, strict=True)) for row in await rows(engine, f"SELECT {columns} {rest}")]


def _for_postgres(sql: str) -> str:
    sql = _TABLE.sub(lambda match: f"{match[1]} counsel.{_NAMES.get(match[2], match[2])}", sql)
    return sql.replace("%", "%%").replace("?", "%s")


@asynccontextmanager
async def full_disk(engine: Engine) -> AsyncIterator[None]:
    """Make the disk full: no answer can be stored."""
    if isinstance(engine.store, SqliteStore):
        await change(engine, "PRAGMA max_page_count=1")
        yield
        return
    for sql in _FULL:
        await postgres(engine).database.write(lambda db, sql=sql: db.execute(sql))  # type: ignore[misc]
    try:
        yield
    finally:  # the next test uses the same tables
        await postgres(engine).database.write(lambda db: db.execute("DROP FUNCTION counsel.full() CASCADE"))


@contextmanager
def slow_disk(engine: Engine) -> Iterator[None]:
    """Hold all writes back until the block ends."""
    go_on: threading.Event | asyncio.Event
    if isinstance(engine.store, SqliteStore):
        go_on = release = threading.Event()
        engine.store.database.soon(lambda _: release.wait())
    else:
        go_on = release_write = asyncio.Event()
        postgres(engine).database.write(lambda _: release_write.wait())
    try:
        yield
    finally:
        go_on.set()
