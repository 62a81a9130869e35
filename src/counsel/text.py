"""Text that arrives in pieces, and text that UTF-8 cannot encode."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

_PIECES = 1024  # pieces that are joined into one block


def without_surrogates(text: str) -> str:
    """The text with lone surrogates (half an emoji in JSON, a byte that is not UTF-8 in a name) replaced by U+FFFD."""
    if is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`, `1,000 entries`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def did_you_mean(names: Sequence[str]) -> str:
    """`Did you mean a, b or c?`; nothing without names."""
    if not names:
        return ""
    *others, last = names
    return f"Did you mean {' or '.join(filter(None, (', '.join(others), last)))}?"


def is_blank(text: str) -> bool:
    """Whether there is nothing to read: only white space or invisible characters (zero-width, control)."""
    if not text or text.isspace():
        return True
    if text.isprintable() or len(text) >= 256:
        return False
    return not any(char.isprintable() and not char.isspace() for char in text)


class TextRepair:
    """`sound` for text that arrives in pieces: servers written in JavaScript may cut an emoji into halves."""

    __slots__ = ("_decoder", "waits")

    def __init__(self) -> None:
        self.waits = False  # whether a half has arrived: from then on every piece must pass through here
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, piece: str) -> str:
        if self._decoder is None:
            if is_encodable(piece):
                return piece
            self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
            self.waits = True
        return self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))

    def rest(self) -> str:
        """U+FFFD if half a character is left at the end."""
        return self._decoder.decode(b"", final=True) if self._decoder else ""


def missing(start: str, text: str) -> str:
    """The part of a whole text that has not arrived yet; nothing if `start`, the text so far, is not its beginning."""
    return text[len(start) :] if text.startswith(start) else ""


class TextBuffer:
    """A text that grows by small pieces, each of which is stored once and joined once.

    A list of pieces has 50 bytes of overhead for each, which is most of it if a model sends two letters at a time.
    Joining the text whenever it is read would take time proportional to the square of its length.
    """

    __slots__ = ("_blocks", "_pieces", "length")

    def __init__(self, text: str = "") -> None:
        self._blocks: list[str] = [text] if text else []
        self._pieces: list[str] = []
        self.length = len(text)  # characters

    def append(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)
        if len(self._pieces) >= _PIECES:
            self._settle()

    def text(self) -> str:
        self._settle()
        if len(self._blocks) > 1:
            self._blocks = ["".join(self._blocks)]
        return self._blocks[0] if self._blocks else ""

    def since(self, offset: int) -> str:
        """The text after `offset`. The cost depends on the returned text only, not on what precedes it."""
        self._settle()
        needed = self.length - offset
        tail: list[str] = []
        for block in reversed(self._blocks):
            if needed <= 0:
                break
            tail.append(block if len(block) <= needed else block[-needed:])
            needed -= len(block)
        return tail[0] if len(tail) == 1 else "".join(reversed(tail))

    def cut(self, length: int) -> None:
        """Keep the first `length` characters."""
        if length < self.length:
            text = self.text()[:length]
            self._blocks, self._pieces, self.length = ([text] if text else []), [], len(text)

    def put(self, offset: int, piece: str) -> None:
        """Write this at `offset`; what followed is discarded."""
        self.cut(offset)
        self.append(piece)

    def _settle(self) -> None:
        if self._pieces:
            self._blocks.append("".join(self._pieces))
            self._pieces = []


class TextTail:
    """The end of such a text, for a reader that shows only that: stores at most `limit` characters."""

    __slots__ = ("_limit", "_text", "length")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = ""
        self.length = 0  # of the whole text

    def text(self) -> str:
        return self._text

    def cut(self, length: int) -> None:
        """Keep the first `length` characters."""
        length_left = max(0, len(self._text) - max(0, self.length - length)) if length else 0
        self._text, self.length = self._text[:length_left], length

    def put(self, offset: int, piece: str) -> None:
        """Write this at `offset`; what followed is discarded."""
        self.cut(offset)
        self._text = (self._text + piece)[-self._limit :]
        self.length += len(piece)
