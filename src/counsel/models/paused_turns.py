"""A vendor may pause a long turn while it uses tools of its own: what it has said goes back to it, and it goes on.

Anthropic does so while it searches the web (`stop_reason: pause_turn`). To the caller it is one answer: its text goes
on, its usage is summed, each source and setting is named once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from counsel.types import Call, Event, Finished, Notice, Text, Turn, Usage, UsageReport

MOST = 8  # pauses of one answer


async def resumed(ask: Callable[[Call], AsyncGenerator[Event]], call: Call) -> AsyncGenerator[Event]:
    answer = _Answer()
    asked = call
    for _ in range(MOST + 1):
        async with aclosing(ask(asked)) as events:
            async for event in events:
                for shown in answer.hear(event):
                    yield shown
        if answer.finished.reason != "paused" or not answer.finished.native:
            break
        answer.pause()
        asked = replace(call, turns=(*call.turns, Turn("assistant", native=answer.content)))
    for event in answer.end():
        yield event


class _Answer:
    """All that was said so far, over any number of pauses."""

    def __init__(self) -> None:
        self.content: list[Any] = []  # before the newest pause, in the vendor's own form
        self.finished = Finished()
        self._before, self._now = Usage(), Usage()
        self._told: set[tuple[str, str]] = set()
        self._said, self._paragraph = False, False

    def hear(self, event: Event) -> list[Event]:
        if isinstance(event, Finished):
            self.finished = event
            return []
        if isinstance(event, UsageReport):
            self._now = event.usage
            return [UsageReport(self._before + self._now)]
        if isinstance(event, Notice) and event.kind != "retry":
            return self._once(event)
        return self._text(event) if isinstance(event, Text) else [event]

    def pause(self) -> None:
        self.content = [*self.content, *self.finished.native]
        self._before, self._now = self._before + self._now, Usage()
        self._paragraph = self._said

    def end(self) -> list[Event]:
        if self.finished.reason == "paused":
            warning = "The provider paused its answer again and again: what it said may be incomplete."
            return [Notice("warning", warning), replace(self.finished, reason="other", native=self.content)]
        if not self.content:
            return [self.finished]
        return [replace(self.finished, native=[*self.content, *self.finished.native])]

    def _once(self, notice: Notice) -> list[Event]:
        name = (notice.kind, str(notice.data.get("url") or notice.text))
        if name in self._told:
            return []
        self._told.add(name)
        return [notice]

    def _text(self, event: Text) -> list[Event]:
        new, self._paragraph, self._said = self._paragraph, False, True
        return [Text("\n\n"), event] if new else [event]
