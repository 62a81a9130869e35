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
    pieces, position = list[str](), 0
    for start, end, new in sorted(splices, key=itemgetter(0, 1)):  # stable: same offset, same order
        pieces += (text[position:start], new)
        position = end
    return "".join((*pieces, text[position:]))


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
    for kind, writer in _WRITERS:
        if isinstance(value, kind):
            return writer(value)
    raise ConfigInvalid(f"TOML cannot express {type(value).__name__}")


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(float(value)) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _string(value: str) -> str:
    """A TOML string. JSON's escapes are valid in TOML, which also requires DEL to be escaped."""
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
    """Replace an array item by item, so that its layout and the comments between items stay."""
    if not array.items:
        return _filled(text, array, list(map(render, new)))
    end = len(old) - (_common_tail_length(old, new) if len(new) < len(old) else 0)
    kept_count = len(new) - (len(old) - end)  # items before `end` that stay
    pairs = zip(array.items[: min(kept_count, end)], old, new, strict=False)
    splices = [(item.start, item.end, render(value)) for item, was, value in pairs if not alike(was, value)]
    if len(new) > len(old):
        splices += _appended(text, array, [render(value) for value in new[len(old) :]])
    elif kept_count < end:
        splices += _dropped(text, array, kept_count, end)
    return respliced(text, splices)


def put_after(text: str, array: Value, texts: list[str]) -> str:
    if not array.items:
        return _filled(text, array, texts)
    return respliced(text, _appended(text, array, texts))


def as_array(table: Value) -> Value:
    """An inline table's members, laid out like an array's items."""
    items = (Item(member.start, member.value.end, member.comma) for member in table.members)
    return Value(table.start, table.end, "array", (), tuple(items))


def dropped(text: str, array: Value, numbers: list[int]) -> list[Splice]:
    """The splices that remove several items, anywhere in the array."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    return [splice for first, stop in runs for splice in _dropped(text, array, first, stop)]


def _common_tail_length(old: Sequence[object], new: Sequence[object]) -> int:
    count = 0
    while count < len(new) and alike(old[-1 - count], new[-1 - count]):
        count += 1
    return count


def _filled(text: str, array: Value, texts: list[str]) -> str:
    """Fill an empty array: on one line between its blanks, else with one line per item."""
    start, end = array.start + 1, array.end - 1
    if not texts:
        return text
    line_end = text.rfind("\n", start, end)
    if line_end < 0:
        return text[:end] + ", ".join(texts) + text[start:]
    newline = "\r\n" if text[line_end - 1] == "\r" else "\n"
    indent = indent_of(text, line_end + 1) + "  "
    lines = "".join(f"{indent}{item_text},{newline}" for item_text in texts)
    return text[: line_end + 1] + lines + text[line_end + 1 :]


def _past_comma(item: Item) -> int:
    return item.end if item.comma is None else item.comma + 1


def _appended(text: str, array: Value, texts: list[str]) -> list[Splice]:
    last = array.items[-1]
    after = _past_comma(last)
    line_end = text.find("\n", after, array.end)
    if line_end < 0:  # the bracket closes on the last item's line
        texts_line = ", ".join(texts)
        return [(after, after, f", {texts_line}" if last.comma is None else f" {texts_line},")]
    newline = "\r\n" if text[line_end - 1] == "\r" else "\n"
    offset = line_end - len(newline) + 1
    gap = newline + indent_of(text, text.rfind("\n", 0, last.start) + 1)
    lines = f",{gap}".join(texts)
    if last.comma is not None:
        return [(offset, offset, f"{gap}{lines},")]
    return [(last.end, last.end, ","), (offset, offset, f"{gap}{lines}")]


def _dropped(text: str, array: Value, first: int, stop: int) -> list[Splice]:
    """Remove items with their commas; a line with nothing else is removed, a comment stays."""
    if "\n" not in text[array.start : array.end]:
        return [_one_line_cut(text, array, first, stop)]
    items = array.items
    splices = [splice for number in range(first, stop) for splice in _item_cuts(text, array, number)]
    comma = items[first - 1].comma if first and stop == len(items) else None
    if comma is not None and items[-1].comma is None:  # no trailing comma before, so none afterwards
        splices.append((comma, comma + 1, ""))
    return splices


def _one_line_cut(text: str, array: Value, first: int, stop: int) -> Splice:
    items, last = array.items, array.items[-1]
    if stop < len(items):
        return items[first].start, items[stop].start, ""
    if first == 0:
        before, after = text[array.start + 1 : items[0].start], text[_past_comma(last) : array.end - 1]
        return array.start + 1, array.end - 1, before if before == after else ""
    previous = items[first - 1]
    return (previous.end if last.comma is None else _past_comma(previous)), _past_comma(last), ""


def _item_cuts(text: str, array: Value, number: int) -> list[Splice]:
    item = array.items[number]
    end = _past_comma(item)
    start = text.rfind("\n", 0, item.start) + 1
    line_end = text.find("\n", end, array.end)
    own_line = line_end >= 0 and not text[start : item.start].strip() and not text[end:line_end].strip()
    if own_line and start > array.start:
        return [(start, line_end + 1, "")]
    begin = item.start
    if number and not text[_past_comma(array.items[number - 1]) : begin].strip(" \t"):
        begin = _past_comma(array.items[number - 1])
    if item.comma is not None and item.comma > item.end:
        return [(begin, item.end, ""), (item.comma, end, "")]
    return [(begin, end, "")]
