"""Text as UTF-8 can hold it."""

from __future__ import annotations

import codecs


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


def is_blank(text: str) -> bool:
    """Nothing to read: empty, white space, or characters that nobody sees (zero-width, control)."""
    if not text or text.isspace():
        return True
    return len(text) < 256 and not any(char.isprintable() and not char.isspace() for char in text)


class Mender:
    """`sound` for text that comes in pieces: servers written in JavaScript cut between the halves of an emoji."""

    __slots__ = ("_decoder", "waits")

    def __init__(self) -> None:
        self.waits = False  # a half was there: from then on every piece must pass through here
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, piece: str) -> str:
        if self._decoder is None:
            if is_sound(piece):
                return piece
            self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
            self.waits = True
        return self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))

    def rest(self) -> str:
        """What waited for its other half in vain."""
        return self._decoder.decode(b"", final=True) if self._decoder else ""
