"""Edit JSON and JSONC by spans: find a member, change its characters and no others.

Comments and trailing commas are first replaced by spaces (`Plain`), so every offset in the plain text is an offset in
the user's text, and the standard library's C scanner can skip all members that are not on the path: one edit of a
6.6 MB file takes about as long as one `json.loads`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Self

from counsel.configfiles.content import Content, differing_span
from counsel.configfiles.document import Document
from counsel.configfiles.edits import AddItem, Drop, DropItem, Edit, Path, Put, Rename, alike, value_after
from counsel.configfiles.json.plain import Plain, skip
from counsel.configfiles.json.read import (
    Container,
    Patch,
    PreviousText,
    Slot,
    container,
    member_container,
    no_collection,
    root_container,
    value_of,
)
from counsel.configfiles.json.style import Style, line_indent


class JsonDocument(Document):
    """The text is a string, or another text with one span changed, which is joined only when it is read."""

    def __init__(self, text: Plain | Patch, value: Any, *, comments: bool) -> None:
        super().__init__(value)
        self._comments = comments
        self._from = text

    @classmethod
    def read(cls, text: str, *, comments: bool, previous: PreviousText | None = None) -> Self:
        plain = Plain.of(text, comments=comments)
        with no_collection():
            root = root_container(plain, previous)
        document = cls(plain, root.value if root else {}, comments=comments)
        document._root = root
        return document

    @property
    def text(self) -> str:
        return self._plain.original

    @property
    def _plain(self) -> Plain:
        if isinstance(self._from, Patch):
            self._from = Plain.of(self._from.text(), comments=self._comments)
        return self._from

    @property
    def nonstandard_syntax(self) -> tuple[str, ...]:
        mark = ("a byte-order mark",) if self.text.startswith("\ufeff") else ()
        return (*mark, "a trailing comma") if self._plain.trailing_commas else mark

    @cached_property
    def _root(self) -> Container | None:
        with no_collection():
            return root_container(self._plain)

    def encoded(self, before: bytes) -> Content:
        return self._from.encoded(before) if isinstance(self._from, Patch) else super().encoded(before)

    def spliced(self, edits: Sequence[Edit]) -> Self:
        if not edits:
            return self
        with no_collection():
            return self._spliced(edits)

    def _spliced(self, edits: Sequence[Edit]) -> Self:
        text, style = self.text, Style.of(self.text)
        if self._root is None:
            text += f"{style.newline}{{}}" if text and text[-1] not in "\n\ufeff" else "{}"
            plain = Plain.of(text, comments=self._comments)
            return self._reread(_edited(plain, container(plain, len(text) - 2), edits, style))
        depth, holder, style = _common_container(
            self._plain, self._root, [edit.path for edit in edits], style
        )
        below = [edit.replaced(path=edit.path[depth:]) for edit in edits]
        if depth == 0 or self._comments:  # a line may start inside a comment
            return self._reread(_edited(self._plain, holder, below, style))
        line, end = text.rfind("\n", 0, holder.start) + 1, holder.close + 1
        new = _edited(self._plain, holder, below, style, start=line, end=end)[holder.start - line :]
        value = value_after(self.value, [Put(edits[0].path[:depth], value_of(new))])
        return type(self)(Patch(text, holder.start, end, new), value, comments=False)

    def _reread(self, text: str) -> Self:
        slots = self._root.slots if self._root else ()
        start, end = differing_span(self.text, text)
        previous = PreviousText({slot.key: slot for slot in slots}, start, end, len(text) - len(self.text))
        return self.read(text, comments=self._comments, previous=previous)


def _common_container(
    plain: Plain, root: Container, paths: list[Path], style: Style
) -> tuple[int, Container, Style]:
    """The deepest existing object that all paths go through, with its depth and style."""
    holder, depth = root, 0
    while all(len(path) - 1 > depth and path[depth] == paths[0][depth] for path in paths):
        slot = holder.member(paths[0][depth])
        if slot is None or not isinstance(slot.value, Mapping):
            break
        style = style if style.multiline(plain.original, holder) else style.one_line()
        depth += 1
        holder = member_container(plain, slot, {path[depth] for path in paths})
    return depth, holder, style


def _edited(
    plain: Plain,
    holder: Container,
    edits: Sequence[Edit],
    style: Style,
    *,
    start: int = 0,
    end: int | None = None,
) -> str:
    """The text from start to end, which includes all of `holder`, after edits whose paths start in `holder`."""
    first, *rest = edits
    text = _spliced(plain.original[start:end], _apply(plain, holder, first.path, first, style), -start)
    for edit in rest:
        current = Plain.of(text, comments=plain.comments)
        text = _spliced(
            text, _apply(current, container(current, holder.start - start), edit.path, edit, style)
        )
    return text


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────

Splice = tuple[int, int, str]


def _apply(plain: Plain, holder: Container, path: Path, edit: Edit, style: Style) -> list[Splice]:
    slot = holder.member(path[0])
    if len(path) > 1 and slot is not None and isinstance(slot.value, Mapping):
        inner_style = style if style.multiline(plain.original, holder) else style.one_line()
        return _apply(plain, member_container(plain, slot, {path[1]}), path[1:], edit, inner_style)
    match edit:
        case Drop():
            return _drop_all(plain, holder, path)
        case Rename():
            return _rename(plain, holder, path, edit.to)
        case DropItem():
            return _drop_items(plain, slot, edit.value)
        case Put():
            return _put(plain, holder, path, edit.value, style)
        case AddItem():
            return _add_item(plain, holder, path, edit.value, style)


def _add_item(plain: Plain, holder: Container, path: Path, value: object, style: Style) -> list[Splice]:
    slot = holder.member(path[0])
    if slot is None or not isinstance(slot.value, list):
        return _put(plain, holder, path, [value], style)
    return _insert(plain, container(plain, slot.value_start), [(None, value)], style)


def _spliced(text: str, splices: list[Splice], shift: int = 0) -> str:
    """The text with all splices applied, their offsets shifted by `shift`."""
    parts, position = [], 0
    for start, end, new in sorted(splices):
        parts += [text[position : start + shift], new]
        position = max(position, end + shift)
    return "".join([*parts, text[position:]])


def _put(plain: Plain, holder: Container, path: Path, value: object, style: Style) -> list[Splice]:
    slot = holder.member(path[0])
    for key in reversed(path[1:]):
        value = {key: value}
    if slot is None:
        return _insert(plain, holder, [(path[0], value)], style)
    multiline = style.multiline(plain.original, holder) or "\n" in plain.original[slot.value_start : slot.end]
    value_style = style if multiline else style.one_line()
    if isinstance(value, list) and value and isinstance(slot.value, list) and slot.value:
        return _put_items(plain, container(plain, slot.value_start), value, value_style)
    new = value_style.render(value, line_indent(plain.original, slot.start))
    return [(slot.value_start, slot.end, new)]


def _put_items(plain: Plain, holder: Container, values: Sequence[object], style: Style) -> list[Splice]:
    """Replace a list item by item, so that its layout and the comments between items stay."""
    item_style = style.adapted_to(plain.original, holder)
    indent = item_style.member_indent(plain.original, holder)
    pairs = list(zip(holder.slots, values, strict=False))
    splices = [
        (slot.start, slot.end, item_style.render(value, indent))
        for slot, value in pairs
        if not alike(slot.value, value)
    ]
    if len(values) < len(holder.slots):
        return splices + _drop(plain, holder, list(range(len(values), len(holder.slots))))
    more = [(None, value) for value in values[len(holder.slots) :]]
    return splices + (_insert(plain, holder, more, style) if more else [])


def _insert(
    plain: Plain, holder: Container, new: Sequence[tuple[str | None, object]], style: Style
) -> list[Splice]:
    """Insert members or items at the end."""
    member_style = style.adapted_to(plain.original, holder)
    if not holder.slots and "\n" in plain.original[holder.start : holder.close]:
        member_style = member_style.on_lines()  # brackets on two lines, whatever the parent's layout
    indent = member_style.member_indent(plain.original, holder)
    gap = member_style.newline + indent if member_style.indented else member_style.gap
    member = f",{gap}".join(member_style.member(key, value, indent) for key, value in new)
    if not holder.slots:
        return _insert_first(plain, holder, member, gap, member_style)
    last = holder.slots[-1]
    comment_end = plain.last_comment_end(last.end, holder.close)
    anchor = max(last.end, comment_end or 0, last.comma + 1 if last.comma is not None else 0)
    if plain.ends_line_comment(anchor) and not member_style.indented:
        gap = member_style.newline + line_indent(plain.original, last.start)
    if last.comma is not None:
        return [(anchor, anchor, f"{gap}{member},")]
    if anchor == last.end:
        return [(anchor, anchor, f",{gap}{member}")]
    return [(last.end, last.end, ","), (anchor, anchor, gap + member)]


def _insert_first(plain: Plain, holder: Container, member: str, gap: str, style: Style) -> list[Splice]:
    """Insert into empty brackets and keep their white space: removing the member then restores the same bytes."""
    comment_end = plain.last_comment_end(holder.start, holder.close)
    if comment_end is not None:
        if plain.ends_line_comment(comment_end) and not style.indented:
            gap = style.newline
        return [(comment_end, comment_end, (gap or " ") + member)]
    if style.indented:
        outer = line_indent(plain.original, holder.start)
        return [(holder.close, holder.close, f"{gap}{member}{style.newline}{outer}")]
    blank = plain.original[holder.start + 1 : holder.close]
    return [(holder.close, holder.close, member + blank)]


def _rename(plain: Plain, holder: Container, path: Path, to: str) -> list[Splice]:
    """Replace only the characters of the name; repeated names are all renamed."""
    slots = [slot for slot in holder.slots if slot.key == path[0]] if len(path) == 1 else []
    ends = [scanstring(plain.text, slot.start + 1)[1] for slot in slots]
    return [
        (slot.start, end, json.dumps(to, ensure_ascii=False)) for slot, end in zip(slots, ends, strict=True)
    ]


def _drop_all(plain: Plain, holder: Container, path: Path) -> list[Splice]:
    if len(path) > 1:
        return []
    indices = [index for index, slot in enumerate(holder.slots) if slot.key == path[0]]
    return _drop(plain, holder, indices)


def _drop_items(plain: Plain, slot: Slot | None, value: object) -> list[Splice]:
    if slot is None or not isinstance(slot.value, list):
        return []
    items = container(plain, slot.value_start)
    return _drop(plain, items, [index for index, item in enumerate(items.slots) if alike(item.value, value)])


def _drop(plain: Plain, holder: Container, indices: list[int]) -> list[Splice]:
    """Remove slots with their commas and white space; comments between slots stay."""
    if not indices:
        return []
    if len(indices) == len(holder.slots) == 1 and plain.last_comment_end(holder.start, holder.close) is None:
        return _drop_only(plain.original, holder)
    remaining = [index for index in range(len(holder.slots)) if index not in indices]
    splices: list[Splice] = []
    for index in indices:
        slot = holder.slots[index]
        followed = bool(remaining) and index < remaining[-1]
        splices += _drop_slot(plain, slot, followed=followed)
    if remaining and remaining[-1] < indices[-1] and holder.slots[indices[-1]].comma is None:
        comma = holder.slots[remaining[-1]].comma
        assert comma is not None  # a slot followed by another has a comma
        splices.append((comma, comma + 1, ""))
    return splices


def _drop_slot(plain: Plain, slot: Slot, *, followed: bool) -> list[Splice]:
    text = plain.original
    before = plain.space_before(slot.start)
    splices: list[Splice] = [(slot.start, slot.end, "")]
    end = slot.end
    if slot.comma is not None:
        splices.append((slot.comma, slot.comma + 1, ""))
        end = slot.comma + 1
    after = skip(text, end)
    own_line = "\n" in text[before : slot.start]
    if followed and not (own_line and _line_is_over(plain, end)):
        splices.append((end, _end_of_blanks(text, end), ""))
    elif not (plain.ends_line_comment(before) and "\n" not in text[end:after]):
        splices.append((before, slot.start, ""))
    return splices


def _drop_only(text: str, holder: Container) -> list[Splice]:
    """The inverse of `_insert_first`."""
    slot = holder.slots[0]
    before, after = text[holder.start + 1 : slot.start], text[slot.end : holder.close].replace(",", "")
    if "\n" in before:
        end = before.rindex("\n") - (1 if before[: before.rindex("\n")].endswith("\r") else 0)
        content = before[:end]
    else:
        content = before if before == after else ""
    return [(holder.start + 1, holder.close, content)]


def _line_is_over(plain: Plain, start: int) -> bool:
    """Whether only white space follows on this line."""
    after = skip(plain.original, start)
    return "\n" in plain.original[start:after] and not plain.comment_before_newline(start)


def _end_of_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t":
        start += 1
    return start
