"""A process that is told to stop lets its jobs finish, unless it is told a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


async def until_second_signal(work: Coroutine[object, object, None], second_signal: asyncio.Event) -> None:
    """Wait until the work is done, and cancel it at a second signal."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(second_signal.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
