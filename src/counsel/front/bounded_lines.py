"""Splits a stream of bytes into lines. Of a line that is too long, it keeps only what a refusal needs.

Standard library only: the front imports this.
"""

from __future__ import annotations

import re

LONGEST = 64 << 20  # bytes of one message, as over HTTP: several images as data URLs
_ENDS = 4096  # bytes of each end of a line that is too long
_ID = rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,20})'
# The Python SDK writes the id before the parameters, the TypeScript SDK after them.
_FIRST = re.compile(rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*,)*\s*' + _ID + rb"\s*,").match
_LAST = re.compile(_ID + rb'(?:\s*,\s*"(?:jsonrpc|method)"\s*:\s*"[^"]*")*\s*\}\s*\Z').search


class TooLong:
    """A line whose middle was discarded."""

    __slots__ = ("head", "size", "tail")

    def __init__(self, head: bytes) -> None:
        self.head, self.tail, self.size = head[:_ENDS], b"", 0
        self.grow(head)

    def grow(self, data: bytes) -> None:
        self.size += len(data)
        self.tail = (self.tail + data[-_ENDS:])[-_ENDS:]

    @property
    def message(self) -> str:
        return (
            f"This message has {self.size:,} bytes; the limit is {LONGEST:,}. "
            "Nothing was sent or stored. Send less, or name files instead."
        )

    def response(self) -> dict[str, object]:
        """The JSON-RPC error for this request, with a null id if neither end of the line contains it."""
        import json  # rarely needed

        match = _FIRST(self.head) or _LAST(self.tail)
        error = {"code": -32600, "message": self.message, "data": {"size": self.size, "limit": LONGEST}}
        return {"jsonrpc": "2.0", "id": json.loads(match[1]) if match else None, "error": error}


class Lines:
    """Takes bytes (`feed`) and returns complete lines. Appending stays cheap however long a line gets."""

    __slots__ = ("_buffer", "_long", "longest")

    def __init__(self, longest: int = LONGEST) -> None:
        self._buffer = bytearray()
        self._long: TooLong | None = None
        self.longest = longest

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        if b"\n" not in data:
            self._grow(data)
            return []
        first, *middle, last = data.split(b"\n")
        self._grow(first)
        lines = [self._take(), *middle]
        self._grow(last)
        return lines

    @property
    def unfinished(self) -> int:
        """Bytes in the buffer."""
        return len(self._buffer)

    def give_up(self) -> None:
        """Treat the unfinished line as too long, because all buffers together are too large."""
        if self._long is None:
            self._long, self._buffer = TooLong(bytes(self._buffer)), bytearray()

    def clear(self) -> None:
        """Forget the unfinished line. A new buffer: `clear()` of the old one would keep its memory."""
        self._buffer, self._long = bytearray(), None

    def end(self) -> bytes | TooLong:
        """The last line, which has no newline because the stream was closed."""
        return self._take()

    def _grow(self, data: bytes) -> None:
        if self._long is not None:
            self._long.grow(data)
        elif len(self._buffer) + len(data) > self.longest:
            self._long = TooLong(bytes(self._buffer))
            self._long.grow(data)
            self._buffer = bytearray()
        else:
            self._buffer += data

    def _take(self) -> bytes | TooLong:
        line = self._long or bytes(self._buffer)
        self._buffer, self._long = bytearray(), None
        return line
