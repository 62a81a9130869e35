"""Everything that is stored. `protocol.py` is what the engine uses; SQL stays inside `sqlite/` and `postgres/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counsel.errors import ConfigInvalid

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store
    from counsel.engine.store.sqlite.lookup import Lookup

__all__ = ["DATABASE", "Lookup", "open_lookup", "open_store"]

DATABASE = "counsel.db"


def open_store(home: Path, *, database: str = "", without_loop: bool = False) -> Store:
    """The store of a COUNSEL_HOME. Several processes may open it at once.

    `database`: the URL of a PostgreSQL database, which several servers share; "": the home's own file.
    `without_loop`: for a command that only reads; its coroutines never wait.
    """
    if database:
        return _open_postgres(database, without_loop=without_loop)
    from counsel.engine.store.sqlite.store import SqliteStore  # which imports this package

    return SqliteStore(home / DATABASE, without_loop=without_loop)


def open_lookup(home: Path) -> Lookup:
    """Ids of a COUNSEL_HOME, without opening its store: quick, and nothing is written."""
    from counsel.engine.store.sqlite.lookup import Lookup

    return Lookup(home / DATABASE)


def _open_postgres(url: str, *, without_loop: bool) -> Store:
    """Nothing is connected yet: that happens with the first read or write."""
    try:
        from counsel.engine.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise ConfigInvalid(
            "COUNSEL_DATABASE names a PostgreSQL database, and its driver is not installed.",
            hint="Run `pip install 'counsel[team]'`, or unset COUNSEL_DATABASE.",
        ) from None
    return PostgresStore(url, without_loop=without_loop)
