"""A text file as a model reads it: a header, then its lines with their numbers."""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from counsel.engine.context import pdf, ranges, secret_files, uploads
from counsel.engine.context.allowed_folders import Folders, Opened
from counsel.engine.context.decoding import decode, split_lines
from counsel.engine.context.ranges import Part, Range, no_such_line
from counsel.errors import FileNotAllowed, FileTooLarge, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.results import Source
from counsel.text import counted

_RANGE = re.compile(r"(.+)\{(\d{0,9}):(\d{0,9})\}", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file name as the caller wrote it, parsed."""

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

    @property
    def sha(self) -> str:
        """Hash of its lines without the header: `touch` does not change it."""
        _, _, lines = self.block.partition("\n")
        return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def lines(self) -> str:
        """The requested range, `10-50` or `pages 3-5`; empty: the whole file."""
        if self.source.first is None:
            return ""
        return f"{'pages ' if self.source.pages else ''}{self.source.first}-{self.source.last}"


def wanted(name: str, folders: Folders) -> Wanted:
    """`path`, or `path{10:50}`; an existing file whose name ends in braces takes precedence over a range."""
    path = folders.locate(name)
    match = _RANGE(name)
    if not match or os.path.lexists(path):
        return Wanted(name, path)
    first, last = (int(text) if text else None for text in match.groups()[1:])
    first = 1 if first == 0 else first
    if (first is None and last is None) or last == 0 or (first and last and first > last):
        raise InvalidArgument(
            f"{name}: the line range is empty.",
            hint="Write {10:50}, {10:} or {:50}; lines count from 1.",
            file=name,
        )
    return Wanted(name, folders.locate(match[1]), first or 1, last)


def without_range(name: str) -> str:
    match = _RANGE(name)
    return match[1] if match else name


def read(want: Wanted, folders: Folders) -> TextFile:
    limit = folders.caller.settings.max_file_bytes
    with folders.open(want.name, want.path) as opened:
        look = partial(_refuse_secrets, opened=opened, folders=folders)
        if pdf.is_pdf(opened):
            return _pages(want, opened, folders, look)
        if want.first and opened.size > limit:
            part = ranges.read(opened, Range(want.first, want.last, limit), look)
            size = opened.size
        else:
            data = _bounded(opened, limit)
            part, size = _whole(data, want, look), len(data)
    first = want.first or 1
    last = first + len(part.lines) - 1
    source = Source(
        name=_shown_name(opened.path, folders),
        size=size,
        modified=_time(opened),
        lines=part.count,
        first=first if want.first else None,
        last=last if want.first else None,
        encoding=part.encoding,
    )
    width = len(str(last))
    numbered = [f"{number:>{width}}| {line}\n" for number, line in enumerate(part.lines, first)]
    return TextFile(source, opened.path, _block(source, numbered))


def plain(name: str, path: Path, folders: Folders) -> str:
    """A text file without header and line numbers."""
    with folders.open(name, path) as opened:
        text, _ = decode(_bounded(opened, folders.caller.settings.max_file_bytes), name)
        _refuse_secrets(text, opened, folders)
    return text


def _pages(want: Wanted, opened: Opened, folders: Folders, look: Callable[[str], None]) -> TextFile:
    """A PDF's text. Its range counts pages, and each line begins with its page."""
    document = pdf.read(opened, want.last, folders.caller.settings)
    look("\n".join(document.pages))
    first = want.first or 1
    if first > document.count:
        raise InvalidArgument(
            f"{want.name}: the PDF has {counted(document.count, 'page')}.",
            hint="Ask for pages that it has.",
            file=want.name,
        )
    last = min(want.last or document.count, document.count)
    source = Source(
        name=_shown_name(opened.path, folders),
        size=opened.size,
        modified=_time(opened),
        first=first if want.first else None,
        last=last if want.first else None,
        pages=document.count,
    )
    numbered = [
        f"p{number}| {line}\n"
        for number, page in enumerate(document.pages[first - 1 : last], first)
        for line in split_lines(page)
    ]
    return TextFile(source, opened.path, _block(source, numbered))


def _time(opened: Opened) -> str:
    return datetime.fromtimestamp(opened.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refuse_secrets(text: str, opened: Opened, folders: Folders) -> None:
    if why := secret_files.by_content(text, opened.path, folders.home, folders.caller):
        raise FileNotAllowed(
            f"{opened.name} was not sent: {why}.",
            hint=secret_files.hint(opened.path, folders.caller),
            file=opened.name,
        )


def _whole(data: bytes, want: Wanted, look: Callable[[str], None]) -> Part:
    text, encoding = decode(data, want.name)
    look(text)
    lines = split_lines(text)
    first, last = _clip(want, len(lines))
    return Part(encoding, lines[first - 1 : last], len(lines))


def _bounded(opened: Opened, limit: int) -> bytes:
    data = b"" if opened.size > limit else opened.read(limit + 1)
    if opened.size > limit or len(data) > limit:
        raise FileTooLarge(
            f"{opened.name} is larger than {limit:,} bytes.",
            hint="Send the lines that matter (path{10:50}), or raise COUNSEL_MAX_FILE_BYTES.",
            file=opened.name,
            size=max(opened.size, len(data)),
            limit=limit,
        )
    return data


def _clip(want: Wanted, count: int) -> tuple[int, int]:
    first = want.first or 1
    if first > max(count, 1):
        raise no_such_line(want.name, count)
    return first, min(want.last or count, count)


def _shown_name(path: Path, folders: Folders) -> str:
    if uploads.is_upload(path, folders.caller.settings.home):
        return path.name  # the folder is ours, and no business of a vendor
    base = next((folder for folder in folders.working if path.is_relative_to(folder)), None)
    return str(path.relative_to(base)) if base else str(path)


def _block(source: Source, numbered: list[str]) -> str:
    """Every line of content begins with its number, so that content cannot fake the end of the block."""
    facts = {"path": source.name, "size": f"{source.size} bytes", "modified": source.modified}
    count = source.pages or source.lines
    if source.first is not None:
        unit = "pages" if source.pages else "lines"
        facts[unit] = f"{source.first}-{source.last}" + (f" of {count}" if count else "")
    elif source.pages:
        facts["pages"] = str(source.pages)
    if source.encoding != "utf-8":
        facts["encoding"] = f"{source.encoding}, shown as UTF-8"
    head = " ".join(f'{key}="{attribute(str(value))}"' for key, value in facts.items())
    body = "".join(numbered)
    return f"<file {head}>\n{body or '(empty)' + chr(10)}</file>"


def attribute(text: str) -> str:
    """File names can contain quotes, newlines or invalid bytes; they must not break the header."""
    plain = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return html.escape(plain, quote=True)
