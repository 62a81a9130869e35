"""The database behind an engine, for tests that change rows under it."""

from __future__ import annotations

from counsel.engine.engine import Engine
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.store import SqliteStore


def database(engine: Engine) -> Database:
    assert isinstance(engine.store, SqliteStore)
    return engine.store.database
