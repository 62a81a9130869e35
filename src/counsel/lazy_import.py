"""Import modules at their first use, or earlier in a thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module

# Seconds for which an importing thread may keep the interpreter while other threads wait; Python's default is 0.005.
SWITCH = 0.0005


class LazyModule:
    """A placeholder for a module. Each name becomes an attribute when it is first looked up."""

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> object:
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value


async def import_in_thread(names: Iterable[str]) -> None:
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
