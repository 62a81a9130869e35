"""JSON that models write for counsel (votes, verdicts, findings), as readable text while it arrives.

The answer itself stays JSON and is checked when it is complete. Live views get only its strings, without keys, quotes
and escapes. An answer that does not begin like a JSON object is shown unchanged.
"""

from __future__ import annotations

from typing import Literal

_BETWEEN = "\n\n"  # between two strings
_ESCAPES = {"n": "\n", "t": "\t", "r": "", "b": "", "f": ""}


def readable(text: str) -> str:
    """The text that live views show of a whole answer."""
    return LiveJson().feed(text)


class LiveJson:
    """Takes an answer piece by piece, and returns the text to show for each piece."""

    def __init__(self) -> None:
        self._kind: Literal["unknown", "fence", "json", "text"] = "unknown"
        self._inside: list[str] = []  # open brackets
        self._is_key = False  # the next string is a key
        self._in_string = False
        self._escape = ""  # an escape sequence that has begun
        self._high = 0  # the first half of a surrogate pair
        self._has_text = False

    def feed(self, piece: str) -> str:
        if self._kind == "text":
            return piece
        texts: list[str] = []
        for position, char in enumerate(piece):
            if self._kind == "json":
                texts.append(self._character(char))
            elif self._kind == "fence":
                self._kind = "unknown" if char == "\n" else "fence"
            elif char == "`":
                self._kind = "fence"
            elif char == "{":
                self._kind = "json"
                self._character(char)
            elif not char.isspace():
                self._kind = "text"
                return "".join(texts) + piece[position:]
        return "".join(texts)

    def _character(self, char: str) -> str:
        if self._in_string:
            return self._of_string(char)
        if char == '"':
            self._in_string = True
            if not self._is_key and self._has_text:
                return _BETWEEN
        elif char in "{[":
            self._inside.append(char)
            self._is_key = char == "{"
        elif char in "}]":
            self._inside = self._inside[:-1]
        elif char in ":,":
            self._is_key = char == "," and self._inside[-1:] == ["{"]
        return ""

    def _of_string(self, char: str) -> str:
        if self._escape:
            char = self._escaped(char)
        elif char == "\\":
            self._escape = char
            return ""
        elif char == '"':
            self._in_string = False
            return ""
        if self._is_key or not char:
            return ""
        self._has_text = True
        return char

    def _escaped(self, char: str) -> str:
        """The character that an escape sequence stands for, once it is complete."""
        self._escape += char
        if self._escape[1] != "u":
            self._escape = ""
            return _ESCAPES.get(char, char)
        if len(self._escape) < 6:
            return ""
        digits, self._escape = self._escape[2:], ""
        try:
            code = int(digits, 16)
        except ValueError:
            return ""
        if 0xD800 <= code < 0xDC00:
            self._high = code
            return ""
        if 0xDC00 <= code < 0xE000:
            pair = 0x10000 + ((self._high - 0xD800) << 10) + (code - 0xDC00)
            return chr(pair) if self._high else "�"
        self._high = 0
        return chr(code)
