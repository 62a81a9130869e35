"""Starts a coroutine in the present task, and gives it one of its own only if it has to wait.

A task costs some 15 µs: itself, a turn of the event loop, an entry in asyncio's weak set of all tasks. Python 3.12 has
`eager_task_factory` for this. The first step must not use what belongs to the present task (`asyncio.timeout`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(work: Coroutine[Any, Any, T]) -> asyncio.Future[T] | T:
    """The result, or a task for the rest."""
    try:
        awaited = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return asyncio.ensure_future(_rest(work, awaited))


@coroutine
def _rest(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """What `work` does after its first step, in which it came to wait for `awaited`."""
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - a cancellation, too, belongs to `work`
                awaited = work.throw(error)
            else:
                awaited = work.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
