"""Server-sent events, right for any cut of the bytes: inside a line, a CRLF or a character."""

from __future__ import annotations

import json
from typing import Any

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
MOST_BYTES = 64 * 1024 * 1024  # of one line: a server that never ends one must not fill the memory


class EventParser:
    """`feed` bytes as they come; get `(event, data)` pairs as soon as they are whole."""

    __slots__ = ("_after_cr", "_data", "_event", "_rest", "_started")

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False
        self._started = False
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        if b"\r" in chunk or self._after_cr:
            chunk = self._without_cr(chunk)
        if self._rest:
            chunk = self._rest + chunk
        if not self._started:
            if len(chunk) < 3 and b"\xef\xbb\xbf".startswith(chunk):
                self._rest = chunk
                return []
            self._started = True
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        lines = chunk.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MOST_BYTES:
            raise ValueError("a line without an end")
        return self._lines(lines)

    def end(self) -> list[tuple[str, str]]:
        """What was still open when the stream ended: some servers leave out the last empty line."""
        lines, self._rest = [self._rest, b""], b""
        return self._lines(lines)

    def _without_cr(self, chunk: bytes) -> bytes:
        """Any of CRLF, CR, LF ends a line; a CRLF may be cut in two."""
        if not chunk:
            return chunk
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _lines(self, lines: list[bytes]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for line in lines:
            if not line:
                if self._data:
                    found.append((self._event, "\n".join(self._data)))
                    self._data = []
                self._event = ""
            elif line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._data.append(value.decode("utf-8", "replace"))
            elif line.startswith(b"event:"):
                self._event = line[6:].decode("utf-8", "replace").removeprefix(" ")
            elif line == b"data":
                self._data.append("")
        return found


def document(data: str) -> Any:
    """`json.loads` without its layers, which cost a small event more than its reading."""
    try:
        value, end = _scan(data, 0)
    except StopIteration:  # empty, white space, or nonsense
        return json.loads(data)
    return value if end == len(data) else json.loads(data)
