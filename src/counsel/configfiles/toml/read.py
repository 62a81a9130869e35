"""The value of a TOML text, as `tomllib` reads it; TOML 1.1, which Codex also reads, is converted first."""

from __future__ import annotations

import math
import re
import tomllib
from typing import TYPE_CHECKING

from counsel.configfiles.document import malformed
from counsel.errors import ConfigInvalid

if TYPE_CHECKING:
    from counsel.configfiles.toml.toml11 import Toml10

_AT = r"\(at (?:line (\d+), column (\d+)|end of document)\)"


class _Float(float):
    """A float whose `nan` equals itself: an unchanged `nan` must not look like a change."""

    def __eq__(self, other: object) -> bool:
        both_nan = isinstance(other, float) and math.isnan(self) and math.isnan(other)
        return both_nan or super().__eq__(other)

    __hash__ = float.__hash__


def meaning(text: str) -> dict[str, object]:
    bare = text.removeprefix("\ufeff")
    try:
        return _loaded(bare)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    from counsel.configfiles.toml.toml11 import Toml10  # rarely needed

    converted = Toml10(bare)
    if converted.text == bare:
        raise _malformed(message, text)
    try:
        return _loaded(converted.text)
    except tomllib.TOMLDecodeError as error:
        raise _malformed(str(error), bare, converted) from None


def _loaded(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text, parse_float=_Float)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's limit of 4,300 digits
        match = re.search(r"[0-9_]{4300,}", text)
        problem = "This is not usable TOML: a number is too long"
        raise malformed(problem, text, match.start() if match else 0) from None
    except RecursionError:
        raise ConfigInvalid("This is not usable TOML: it is nested too deeply") from None


def _malformed(message: str, text: str, converted: Toml10 | None = None) -> ConfigInvalid:
    match = re.search(_AT, message)
    problem = f"This is not valid TOML: {re.sub(_AT, '', message).strip()}"
    if match is None or match[1] is None:
        return malformed(problem, text, len(text))
    line, column = int(match[1]), int(match[2])
    if converted is not None:
        lines = converted.text.split("\n")
        offset = sum(len(previous) + 1 for previous in lines[: line - 1]) + column - 1
        return malformed(problem, text, converted.original_offset(offset))
    return ConfigInvalid(f"{problem} (line {line}, column {column})", line=line, column=column)
