"""Inline tables of a TOML text: find, add and remove members."""

from __future__ import annotations

from counsel.configfiles.edits import Path
from counsel.configfiles.toml.format import as_array, dropped, pair, put_after
from counsel.configfiles.toml.scan import Member, TablePath, Value, spans_at


def inside(value: Value, rest: Path) -> Value | None:
    """The value at exactly `rest` inside an inline table."""
    if not rest:
        return value
    values = (
        inside(member.value, rest[len(member.keys) :])
        for member in value.members
        if rest[: len(member.keys)] == member.keys
    )
    return next((value_below for value_below in values if value_below is not None), None)


def names(text: str, value: Value, rest: Path) -> list[tuple[int, int]]:
    """The spans of the keys inside this table that spell the last part of `rest`."""
    spans: list[tuple[int, int]] = []
    for member in value.members:
        if len(member.keys) >= len(rest) and member.keys[: len(rest)] == rest:
            spans.append(spans_at(text, member.start)[len(rest) - 1])
        elif rest[: len(member.keys)] == member.keys:
            spans += names(text, member.value, rest[len(member.keys) :])
    return spans


def deepest_table(value: Value, rest: Path) -> tuple[Value, Path] | None:
    if value.kind != "inline":
        return None
    for member in value.members:
        if rest[: len(member.keys)] == member.keys:
            return deepest_table(member.value, rest[len(member.keys) :])
    return value, rest


def cuts(text: str, value: Value, rest: TablePath) -> list[tuple[int, int, str]]:
    indices = [index for index, member in enumerate(value.members) if member.keys[: len(rest)] == rest]
    if indices:
        return _member_cuts(text, value, indices)
    for member in value.members:
        if rest[: len(member.keys)] == member.keys:
            return cuts(text, member.value, rest[len(member.keys) :])
    return []


def _member_cuts(text: str, value: Value, indices: list[int]) -> list[tuple[int, int, str]]:
    members = value.members
    if _over_lines(text, value):
        return dropped(text, as_array(value), indices)
    if len(indices) == len(members):
        before = text[value.start + 1 : members[0].start]
        after = text[members[-1].value.end : value.end - 1]
        return [(value.start + 1, value.end - 1, before if before == after else "")]
    spans = []
    for index in indices:
        if any(later not in indices for later in range(index, len(members))):
            spans.append((members[index].start, members[index + 1].start, ""))
        else:
            previous = members[index - 1]
            spans.append((previous.value.end, members[index].value.end, ""))
    return spans


def with_member(text: str, table: Value, keys: Path, value: object) -> str:
    member_text = pair(keys, value)
    if _over_lines(text, table):
        return put_after(text, as_array(table), [member_text])
    if not table.members:
        blank = text[table.start + 1 : table.end - 1]
        return text[: table.start + 1] + blank + member_text + text[table.start + 1 :]
    last: Member = table.members[-1]
    return f"{text[: last.value.end]}, {member_text}{text[last.value.end :]}"


def _over_lines(text: str, table: Value) -> bool:
    """Whether there are line breaks between the members, as TOML 1.1 allows."""
    ends = [table.start, *(member.value.end for member in table.members)]
    starts = [*(member.start for member in table.members), table.end]
    return any("\n" in text[end:start] for end, start in zip(ends, starts, strict=True))
