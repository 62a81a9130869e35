"""The database behind an engine, for tests that change rows under it, or make it slow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from counsel.engine.engine import Engine
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.store import SqliteStore


def database(engine: Engine) -> Database:
    assert isinstance(engine.store, SqliteStore)
    return engine.store.database


@contextmanager
def slow_disk(engine: Engine) -> Iterator[None]:
    """Nothing is written until the block ends."""
    go_on: threading.Event | asyncio.Event
    if isinstance(engine.store, SqliteStore):
        go_on = blocked = threading.Event()
        engine.store.database.soon(lambda _: blocked.wait())
    else:
        from counsel.engine.store.postgres.store import PostgresStore

        assert isinstance(engine.store, PostgresStore)
        go_on = waited = asyncio.Event()
        engine.store.database.write(lambda _: waited.wait())
    try:
        yield
    finally:
        go_on.set()
