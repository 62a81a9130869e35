"""Reads a line range of a file that is too large to send whole, from the file's start to the range's last line."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import field

from counsel.engine.context import decoding
from counsel.engine.context.allowed_folders import OpenFile
from counsel.errors import FileTooLarge, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.text import counted

CEILING = 256 * 1024 * 1024  # bytes of a file to read in search of the range
_CHUNK = 1 << 20
_OVERLAP = 8192  # characters of a chunk that are checked again with the next one: a secret may span both


@dataclass(frozen=True, slots=True)
class Range:
    first: int
    last: int | None  # None: up to the file's end
    limit: int  # bytes that may be sent


@dataclass(slots=True)
class Part:
    encoding: str
    lines: list[str] = field(default_factory=list)
    count: int | None = None  # lines in the whole file, if it was read to the end


def read(file: OpenFile, span: Range, check: Callable[[str], None]) -> Part:
    """Read the lines of `span`. `check` gets all text up to the last one, in pieces, and raises to refuse the file."""
    start = os.pread(file.fd, 4, 0)
    for encoding in decoding.encodings(start):
        os.lseek(file.fd, 0, os.SEEK_SET)
        try:
            return _scan(file, span, encoding, check)
        except UnicodeDecodeError:
            continue
    raise decoding.invalid(start, file.name)


def _scan(file: OpenFile, span: Range, encoding: str, check: Callable[[str], None]) -> Part:
    pieces: list[str] = []
    size, number, overlap, at_line_start = 0, 1, "", True  # `number`: the line of the next character
    for text in _texts(file, encoding, span):
        check(overlap + text)
        overlap = (overlap + text)[-_OVERLAP:]
        piece = _between(text, span, number)
        size += len(piece.encode(errors="replace"))
        if size > span.limit:
            raise _too_much(file, span)
        pieces.append(piece)
        number += text.count("\n")
        at_line_start = text.endswith("\n")
        if span.last is not None and number > span.last:
            return Part(decoding.display_name(encoding), decoding.split_lines("".join(pieces)))
    count = number - 1 if at_line_start else number
    if span.first > count:
        raise no_such_line(file.name, count)
    return Part(decoding.display_name(encoding), decoding.split_lines("".join(pieces)), count)


def _texts(file: OpenFile, encoding: str, span: Range) -> Iterator[str]:
    """The file's text in pieces, none of them empty, with every line end as `\\n`."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    size = 0
    while chunk := os.read(file.fd, _CHUNK):
        decoding.check(chunk, encoding, file.name)
        if text := decoder.decode(chunk):
            yield text
        size += len(chunk)
        if size >= CEILING:
            raise _too_far(file, span)
    if text := decoder.decode(b"", final=True):
        yield text


def _between(text: str, span: Range, number: int) -> str:
    """The lines of `span` in a text that begins in line `number`."""
    end = len(text) if span.last is None else _offset(text, span.last + 1 - number)
    return text[_offset(text, span.first - number) : end]


def _offset(text: str, line_ends: int) -> int:
    """The offset after this many line ends; the text's end if it has fewer."""
    if line_ends <= 0:
        return 0
    pieces = text.split("\n", line_ends)
    return len(text) - len(pieces[-1]) if len(pieces) > line_ends else len(text)


def no_such_line(name: str, count: int) -> InvalidArgument:
    return InvalidArgument(
        f"{name}: the file has {counted(count, 'line')}.", hint="Name lines within that range.", file=name
    )


def _too_much(file: OpenFile, span: Range) -> FileTooLarge:
    return _too_large(
        file,
        f"these lines are larger than {span.limit:,} bytes.",
        "Name fewer lines, or raise COUNSEL_MAX_FILE_BYTES.",
        span.limit,
    )


def _too_far(file: OpenFile, span: Range) -> FileTooLarge:
    last = span.last or "the end"
    return _too_large(
        file,
        f"the lines up to {last} are not within the first {CEILING:,} bytes.",
        "Copy the part that you need to a separate file and send that.",
        CEILING,
    )


def _too_large(file: OpenFile, message: str, hint: str, limit: int) -> FileTooLarge:
    return FileTooLarge(f"{file.name}: {message}", hint=hint, file=file.name, size=file.size, limit=limit)
