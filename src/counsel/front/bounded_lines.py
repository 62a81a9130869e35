"""Bytes as they come, lines as they are whole; and of a line that is too long, only what an answer to it needs.

Standard library only and little of it: the front stands on this.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from counsel.types import Json

LONGEST = 64 << 20  # bytes of one message, as at the HTTP door: several pictures as data URLs
_KEPT = 4096  # bytes of each end of a line that is too long
_ID = rb'"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,20})'
# Python's SDK writes the id before the parameters, the one in TypeScript after them.
_FIRST = re.compile(rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*,)*\s*' + _ID + rb"\s*,").match
_LAST = re.compile(_ID + rb'(?:\s*,\s*"(?:jsonrpc|method)"\s*:\s*"[^"]*")*\s*\}\s*\Z').search


class TooLong:
    """A line of which the middle was thrown away."""

    __slots__ = ("head", "size", "tail")

    def __init__(self, head: bytes) -> None:
        self.head, self.tail, self.size = head[:_KEPT], b"", 0
        self.grow(head)

    def grow(self, data: bytes) -> None:
        self.size += len(data)
        self.tail = (self.tail + data[-_KEPT:])[-_KEPT:]

    @property
    def words(self) -> str:
        return (
            f"This message has {self.size:,} bytes; at most {LONGEST:,} are taken. "
            "Nothing was sent or kept. Send less, or name files instead."
        )

    def response(self) -> Json:
        """The refusal, to the request that it was."""
        import json  # noqa: PLC0415 - rarely needed

        found = _FIRST(self.head) or _LAST(self.tail)
        error = {"code": -32600, "message": self.words, "data": {"size": self.size, "limit": LONGEST}}
        return {"jsonrpc": "2.0", "id": json.loads(found[1]) if found else None, "error": error}


class Lines:
    """`feed` bytes; get whole lines. Appending is cheap however long a line gets."""

    __slots__ = ("_kept", "_long", "longest")

    def __init__(self, longest: int = LONGEST) -> None:
        self._kept = bytearray()
        self._long: TooLong | None = None
        self.longest = longest

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        if b"\n" not in data:
            self._grow(data)
            return []
        first, *others = data.split(b"\n")
        self._grow(first)
        rest = others.pop()
        found = [self._take(), *others]
        self._grow(rest)
        return found

    @property
    def unfinished(self) -> int:
        """Bytes that are kept."""
        return len(self._kept)

    def give_up(self) -> None:
        """Too much is kept elsewhere: of this line, too, only what an answer needs."""
        if self._long is None:
            self._long, self._kept = TooLong(bytes(self._kept)), bytearray()

    def clear(self) -> None:
        """The sender has gone. A new buffer: `clear()` of the old one would keep its memory."""
        self._kept, self._long = bytearray(), None

    def end(self) -> bytes | TooLong:
        """What came without a line's end before the stream closed."""
        return self._take()

    def _grow(self, data: bytes) -> None:
        if self._long is not None:
            self._long.grow(data)
        elif len(self._kept) + len(data) > self.longest:
            self._long = TooLong(bytes(self._kept))
            self._long.grow(data)
            self._kept = bytearray()
        else:
            self._kept += data

    def _take(self) -> bytes | TooLong:
        line = self._long or bytes(self._kept)
        self._kept, self._long = bytearray(), None
        return line
