"""A tool's outcome as MCP's `CallToolResult`: every text once (`deduplicate.py`), never larger than the client's limit.

The limit (`MAX_MCP_OUTPUT_TOKENS`, four characters each) bounds the whole serialised result. Past it the long
texts inside are cut at a paragraph, line or word, all to the same length, and say so; the whole text is one call
away: a resource link and a file. What is sent is always whole JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from counsel import strict_json
from counsel.errors import CounselError, from_dict
from counsel.lazy_dataclass import dataclass
from counsel.mcp import deduplicate, overflow, render
from counsel.mcp.client_timeouts import Reads
from counsel.results import ToolResult
from counsel.types import Json

R = TypeVar("R", bound=ToolResult)
CHARS_PER_TOKEN = 4
_ENVELOPE = 600  # what JSON-RPC, `_meta` and the resource link add around the result
_SHORTEST = 120  # a text is not cut below this; past it entries of lists are left out
_SMALL = 4_000  # characters of a text beside which the JSON is small, too
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
    def most_characters(self) -> int:
        return self.tokens * CHARS_PER_TOKEN - _ENVELOPE


@dataclass(frozen=True, slots=True)
class Content:
    """A tool's outcome as JSON and as text, and how the text is made when the JSON was shortened."""

    structured: Json
    text: str
    text_of: Callable[[Json], str]
    reads: Reads

    def result(self, limit: Cut | None = None) -> Json:
        structured, text = self.structured, self.text
        if limit is not None:
            structured = _shorten(structured, limit)
            text = self.text_of(structured)
        shown, text = deduplicate.parts(structured, text, self.reads)
        return {"content": [{"type": "text", "text": text}], "structuredContent": shown}


def success(result: R, frame: Frame, job: str | None, text: Callable[[R], str]) -> Json:
    def text_of(structured: dict[str, object]) -> str:
        return text(type(result).from_json(structured))

    content = Content(deduplicate.to_json(result), text(result), text_of, frame.reads)
    return _fit(content, frame, job)


def failure(error: CounselError, frame: Frame, job: str | None) -> Json:
    def text_of(structured: dict[str, object]) -> str:
        return render.failure(from_dict(structured))

    content = Content(error.as_dict(), render.failure(error), text_of, frame.reads_failed)
    return {**_fit(content, frame, job), "isError": True}


def _fit(content: Content, frame: Frame, job: str | None) -> dict[str, object]:
    if len(content.text) < _SMALL or _weight(content.structured) <= frame.most_characters:
        whole = content.result()
        if _fits(whole, frame.most_characters):
            return whole
    stored = overflow.store(frame.home(), job, content.text)
    shortened = _shortened(content, frame.most_characters, stored.hint)
    if frame.links and stored.uri:
        shortened["content"].append(stored.link())
    return shortened


def _weight(value: object) -> int:
    """No more than the serialised size, without serialising: megabytes need no exact number to be too many."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_weight(entry) for entry in value.values())
    return sum(_weight(entry) for entry in value) if isinstance(value, list) else 0


def _fits(result: dict[str, object], most: int) -> bool:
    """In characters, of which there are no more than bytes."""
    encoded = strict_json.encode(result)
    return len(encoded) <= most or len(encoded.decode()) <= most


def _shortened(content: Content, most: int, note: str) -> Json:
    for entries in _ENTRIES:
        fitting = _longest_that_fits(content, most, Cut(_SHORTEST, entries, note))
        if fitting:
            return fitting
    raise AssertionError("no result is so large that nothing of it fits")


def _longest_that_fits(content: Content, most: int, least: Cut) -> dict[str, object] | None:
    """The result with the largest cap on texts that fits, found by halving; None when not even `least` does."""
    best: dict[str, object] | None = None
    low, high, cap = least.most, most, least.most
    while best is None or high - low > max(_SHORTEST, low // 50):
        result = content.result(replace(least, most=cap))
        if _fits(result, most):
            best, low = result, cap
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
