"""Stored conversations and usage, read by a command without an event loop: importing asyncio takes 25 ms of CPU."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from counsel.cli import output, user

if TYPE_CHECKING:
    from counsel.engine.history.archive import Archive
    from counsel.engine.store.protocol import Store

T = TypeVar("T")


@contextmanager
def reading() -> Iterator[Archive]:
    """The archive of this user's home, for `run`."""
    from counsel.engine.history.archive import Archive
    from counsel.engine.store import open_store

    home = user.caller().settings.home
    whole = open_store(home, without_loop=True)
    archive = Archive(home, _own(whole))
    try:
        if archive.problem:
            output.message(f"warning: {archive.problem}")
        yield archive
    finally:
        run(whole.close())


def change(work: Callable[[Archive], Coroutine[object, object, T]]) -> T:
    """Run a change of the archive of this user's home, which waits for the disk or for a server."""
    from counsel.cli import connect

    return connect.run(_changed(work))


async def _changed(work: Callable[[Archive], Coroutine[object, object, T]]) -> T:
    """In one event loop: a server's connections belong to the loop that made them."""
    from counsel.engine.history.archive import Archive
    from counsel.engine.store import open_store

    home = user.caller().settings.home
    whole = open_store(home)
    archive = Archive(home, _own(whole))
    try:
        if archive.problem:
            output.message(f"warning: {archive.problem}")
        return await work(archive)
    finally:
        await whole.close()


def _own(store: Store) -> Store:
    """Of a team's database: what belongs to nobody of the team."""
    return store if store.team is None else store.scoped("")


def run(read: Coroutine[object, object, T]) -> T:
    """What a coroutine that waits for nothing returns."""
    try:
        read.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    read.close()
    raise RuntimeError("it waits, and there is no event loop")
