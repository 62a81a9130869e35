"""Modules that are imported at their first use, or earlier in a thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module

# Seconds for which an importing thread may hold the interpreter while an answer waits; the default is 0.005.
SWITCH = 0.0005


class Later:
    """A placeholder for a module. A name that was looked up once is an attribute from then on."""

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> object:
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value


async def imported(names: Iterable[str]) -> None:
    """Import these modules while the event loop keeps running."""
    with _short_switch_interval():
        await asyncio.to_thread(lambda: [import_module(name) for name in names])


@contextmanager
def _short_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
