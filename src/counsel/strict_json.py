"""Read JSON from providers, agents and MCP servers, more strictly than Python's reader; write compact JSON.

`NaN`, `Infinity` and `1e999` are not JSON and would make counsel's own output invalid; nesting beyond the interpreter's
limit raises `RecursionError`, which no `except ValueError` catches. Here both raise `ValueError`, as does a number with
thousands of digits.

The daemon uses msgspec (`accelerate`), which reads a vendor's event in a third and writes a result in a tenth of the
time. If it refuses a document, the standard library decides. Short-lived commands do not import it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


_decoder = json.JSONDecoder(parse_constant=refuse_constant, parse_float=_finite)
_scan = _decoder.scan_once  # type: ignore[attr-defined]


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_quick_decode: Callable[[str], object] | None = None
_quick_encode: Callable[[object], bytes] | None = None


def accelerate() -> None:
    """Use msgspec from now on. It takes 20 ms to import: call this in a thread of a long-running process."""
    global _quick_decode, _quick_encode
    import msgspec

    _quick_decode, _quick_encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def is_quick() -> bool:
    """Whether msgspec is in use."""
    return _quick_decode is not None


def loads(text: str | bytes) -> Any:
    """The document, or `ValueError`. Bytes are read as UTF-8; invalid ones are replaced."""
    if not isinstance(text, str):
        text = text.decode("utf-8", "replace").removeprefix("\ufeff")
    if _quick_decode is not None:
        try:
            return _quick_decode(text)
        except Exception:  # noqa: BLE001, S110 - a lone surrogate, or not JSON: the standard library decides
            pass
    try:  # `json.loads` without its layers, which cost more than parsing a small event
        value, end = _scan(text, 0)
        return value if end == len(text) else _decoder.decode(text)
    except StopIteration:  # empty, leading white space, or not JSON
        return _decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def encode(value: object, errors: str = "strict") -> bytes:
    """Compact JSON in UTF-8. A lone surrogate, which UTF-8 cannot encode, becomes an escape, or `?` with "replace"."""
    if _quick_encode is not None:
        try:
            return _quick_encode(value)
        except Exception:  # noqa: BLE001, S110 - a lone surrogate, or a number of more than 64 bits
            pass
    try:
        return _compact(value).encode(errors=errors)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def encode_line(value: object) -> bytes:
    return encode(value) + b"\n"


def dumps(value: object) -> str:
    """Compact JSON as text."""
    return encode(value).decode()


def _decode(text: str) -> object:
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
