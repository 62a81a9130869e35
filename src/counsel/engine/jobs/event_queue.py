"""Queues a job's events for a reader that may be slow or stop reading."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from counsel.job_events import JobEvent, TextAdded, ThinkingAdded, ToolInputAdded
from counsel.lazy_dataclass import replace

MANY = 1_000  # waiting events above which texts are merged
_PIECE = 1 << 16  # characters up to which texts are merged: merging longer ones repeatedly costs more
Push: TypeAlias = Callable[[JobEvent], bool]  # takes an event at once, or returns False


class EventQueue:
    """A queue that does not grow with every word of a model.

    A delta of four characters takes 400 bytes as an event. For a slow reader, the texts of one model are merged into
    one, and so is its thinking: a client of a vendor's API sends it back with a signature, which covers all of it.
    Items that are not a `JobEvent` stay as they are.

    A reader that can take an event at once passes `push`: waking the task that reads this queue was a third of the cost
    of a live stream's delta. It is called only while nothing waits here.
    """

    def __init__(self, push: Push | None = None) -> None:
        self._push = push
        self._items: deque[object] = deque()
        self._news = asyncio.Event()
        self._many = MANY

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: object) -> None:
        if self._push is not None and not self._items and isinstance(item, JobEvent) and self._push(item):
            return
        self._items.append(item)
        self._news.set()
        if len(self._items) > self._many:
            self._items = deque(merged(self._items))
            self._many = max(MANY, 2 * len(self._items))

    async def get(self) -> Any:
        while not self._items:
            self._news.clear()
            await self._news.wait()
        return self._items.popleft()


def merged(items: Iterable[object]) -> list[Any]:
    """The same events, but consecutive texts of a slot are one event, and its thinking is another."""
    merger = _Merger()
    for item in items:
        if isinstance(item, TextAdded):
            merger.text(item)
        elif isinstance(item, ThinkingAdded):
            merger.thinking(item)
        elif isinstance(item, ToolInputAdded):
            merger.tool_input(item)
        else:
            merger.item(item)
    return merger.result()


class _Merger:
    """A merged text has its first piece's number, so that a reader who resumes there misses nothing."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        # by slot: place in `_items`, pieces, their end
        self._open: dict[str, tuple[int, list[str], int]] = {}
        self._thoughts: dict[str, tuple[int, list[str]]] = {}  # by slot: place in `_items`, pieces
        self._input: tuple[int, list[str]] | None = None  # of the newest tool call, if it is the last item

    def text(self, event: TextAdded) -> None:
        text, offset = event.text, event.offset
        index, pieces, end = self._open.get(event.slot, (0, [], -1))
        if end != offset or offset - self._items[index].offset > _PIECE:
            self._close(event.slot)
            index, pieces = len(self._items), []
            self._items.append(event)
        pieces.append(text)
        self._open[event.slot] = index, pieces, offset + len(text)

    def thinking(self, event: ThinkingAdded) -> None:
        if event.slot not in self._thoughts:
            self._thoughts[event.slot] = len(self._items), []
            self._items.append(event)
        self._thoughts[event.slot][1].append(event.text)

    def tool_input(self, event: ToolInputAdded) -> None:
        if self._input is not None:
            index, pieces = self._input
            previous = self._items[index]
            if index == len(self._items) - 1 and (previous.slot, previous.id) == (event.slot, event.id):
                pieces.append(event.text)
                return
        self.item(event)
        self._input = len(self._items) - 1, [event.text]

    def item(self, item: object) -> None:
        self._close_input()
        slot = item.slot if isinstance(item, JobEvent) else ""
        for name in [slot] if slot else [*self._open, *self._thoughts]:
            self._close(name)
            self._close_thinking(name)
        self._items.append(item)

    def result(self) -> list[object]:
        self._close_input()
        for name in list(self._open):
            self._close(name)
        for name in list(self._thoughts):
            self._close_thinking(name)
        return self._items

    def _close(self, slot: str) -> None:
        if slot in self._open:
            index, pieces, _ = self._open.pop(slot)
            self._join(index, pieces)

    def _close_thinking(self, slot: str) -> None:
        if slot in self._thoughts:
            self._join(*self._thoughts.pop(slot))

    def _close_input(self) -> None:
        if self._input is not None:
            self._join(*self._input)
            self._input = None

    def _join(self, index: int, pieces: list[str]) -> None:
        self._items[index] = replace(self._items[index], text="".join(pieces))
