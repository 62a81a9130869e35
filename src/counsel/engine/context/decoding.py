"""Decodes a file's bytes as text. Its content decides whether it is text, not its name."""

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
_BINARY_SHARE = 0.02  # share of control characters that makes a file binary, if it is not UTF-8


def decode(data: bytes, name: str) -> tuple[str, str]:
    """The text and its encoding."""
    for encoding in encodings(data):
        check(data, encoding, name)
        try:
            return data.decode(encoding), display_name(encoding)
        except UnicodeDecodeError:
            continue
    raise invalid(data, name)


def encodings(data: bytes) -> tuple[str, ...]:
    """The encodings to try, in this order, for text with these first bytes."""
    mark = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
    return (mark,) if mark else ("utf-8", "latin-1")


def check(data: bytes, encoding: str, name: str) -> None:
    """Raise `InvalidArgument` for bytes that can be decoded but are not text."""
    if encoding in {"utf-8", "latin-1"} and b"\0" in data:
        raise binary(name, "it contains NUL bytes")
    if encoding == "latin-1" and len(data) - len(data.translate(None, _CONTROLS)) > len(data) * _BINARY_SHARE:
        raise binary(name, "it contains too many control characters")


def invalid(data: bytes, name: str) -> InvalidArgument:
    encoding = display_name(encodings(data)[0]).upper()
    return binary(name, f"its byte order mark says {encoding}, but it is not valid {encoding}")


def binary(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name} is not a text file: {why}.",
        hint="Send images in `images`; convert other files to text.",
        file=name,
    )


def display_name(encoding: str) -> str:
    return encoding.removesuffix("-sig")


def split_lines(text: str) -> list[str]:
    """Lines as editors count them: a final line break starts no new line; form feeds and U+2028 end none."""
    lines = _LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines
