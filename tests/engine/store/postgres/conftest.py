"""Stores on one PostgreSQL database, as on several servers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import pytest

from support.postgres_proxy import PostgresProxy

if TYPE_CHECKING:
    from counsel.engine.store.postgres.store import PostgresStore
    from support.postgres_server import PostgresServer

Open: TypeAlias = "Callable[..., PostgresStore]"
if find_spec("psycopg") is None and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]  # they import modules that need it


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.migrated() as address:
        yield address


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(url) as running:
        yield running


@pytest.fixture
async def open_store(url: str) -> AsyncIterator[Open]:
    """Opens a store, on the database itself or through a proxy; all are closed at the end."""
    from counsel.engine.store.postgres.store import PostgresStore

    stores: list[PostgresStore] = []

    def open_one(through: PostgresProxy | None = None) -> PostgresStore:
        stores.append(PostgresStore(through.url if through else url))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()
