"""Stores on one PostgreSQL database, as several servers have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from counsel.engine.store.postgres.store import PostgresStore
from support.postgres_proxy import PostgresProxy
from support.postgres_server import PostgresServer

Open = Callable[..., PostgresStore]


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.migrated() as address:
        yield address


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(url) as running:
        yield running


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Open]:
    """Opens a store, on the database itself or through a proxy; all are closed at the end."""
    stores: list[PostgresStore] = []

    def open_one(through: PostgresProxy | None = None) -> PostgresStore:
        stores.append(PostgresStore(through.url if through else url))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()
