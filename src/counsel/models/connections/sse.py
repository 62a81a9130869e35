"""Server-sent events, parsed correctly wherever the bytes are split: in a line, a CRLF or a character."""

from __future__ import annotations

import re
from itertools import chain
from operator import itemgetter

from counsel.strict_json import loads as document

__all__ = ["MAX_BYTES", "EventParser", "TooLarge", "document"]
MAX_BYTES = 17 * 1024 * 1024  # of one event: some vendors repeat the whole answer in the last event


_EVENTS = re.compile(r"(?:event: ([^\n]+)\n)?data: ([^\n]+)\n\n")


_IGNORED = (":", "id:", "retry:")  # comments, and fields that only browsers need
_MOST_OTHER = 4096  # characters: enough for an error


class TooLarge(ValueError):
    """An event that is larger than the limit: one without an end must not fill the memory."""


class EventParser:
    """`feed` bytes as they arrive; returns `(event, data)` pairs as soon as they are complete."""

    __slots__ = ("_after_cr", "_data", "_event", "_most", "_rest", "_size", "_started", "other")

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._rest = bytearray()  # an incomplete line; appending is cheap however long it gets
        self._size = 0  # of the current event's data
        self._after_cr = False
        self._started = False
        self._event = ""
        self._data: list[str] = []
        self.other = ""  # the first lines that are no part of an event

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        if b"\r" in chunk or self._after_cr:
            chunk = self._without_cr(chunk)
        if not self._started:
            chunk = bytes(self._rest) + chunk
            self._rest.clear()
            if len(chunk) < 3 and b"\xef\xbb\xbf".startswith(chunk):
                self._rest += chunk
                return []
            self._started = True
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        if len(self._rest) + len(chunk) + self._size > self._most:
            raise TooLarge(f"an event of more than {self._most / 2**20:.4g} MB")
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._rest += chunk
            return []
        whole = bytes(self._rest) + chunk[:end] if self._rest else chunk[:end]
        self._rest = bytearray(chunk[end:])
        return self._events(whole.decode("utf-8", "replace"))

    def end(self) -> list[tuple[str, str]]:
        """The event that was incomplete when the stream ended: some servers omit the last empty line."""
        last, self._rest = self._rest.decode("utf-8", "replace"), bytearray()
        return self._lines([last, ""])

    def _without_cr(self, chunk: bytes) -> bytes:
        """CRLF, CR and LF all end a line; a CRLF may be split."""
        if not chunk:
            return chunk
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _events(self, text: str) -> list[tuple[str, str]]:
        """The events of whole lines. Vendors send an event as one line of data, or as its name and one line of data."""
        if self._data or self._event or not text.endswith("\n\n"):
            return self._lines(text[:-1].split("\n"))
        events: list[tuple[str, str]] = _EVENTS.findall(text)
        if sum(map(len, chain.from_iterable(events))) == len(text) - _framing(events):
            return events
        events = []
        for block in text[:-2].split("\n\n"):
            name, _, data = block.rpartition("\n")
            plain = len(data) > 6 and data.startswith("data: ")
            if plain and (not name or (name.startswith("event: ") and "\n" not in name)):
                events.append((name[7:], data[6:]))
            else:
                events += self._lines([*block.split("\n"), ""])
        return events

    def _lines(self, lines: list[str]) -> list[tuple[str, str]]:
        events: list[tuple[str, str]] = []
        for line in lines:
            if not line:
                if any(self._data):  # some gateways keep a connection alive with `data:` alone
                    events.append((self._event, "\n".join(self._data)))
                self._data, self._size = [], 0
                self._event = ""
            elif line.startswith("data:"):
                self._data.append(line[6:] if line.startswith("data: ") else line[5:])
                self._size += len(line)
            elif line.startswith("event:"):
                self._event = line[6:].removeprefix(" ")
            elif line == "data":
                self._data.append("")
                self._size += len(line)
            elif len(self.other) < _MOST_OTHER and not line.startswith(_IGNORED):
                self.other += f"{line[:_MOST_OTHER]}\n"
        return events


def _framing(events: list[tuple[str, str]]) -> int:
    """Characters around the names and the data of these events."""
    named_count = sum(map(bool, map(itemgetter(0), events)))
    return len("data: \n\n") * len(events) + len("event: \n") * named_count
