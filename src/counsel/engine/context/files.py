"""A text file as it is sent to a model: a header, then its lines with their numbers."""

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
from counsel.engine.context.allowed_folders import Folders, OpenFile
from counsel.engine.context.decoding import decode, split_lines
from counsel.engine.context.ranges import Part, Range, no_such_line
from counsel.errors import FileNotAllowed, FileTooLarge, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.results import Source
from counsel.text import counted

_RANGE = re.compile(r"(.+)\{(\d{0,9}):(\d{0,9})\}", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A parsed file name, and as the caller wrote it."""

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
        """Hash of its lines without the header, so `touch` does not change it."""
        _, _, lines = self.block.partition("\n")
        return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def lines(self) -> str:
        """The requested range, `10-50` or `pages 3-5`; empty: the whole file."""
        if self.source.first is None:
            return ""
        return f"{'pages ' if self.source.pages else ''}{self.source.first}-{self.source.last}"


def parse(name: str, folders: Folders) -> FileSpec:
    """Parse `path` or `path{10:50}`. An existing file whose name ends in braces takes precedence over a range."""
    path = folders.locate(name)
    match = _RANGE(name)
    if not match or os.path.lexists(path):
        return FileSpec(name, path)
    first, last = (int(text) if text else None for text in match.groups()[1:])
    first = 1 if first == 0 else first
    if (first is None and last is None) or last == 0 or (first and last and first > last):
        raise InvalidArgument(
            f"{name}: the line range is empty.",
            hint="Write {10:50}, {10:} or {:50}; the first line is 1.",
            file=name,
        )
    return FileSpec(name, folders.locate(match[1]), first or 1, last)


def without_range(name: str) -> str:
    match = _RANGE(name)
    return match[1] if match else name


def read(spec: FileSpec, folders: Folders) -> TextFile:
    limit = folders.caller.settings.max_file_bytes
    with folders.open(spec.name, spec.path) as file:
        check = partial(_refuse_secrets, file=file, folders=folders)
        if pdf.is_pdf(file):
            return _pages(spec, file, folders, check)
        if spec.first and file.size > limit:
            part = ranges.read(file, Range(spec.first, spec.last, limit), check)
            size = file.size
        else:
            data = _bounded(file, limit)
            part, size = _whole(data, spec, check), len(data)
    first = spec.first or 1
    last = first + len(part.lines) - 1
    source = Source(
        name=_shown_name(file.path, folders),
        size=size,
        modified=_time(file),
        lines=part.count,
        first=first if spec.first else None,
        last=last if spec.first else None,
        encoding=part.encoding,
    )
    width = len(str(last))
    lines = [f"{number:>{width}}| {line}\n" for number, line in enumerate(part.lines, first)]
    return TextFile(source, file.path, _block(source, lines))


def plain(name: str, path: Path, folders: Folders) -> str:
    """A text file without header and line numbers."""
    with folders.open(name, path) as file:
        text, _ = decode(_bounded(file, folders.caller.settings.max_file_bytes), name)
        _refuse_secrets(text, file, folders)
    return text


def _pages(spec: FileSpec, file: OpenFile, folders: Folders, check: Callable[[str], None]) -> TextFile:
    """A PDF's text. A range means pages, and each line begins with its page number."""
    document = pdf.read(file, spec.last, folders.caller.settings)
    check("\n".join(document.pages))
    first = spec.first or 1
    if first > document.count:
        raise InvalidArgument(
            f"{spec.name}: the PDF has {counted(document.count, 'page')}.",
            hint="Name pages within that range.",
            file=spec.name,
        )
    last = min(spec.last or document.count, document.count)
    source = Source(
        name=_shown_name(file.path, folders),
        size=file.size,
        modified=_time(file),
        first=first if spec.first else None,
        last=last if spec.first else None,
        pages=document.count,
    )
    lines = [
        f"p{number}| {line}\n"
        for number, page in enumerate(document.pages[first - 1 : last], first)
        for line in split_lines(page)
    ]
    return TextFile(source, file.path, _block(source, lines))


def _time(file: OpenFile) -> str:
    return datetime.fromtimestamp(file.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refuse_secrets(text: str, file: OpenFile, folders: Folders) -> None:
    if why := secret_files.by_content(text, file.path, folders.home, folders.caller):
        raise FileNotAllowed(
            f"{file.name} was not sent: {why}.",
            hint=secret_files.hint(file.path, folders.caller),
            file=file.name,
        )


def _whole(data: bytes, spec: FileSpec, check: Callable[[str], None]) -> Part:
    text, encoding = decode(data, spec.name)
    check(text)
    lines = split_lines(text)
    first, last = _clip(spec, len(lines))
    return Part(encoding, lines[first - 1 : last], len(lines))


def _bounded(file: OpenFile, limit: int) -> bytes:
    data = b"" if file.size > limit else file.read(limit + 1)
    if file.size > limit or len(data) > limit:
        raise FileTooLarge(
            f"{file.name} is larger than {limit:,} bytes.",
            hint="Send only the lines that you need (path{10:50}), or raise COUNSEL_MAX_FILE_BYTES.",
            file=file.name,
            size=max(file.size, len(data)),
            limit=limit,
        )
    return data


def _clip(spec: FileSpec, count: int) -> tuple[int, int]:
    first = spec.first or 1
    if first > max(count, 1):
        raise no_such_line(spec.name, count)
    return first, min(spec.last or count, count)


def _shown_name(path: Path, folders: Folders) -> str:
    if uploads.is_upload(path, folders.caller.settings.home):
        return path.name  # vendors need not learn the name of our folder
    base = next((folder for folder in folders.working if path.is_relative_to(folder)), None)
    return str(path.relative_to(base)) if base else str(path)


def _block(source: Source, lines: list[str]) -> str:
    """The file as a block.

    Every line of content begins with its number, so that it cannot fake the end of the block.
    """
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
    body = "".join(lines)
    return f"<file {head}>\n{body or '(empty)' + chr(10)}</file>"


def attribute(text: str) -> str:
    """A text escaped for a header: file names can contain quotes, newlines or invalid bytes."""
    printable = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return html.escape(printable, quote=True)
