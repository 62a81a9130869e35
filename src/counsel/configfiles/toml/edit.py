"""Edit TOML by spans: change the tables and keys of one path, keep every other byte.

tomlkit is not used: it moves keys into a new table when its neighbours are dotted keys, writes LF into CRLF files,
fails on a byte-order mark and drops the comments of an array that it replaces (measured with 0.15 on 2026-11-15).
`tomllib` reads the text before and after (`toml/read.py`); `Document.edited` compares.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeGuard

from counsel.configfiles.document import Document
from counsel.configfiles.edits import (
    MISSING,
    AddItem,
    Drop,
    DropItem,
    Edit,
    Path,
    Put,
    Rename,
    alike,
    lookup,
    value_after,
)
from counsel.configfiles.toml import inline
from counsel.configfiles.toml.format import (
    block,
    dotted,
    element,
    indent_of,
    key_text,
    pair,
    put_items,
    render,
    respliced,
)
from counsel.configfiles.toml.read import meaning
from counsel.configfiles.toml.scan import Statement, TablePath, Value, key_spans, scan

_BLANK_LINE_BELOW = re.compile(r"\r?\n(?=[ \t\r\n]*[^ \t\r\n])")


class TomlDocument(Document):
    prunes_empty_parents = True

    def __init__(self, text: str) -> None:
        super().__init__(meaning(text))
        self._text = text

    @property
    def text(self) -> str:
        return self._text

    def spliced(self, edits: Sequence[Edit]) -> Self:
        text, value, rest = self.text, self.value, list(edits)
        while rest:
            current = _Text(text, value)
            if tables := current.new_tables(rest):
                text, count = current.with_tables(tables), len(tables)
            elif drops := current.line_drops(rest):
                text, count = current.without(drops), len(drops)
            else:
                text, count = current.applied(rest[0]), 1
            value, rest = value_after(value, rest[:count]), rest[count:]
        return type(self)(text)


class _Text:
    """One text and its statements, for one edit."""

    def __init__(self, text: str, value: Any) -> None:
        self.text = text
        self.value = value
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.statements = scan(text)
        self.accepts_blocks: dict[Path, bool] = {}
        self.ends: dict[int, int] = {}  # of the sections
        for statement in self.statements:
            self.ends[statement.section] = statement.end

    def applied(self, edit: Edit) -> str:
        match edit:
            case Drop():
                return self._removed([edit.path])
            case Put():
                return self._put(edit.path, edit.value)
            case AddItem() | DropItem():
                return self._with_items(edit)
            case Rename():
                return self._renamed(edit.path, key_text(edit.to))

    def _put(self, path: Path, value: object) -> str:
        old = lookup(self.value, path)
        if old is MISSING:
            return self._added(path, value)
        if (span := self._leaf(path)) is not None:
            if span.kind == "array" and isinstance(value, list):
                return put_items(self.text, span, old, value)
            return self.text[: span.start] + render(value) + self.text[span.end :]
        if old == value == {} and any(statement.path == path for statement in self.statements):
            return self.text
        smaller = value_after(self.value, [Drop(path)])
        return _Text(self._removed([path]), smaller)._added(path, value)  # noqa: SLF001 - of the same class

    def _with_items(self, edit: AddItem | DropItem) -> str:
        """Add or remove elements of `[[path]]` as tables, so that the others stay unchanged; replace other lists."""
        path, old = edit.path, lookup(self.value, edit.path)
        new = lookup(value_after(self.value, [edit]), path)
        if not any(
            statement.kind == "array" and statement.path[:-1] == path for statement in self.statements
        ):
            return self._put(path, new) if new is not old else self.text
        if isinstance(edit, DropItem) and new:
            return self._removed(
                [(*path, index) for index, item in enumerate(old) if alike(item, edit.value)]
            )
        if isinstance(edit, AddItem) and isinstance(edit.value, Mapping):
            return self._with_text(element(path, edit.value, self.newline), self._block_offset(path))
        return self._put(path, new)

    def _renamed(self, path: Path, to: str) -> str:
        """The key of every header, pair and inline member that names the last part of `path`."""
        spans: list[tuple[int, int]] = []
        for statement in self.statements:
            above = len(statement.path) - len(statement.keys) if statement.kind == "pair" else 0
            if statement.path[: len(path)] == path and len(path) > above:
                spans.append(key_spans(self.text, statement)[len(path) - 1 - above])
            elif statement.value is not None and path[: len(statement.path)] == statement.path:
                spans += inline.names(self.text, statement.value, path[len(statement.path) :])
        return respliced(self.text, [(*span, to) for span in spans])

    def _leaf(self, path: Path) -> Value | None:
        """The value of the `key = value` at exactly this path, also inside inline tables."""
        for statement in self.statements:
            if statement.value is not None and path[: len(statement.path)] == statement.path:
                return inline.inside(statement.value, path[len(statement.path) :])
        return None

    def _deepest_inline_table(self, path: Path) -> tuple[Value, Path] | None:
        """The deepest inline table on the way to `path`, and the rest of the path inside it."""
        for statement in self.statements:
            if statement.value is not None and path[: len(statement.path)] == statement.path:
                return inline.deepest_table(statement.value, path[len(statement.path) :])
        return None

    # ── removing ─────────────────────────────────────────────────────────────────────────────────────

    def line_drops(self, edits: Sequence[Edit]) -> list[Drop]:
        """The longest prefix of the edits that removes whole lines."""
        drops = itertools.takewhile(lambda edit: isinstance(edit, Drop) and not self._is_inside(edit), edits)
        return [edit for edit in drops if isinstance(edit, Drop)]

    def _is_inside(self, edit: Drop) -> bool:
        return self._deepest_inline_table(edit.path[:-1]) is not None

    def without(self, drops: Sequence[Drop]) -> str:
        return self._removed([drop.path for drop in drops])

    def _removed(self, paths: Sequence[TablePath]) -> str:
        cuts = self._removals(paths)
        text = respliced(self.text, cuts)
        if not self.text.endswith("\n") and any(end == len(self.text) for _, end, _ in cuts):
            text = text.removesuffix("\n").removesuffix("\r")  # keep a missing final line break
        return text

    def _removals(self, paths: Sequence[TablePath]) -> list[tuple[int, int, str]]:
        cuts: list[tuple[int, int, str]] = []
        blocks: list[tuple[int, int]] = []
        removed_sections: set[int] = set()  # sections that are removed entirely
        path_set, sizes = set(paths), {len(path) for path in paths}
        for number, statement in enumerate(self.statements):
            is_removed = any(statement.path[:size] in path_set for size in sizes)
            if statement.kind != "pair" and is_removed:
                removed_sections.add(number)
                blocks.append((statement.start, self.ends[number]))
            elif statement.section in removed_sections:
                pass  # removed with its section
            elif is_removed:
                cuts.append(self._line_cut(statement))
            elif statement.value is not None and statement.value.kind == "inline":
                for path in paths:
                    if path[: len(statement.path)] == statement.path:
                        cuts += inline.cuts(self.text, statement.value, path[len(statement.path) :])
        return cuts + [(*self._with_blank_line(start, end), "") for start, end in self._merged(blocks)]

    def _merged(self, blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Merge blocks that are separated only by blank lines."""
        merged: list[tuple[int, int]] = []
        for start, end in blocks:
            if merged and not self.text[merged[-1][1] : start].strip():
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        return merged

    def _with_blank_line(self, start: int, end: int) -> tuple[int, int]:
        """The block's span with the blank line above it (at the top of the file: below it)."""
        above = self._blank_line_above(start)
        if above == start and start <= 1:
            rest = _BLANK_LINE_BELOW.match(self.text, end)
            return start, rest.end() if rest else end
        return above, end

    def _blank_line_above(self, start: int) -> int:
        before = self.text[:start]
        for ending in ("\r\n", "\n"):
            line = before.removesuffix(ending)
            if line != before and (not line or line.endswith("\n")):
                return len(line)
        return start

    def _line_cut(self, statement: Statement) -> tuple[int, int, str]:
        """The cut that removes the line; a comment at its end stays, on its own line."""
        rest = self.text[statement.stop : statement.end]
        if "#" in rest:
            return statement.start, statement.stop + rest.index("#"), ""
        return statement.start, statement.end, ""

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────

    def new_tables(self, edits: Sequence[Edit]) -> list[Put]:
        """The longest prefix of the edits that adds sibling tables: two hundred servers are one insertion."""
        tables: dict[Path, Put] = {}
        for edit in edits:
            if not self._is_new_table(edit) or edit.path in tables:
                break
            if tables and edit.path[:-1] != next(iter(tables))[:-1]:
                break
            tables[edit.path] = edit
        return list(tables.values())

    def _is_new_table(self, edit: Edit) -> TypeGuard[Put]:
        parent, key = edit.path[:-1], edit.path[-1:]
        members = lookup(self.value, parent)
        is_table = isinstance(edit, Put) and isinstance(edit.value, Mapping)
        return (
            is_table and isinstance(members, Mapping) and key[0] not in members and self._takes_blocks(parent)
        )

    def _takes_blocks(self, parent: Path) -> bool:
        if parent not in self.accepts_blocks:
            neighbour = self._dotted_neighbour(parent)
            headers_allowed = neighbour is None or self._has_headers(parent)
            self.accepts_blocks[parent] = headers_allowed and self._deepest_inline_table(parent) is None
        return self.accepts_blocks[parent]

    def with_tables(self, puts: Sequence[Put]) -> str:
        blocks = [block(put.path, put.value, self.newline) for put in puts]
        return self._with_text(self.newline.join(blocks), self._block_offset(puts[0].path[:-1]))

    def _added(self, path: Path, value: object) -> str:
        depth = len(path) - 1
        while lookup(self.value, path[:depth]) is MISSING:
            depth -= 1
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        parent, key = path[:depth], path[depth]
        if not isinstance(lookup(self.value, parent), Mapping):
            return self._put(parent, {key: value})
        if deepest_table := self._deepest_inline_table(parent):
            return inline.with_member(self.text, deepest_table[0], (*deepest_table[1], key), value)
        neighbour = self._dotted_neighbour(parent)
        if neighbour and not (isinstance(value, Mapping) and self._has_headers(parent)):
            keys = neighbour.keys[: len(neighbour.keys) - (len(neighbour.path) - len(parent))]
            return self._with_lines(neighbour, dotted((*keys, key), value))
        if isinstance(value, Mapping):
            return self._with_block((*parent, key), value)
        return self._with_pair(parent, key, value)

    def _dotted_neighbour(self, parent: Path) -> Statement | None:
        """The last `a.b.c = …` that defines `parent` by dotted keys.

        Such a table may not get a header of its own, and readers differ on headers below it: new keys are dotted, too.
        """
        neighbours = [
            statement
            for statement in self.statements
            if parent and statement.kind == "pair" and _is_dotted_below(statement, parent)
        ]
        return neighbours[-1] if neighbours else None

    def _has_headers(self, parent: Path) -> bool:
        return any(
            statement.kind != "pair" and statement.path[: len(parent)] == parent
            for statement in self.statements
        )

    def _with_pair(self, parent: Path, key: str, value: object) -> str:
        section = self._section_of(parent) if parent else -1
        if section is None:
            return self._with_block(parent, {key: value})
        members = [statement for statement in self.statements if statement.section == section]
        if members:
            return self._with_lines(members[-1], [pair((key,), value)])
        start = 1 if self.text.startswith("\ufeff") else 0
        return self.text[:start] + pair((key,), value) + self.newline + self.text[start:]

    def _section_of(self, path: Path) -> int | None:
        for number, statement in enumerate(self.statements):
            if statement.kind == "table" and statement.path == path:
                return number
        return None

    def _with_lines(self, after: Statement, lines: list[str]) -> str:
        indent = indent_of(self.text, after.start) if after.kind == "pair" else ""
        if self.text[: after.end].endswith("\n"):
            new = "".join(f"{indent}{line}{self.newline}" for line in lines)
            return self.text[: after.end] + new + self.text[after.end :]
        return self.text + "".join(f"{self.newline}{indent}{line}" for line in lines)

    def _with_block(self, path: Path, value: Mapping[str, object]) -> str:
        return self._with_text(block(path, value, self.newline), self._block_offset(path[:-1]))

    def _with_text(self, new: str, offset: int) -> str:
        head, tail = self.text[:offset], self.text[offset:]
        if not head.strip("\ufeff \t\r\n"):
            return head + new + tail
        if head.endswith("\n"):
            return head + self.newline + new + tail
        return head + self.newline * 2 + new.removesuffix(self.newline) + tail

    def _block_offset(self, parent: Path) -> int:
        """After the last table with the same parent, else after the parent's section, else at the end."""
        descendants = [
            statement for statement in self.statements if parent and statement.path[: len(parent)] == parent
        ]
        headers = [statement for statement in descendants if statement.kind != "pair"]
        if headers:
            last = max(headers, key=lambda statement: statement.start).section
            return self._past_comments(self.ends[last])
        if descendants:
            return self._past_comments(self.ends[descendants[-1].section])
        return _end_of_content(self.text)

    def _past_comments(self, offset: int) -> int:
        """The offset after the comment lines that follow directly, unless a header follows them."""
        comments = re.compile(r"(?:[ \t]*#[^\n]*(?:\n|\Z))*").match(self.text, offset)
        end = comments.end() if comments else offset
        return offset if re.compile(r"[ \t]*\[").match(self.text, end) else end


def _is_dotted_below(pair: Statement, parent: Path) -> bool:
    return pair.path[: len(parent)] == parent and len(pair.path) - len(pair.keys) < len(parent)


def _end_of_content(text: str) -> int:
    """After the last line that is not blank."""
    end = len(text.rstrip(" \t\r\n"))
    if not text[:end].strip("\ufeff"):
        return end
    line_end = text.find("\n", end)
    return len(text) if line_end < 0 else line_end + 1
