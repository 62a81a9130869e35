"""How much of an answer is kept, and what is said when there is more.

Three things are counted: words (text and reasoning) against the limit; what counsel keeps besides, such as the arguments
of tool calls, signatures and sources, against four times as much, since some vendors repeat their words in a last event;
and all bytes, against a stream that says nothing for ever: a word of 4 letters comes in some 200 bytes of JSON.
"""

from __future__ import annotations

from counsel.types import Event, Notice, Text, Thinking

HIDDEN = 4  # times the limit: what is kept besides words
RAW = 128  # times the limit: all bytes of one answer
ROOM = 2048  # bytes of JSON around the words of one event that are not counted


def size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, most: int) -> str:
    """As much of the text as fits, in whole characters."""
    if size(text) <= most:
        return text
    return text.encode("utf-8", "surrogatepass")[: max(0, most)].decode("utf-8", "ignore")


class Allowance:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.over = False
        self.said = 0  # bytes of text
        self._words = self._hidden = self._raw = 0

    def receive(self, count: int) -> None:
        """Bytes as they came, before anything was made of them."""
        self._raw += count
        self.over = self.over or self._raw > RAW * self.limit

    def take(self, events: list[Event], data: str) -> list[Event]:
        """The events of one piece of data, cut where the limit is."""
        words = said = 0
        for event in events:  # by `type`, and both sums at once: this is done for every delta
            if type(event) is Text:
                said += size(event.delta)
            elif type(event) is Thinking:
                words += size(event.delta)
        words += said
        room = self.limit - self._words
        self._words += words
        rest = len(data) - words - ROOM if words else len(data)
        if rest > 0:
            self._hidden += rest
        if self._words > self.limit or self._hidden > HIDDEN * self.limit:
            self.over = True
            events = _cut(events, room)
            said = sum(size(event.delta) for event in events if type(event) is Text)
        self.said += said
        return events


def _cut(events: list[Event], room: int) -> list[Event]:
    """The first `room` bytes of the words. Reasoning past the limit is of no use."""
    kept: list[Event] = []
    for event in events:
        if type(event) is Text:
            shorter = first_bytes(event.delta, room)
            room -= size(event.delta)
            kept += [Text(shorter)] if shorter else []
        elif not isinstance(event, Thinking):
            kept.append(event)
    return kept


def megabytes(count: int) -> str:
    return f"{count / 2**20:.4g} MB"


def notice(name: str, limit: int) -> Notice:
    """What the caller reads with an answer that was cut."""
    words = (
        f"{name} sent more than {megabytes(limit)}: the connection was closed there, and this answer is "
        "incomplete. COUNSEL_MAX_ANSWER_BYTES sets the limit."
    )
    return Notice("warning", words, {"limit_bytes": limit, "incomplete": True})
