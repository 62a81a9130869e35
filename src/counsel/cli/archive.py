"""Stored conversations and usage, read without an event loop: importing asyncio takes 25 ms of CPU."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from counsel.cli import user
from counsel.cli.terminal import output

if TYPE_CHECKING:
    from counsel.engine.history.archive import Archive
    from counsel.engine.store.protocol import Store

T = TypeVar("T")


@contextmanager
def open_for_reading() -> Iterator[Archive]:
    """Open the archive of this user's home; `run` runs its coroutines."""
    from counsel.engine.history.archive import Archive
    from counsel.engine.store import open_store

    home = user.caller().settings.home
    store = open_store(home, without_loop=True)
    archive = Archive(home, _outside_team(store))
    try:
        if archive.problem:
            output.message(f"warning: {archive.problem}")
        yield archive
    finally:
        run(store.close())


def change(work: Callable[[Archive], Coroutine[object, object, T]]) -> T:
    """Change the archive of this user's home. This waits for the disk or for a server."""
    from counsel.cli import connect

    return connect.run(_run_change(work))


async def _run_change(work: Callable[[Archive], Coroutine[object, object, T]]) -> T:
    """Open and change the archive in one event loop: connections belong to the loop that opened them."""
    from counsel.engine.history.archive import Archive
    from counsel.engine.store import open_store

    home = user.caller().settings.home
    store = open_store(home)
    archive = Archive(home, _outside_team(store))
    try:
        if archive.problem:
            output.message(f"warning: {archive.problem}")
        return await work(archive)
    finally:
        await store.close()


def _outside_team(store: Store) -> Store:
    """In a team's database: the rows that belong to no member."""
    return store if store.team is None else store.scoped("")


def run(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine waits, and there is no event loop")
