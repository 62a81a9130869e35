"""Everything that is stored. `protocol.py` is what the engine uses; SQL and `sqlite3` stay inside `sqlite/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store
    from counsel.engine.store.sqlite.lookup import Lookup

__all__ = ["DATABASE", "Lookup", "open_lookup", "open_store"]

DATABASE = "counsel.db"


def open_store(home: Path, *, without_loop: bool = False) -> Store:
    """The store of a COUNSEL_HOME. Several processes may open it at once.

    `without_loop`: for a command that only reads; its coroutines never wait.
    """
    from counsel.engine.store.sqlite.store import SqliteStore  # which imports this package

    return SqliteStore(home / DATABASE, without_loop=without_loop)


def open_lookup(home: Path) -> Lookup:
    """Ids of a COUNSEL_HOME, without opening its store: quick, and nothing is written."""
    from counsel.engine.store.sqlite.lookup import Lookup

    return Lookup(home / DATABASE)
