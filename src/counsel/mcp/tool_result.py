"""A tool's outcome as MCP's `CallToolResult`: without repetitions (`deduplicate.py`), within the client's size limit.

The limit (`MAX_MCP_OUTPUT_TOKENS`, four characters each) bounds the whole serialised result. In a larger result the
long texts are cut at a paragraph, line or word, all to the same length, with a note; the full text is available as a
resource link and as a file. The JSON itself is always complete.
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
_SHORTEST = 120  # characters: no text is cut below this; a result that is still too large loses list entries
_SMALL = 4_000  # characters: a shorter text means that the JSON is small, too
_ENTRIES = (10_000, 200, 50, 20, 8, 3, 1, 0)
_BOUNDARIES = ("\n\n", "\n", ". ", " ")


@dataclass(frozen=True, slots=True)
class Cut:
    most: int  # characters of one text
    entries: int  # entries of one list
    note: str  # where the rest is


@dataclass(frozen=True, slots=True)
class Frame:
    """A result's limits, and where its full text is stored when it does not fit."""

    tokens: int
    home: Callable[[], Path | None]  # where long texts are stored; None where the home is no longer ours
    links: bool  # `resource_link` exists since 2025-06-18
    reads: Reads = "unknown"  # the part of a result that the client passes to its model
    reads_failed: Reads = "unknown"

    @property
    def most_characters(self) -> int:
        return self.tokens * CHARS_PER_TOKEN - _ENVELOPE


@dataclass(frozen=True, slots=True)
class Content:
    """A tool's outcome as JSON and as text; `text_of` makes the text of shortened JSON."""

    structured: Json
    text: str
    text_of: Callable[[Json], str]
    reads: Reads

    def result(self, limit: Cut | None = None) -> Json:
        structured, text = self.structured, self.text
        if limit is not None:
            structured = _shorten(structured, limit)
            text = self.text_of(structured)
        document, text = deduplicate.parts(structured, text, self.reads)
        return {"content": [{"type": "text", "text": text}], "structuredContent": document}


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
    if len(content.text) < _SMALL or _minimum_size(content.structured) <= frame.most_characters:
        result = content.result()
        if _fits(result, frame.most_characters):
            return result
    full_text = overflow.store(frame.home(), job, content.text)
    shorter = _shortened(content, frame.most_characters, full_text.hint)
    if frame.links and full_text.uri:
        shorter["content"].append(full_text.link())
    return shorter


def _minimum_size(value: object) -> int:
    """A lower bound of the serialised size, found without serialising megabytes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_minimum_size(entry) for entry in value.values())
    return sum(_minimum_size(entry) for entry in value) if isinstance(value, list) else 0


def _fits(result: dict[str, object], most: int) -> bool:
    """Whether the result has at most `most` characters. Bytes are compared first: there are never fewer of them."""
    data = strict_json.encode(result)
    return len(data) <= most or len(data.decode()) <= most


def _shortened(content: Content, most: int, note: str) -> Json:
    for entries in _ENTRIES:
        fitting = _longest_that_fits(content, most, Cut(_SHORTEST, entries, note))
        if fitting:
            return fitting
    raise AssertionError("the shortest form of a result always fits")


def _longest_that_fits(content: Content, most: int, least: Cut) -> dict[str, object] | None:
    """The result with the longest texts that fit, found by bisection; None when not even `least` fits."""
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
    """The text, or its beginning up to a boundary with a note on how much is missing."""
    if len(text) <= most:
        return text
    head = text[:most]
    for boundary in _BOUNDARIES:
        at = head.rfind(boundary)
        if at > most // 2:
            head = head[:at]
            break
    return f"{head.rstrip()}\n\n[cut here: {len(head):,} of {len(text):,} characters; {note}]"
