"""A text that grows by small pieces: each is stored once, and joined once.

A list of pieces costs 50 bytes of overhead for each, which is most of it when a model sends two letters at a time; joining
the text whenever it is read takes time by the square of its length.
"""

from __future__ import annotations

_PIECES = 1024  # joined into one block


class TextBuffer:
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
        """Forget what stands behind `length` characters."""
        if length < self.length:
            kept = self.text()[:length]
            self._blocks, self._pieces, self.length = ([kept] if kept else []), [], len(kept)

    def put(self, offset: int, piece: str) -> None:
        """Write this at `offset`; what stood behind it is discarded."""
        self.cut(offset)
        self.append(piece)

    def _settle(self) -> None:
        if self._pieces:
            self._blocks.append("".join(self._pieces))
            self._pieces = []


class TextTail:
    """The same for a reader who shows the end only: no more than `most` characters are kept."""

    __slots__ = ("_most", "_text", "length")

    def __init__(self, most: int) -> None:
        self._most = most
        self._text = ""
        self.length = 0  # of the whole text

    def text(self) -> str:
        return self._text

    def cut(self, length: int) -> None:
        """Forget what stands behind `length` characters."""
        kept = max(0, len(self._text) - max(0, self.length - length)) if length else 0
        self._text, self.length = self._text[:kept], length

    def put(self, offset: int, piece: str) -> None:
        """Write this at `offset`; what stood behind it is discarded."""
        self.cut(offset)
        self._text = (self._text + piece)[-self._most :]
        self.length += len(piece)
