"""Stores that the suite runs on. Another implementation only adds a factory here."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counsel.engine.store import open_store
from counsel.engine.store.protocol import Store

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer


class Stores:
    """Opens the same data several times, as several processes do."""

    def __init__(self, home: Path, database: str = "") -> None:
        self._home = home
        self._database = database
        self._opened: list[Store] = []

    def open(self) -> Store:
        self._opened.append(open_store(self._home, database=self._database))
        return self._opened[-1]

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@contextmanager
def sqlite_on_disk(folder: Path, _: pytest.FixtureRequest) -> Iterator[Stores]:
    yield Stores(folder / "home")


@contextmanager
def sqlite_in_memory(folder: Path, _: pytest.FixtureRequest) -> Iterator[Stores]:
    """If the folder cannot be created, nothing can be written to disk."""
    (folder / "home").write_text("a file")
    yield Stores(folder / "home")


@contextmanager
def postgres(folder: Path, request: pytest.FixtureRequest) -> Iterator[Stores]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.migrated() as url:
        yield Stores(folder / "home", url)


ALL = [sqlite_on_disk, sqlite_in_memory, postgres]
SHARED = [sqlite_on_disk, postgres]  # those that several processes can open


@pytest.fixture(params=SHARED, ids=lambda factory: factory.__name__)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    with request.param(tmp_path, request) as stores:
        yield stores
        await stores.close()


@pytest.fixture(params=ALL, ids=lambda factory: factory.__name__)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    with request.param(tmp_path, request) as stores:
        yield stores.open()
        await stores.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock forward by some seconds."""
    real, shift = time.time, 0.0

    def move(seconds: float) -> None:
        nonlocal shift
        shift += seconds

    monkeypatch.setattr(time, "time", lambda: real() + shift)
    return move
