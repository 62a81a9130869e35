"""JSON from outside: a provider, an agent, an MCP server. What Python's reader takes too willingly is refused here.

`NaN`, `Infinity` and `1e999` are no JSON and would make our own output none; nesting past the interpreter's limit raises
`RecursionError`, which no `except ValueError` sees. Both are a `ValueError` here, as is a number of thousands of digits.

The daemon uses msgspec (`accelerate`): it reads a vendor's event in a third and writes a result in a tenth of the time. What it
does not take is given to the standard library, whose verdict counts. Commands, which are over in a moment, do not import it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
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


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_quick_decode: Callable[[str], Any] | None = None
_quick_encode: Callable[[Any], bytes] | None = None


def accelerate() -> None:
    """Use msgspec from now on. It takes 20 ms to import: call this in a thread of a process that stays."""
    global _quick_decode, _quick_encode
    import msgspec  # noqa: PLC0415

    _quick_decode, _quick_encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def loads(text: str | bytes) -> Any:
    """The document, or `ValueError`. Bytes are UTF-8; what is not is replaced."""
    if not isinstance(text, str):
        text = text.decode("utf-8", "replace").removeprefix("\ufeff")
    if _quick_decode is not None:
        try:
            return _quick_decode(text)
        except Exception:  # noqa: BLE001, S110 - half a character, or no JSON: the standard library says which
            pass
    try:  # `json.loads` without its layers, which cost a small event more than its reading
        value, end = _scan(text, 0)
        return value if end == len(text) else _decoder.decode(text)
    except StopIteration:  # empty, white space first, or nonsense
        return _decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def encode(value: Any, errors: str = "strict") -> bytes:
    """Compact JSON in UTF-8. A lone surrogate, which UTF-8 cannot hold, is written as an escape, or with "replace" as `?`."""
    if _quick_encode is not None:
        try:
            return _quick_encode(value)
        except Exception:  # noqa: BLE001, S110 - half a character, or a number of more than 64 bits
            pass
    try:
        return _compact(value).encode(errors=errors)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def encode_line(value: Any) -> bytes:
    return encode(value) + b"\n"


def dumps(value: Any) -> str:
    """Compact JSON as text."""
    return encode(value).decode()


def _decode(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
