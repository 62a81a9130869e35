"""Writes that wait because a later write usually replaces them: a job's row, which its end writes, too."""

from __future__ import annotations

import math

from counsel.engine.store.sqlite.commits import Queued, Work


class HeldWrites:
    """By name, in the order of their due times: all wait for the same time."""

    def __init__(self) -> None:
        self._items: dict[str, tuple[Queued, float]] = {}

    @property
    def due(self) -> float:
        """When the first of them is due."""
        return next((due for _, due in self._items.values()), math.inf)

    def add(self, name: str, item: Queued, due: float) -> None:
        self._items[name] = item, due

    def has(self, name: str) -> bool:
        return name in self._items

    def take(self, name: str) -> Work[object] | None:
        item = self._items.pop(name, None)
        return item[0][0] if item else None

    def pop(self, until: float) -> list[Queued]:
        """Remove and return those that are due by then."""
        names = [name for name, (_, due) in self._items.items() if due <= until]
        return [self._items.pop(name)[0] for name in names]
