"""The size limit of an answer, and the notice when there is more.

Three counts have a limit. Text and reasoning: the limit itself. Everything else that counsel keeps (arguments of tool
calls, signatures, sources): four times as much, since some vendors repeat the text in their last event. All bytes: 128
times as much, to stop a stream without content and without an end; a word of 4 letters takes some 200 bytes of JSON.
"""

from __future__ import annotations

from counsel.types import Event, Notice, Text, Thinking

HIDDEN = 4  # times the limit: what is kept besides text and reasoning
RAW = 128  # times the limit: all bytes of one answer
OVERHEAD = 2048  # bytes of JSON around the text of one event that are not counted


def size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, limit: int) -> str:
    """The start of the text that fits, in whole characters."""
    if size(text) <= limit:
        return text
    return text.encode("utf-8", "surrogatepass")[: max(0, limit)].decode("utf-8", "ignore")


class Allowance:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.over = False
        self.text_bytes = 0
        self._output = self._hidden = self._raw = 0

    def receive(self, count: int) -> None:
        """Count raw bytes, before they are parsed."""
        self._raw += count
        self.over = self.over or self._raw > RAW * self.limit

    def has_room(self, data: list[str]) -> bool:
        """Whether these pieces of data, all of them text, are far enough from the limit to be counted together."""
        sizes = list(map(len, data))
        return max(sizes) <= OVERHEAD and self._output + 4 * sum(sizes) <= self.limit

    def take_text(self, text: str) -> None:
        """Count the text of such pieces."""
        count = size(text)
        self._output += count
        self.text_bytes += count

    def take(self, events: list[Event], data: str) -> list[Event]:
        """The events of one piece of data, cut at the limit."""
        output = text = 0
        for event in events:  # `type` and one loop for both sums: this runs for every delta
            kind = type(event)
            if kind is Text or kind is Thinking:
                delta: str = event.delta  # type: ignore[union-attr] # by its kind
                count = len(delta) if delta.isascii() else size(delta)
                output += count
                if kind is Text:
                    text += count
        remaining = self.limit - self._output
        self._output += output
        rest = len(data) - output - OVERHEAD if output else len(data)
        if rest > 0:
            self._hidden += rest
        if self._output > self.limit or self._hidden > HIDDEN * self.limit:
            self.over = True
            events = _cut(events, remaining)
            text = sum(size(event.delta) for event in events if type(event) is Text)
        self.text_bytes += text
        return events


def _cut(events: list[Event], remaining: int) -> list[Event]:
    """The first `remaining` bytes of the text. Reasoning beyond the limit is dropped."""
    shortened: list[Event] = []
    for event in events:
        if type(event) is Text:
            start = first_bytes(event.delta, remaining)
            remaining -= size(event.delta)
            shortened += [Text(start)] if start else []
        elif not isinstance(event, Thinking):
            shortened.append(event)
    return shortened


def megabytes(count: int) -> str:
    return f"{count / 2**20:.4g} MB"


def notice(name: str, limit: int) -> Notice:
    """The notice to the caller about an answer that was cut."""
    text = (
        f"{name} sent more than {megabytes(limit)}: the connection was closed and this answer is incomplete. "
        "COUNSEL_MAX_ANSWER_BYTES sets the limit."
    )
    return Notice("warning", text, {"limit_bytes": limit, "incomplete": True})
