"""Compressed answers, decompressed in pieces of a bounded size.

We request none (`accept-encoding: identity`), but some gateways compress anyway. One kilobyte of gzip can hold a
megabyte: decompressing a chunk at once has no bound on memory (measured: 3.3 GiB from one stream).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import ClassVar, Protocol

PIECE = 16 * 1024  # bytes of one piece: some 300 small events, a few milliseconds
_GZIP = 31  # zlib's `wbits`


class Unsupported(ValueError):
    """A content encoding that we did not request and do not support."""


class Decoder(Protocol):
    is_plain: ClassVar[bool]  # the data is not compressed

    def feed(self, chunk: bytes) -> Iterator[bytes]: ...


class _Plain:
    is_plain: ClassVar = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        if len(chunk) <= PIECE:
            return iter((chunk,))
        return (chunk[start : start + PIECE] for start in range(0, len(chunk), PIECE))


class _Zlib:
    is_plain: ClassVar = False

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._stream = zlib.decompressobj(wbits)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Raises `zlib.error` for invalid data."""
        while chunk:
            if piece := self._stream.decompress(chunk, PIECE):
                yield piece
            chunk = self._stream.unconsumed_tail or self._next_member()

    def _next_member(self) -> bytes:
        """The bytes of the next gzip member, if any: a gzip file may have several, and each needs a decompressor."""
        if not self._stream.eof:
            return b""
        rest = self._stream.unused_data
        self._stream = zlib.decompressobj(self._wbits)
        return rest


class _Deflate:
    """Some servers send a raw stream as "deflate"; the first two bytes show whether they are a zlib header."""

    is_plain: ClassVar = False

    def __init__(self) -> None:
        self._head = b""
        self._decoder: _Zlib | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            chunk = self._head = self._head + chunk
            if len(chunk) < 2:
                return
            is_zlib = chunk[0] & 15 == 8 and (chunk[0] * 256 + chunk[1]) % 31 == 0
            self._decoder = _Zlib(15 if is_zlib else -15)
        yield from self._decoder.feed(chunk)


def decoder(encoding: str) -> Decoder:
    """Raises `Unsupported`."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return _Plain()
    if name in {"gzip", "x-gzip"}:
        return _Zlib(_GZIP)
    if name == "deflate":
        return _Deflate()
    raise Unsupported(name)
