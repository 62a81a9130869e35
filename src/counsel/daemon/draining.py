"""A process that was told to stop lets its jobs finish, unless it is told a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


async def until_hurried(work: Coroutine[object, object, None], hurry: asyncio.Event) -> None:
    """Until the work is done or someone is in a hurry: then it is cancelled."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(hurry.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
