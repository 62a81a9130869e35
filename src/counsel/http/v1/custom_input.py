"""Reads a free-text tool's input while `{"input": "…"}` arrives: for other vendors it is a function with one
argument."""

from __future__ import annotations

import json
import re

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"').match
# Whole characters and escapes. Half of a surrogate pair waits for its other half.
_TEXT = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    r"|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"
).match


class CustomInput:
    def __init__(self) -> None:
        self._rest = ""  # not read yet
        self._begun = False
        self.text = ""  # read so far

    def feed(self, piece: str) -> str:
        """Return the text that this piece adds; "" while its meaning is still uncertain."""
        self._rest += piece
        if not self._begun:
            opening = _BEGIN(self._rest)
            if opening is None:
                return ""
            self._begun, self._rest = True, self._rest[opening.end() :]
        match = _TEXT(self._rest)
        assert match is not None  # the pattern matches the empty string
        raw, self._rest = match[0], self._rest[match.end() :]
        try:
            new = str(json.loads(f'"{raw}"', strict=False))
        except ValueError:
            return ""
        self.text += new
        return new
