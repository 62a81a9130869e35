"""One small interface to all formats: `get`, `set_member`, `remove_member`, and edits whose result is checked."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias

from counsel.configfiles.content import Content
from counsel.configfiles.edits import (
    MISSING,
    AddItem,
    Drop,
    Edit,
    Path,
    Put,
    alike,
    emptied_paths,
    lookup,
    patch,
    value_after,
    without_empty_parents,
)
from counsel.errors import ConfigInvalid, Internal

Kind: TypeAlias = Literal["json", "jsonc", "toml"]


class Meaning:
    """The value of a text, or its value after planned edits."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self, path: Path) -> Any:
        """The value at `path`, or `MISSING`."""
        return lookup(self.value, path)


class Document(Meaning, abc.ABC):
    """A text and its value. Documents are immutable: an edit makes a new one."""

    prunes_empty_parents: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def text(self) -> str: ...

    @property
    def nonstandard_syntax(self) -> tuple[str, ...]:
        """Syntax in the text that some readers of its format reject."""
        return ()

    def encoded(self, before: bytes) -> Content:  # noqa: ARG002 - JSON needs it
        """The text's bytes. `before` are those of the document that was edited."""
        return self.text.encode()

    def set_member(self, path: Path, value: object) -> Self:
        return self.edited([Put(path, value)])

    def remove_member(self, path: Path) -> Self:
        return self.edited([Drop(path)])

    def edited(self, edits: Sequence[Edit]) -> Self:
        """The document after the edits; refused unless its value is then exactly the intended one."""
        try:
            return self._edited(edits)
        except RecursionError:
            raise ConfigInvalid("The file is nested too deeply to be edited; nothing was written.") from None

    def _edited(self, edits: Sequence[Edit]) -> Self:
        expected, small = self.value, list[Edit]()
        for edit in edits:
            small += self._smallest(edit, expected)
            expected = value_after(expected, [edit])
        after = self.spliced(small)
        self._guard(after.value, expected, edits)
        return after

    def _smallest(self, edit: Edit, value: object) -> list[Edit]:
        """A `Put` of an object over an object touches only the members that differ."""
        if not isinstance(edit, Put):
            return [edit]
        old = lookup(value, edit.path)
        small = patch(edit.path, old, edit.value)
        if self.prunes_empty_parents:  # keep tables that lost their last member
            small += [Put(path, {}) for path in emptied_paths(edit.path, old, edit.value)]
        return small

    def _guard(self, after: object, expected: object, edits: Sequence[Edit]) -> None:
        same = after == expected and all(
            _same_value(lookup(after, edit.path), lookup(expected, edit.path)) for edit in edits
        )
        if not same and self.prunes_empty_parents:
            for edit in edits:
                after, expected = (
                    without_empty_parents(after, edit.path),
                    without_empty_parents(expected, edit.path),
                )
            same = bool(after == expected)
        if not same:
            raise Internal(
                "The edit would have changed more than requested, so nothing was written.",
                hint="Please report the file's structure (without its secrets), and edit it by hand for now.",
            )

    @abc.abstractmethod
    def spliced(self, edits: Sequence[Edit]) -> Self:
        """The document with the edits applied to its text, all other bytes unchanged, and its value read again."""


def _same_value(first: object, second: object) -> bool:
    return first is second or (first is not MISSING and second is not MISSING and alike(first, second))


def malformed(problem: str, text: str, offset: int) -> ConfigInvalid:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return ConfigInvalid(f"{problem} (line {line}, column {column})", line=line, column=column)


def parse(text: str, kind: Kind) -> Document:
    """Read a text; `ConfigInvalid` with line and column when it is malformed."""
    if kind == "toml":
        from counsel.configfiles.toml.edit import TomlDocument  # only Codex needs it

        return TomlDocument(text)
    from counsel.configfiles.json.edit import JsonDocument

    return JsonDocument.read(text, comments=kind == "jsonc")


__all__ = ["MISSING", "AddItem", "Document", "Drop", "Edit", "Kind", "Path", "Put", "malformed", "parse"]
