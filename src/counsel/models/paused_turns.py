"""A vendor may pause a long turn while it uses its own tools. It continues when the partial turn is sent back.

Anthropic does this during web searches (`stop_reason: pause_turn`). The caller sees one answer: the text continues,
usage is summed, and each source and setting is reported once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from counsel.types import Call, Event, Finished, Notice, Text, Turn, Usage, UsageReport

MAX_PAUSES = 8  # of one answer


async def resumed(ask: Callable[[Call], AsyncGenerator[Event]], call: Call) -> AsyncGenerator[Event]:
    answer = _Answer()
    request = call
    for _ in range(MAX_PAUSES + 1):
        async with aclosing(ask(request)) as events:
            async for event in events:
                for output in answer.add(event):
                    yield output
        if answer.finished.reason != "paused" or not answer.finished.native:
            break
        answer.pause()
        request = replace(call, turns=(*call.turns, Turn("assistant", native=answer.content)))
    for event in answer.end():
        yield event


class _Answer:
    """The answer so far, over any number of pauses."""

    def __init__(self) -> None:
        self.content: list[Any] = []  # up to the newest pause, in the vendor's format
        self.finished = Finished()
        self._earlier_usage, self._current_usage = Usage(), Usage()
        self._reported: set[tuple[str, str]] = set()
        self._has_text, self._new_paragraph = False, False

    def add(self, event: Event) -> list[Event]:
        if isinstance(event, Finished):
            self.finished = event
            return []
        if isinstance(event, UsageReport):
            self._current_usage = event.usage
            return [UsageReport(self._earlier_usage + self._current_usage)]
        if isinstance(event, Notice) and event.kind != "retry":
            return self._once(event)
        return self._text(event) if isinstance(event, Text) else [event]

    def pause(self) -> None:
        self.content = [*self.content, *self.finished.native]
        self._earlier_usage, self._current_usage = self._earlier_usage + self._current_usage, Usage()
        self._new_paragraph = self._has_text

    def end(self) -> list[Event]:
        if self.finished.reason == "paused":
            warning = "The provider paused its answer too often: it may be incomplete."
            return [Notice("warning", warning), replace(self.finished, reason="other", native=self.content)]
        if not self.content:
            return [self.finished]
        return [replace(self.finished, native=[*self.content, *self.finished.native])]

    def _once(self, notice: Notice) -> list[Event]:
        key = (notice.kind, str(notice.data.get("url") or notice.text))
        if key in self._reported:
            return []
        self._reported.add(key)
        return [notice]

    def _text(self, event: Text) -> list[Event]:
        starts_paragraph, self._new_paragraph, self._has_text = self._new_paragraph, False, True
        return [Text("\n\n"), event] if starts_paragraph else [event]
