"""A tool with free text is a function with one argument for other vendors: its text while `{"input": "…"}` arrives."""

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
        """The text that this piece adds; nothing as long as that is not certain."""
        self._rest += piece
        if not self._begun:
            begin = _BEGIN(self._rest)
            if begin is None:
                return ""
            self._begun, self._rest = True, self._rest[begin.end() :]
        whole = _TEXT(self._rest)
        assert whole is not None  # it matches the empty string
        raw, self._rest = whole[0], self._rest[whole.end() :]
        try:
            new = str(json.loads(f'"{raw}"', strict=False))
        except ValueError:
            return ""
        self.text += new
        return new
