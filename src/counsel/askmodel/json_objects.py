"""Finds the end of a JSON object that was sent without a newline, as askModel's first clients do.

However an object is split, each byte is scanned once, and the object is parsed once.
"""

from __future__ import annotations

import re

from counsel.front.json_messages import DEEPEST, MOST_VALUES

_MOST_MARKS = 8 * MOST_VALUES  # quotes and brackets of one object; the parser refuses objects with more
# up to a quote, or to a backslash at the end of the piece
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL).match
_MARK = re.compile(rb'["{}\[\]]').search


class NewlineInserter:
    """Takes bytes (`feed`) and returns them with a newline after each object that has none."""

    __slots__ = ("_at_start", "_depth", "_escaped", "_in_string", "_marks", "_off")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._at_start = True
        self._off = False  # leave the rest of the line as it is: not an object that the parser accepts
        self._depth = self._marks = 0
        self._in_string = self._escaped = False

    def feed(self, data: bytes) -> bytes:
        first, *rest = data.split(b"\n")
        lines = [self._line(first)]
        for line in rest:
            self._reset()
            lines.append(self._line(line))
        return b"\n".join(lines)

    def _line(self, data: bytes) -> bytes:
        return b"".join(self._objects(data)) or data

    def _objects(self, data: bytes) -> list[bytes]:
        pieces, begin, at = [], 0, 0
        while at < len(data) and not self._off:
            if self._at_start and not self._starts(data, at):
                break
            at = self._next(data, at)
            if self._depth == 0 and not self._at_start:
                pieces.append(data[begin:at] + b"\n")
                begin = at
                self._reset()
        return [*pieces, data[begin:]] if pieces else []

    def _starts(self, data: bytes, at: int) -> bool:
        """Whether an object starts here, perhaps after white space. Anything else is left to the parser."""
        rest = data[at : at + 64].lstrip()
        if rest[:1] == b"{":
            return True
        self._off = bool(rest)
        return False

    def _next(self, data: bytes, at: int) -> int:
        """Scan the rest of a string, or up to the next quote or bracket. Return its end."""
        if self._in_string:
            return self._through_string(data, at)
        match = _MARK(data, at)
        if match is None:
            return len(data)
        self._count()
        mark = match[0]
        if mark == b'"':
            self._in_string = True
        else:
            self._depth += 1 if mark in b"{[" else -1
            self._off = self._off or not 0 <= self._depth <= DEEPEST
        self._at_start = False
        return match.end()

    def _through_string(self, data: bytes, at: int) -> int:
        at += self._escaped
        self._escaped = False
        match = _STRING(data, at)
        end = match.end() if match else at
        if end >= len(data):
            return len(data)
        if data[end] == ord("\\"):  # the last byte; the byte that it escapes is in the next piece
            self._escaped = True
            return len(data)
        self._in_string = False
        return end + 1

    def _count(self) -> None:
        self._marks += 1
        self._off = self._off or self._marks > _MOST_MARKS
