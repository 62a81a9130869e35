"""Parses JSON messages from untrusted bytes, and encodes messages as lines.

A message's cost is limited before it is parsed: 64 MiB of `{},` become 1.4 GB of objects. Parsing in a thread would not
help, since Python's parser holds the interpreter's lock. The stdio front uses this module: standard library only.
"""

from __future__ import annotations

import json

from counsel.front.bounded_lines import LONGEST

TYPE_CHECKING = False  # typing costs milliseconds
if TYPE_CHECKING:
    from typing import Any

LARGEST_MESSAGE = LONGEST
MOST_VALUES = 100_000  # in one message: 10 ms to parse, 10 MB as objects
DEEPEST = 100  # levels of nested lists and objects
LONGEST_NUMBER = 400  # characters; 64 MiB of numbers with 4,299 digits each take two seconds
MOST_IN_BATCH = 100
LONGEST_ID = 1_000  # characters of a request's id, which every answer repeats
LONGEST_QUOTE = 200  # characters of the caller's own text in an error


_TOO_DEEP = f"lists and objects may be nested at most {DEEPEST} levels deep"
_BOM = b"\xef\xbb\xbf"


class Unreadable(ValueError):
    """Bytes that are not a message. The text is for the sender and does not quote them."""


def parse(data: bytes | bytearray) -> Any:
    """The value of these bytes (JSON in UTF-8). Raises `Unreadable`."""
    if len(data) > LARGEST_MESSAGE:
        raise Unreadable(too_large())
    nests = data.count(b"[") + data.count(b"{")
    if nests + data.count(b",") > MOST_VALUES and _values(data) > MOST_VALUES:
        raise Unreadable(f"a message may hold at most {MOST_VALUES:,} values")
    try:
        value = _decoded(data.removeprefix(_BOM).decode("utf-8", "surrogatepass"))
    except Unreadable:
        raise
    except ValueError:
        raise Unreadable("this is not JSON in UTF-8") from None
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    if nests > DEEPEST and _is_deep(value):
        raise Unreadable(_TOO_DEEP)
    return value


def too_large() -> str:
    return f"a message may have at most {LARGEST_MESSAGE // 2**20} MiB"


def _values(data: bytes | bytearray) -> int:
    """The approximate number of values: commas inside strings do not count."""
    outside = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = outside.count(b'"')
    if quotes > 4 * MOST_VALUES:  # at most two pairs per value: its name and its string
        return quotes
    bare = b"".join(outside.split(b'"')[::2])
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _real(digits: str) -> float:
    _check_length(digits)
    return float(digits)


def _check_length(digits: str) -> None:
    if len(digits) > LONGEST_NUMBER:
        raise Unreadable(f"a number may have at most {LONGEST_NUMBER} digits")


def _constant(name: str) -> object:
    raise Unreadable(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=_constant)
_scan = _DECODER.scan_once  # type: ignore[attr-defined]


def _decoded(text: str) -> Any:
    """The value, without the decoder's layers if there is no white space around it."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else _DECODER.decode(text)


def encode(message: object) -> bytes:
    """The message as one line.

    Lone surrogates, which UTF-8 cannot hold, become escapes. Raises `ValueError` for NaN.
    """
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def quoted(value: object) -> str:
    """The beginning of what a caller sent, short enough for an error."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"
