"""Undo one change in a file that was edited since, by a three-way merge."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from counsel.configfiles.content import common_prefix, common_suffix
from counsel.configfiles.edits import MISSING, Drop, Edit, Put, alike, differing_keys
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import Target
from counsel.errors import ConfigInvalid, Conflict, CounselError
from counsel.records import Record

_SERVERS = {("mcpServers",), ("mcp_servers",)}  # the tables of MCP servers in any agent's file


class Span(Record):
    """The bytes from `start` to `end` that the change replaced."""

    start: int
    end: int


def without_change(
    span: Span, target: Target, before: bytes, after: bytes, current: bytes | None
) -> bytes | None:
    """The current content without the change: its bytes are reverted if they are still there, else its members."""
    kind, path = target.kind, target.path
    present = safewrite.document(current, kind, path)
    old, new = (safewrite.document(data, kind, path).value for data in (before, after))
    try:
        edits = _reverse((), old, new, present.value, path)
        merged = present.edited(edits)
    except RecursionError:
        raise ConfigInvalid(
            f"{path} is nested too deeply to be compared; nothing was written.",
            hint="Change it by hand.",
            file=str(path),
        ) from None
    if current is None or not edits:
        return current if not edits else merged.text.encode()
    for candidate in _candidates(span, before, after, current):
        with suppress(CounselError):
            if safewrite.document(candidate, kind, path).value == merged.value:
                return candidate
    return merged.text.encode()


# Bytes on either side of the change that locate it in the current file; the least ambiguous sizes come first.
_CONTEXT_SIZES = ((256, 256), (64, 64), (16, 16), (0, 64), (64, 0), (0, 16), (16, 0), (0, 4), (4, 0), (0, 0))


def _candidates(span: Span, before: bytes, after: bytes, current: bytes) -> Iterator[bytes]:
    """The current bytes without the change, for each possible position of the change."""
    stop = len(after) - (len(before) - span.end)
    shifts = dict.fromkeys(_shifts(span.start, stop, after, current))
    line = _line(after, span.start, stop)
    for shift in sorted(
        shifts, key=lambda offset: _line(current, span.start + offset, stop + offset) != line
    ):
        yield current[: span.start + shift] + before[span.start : span.end] + current[stop + shift :]


def _line(data: bytes, start: int, stop: int) -> tuple[bytes, bytes]:
    """The parts of the line before and after a span."""
    end = data.find(b"\n", stop)
    return data[data.rfind(b"\n", 0, start) + 1 : start], data[stop : end if end >= 0 else len(data)]


def _shifts(start: int, stop: int, after: bytes, current: bytes) -> Iterator[int]:
    if stop <= common_prefix(after, current):
        yield 0
    if start >= len(after) - common_suffix(after, current):
        yield len(current) - len(after)
    for left, right in _CONTEXT_SIZES:
        piece = after[max(0, start - left) : stop + right]
        offset = current.find(piece)
        if piece and offset >= 0 and current.find(piece, offset + 1) < 0:
            yield offset - max(0, start - left)


def _reverse(path: Keys, before: Any, after: Any, current: Any, file: Path) -> list[Edit]:
    if _same(before, after) or _same(before, current) or (current is MISSING and _only_adds(before, after)):
        return []
    if _same(current, after):
        return [Drop(path) if before is MISSING else Put(path, before)]
    # Undone as a whole or not at all: half an entry makes every Codex command fail.
    added_server = before is MISSING and path[-2:-1] in _SERVERS
    old = {} if before is MISSING else before
    if not added_server and all(isinstance(value, Mapping) for value in (old, after, current)):
        return [
            edit
            for key in differing_keys(after, old)
            for edit in _reverse(
                (*path, key), old.get(key, MISSING), after.get(key, MISSING), current.get(key, MISSING), file
            )
        ]
    name = ".".join(path) or "the file"
    raise Conflict(
        f"{file}: {name} was changed again later, so this change cannot be undone; nothing was written.",
        hint="`counsel servers remove` removes the whole server."
        if added_server
        else "Change it by hand, or undo the later change first.",
        file=str(file),
    )


def _only_adds(before: object, after: object) -> bool:
    """Whether the change only added members: if the whole object is gone, so are they."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return False
    both = ((before[key], after.get(key, MISSING)) for key in before)
    return all(_same(old, new) or _only_adds(old, new) for old, new in both)


def _same(first: object, second: object) -> bool:
    if first is MISSING or second is MISSING:
        return first is second
    return alike(first, second)
