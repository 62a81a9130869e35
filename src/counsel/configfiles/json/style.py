"""The layout of a JSON file, so that inserted text looks like its neighbours."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Protocol, Self

from counsel.records import Record

_INDENTED = re.compile(r'\n([ \t]+)"')
_COLON = re.compile(r'"([ \t]*:[ \t]*)')


class Digits(str):
    """An integer beyond Python's 4,300 digits, as in the text."""

    __slots__ = ()


class _Slot(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def value_start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def comma(self) -> int | None: ...
    @property
    def key(self) -> str | None: ...


class _Container(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def slots(self) -> tuple[Any, ...]: ...


def line_indent(text: str, offset: int) -> str:
    """The white space at the start of the line that contains `offset`."""
    start = text.rfind("\n", 0, offset) + 1
    end = start
    while end < offset and text[end] in " \t":
        end += 1
    return text[start:end]


def first_indent(text: str) -> str:
    """One step of indentation: the first line that starts with a key is one level deep."""
    match = _INDENTED.search(text, 0, 20_000)
    return match[1] if match else "  "


class Style(Record):
    newline: str = "\n"
    unit: str = "  "
    colon: str = ": "
    gap: str = " "  # after a comma on one line
    indented: bool = True

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(newline="\r\n" if "\r\n" in text[:100_000] else "\n", unit=first_indent(text))

    def one_line(self) -> Self:
        return self.replaced(indented=False)

    def on_lines(self) -> Self:
        return self.replaced(indented=True)

    def multiline(self, text: str, holder: _Container) -> bool:
        """Whether members are on separate lines; an empty object follows its parent."""
        if not holder.slots:
            return self.indented
        return _leads_line(text, holder.start, holder.slots[-1].start)

    def adapted_to(self, text: str, holder: _Container) -> Self:
        """This style adapted to the holder's own members."""
        own = self.replaced(indented=self.multiline(text, holder))
        if not holder.slots:
            return own
        last: _Slot = holder.slots[-1]
        if last.key is not None and (colon := _colon(text[last.start : last.value_start])):
            own = own.replaced(colon=colon)
        return own.replaced(gap=_gap(text, holder, own.colon))

    def member_indent(self, text: str, holder: _Container) -> str:
        if holder.slots:
            return line_indent(text, holder.slots[-1].start)
        return line_indent(text, holder.start) + self.unit

    def member(self, key: str | None, value: object, indent: str) -> str:
        value_text = self.render(value, indent)
        return value_text if key is None else f"{_string(key)}{self.colon}{value_text}"

    def render(self, value: object, indent: str) -> str:
        if isinstance(value, Mapping) and value:
            members = [self.member(key, item, indent + self.unit) for key, item in value.items()]
            return self._brackets("{", members, "}", indent)
        if isinstance(value, list | tuple) and value:
            items = [self.render(item, indent + self.unit) for item in value]
            return self._brackets("[", items, "]", indent)
        if isinstance(value, str):
            return str(value) if isinstance(value, Digits) else _string(value)
        if isinstance(value, float) and math.isinf(value):
            return "1e999" if value > 0 else "-1e999"  # reading such a number back gives infinity
        return json.dumps(value, allow_nan=False)

    def _brackets(self, opening: str, parts: list[str], closing: str, indent: str) -> str:
        if not self.indented:
            return opening + f",{self.gap}".join(parts) + closing
        inner = self.newline + indent + self.unit
        return f"{opening}{inner}{f',{inner}'.join(parts)}{self.newline}{indent}{closing}"


def _leads_line(text: str, start: int, offset: int) -> bool:
    """Whether there is a line break between the previous token (or comment) and `offset`."""
    position = offset
    while position > start and text[position - 1] in " \t\r\n":
        position -= 1
    return "\n" in text[position:offset]


def _colon(between: str) -> str | None:
    match = _COLON.search(between, between.rfind('"')) if '"' in between else None
    return match[1] if match and match.end() == len(between) else None


def _gap(text: str, holder: _Container, colon: str) -> str:
    """The white space after a comma on one line: as between the last two members, else as after the colon."""
    if len(holder.slots) > 1:
        previous, last = holder.slots[-2:]
        gap = text[previous.comma + 1 : last.start] if previous.comma is not None else None
        if gap is not None and not gap.strip(" \t"):
            return gap
    return " " if colon.endswith((" ", "\t")) else ""


def _string(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if value.isascii():
        return text
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
