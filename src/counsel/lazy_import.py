"""Modules that are imported when something of theirs is first used, or ahead of that in a thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

SWITCH = (
    0.0005  # seconds for which an importing thread may keep the interpreter from an answer; usually 0.005
)


class Later:
    """Stands for a module. What was looked up once is an attribute from then on."""

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value


async def imported(names: Iterable[str]) -> None:
    """Import these while the event loop goes on answering."""
    with _quick_turns():
        await asyncio.to_thread(lambda: [import_module(name) for name in names])


@contextmanager
def _quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
