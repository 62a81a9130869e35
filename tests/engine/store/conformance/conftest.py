"""Stores that the suite runs on. A second implementation adds a factory here, and nothing else."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from counsel.engine.store import open_store
from counsel.engine.store.protocol import Store


class Stores:
    """Opens the same data again and again, as several processes do."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._opened: list[Store] = []

    def open(self) -> Store:
        self._opened.append(open_store(self._home))
        return self._opened[-1]

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


def sqlite_on_disk(folder: Path) -> Stores:
    return Stores(folder / "home")


def sqlite_in_memory(folder: Path) -> Stores:
    """Where the folder cannot be made, nothing can be written to disk."""
    (folder / "home").write_text("a file")
    return Stores(folder / "home")


ALL = [sqlite_on_disk, sqlite_in_memory]
SHARED = [sqlite_on_disk]  # those that several processes can open


@pytest.fixture(params=ALL, ids=lambda factory: factory.__name__)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    stores: Stores = request.param(tmp_path)
    yield stores.open()
    await stores.close()


@pytest.fixture(params=SHARED, ids=lambda factory: factory.__name__)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    made: Stores = request.param(tmp_path)
    yield made
    await made.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock forward by some seconds."""
    real, shift = time.time, 0.0

    def move(seconds: float) -> None:
        nonlocal shift
        shift += seconds

    monkeypatch.setattr(time, "time", lambda: real() + shift)
    return move
