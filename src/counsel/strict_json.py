"""JSON from outside: a provider, an agent, an MCP server. What Python's reader takes too willingly is refused here.

`NaN`, `Infinity` and `1e999` are no JSON and would make our own output none; nesting past the interpreter's limit raises
`RecursionError`, which no `except ValueError` sees. Both are a `ValueError` here, as is a number of thousands of digits.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


_decoder = json.JSONDecoder(parse_constant=_constant, parse_float=_finite)
_scan = _decoder.scan_once  # type: ignore[attr-defined]


def loads(text: str | bytes) -> Any:
    """The document, or `ValueError`. Bytes are UTF-8; what is not is replaced."""
    if not isinstance(text, str):
        text = text.decode("utf-8", "replace").removeprefix("\ufeff")
    try:  # `json.loads` without its layers, which cost a small event more than its reading
        value, end = _scan(text, 0)
        return value if end == len(text) else _decoder.decode(text)
    except StopIteration:  # empty, white space first, or nonsense
        return _decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _decode(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
