"""What `counsel database` does: check whether a database matches this release, and migrate it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from counsel.engine.store.postgres import connections, schema
from counsel.errors import ConfigInvalid
from counsel.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Status:
    database: str  # its name and host
    server: str  # PostgreSQL's version
    schema: int  # 0: no tables yet
    release_schema: int  # what this release writes
    problem: str | None  # why this release cannot use it
    hint: str | None


def status(url: str) -> Status:
    """Raises `StoreError` when the database cannot be reached."""
    return _with_connection(url, _status)


def migrate(url: str) -> tuple[int, int]:
    """The schema's version before and after. Raises `ConfigInvalid`, or `StoreError`."""

    def work(connection: psycopg.Connection[Any], info: str) -> tuple[int, int]:
        before = schema.migrate(connection, info).version
        return before, max(before, schema.VERSION)

    return _with_connection(url, work)


def _status(connection: psycopg.Connection[Any], info: str) -> Status:
    state = schema.state_sync(connection)
    problem: ConfigInvalid | None = None
    try:
        schema.check(state, info)
        schema.check_rights(connection, info)
    except ConfigInvalid as error:
        problem = error
    version = f"{state.server // 10000}.{state.server % 10000}"
    return Status(
        connections.name(info),
        version,
        state.version,
        schema.VERSION,
        problem.message if problem else None,
        problem.hint if problem else None,
    )


def _with_connection(url: str, work: Callable[[psycopg.Connection[Any], str], T]) -> T:
    info = connections.conninfo(url)
    try:
        with psycopg.connect(info, autocommit=True) as connection:
            return work(connection, info)
    except psycopg.Error as error:
        raise connections.unreachable(info, error) from error
