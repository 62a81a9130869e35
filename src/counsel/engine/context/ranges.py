"""Reads a line range of a file that is too large to be sent whole: from its start to the last wanted line."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import field

from counsel.engine.context import decoding
from counsel.engine.context.allowed_folders import Opened
from counsel.errors import FileTooLarge, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.text import counted

CEILING = 256 * 1024 * 1024  # bytes of a file that are read to find its lines
_CHUNK = 1 << 20
_SEAM = 8192  # characters of a chunk that are checked again with the next chunk, so that no secret hides at the border


@dataclass(frozen=True, slots=True)
class Range:
    first: int
    last: int | None  # None: up to the file's end
    limit: int  # bytes that may be sent


@dataclass(slots=True)
class Part:
    encoding: str
    lines: list[str] = field(default_factory=list)
    count: int | None = None  # lines of the whole file, when its end was seen


def read(opened: Opened, wanted: Range, look: Callable[[str], None]) -> Part:
    """`look` sees all the text up to the last line, in pieces, and raises when the file must not be sent."""
    start = os.pread(opened.fd, 4, 0)
    for encoding in decoding.encodings(start):
        os.lseek(opened.fd, 0, os.SEEK_SET)
        try:
            return _scan(opened, wanted, encoding, look)
        except UnicodeDecodeError:
            continue
    raise decoding.broken(start, opened.name)


def _scan(opened: Opened, wanted: Range, encoding: str, look: Callable[[str], None]) -> Part:
    taken: list[str] = []
    size, number, seam, ended = 0, 1, "", True  # `number`: the line that the next character belongs to
    for text in _texts(opened, encoding, wanted):
        look(seam + text)
        seam = (seam + text)[-_SEAM:]
        piece = _between(text, wanted, number)
        size += len(piece.encode(errors="replace"))
        if size > wanted.limit:
            raise _too_much(opened, wanted)
        taken.append(piece)
        number += text.count("\n")
        ended = text.endswith("\n")
        if wanted.last is not None and number > wanted.last:
            return Part(decoding.shown(encoding), decoding.split_lines("".join(taken)))
    count = number - 1 if ended else number
    if wanted.first > count:
        raise no_such_line(opened.name, count)
    return Part(decoding.shown(encoding), decoding.split_lines("".join(taken)), count)


def _texts(opened: Opened, encoding: str, wanted: Range) -> Iterator[str]:
    """The file's text piece by piece, every line end as `\\n`; the pieces are never empty."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    seen = 0
    while chunk := os.read(opened.fd, _CHUNK):
        decoding.check(chunk, encoding, opened.name)
        if text := decoder.decode(chunk):
            yield text
        seen += len(chunk)
        if seen >= CEILING:
            raise _too_far(opened, wanted)
    if text := decoder.decode(b"", final=True):
        yield text


def _between(text: str, wanted: Range, number: int) -> str:
    """The wanted lines of a text that begins in line `number`."""
    end = len(text) if wanted.last is None else _offset(text, wanted.last + 1 - number)
    return text[_offset(text, wanted.first - number) : end]


def _offset(text: str, line_ends: int) -> int:
    """The offset after this many line ends; the text's end if it has fewer."""
    if line_ends <= 0:
        return 0
    pieces = text.split("\n", line_ends)
    return len(text) - len(pieces[-1]) if len(pieces) > line_ends else len(text)


def no_such_line(name: str, count: int) -> InvalidArgument:
    return InvalidArgument(
        f"{name}: the file has {counted(count, 'line')}.", hint="Ask for lines that it has.", file=name
    )


def _too_much(opened: Opened, wanted: Range) -> FileTooLarge:
    return _too_large(
        opened,
        f"these lines are larger than {wanted.limit:,} bytes.",
        "Ask for fewer lines, or raise COUNSEL_MAX_FILE_BYTES.",
        wanted.limit,
    )


def _too_far(opened: Opened, wanted: Range) -> FileTooLarge:
    last = wanted.last or "the end"
    return _too_large(
        opened,
        f"the lines up to {last} are not within the first {CEILING:,} bytes.",
        "Copy the part that matters to a separate file and send that.",
        CEILING,
    )


def _too_large(opened: Opened, message: str, hint: str, limit: int) -> FileTooLarge:
    return FileTooLarge(
        f"{opened.name}: {message}", hint=hint, file=opened.name, size=opened.size, limit=limit
    )
