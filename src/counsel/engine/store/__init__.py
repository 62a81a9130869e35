"""The store. The engine uses `protocol.py`; SQL stays inside `sqlite/` and `postgres/`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from counsel.errors import ConfigInvalid
from counsel.settings import load as load_settings

if TYPE_CHECKING:
    from counsel.engine.store.history import ImportReport
    from counsel.engine.store.lookup import Lookup
    from counsel.engine.store.protocol import Store

__all__ = ["DATABASE", "Lookup", "administration", "import_history", "open_lookup", "open_store"]

DATABASE = "counsel.db"


def open_store(home: Path, *, database: str | None = None, without_loop: bool = False) -> Store:
    """The store of a COUNSEL_HOME. Several processes may open it at once.

    `database`: the URL of a PostgreSQL database, which several servers share; "": the home's own file; None: the
    setting decides. `without_loop`: for a command that only reads; the store's coroutines never wait.
    """
    url = _setting(home) if database is None else database
    if url:  # connects on the first read or write
        store: Store = _postgres("store").PostgresStore(url, without_loop=without_loop)
        return store
    from counsel.engine.store.sqlite.store import SqliteStore  # it imports this package

    return SqliteStore(home / DATABASE, without_loop=without_loop)


def open_lookup(home: Path, database: str = "") -> Lookup:
    """Look up ids in a COUNSEL_HOME or a PostgreSQL database without opening its store: fast, and writes nothing."""
    if database:
        lookup: Lookup = _postgres("lookup").PostgresLookup(database)
        return lookup
    from counsel.engine.store.sqlite.lookup import SqliteLookup

    return SqliteLookup(home / DATABASE)


def _setting(home: Path) -> str:
    return load_settings({**os.environ, "COUNSEL_HOME": str(home)}).database


def administration() -> ModuleType:
    """For `counsel database`: `postgres/administration.py`."""
    return _postgres("administration")


def import_history(
    path: Path, url: str, person: str | None, *, dry_run: bool, progress: Callable[[str], None]
) -> ImportReport:
    """Add the history of a SQLite database to a PostgreSQL one. `person`: the owner's folded name."""
    from counsel.engine.store.sqlite import snapshot

    importing = _postgres("importing")
    with snapshot.read(path) as history:
        report: ImportReport = importing.add(url, history, person, dry_run=dry_run, progress=progress)
    return report


def _postgres(module: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(f"counsel.engine.store.postgres.{module}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise ConfigInvalid(
            "PostgreSQL's driver is not installed.",
            hint="Run `pip install 'counsel[team]'`, or unset COUNSEL_DATABASE.",
        ) from None
