"""TOML values and tables as text, and arrays that change item by item."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from counsel.configfiles.edits import Path, alike
from counsel.configfiles.toml.scan import Item, Value
from counsel.errors import ConfigInvalid

Splice = tuple[int, int, str]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def block(path: Path, value: Mapping[str, object], newline: str) -> str:
    """A table with its scalars first, then its tables, as Codex writes them."""
    plain = {key: item for key, item in value.items() if not isinstance(item, Mapping)}
    tables = {key: item for key, item in value.items() if isinstance(item, Mapping)}
    parts = []
    if plain or not tables:
        lines = [f"[{'.'.join(map(key_text, path))}]", *(pair((key,), item) for key, item in plain.items())]
        parts.append("".join(f"{line}{newline}" for line in lines))
    parts += [block((*path, key), item, newline) for key, item in tables.items()]
    return newline.join(parts)


def element(path: Path, value: Mapping[str, object], newline: str) -> str:
    """One more element of an array of tables."""
    name = ".".join(map(key_text, path))
    plain = [pair((key,), item) for key, item in value.items() if not isinstance(item, Mapping)]
    tables = {key: item for key, item in value.items() if isinstance(item, Mapping)}
    parts = ["".join(f"{line}{newline}" for line in (f"[[{name}]]", *plain))]
    return newline.join(parts + [block((*path, key), item, newline) for key, item in tables.items()])


def dotted(keys: Path, value: object) -> list[str]:
    if not isinstance(value, Mapping) or not value:
        return [pair(keys, value)]
    return [line for key, item in value.items() for line in dotted((*keys, key), item)]


def respliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with some spans replaced, none of which overlap."""
    pieces, at = list[str](), 0
    for start, end, new in sorted(splices, key=itemgetter(0, 1)):  # those at one offset in the given order
        pieces += (text[at:start], new)
        at = end
    return "".join((*pieces, text[at:]))


def indent_of(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]


def pair(keys: Path, value: object) -> str:
    return f"{'.'.join(map(key_text, keys))} = {render(value)}"


def key_text(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def render(value: object) -> str:
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
    """JSON's escapes are TOML's, except DEL, which TOML requires escaped."""
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


def put_items(text: str, array: Value, old: Sequence[object], new: Sequence[object]) -> str:
    """Turns an array into another item by item, so that its layout and the comments between items stay."""
    if not array.items:
        return _filled(text, array, list(map(render, new)))
    end = len(old) - (_alike_at_the_end(old, new) if len(new) < len(old) else 0)
    kept = len(new) - (len(old) - end)  # of the items before `end`
    pairs = zip(array.items[: min(kept, end)], old, new, strict=False)
    splices = [(item.start, item.end, render(value)) for item, was, value in pairs if not alike(was, value)]
    if len(new) > len(old):
        splices += _appended(text, array, [render(value) for value in new[len(old) :]])
    elif kept < end:
        splices += _dropped(text, array, kept, end)
    return respliced(text, splices)


def put_after(text: str, array: Value, shown: list[str]) -> str:
    if not array.items:
        return _filled(text, array, shown)
    return respliced(text, _appended(text, array, shown))


def as_array(table: Value) -> Value:
    """An inline table's members, laid out like an array's items."""
    items = (Item(member.start, member.value.end, member.comma) for member in table.members)
    return Value(table.start, table.end, "array", (), tuple(items))


def dropped(text: str, array: Value, numbers: list[int]) -> list[Splice]:
    """Several items, anywhere in the array."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    return [splice for first, stop in runs for splice in _dropped(text, array, first, stop)]


def _alike_at_the_end(old: Sequence[object], new: Sequence[object]) -> int:
    count = 0
    while count < len(new) and alike(old[-1 - count], new[-1 - count]):
        count += 1
    return count


def _filled(text: str, array: Value, shown: list[str]) -> str:
    """The first items of an empty array: between its blanks, or on a line of their own above its end."""
    start, end = array.start + 1, array.end - 1
    if not shown:
        return text
    line_end = text.rfind("\n", start, end)
    if line_end < 0:
        return text[:end] + ", ".join(shown) + text[start:]
    newline = "\r\n" if text[line_end - 1] == "\r" else "\n"
    indent = indent_of(text, line_end + 1) + "  "
    lines = "".join(f"{indent}{item_text},{newline}" for item_text in shown)
    return text[: line_end + 1] + lines + text[line_end + 1 :]


def _past_comma(item: Item) -> int:
    return item.end if item.comma is None else item.comma + 1


def _appended(text: str, array: Value, shown: list[str]) -> list[Splice]:
    last = array.items[-1]
    after = _past_comma(last)
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


def _dropped(text: str, array: Value, first: int, stop: int) -> list[Splice]:
    """Removes items with their commas; a line without anything else is removed, a comment on it stays."""
    if "\n" not in text[array.start : array.end]:
        return [_one_line_cut(text, array, first, stop)]
    items = array.items
    splices = [splice for number in range(first, stop) for splice in _item_cuts(text, array, number)]
    comma = items[first - 1].comma if first and stop == len(items) else None
    if comma is not None and items[-1].comma is None:  # there was none after the last item
        splices.append((comma, comma + 1, ""))
    return splices


def _one_line_cut(text: str, array: Value, first: int, stop: int) -> Splice:
    items, last = array.items, array.items[-1]
    if stop < len(items):
        return items[first].start, items[stop].start, ""
    if first == 0:
        before, after = text[array.start + 1 : items[0].start], text[_past_comma(last) : array.end - 1]
        return array.start + 1, array.end - 1, before if before == after else ""
    left = items[first - 1]
    return (left.end if last.comma is None else _past_comma(left)), _past_comma(last), ""


def _item_cuts(text: str, array: Value, number: int) -> list[Splice]:
    item = array.items[number]
    end = _past_comma(item)
    start = text.rfind("\n", 0, item.start) + 1
    line_end = text.find("\n", end, array.end)
    alone = line_end >= 0 and not text[start : item.start].strip() and not text[end:line_end].strip()
    if alone and start > array.start:
        return [(start, line_end + 1, "")]
    begin = item.start
    if number and not text[_past_comma(array.items[number - 1]) : begin].strip(" \t"):
        begin = _past_comma(array.items[number - 1])
    if item.comma is not None and item.comma > item.end:
        return [(begin, item.end, ""), (item.comma, end, "")]
    return [(begin, end, "")]
