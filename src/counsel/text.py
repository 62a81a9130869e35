"""Text that arrives in pieces, and text that UTF-8 cannot hold."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

_PIECES = 1024  # joined into one block


def sound(text: str) -> str:
    """Half a character (half an emoji in JSON, a byte that was no UTF-8 in a name or a pipe) becomes U+FFFD."""
    if is_sound(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_sound(text: str) -> bool:
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
    *most, last = names
    return f"Did you mean {' or '.join(filter(None, (', '.join(most), last)))}?"


def is_blank(text: str) -> bool:
    """Nothing to read: empty, white space, or invisible characters (zero-width, control)."""
    if not text or text.isspace():
        return True
    return len(text) < 256 and not any(char.isprintable() and not char.isspace() for char in text)


class TextRepair:
    """`sound` for text that arrives in pieces: servers written in JavaScript cut between the halves of an emoji."""

    __slots__ = ("_decoder", "waits")

    def __init__(self) -> None:
        self.waits = False  # a half arrived: from then on every piece must pass through here
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, piece: str) -> str:
        if self._decoder is None:
            if is_sound(piece):
                return piece
            self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
            self.waits = True
        return self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))

    def rest(self) -> str:
        """What still waits for its other half, as U+FFFD."""
        return self._decoder.decode(b"", final=True) if self._decoder else ""


def missing(received: str, whole: str) -> str:
    """What a whole text adds to the pieces of it that arrived before; nothing where they are not its beginning."""
    return whole[len(received) :] if whole.startswith(received) else ""


class TextBuffer:
    """A text that grows by small pieces: each is stored once, and joined once.

    A list of pieces costs 50 bytes of overhead for each, which is most of it when a model sends two letters at a time;
    joining the text whenever it is read takes time by the square of its length.
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
        """The text from there on. It costs what it returns, not what came before."""
        self._settle()
        missing = self.length - offset
        tail: list[str] = []
        for block in reversed(self._blocks):
            if missing <= 0:
                break
            tail.append(block if len(block) <= missing else block[-missing:])
            missing -= len(block)
        return tail[0] if len(tail) == 1 else "".join(reversed(tail))

    def cut(self, length: int) -> None:
        """Keep the first `length` characters."""
        if length < self.length:
            kept = self.text()[:length]
            self._blocks, self._pieces, self.length = ([kept] if kept else []), [], len(kept)

    def put(self, offset: int, piece: str) -> None:
        """Write this at `offset`; what followed is discarded."""
        self.cut(offset)
        self.append(piece)

    def _settle(self) -> None:
        if self._pieces:
            self._blocks.append("".join(self._pieces))
            self._pieces = []


class TextTail:
    """The end of such a text, for a reader who shows only that: it stores at most `most` characters."""

    __slots__ = ("_most", "_text", "length")

    def __init__(self, most: int) -> None:
        self._most = most
        self._text = ""
        self.length = 0  # of the whole text

    def text(self) -> str:
        return self._text

    def cut(self, length: int) -> None:
        """Keep the first `length` characters."""
        kept = max(0, len(self._text) - max(0, self.length - length)) if length else 0
        self._text, self.length = self._text[:kept], length

    def put(self, offset: int, piece: str) -> None:
        """Write this at `offset`; what followed is discarded."""
        self.cut(offset)
        self._text = (self._text + piece)[-self._most :]
        self.length += len(piece)
