"""A text file as a model reads it: a header, then its lines with their numbers."""

from __future__ import annotations

import codecs
import html
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from counsel.engine import secretfiles
from counsel.engine.folders import Folders, Opened
from counsel.errors import FileNotAllowed, FileTooLarge, InvalidArgument
from counsel.types import Json

_RANGE = re.compile(r"(.+)\{(\d{0,9}):(\d{0,9})\}", re.DOTALL).fullmatch
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


@dataclass(frozen=True, slots=True)
class Source:
    """What the result says about one file or image that was sent."""

    name: str
    path: Path | None
    size: int
    modified: str | None = None
    lines: int | None = None  # of the whole file
    first: int | None = None
    last: int | None = None
    encoding: str = "utf-8"

    def as_dict(self) -> Json:
        shown = {
            "name": self.name,
            "size": self.size,
            "modified": self.modified,
            "lines": self.lines,
            "range": None if self.first is None else f"{self.first}:{self.last}",
            "encoding": None if self.encoding == "utf-8" else self.encoding,
        }
        return {key: value for key, value in shown.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A name as the caller wrote it, taken apart."""

    name: str
    path: Path
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class TextFile:
    source: Source
    path: Path
    block: str

    @property
    def key(self) -> tuple[object, ...]:
        return (self.path, self.source.first, self.source.last)


def wanted(name: str, folders: Folders) -> Wanted:
    """`path`, or `path{10:50}`; a real file whose name ends in braces wins over a range."""
    path = folders.locate(name)
    found = _RANGE(name)
    if not found or os.path.lexists(path):
        return Wanted(name, path)
    first, last = (int(text) if text else None for text in found.groups()[1:])
    if (first is None and last is None) or first == 0 or last == 0 or (first and last and first > last):
        raise InvalidArgument(
            f"{name}: the range of lines is empty.",
            hint="Write {10:50}, {10:} or {:50}; lines count from 1.",
            file=name,
        )
    return Wanted(name, folders.locate(found[1]), first or 1, last)


def read(want: Wanted, folders: Folders) -> TextFile:
    with folders.open(want.name, want.path) as opened:
        data = _bounded(opened, folders.caller.settings.max_file_bytes)
    text, encoding = decode(data, want.name)
    if why := secretfiles.by_content(text, opened.path, folders.home, folders.caller):
        raise FileNotAllowed(
            f"{want.name} was not sent: {why}.", hint=secretfiles.hint(opened.path), file=want.name
        )
    lines = split_lines(text)
    first, last = _clip(want, len(lines))
    source = Source(
        name=_shown_name(opened.path, folders),
        path=opened.path,
        size=len(data),
        modified=datetime.fromtimestamp(opened.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        lines=len(lines),
        first=first if want.first else None,
        last=last if want.first else None,
        encoding=encoding,
    )
    return TextFile(source, opened.path, _block(source, lines[first - 1 : last], first, last))


def _bounded(opened: Opened, limit: int) -> bytes:
    data = b"" if opened.size > limit else opened.read(limit + 1)
    if opened.size > limit or len(data) > limit:
        raise FileTooLarge(
            f"{opened.name} is larger than {limit:,} bytes.",
            hint="Send a part of it as its own file, or raise COUNSEL_MAX_FILE_BYTES.",
            file=opened.name,
            size=max(opened.size, len(data)),
            limit=limit,
        )
    return data


def decode(data: bytes, name: str) -> tuple[str, str]:
    """The text and how it was encoded. What a file is called says nothing; its bytes do."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding.removesuffix("-sig")
            except UnicodeDecodeError:
                raise _binary(name, f"it claims to be {encoding.upper()} and is not") from None
    if b"\0" in data:
        raise _binary(name, "it holds NUL bytes")
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        if len(data) - len(data.translate(None, _CONTROLS)) > len(data) * _BINARY_SHARE:
            raise _binary(name, "most of it is no text") from None
        return data.decode("latin-1"), "latin-1"


def _binary(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name} is not a text file: {why}.",
        hint="Pictures go into `images`; convert others to text.",
        file=name,
    )


def split_lines(text: str) -> list[str]:
    """As editors count: a last line end opens no new line, and form feeds or U+2028 end none."""
    lines = _LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def _clip(want: Wanted, count: int) -> tuple[int, int]:
    first = want.first or 1
    if first > max(count, 1):
        raise InvalidArgument(
            f"{want.name}: the file has {count} lines.", hint="Ask for lines that it has.", file=want.name
        )
    return first, min(want.last or count, count)


def _shown_name(path: Path, folders: Folders) -> str:
    base = next((folder for folder in folders.working if path.is_relative_to(folder)), None)
    return str(path.relative_to(base)) if base else str(path)


def _block(source: Source, lines: list[str], first: int, last: int) -> str:
    """Every line of content begins with its number, so no content can pretend to end the block."""
    facts = {"path": source.name, "size": f"{source.size} bytes", "modified": source.modified}
    if source.first is not None:
        facts["lines"] = f"{first}-{last} of {source.lines}"
    if source.encoding != "utf-8":
        facts["encoding"] = f"{source.encoding}, shown as UTF-8"
    head = " ".join(f'{key}="{attribute(str(value))}"' for key, value in facts.items())
    width = len(str(last))
    body = "".join(f"{number:>{width}}| {line}\n" for number, line in enumerate(lines, first))
    return f"<file {head}>\n{body or '(empty)' + chr(10)}</file>"


def attribute(text: str) -> str:
    """A file name may hold quotes, newlines or bytes that are no text; the header must not break on them."""
    plain = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return html.escape(plain, quote=True)
