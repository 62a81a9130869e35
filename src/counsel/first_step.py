"""Starts a coroutine in the present task, and gives it one of its own only if it has to wait.

A task costs some 15 µs: itself, a turn of the event loop, an entry in asyncio's weak set of all tasks. Python 3.12 has
`eager_task_factory` for this. The first step must not use what belongs to the present task (`asyncio.timeout`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Coroutine[Any, Any, T]) -> asyncio.Future[T] | T:
    """The result, or a task for the rest."""
    try:
        awaited = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return asyncio.ensure_future(_Rest(work, awaited))


class _Rest(Coroutine[Any, Any, T]):
    """What `work` does after its first step, in which it came to wait for `awaited`.

    A generator would not do: cancelled before its own first step, it never tells `work`.
    """

    __slots__ = ("_awaited", "_is_new", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work, self._awaited, self._is_new = work, awaited, True

    def send(self, value: Any) -> Any:
        if self._is_new:
            self._is_new, awaited, self._awaited = False, self._awaited, None
            return awaited
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        self._is_new, self._awaited = False, None
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise TypeError("only a task runs this")
