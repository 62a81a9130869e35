"""TOML values and tables as text, and arrays that change item by item."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from counsel.configfiles.edits import Path, alike
from counsel.configfiles.tomlscan import Value
from counsel.errors import ConfigInvalid

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def block(place: Path, value: Mapping[str, Any], newline: str) -> str:
    """A table with its scalars first, then its tables, as Codex writes them."""
    plain = {key: item for key, item in value.items() if not isinstance(item, Mapping)}
    tables = {key: item for key, item in value.items() if isinstance(item, Mapping)}
    parts = []
    if plain or not tables:
        lines = [f"[{'.'.join(map(_key, place))}]", *(pair((key,), item) for key, item in plain.items())]
        parts.append("".join(f"{line}{newline}" for line in lines))
    parts += [block((*place, key), item, newline) for key, item in tables.items()]
    return newline.join(parts)


def dotted(keys: Path, value: Any) -> list[str]:
    if not isinstance(value, Mapping) or not value:
        return [pair(keys, value)]
    return [line for key, item in value.items() for line in dotted((*keys, key), item)]


def indent_of(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]


def pair(keys: Path, value: Any) -> str:
    return f"{'.'.join(map(_key, keys))} = {render(value)}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def render(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(pair((key,), item) for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(render, value))}]"
    for kind, written in _WRITERS:
        if isinstance(value, kind):
            return written(value)
    raise ConfigInvalid(f"TOML has no way to write {type(value).__name__}")


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(float(value)) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _string(value: str) -> str:
    """JSON's escapes are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: "true" if value else "false"),
    (str, _string),
    (int, str),
    (float, _float),
    (dt.datetime, lambda value: str(value.isoformat())),
    (dt.date, lambda value: str(value.isoformat())),
    (dt.time, lambda value: str(value.isoformat())),
)


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────

Splice = tuple[int, int, str]


def put_items(text: str, array: Value, old: list[Any], new: list[Any]) -> str:
    """An array becomes another item by item, so that its layout and the comments between the items stay."""
    pairs = zip(array.items, old, new, strict=False)
    splices = [(item.start, item.end, render(value)) for item, was, value in pairs if not alike(was, value)]
    if len(new) > len(array.items):
        splices += _appended(text, array, [render(value) for value in new[len(array.items) :]])
    else:
        splices += _dropped(text, array, len(new))
    for start, end, shown in sorted(splices, reverse=True):
        text = text[:start] + shown + text[end:]
    return text


def _appended(text: str, array: Value, shown: list[str]) -> list[Splice]:
    last = array.items[-1]
    after = last.end if last.comma is None else last.comma + 1
    line_end = text.find("\n", after, array.end)
    if line_end < 0:  # the bracket closes on the last item's line
        joined = ", ".join(shown)
        return [(after, after, f", {joined}" if last.comma is None else f" {joined},")]
    newline = "\r\n" if text[line_end - 1] == "\r" else "\n"
    at = line_end - len(newline) + 1
    gap = newline + indent_of(text, text.rfind("\n", 0, last.start) + 1)
    lines = f",{gap}".join(shown)
    if last.comma is not None:
        return [(at, at, f"{gap}{lines},")]
    return [(last.end, last.end, ","), (at, at, f"{gap}{lines}")]


def _dropped(text: str, array: Value, kept: int) -> list[Splice]:
    """Items with their commas; a line that held nothing else goes as a whole, a comment on it stays."""
    if len(array.items) > kept and "\n" not in text[array.start : array.end]:
        return [(array.items[kept - 1].end, array.items[-1].end, "")]
    splices: list[Splice] = []
    for item in array.items[kept:]:
        end = item.end if item.comma is None else item.comma + 1
        start = text.rfind("\n", 0, item.start) + 1
        line_end = text.find("\n", end, array.end)
        alone = line_end >= 0 and not text[start : item.start].strip() and not text[end:line_end].strip()
        if alone and start > array.start:
            splices.append((start, line_end + 1, ""))
        elif item.comma is not None and item.comma > item.end:
            splices += [(item.start, item.end, ""), (item.comma, end, "")]
        else:
            splices.append((item.start, end, ""))
    return splices
