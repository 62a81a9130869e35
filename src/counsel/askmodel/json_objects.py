"""Where a JSON object ends that was sent without a line's end: askModel's first clients write none and wait.

Every byte is looked at once, however the object is split; what is parsed is the whole object, once.
"""

from __future__ import annotations

import re

from counsel.front.json_messages import DEEPEST, MOST_VALUES

_MOST_MARKS = 8 * MOST_VALUES  # quotes and brackets of one object; more are not parsed either
_TEXT = re.compile(
    rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL
).match  # up to a quote, or a backslash that ends the piece
_MARK = re.compile(rb'["{}\[\]]').search


class Objects:
    """`feed` bytes; get the same bytes with a line's end behind each object that has none yet."""

    __slots__ = ("_at_start", "_depth", "_escaped", "_in_text", "_marks", "_off")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._at_start, self._off = True, False
        self._depth = self._marks = 0
        self._in_text = self._escaped = False

    def feed(self, data: bytes) -> bytes:
        first, *others = data.split(b"\n")
        lines = [self._line(first)]
        for line in others:
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
        """Whether an object begins here; white space before it does not matter, anything else is a line's business."""
        rest = data[at : at + 64].lstrip()
        if rest[:1] == b"{":
            return True
        self._off = bool(rest)
        return False

    def _next(self, data: bytes, at: int) -> int:
        """One step: the rest of a text, or up to the next quote or bracket. Gives where it ended."""
        if self._in_text:
            return self._through_text(data, at)
        found = _MARK(data, at)
        if found is None:
            return len(data)
        self._count()
        mark = found[0]
        if mark == b'"':
            self._in_text = True
        else:
            self._depth += 1 if mark in b"{[" else -1
            self._off = self._off or not 0 <= self._depth <= DEEPEST
        self._at_start = False
        return found.end()

    def _through_text(self, data: bytes, at: int) -> int:
        at += self._escaped
        self._escaped = False
        found = _TEXT(data, at)
        end = found.end() if found else at
        if end >= len(data):
            return len(data)
        if data[end] == ord("\\"):  # the last byte: what it escapes comes with the next piece
            self._escaped = True
            return len(data)
        self._in_text = False
        return end + 1

    def _count(self) -> None:
        self._marks += 1
        self._off = self._off or self._marks > _MOST_MARKS
