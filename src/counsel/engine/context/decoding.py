"""Bytes as text: what a file is called says nothing about what it holds; its bytes do."""

from __future__ import annotations

import codecs
import re

from counsel.errors import InvalidArgument

_LINE_END = re.compile(r"\r\n|\n|\r")
# Longest first: UTF-32's mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_BINARY_SHARE = 0.02  # of control characters, in a file that is no UTF-8


def decode(data: bytes, name: str) -> tuple[str, str]:
    """The text and how it was encoded."""
    for encoding in encodings(data):
        check(data, encoding, name)
        try:
            return data.decode(encoding), shown(encoding)
        except UnicodeDecodeError:
            continue
    raise broken(data, name)


def encodings(data: bytes) -> tuple[str, ...]:
    """What text that begins so may be encoded in, to be tried in this order."""
    mark = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
    return (mark,) if mark else ("utf-8", "latin-1")


def check(data: bytes, encoding: str, name: str) -> None:
    """Raises `InvalidArgument` for bytes that could be decoded so and are no text."""
    if encoding in {"utf-8", "latin-1"} and b"\0" in data:
        raise binary(name, "it contains NUL bytes")
    if encoding == "latin-1" and len(data) - len(data.translate(None, _CONTROLS)) > len(data) * _BINARY_SHARE:
        raise binary(name, "it contains too many control characters")


def broken(data: bytes, name: str) -> InvalidArgument:
    encoding = shown(encodings(data)[0]).upper()
    return binary(name, f"its byte order mark says {encoding}, but it is not valid {encoding}")


def binary(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name} is not a text file: {why}.",
        hint="Send images in `images`; convert other files to text.",
        file=name,
    )


def shown(encoding: str) -> str:
    return encoding.removesuffix("-sig")


def split_lines(text: str) -> list[str]:
    """As editors count: a last line end opens no new line, and form feeds or U+2028 end none."""
    lines = _LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines
