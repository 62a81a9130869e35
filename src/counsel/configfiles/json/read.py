"""The positions and values of the members of a JSON text, at the speed of the standard library's C scanner.

The whole text is checked; of large objects only the members' positions are stored.
"""

import gc
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any

from counsel.configfiles.content import Spliced
from counsel.configfiles.document import malformed
from counsel.configfiles.json.plain import Plain, skip
from counsel.configfiles.json.style import Digits
from counsel.configfiles.sparse_object import Span, Sparse
from counsel.records import Record
from counsel.strict_json import refuse_constant

_LARGE = 1 << 18  # characters: of larger objects only positions are stored


class Slot(Record):
    """A member of an object or an item of an array."""

    start: int
    value_start: int
    end: int
    comma: int | None  # offset of the comma after it, which may be a trailing one
    key: str | None
    value: object


class Container(Record):
    start: int  # of its opening bracket
    close: int  # of its closing bracket
    slots: tuple[Slot, ...]

    @property
    def value(self) -> dict[str | None, object]:
        return {slot.key: slot.value for slot in self.slots}

    def member(self, key: str) -> Slot | None:
        """The last member of that name: if names repeat, every client uses the last."""
        return next((slot for slot in reversed(self.slots) if slot.key == key), None)


class PreviousText(Record):
    """The members of an earlier text: parts that the new text shares with it need not be read again."""

    slots: dict[str | None, Slot]
    start: int  # of the differing span in the earlier text
    end: int
    shift: int  # of everything after that span in the new text

    def at(self, key: str | None, start: int) -> tuple[object, int] | None:
        """The value and end of the member whose value starts at `start` in the new text, if it was read before."""
        slot = self.slots.get(key)
        if slot is None or not isinstance(slot.value, Mapping | list):
            return None  # a value without brackets may continue in the new text
        if slot.end <= self.start and slot.value_start == start:
            return slot.value, slot.end
        if slot.value_start >= self.end and slot.value_start + self.shift == start:
            return slot.value, slot.end + self.shift
        return None


class Patch(Record):
    """A text with one span changed."""

    before: str
    start: int
    end: int
    new: str

    def text(self) -> str:
        return "".join((self.before[: self.start], self.new, self.before[self.end :]))

    def encoded(self, before: bytes) -> Spliced:
        """The new text's bytes, from those of the text before."""
        start, end = self.start, self.end
        if len(before) != len(self.before):  # not ASCII alone
            start, end = (len(self.before[:offset].encode()) for offset in (start, end))
        return Spliced(before, start, end, self.new.encode())


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection, which would triple the time: a large file becomes a million objects and no garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _scanner(**hooks: Any) -> Callable[[str, int], tuple[object, int]]:
    decoder: Any = json.JSONDecoder(parse_constant=refuse_constant, **hooks)
    scan: Callable[[str, int], tuple[object, int]] = decoder.scan_once
    return scan


# A C scanner for whole values. The second keeps integers beyond Python's 4,300 digits as text.
_SCAN = _scanner()
_SCAN_HUGE = _scanner(parse_int=lambda digits: int(digits) if len(digits) < 4000 else Digits(digits))


def _scan(text: str, start: int) -> tuple[object, int]:
    try:
        return _SCAN(text, start)
    except StopIteration as stop:
        raise JSONDecodeError("a value is missing or misspelt", text, stop.value) from None
    except JSONDecodeError:
        raise
    except RecursionError:
        raise JSONDecodeError("nested too deeply", text, start) from None
    except ValueError as error:
        if "digits" not in str(error):
            raise JSONDecodeError(str(error), text, start) from None
        return _SCAN_HUGE(text, start)


def root_container(plain: Plain, previous: PreviousText | None = None) -> Container | None:
    """The document's root object: one pass reads every value and the members' positions."""
    text = plain.text
    start = skip(text, 0)
    if start == len(text):
        return None
    if text[start] != "{":
        raise malformed("The file must hold a JSON object", text, start)
    try:
        document = container(plain, start, previous, sparse=len(text) > _LARGE)
    except JSONDecodeError as error:
        raise malformed(f"This is not valid JSON: {error.msg}", text, min(error.pos, len(text))) from None
    if (end := skip(text, document.close + 1)) != len(text):
        raise malformed("This is not valid JSON: unexpected text after the end", text, end)
    return document


def value_of(text: str) -> object:
    """The value of a text that is one object and nothing else."""
    try:
        value, end = _sparse(text, 0) if len(text) > _LARGE else _scan(text, 0)
    except JSONDecodeError as error:
        raise malformed(f"This is not valid JSON: {error.msg}", text, min(error.pos, len(text))) from None
    if end != len(text):
        raise malformed("This is not valid JSON: unexpected text after the end", text, end)
    return value


def member_container(plain: Plain, slot: Slot, names: set[str]) -> Container:
    """A member's object. A large one is read only in part: the members called `names`, and enough of the last members
    that the last one is still included after all of `names` are removed."""
    if not isinstance(slot.value, Sparse) or slot.value.text is not plain.text:
        return container(plain, slot.value_start)  # the positions are from before an edit
    spans = slot.value.spans
    last = list(spans)[-len(names) - 1 :]
    starts = sorted({spans[key][0] for key in (*last, *names) if key in spans})
    slots = tuple(_slot(plain, start, has_name=True, previous=None, sparse=True) for start in starts)
    return Container(slot.value_start, slot.end - 1, slots)


def container(
    plain: Plain, start: int, previous: PreviousText | None = None, *, sparse: bool = False
) -> Container:
    text = plain.text
    slots: list[Slot] = []
    closing = "}" if text[start] == "{" else "]"
    position = skip(text, start + 1)
    while text[position : position + 1] != closing or slots:
        slot = _slot(plain, position, has_name=closing == "}", previous=previous, sparse=sparse)
        slots.append(slot)
        position = skip(text, slot.end)
        if text[position : position + 1] == closing:
            break
        if text[position : position + 1] != ",":
            raise JSONDecodeError(f"expecting ',' or '{closing}'", text, position)
        position = skip(text, position + 1)
    return Container(start, position, tuple(slots))


def _slot(plain: Plain, start: int, *, has_name: bool, previous: PreviousText | None, sparse: bool) -> Slot:
    text, key, value_start = plain.text, None, start
    if has_name:
        key, value_start = _key(text, start)
    value, end = (previous.at(key, value_start) if previous else None) or (
        _sparse(text, value_start) if sparse else _scan(text, value_start)
    )
    after = skip(text, end)
    comma = after if text[after : after + 1] == "," else None
    if comma is None and plain.trailing_commas:
        comma = next((offset for offset in range(end, after) if offset in plain.trailing_commas), None)
    return Slot(start, value_start, end, comma, key, value)


# From the end of a member to the value of the next; does not match a name with escapes.
_NEXT = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"([^"\\\x00-\x1f]*)"[ \t\r\n]*:[ \t\r\n]*')


def _sparse(text: str, start: int) -> tuple[object, int]:
    """Read an object with thousands of members; valid text is scanned only by C code."""
    name_start = skip(text, start + 1)
    if text[start : start + 1] != "{" or text[name_start : name_start + 1] != '"':
        return _scan(text, start)
    scan, next_member = _SCAN, _NEXT.match
    key, value_start = _key(text, name_start)
    spans: dict[str, Span] = {}
    members = 0
    while True:
        try:
            end = scan(text, value_start)[1]
        except (StopIteration, ValueError, RecursionError):
            end = _scan(text, value_start)[1]  # raises a precise error, or reads a huge number
        spans[key] = name_start, end
        members += 1
        if match := next_member(text, end):
            key, name_start, value_start = match[1], match.start(1) - 1, match.end()
            continue
        end = skip(text, end)
        if text[end : end + 1] == "}":
            break
        if text[end : end + 1] != ",":
            raise JSONDecodeError("expecting ',' or '}'", text, end)
        name_start = skip(text, end + 1)
        key, value_start = _key(text, name_start)
    if end - start < _LARGE or members > len(spans):  # if names repeat, all of them must be visited
        return _scan(text, start)
    return Sparse(text, spans, _member), end + 1


def _member(text: str, start: int) -> object:
    return _scan(text, _key(text, start)[1])[0]


def _key(text: str, start: int) -> tuple[str, int]:
    """A member's name, and where its value starts."""
    if text[start : start + 1] != '"':
        raise JSONDecodeError("expecting a name in double quotes", text, start)
    key, end = scanstring(text, start + 1)
    colon = skip(text, end)
    if text[colon : colon + 1] != ":":
        raise JSONDecodeError("expecting ':'", text, colon)
    return key, skip(text, colon + 1)
