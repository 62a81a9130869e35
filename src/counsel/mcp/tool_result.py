"""A tool's outcome as MCP's `CallToolResult`: every text once (`once.py`), never larger than the client's limit.

The limit (`MAX_MCP_OUTPUT_TOKENS`, four characters each) bounds the whole serialised result. Past it the long
texts inside are cut at a paragraph, line or word, all to the same length, and say so; the whole text is one call
away: a resource link and a file. What is sent is always whole JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from counsel import strict_json
from counsel.errors import CounselError
from counsel.lazy_dataclass import dataclass
from counsel.mcp import deduplicate, overflow, render
from counsel.mcp.client_timeouts import Reads
from counsel.types import Json

Text: TypeAlias = Callable[[Json], str]
Result: TypeAlias = Callable[[Json], Json]

CHARS_PER_TOKEN = 4
_ENVELOPE = 600  # what JSON-RPC, `_meta` and the resource link add around the result
_SHORTEST = 120  # a text is not cut below this; past it entries of lists are left out
_ENTRIES = (10_000, 200, 50, 20, 8, 3, 1, 0)
_BOUNDARIES = ("\n\n", "\n", ". ", " ")


@dataclass(frozen=True, slots=True)
class Cut:
    most: int  # characters of one text
    entries: int  # entries of one list
    note: str  # where the rest is


@dataclass(frozen=True, slots=True)
class Frame:
    """What bounds a result, and where its full text is stored when it does not fit."""

    tokens: int
    home: Callable[[], Path | None]  # where long texts are stored; None where the home is no longer ours
    links: bool  # `resource_link` exists since 2025-06-18
    reads: Reads = "unknown"  # what of a result the client gives to its model
    reads_failed: Reads = "unknown"

    @property
    def room(self) -> int:
        return self.tokens * CHARS_PER_TOKEN - _ENVELOPE


def success(structured: Json, text: Text, frame: Frame, job: str | None) -> Json:
    return _fit(structured, text, frame, job, is_error=False)


def failure(error: CounselError, frame: Frame, job: str | None) -> Json:
    return _fit(error.as_dict(), render.failure, frame, job, is_error=True)


def _fit(
    structured: dict[str, object], text: Text, frame: Frame, job: str | None, *, is_error: bool
) -> dict[str, object]:
    reads = frame.reads_failed if is_error else frame.reads
    lean = deduplicate.lean(structured)

    def result(shown: Json) -> Json:
        return _result(*deduplicate.parts(shown, text, reads), is_error=is_error)

    if _weight(lean) <= frame.room:
        whole = result(lean)
        if _fits(whole, frame.room):
            return whole
    stored = overflow.store(frame.home(), job, text(structured))
    shortened = _shortened(lean, result, frame.room, stored.hint)
    if frame.links and stored.uri:
        shortened["content"].append(stored.link())
    return shortened


def _result(structured: Mapping[str, object], text: str, *, is_error: bool) -> dict[str, object]:
    result: Json = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    if is_error:
        result["isError"] = True
    return result


def _weight(value: object) -> int:
    """No more than the serialised size, without serialising: megabytes need no exact number to be too many."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_weight(held) for held in value.values())
    return sum(_weight(held) for held in value) if isinstance(value, list) else 0


def _fits(result: dict[str, object], room: int) -> bool:
    """In characters, of which there are no more than bytes."""
    encoded = strict_json.encode(result)
    return len(encoded) <= room or len(encoded.decode()) <= room


def _shortened(structured: dict[str, object], result: Result, room: int, note: str) -> Json:
    for entries in _ENTRIES:
        fitting = _longest_that_fits(structured, result, room, Cut(_SHORTEST, entries, note))
        if fitting:
            return fitting
    raise AssertionError("no result is so large that nothing of it fits")


def _longest_that_fits(structured: Json, result: Result, room: int, least: Cut) -> dict[str, object] | None:
    """The result with the largest cap on texts that fits, found by halving; None when not even `least` does."""
    best: dict[str, object] | None = None
    low, high, cap = least.most, room, least.most
    while best is None or high - low > max(_SHORTEST, low // 50):
        made = result(_shorten(structured, replace(least, most=cap)))
        if _fits(made, room):
            best, low = made, cap
        elif best is None:
            return None
        else:
            high = cap
        cap = (low + high) // 2
    return best


def _shorten(value: object, limit: Cut) -> Any:
    if isinstance(value, str):
        return cut(value, limit.most, limit.note)
    if isinstance(value, dict):
        return {name: _shorten(entry, limit) for name, entry in value.items()}
    if isinstance(value, list):  # the only long lists are histories: their end matters most
        return [_shorten(entry, limit) for entry in value[max(0, len(value) - limit.entries) :]]
    return value


def cut(text: str, most: int, note: str) -> str:
    """The text, or its beginning up to a boundary and how much of it is missing."""
    if len(text) <= most:
        return text
    head = text[:most]
    for boundary in _BOUNDARIES:
        at = head.rfind(boundary)
        if at > most // 2:
            head = head[:at]
            break
    return f"{head.rstrip()}\n\n[cut here: {len(head):,} of {len(text):,} characters; {note}]"
