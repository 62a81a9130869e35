"""Stop sequences for vendors without them (OpenAI's Responses, agents): cuts the answer where one begins."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from counsel.types import Event, Finished, Text, ToolInput, ToolUse


async def cut(events: AsyncGenerator[Event], sequences: tuple[str, ...]) -> AsyncGenerator[Event]:
    """The events up to the first sequence. Closes the upstream connection: the rest is neither read nor paid for."""
    search = _Search(sequences)
    async with aclosing(events) as upstream:
        async for event in upstream:
            if isinstance(event, Text):
                if text := search.feed(event.delta):
                    yield Text(text)
                if search.match:
                    yield Finished("stop", vendor={"stop_sequence": search.match})
                    return
                continue
            if isinstance(event, Finished | ToolInput | ToolUse) and (rest := search.rest()):
                yield Text(rest)
            yield event


class _Search:
    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._sequences = sequences
        self._longest = max(map(len, sequences))
        self._pending = ""  # may be the beginning of a sequence
        self.match = ""

    def feed(self, delta: str) -> str:
        """The text that can be passed on."""
        text = self._pending + delta
        matches = [(text.index(sequence), sequence) for sequence in self._sequences if sequence in text]
        if matches:
            at, self.match = min(matches)
            return text[:at]
        length = next(
            (size for size in range(min(self._longest - 1, len(text)), 0, -1) if self._begins(text[-size:])),
            0,
        )
        self._pending = text[len(text) - length :]
        return text[: len(text) - length]

    def rest(self) -> str:
        rest, self._pending = self._pending, ""
        return rest

    def _begins(self, end: str) -> bool:
        return any(sequence.startswith(end) for sequence in self._sequences)
