"""Everything that is stored. `protocol.py` is what the engine uses; SQL and `sqlite3` stay inside `sqlite/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store

DATABASE = "counsel.db"


def open_store(home: Path) -> Store:
    """The store of a COUNSEL_HOME. Several processes may open it at once."""
    from counsel.engine.store.sqlite.store import SqliteStore  # which imports this package

    return SqliteStore(home / DATABASE)
