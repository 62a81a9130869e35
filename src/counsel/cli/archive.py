"""Stored conversations and usage, read by a command without an event loop: importing asyncio takes 25 ms of CPU."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from counsel.cli import output, user

if TYPE_CHECKING:
    from counsel.engine.history.archive import Archive

T = TypeVar("T")


@contextmanager
def reading() -> Iterator[Archive]:
    """The archive of this user's home, for `run`."""
    from counsel.engine.history.archive import Archive
    from counsel.engine.store import open_store

    home = user.caller().settings.home
    archive = Archive(home, open_store(home, without_loop=True))
    try:
        if archive.problem:
            output.message(f"warning: {archive.problem}")
        yield archive
    finally:
        run(archive.close())


def change(work: Callable[[Archive], Coroutine[Any, Any, T]]) -> T:
    """Run a change of the archive of this user's home, which waits for the disk or for a server."""
    from counsel.cli import connect

    return connect.run(_changed(work))


async def _changed(work: Callable[[Archive], Coroutine[Any, Any, T]]) -> T:
    """In one event loop: a server's connections belong to the loop that made them."""
    from counsel.engine.history.archive import Archive

    archive = Archive(user.caller().settings.home)
    try:
        if archive.problem:
            output.message(f"warning: {archive.problem}")
        return await work(archive)
    finally:
        await archive.close()


def run(read: Coroutine[Any, Any, T]) -> T:
    """What a coroutine that waits for nothing returns."""
    try:
        read.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    read.close()
    raise RuntimeError("it waits, and there is no event loop")
