"""A vendor may pause a long turn while it uses its own tools: the partial turn is sent back, and it continues.

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
                for passed_on in answer.add(event):
                    yield passed_on
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
        self._before, self._now = Usage(), Usage()
        self._reported: set[tuple[str, str]] = set()
        self._has_text, self._new_paragraph = False, False

    def add(self, event: Event) -> list[Event]:
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
        self._new_paragraph = self._has_text

    def end(self) -> list[Event]:
        if self.finished.reason == "paused":
            warning = "The provider paused its answer too often: it may be incomplete."
            return [Notice("warning", warning), replace(self.finished, reason="other", native=self.content)]
        if not self.content:
            return [self.finished]
        return [replace(self.finished, native=[*self.content, *self.finished.native])]

    def _once(self, notice: Notice) -> list[Event]:
        name = (notice.kind, str(notice.data.get("url") or notice.text))
        if name in self._reported:
            return []
        self._reported.add(name)
        return [notice]

    def _text(self, event: Text) -> list[Event]:
        new, self._new_paragraph, self._has_text = self._new_paragraph, False, True
        return [Text("\n\n"), event] if new else [event]
