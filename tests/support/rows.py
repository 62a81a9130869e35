"""Reads the database's file."""

from __future__ import annotations

from typing import Any

from counsel.engine.store.sqlite.database import Database


def first(database: Database, query: str, *values: Any) -> Any:
    """Return the first column of the only row."""
    row = database.row(query, *values)
    assert row is not None, query
    return row[0]
