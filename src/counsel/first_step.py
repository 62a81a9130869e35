"""Start a coroutine in the current task, and create a task for it only if it has to wait.

A task costs about 15 µs: the object, an iteration of the event loop, an entry in asyncio's weak set of all tasks.
Python 3.12 has `eager_task_factory` for this. The first step must not use anything bound to the current task, such as
`asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Coroutine[Any, Any, T]) -> asyncio.Future[T] | T:
    """The result, or a task for the rest."""
    try:
        future = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return asyncio.ensure_future(_Rest(work, future))


class _Rest(Coroutine[Any, Any, T]):
    """The rest of `work` after its first step, at whose end it waits for `future`.

    This is not a generator: if cancelled before its own first step, it would not pass the cancellation on to `work`.
    """

    __slots__ = ("_future", "_is_new", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], future: Any) -> None:
        self._work, self._future, self._is_new = work, future, True

    def send(self, value: Any) -> Any:
        if self._is_new:
            self._is_new, future, self._future = False, self._future, None
            return future
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        self._is_new, self._future = False, None
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise TypeError("only a task runs this")
