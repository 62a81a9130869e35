"""Edits of a document as data, and the value that the document must have afterwards."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from counsel.configfiles.sparse_object import Sparse
from counsel.errors import ConfigInvalid
from counsel.records import Record

Path: TypeAlias = tuple[str, ...]
MISSING: object = type("Missing", (), {"__repr__": lambda _: "MISSING", "__bool__": lambda _: False})()


class Put(Record):
    """Set a member; missing parents are created."""

    path: Path
    value: Any


class Drop(Record):
    """Remove a member; its object stays."""

    path: Path


class AddItem(Record):
    """Append to the list at `path`, which is created if missing."""

    path: Path
    value: object


class DropItem(Record):
    """Remove every item equal to `value` from the list at `path`."""

    path: Path
    value: object


class Rename(Record):
    """Rename a member in place; `to` must be free."""

    path: Path
    to: str


Edit: TypeAlias = Put | Drop | AddItem | DropItem | Rename


def lookup(value: object, path: Path) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def patch(path: Path, old: object, new: object) -> list[Edit]:
    """The fewest edits that turn `old` at `path` into `new`: equal parts are neither touched nor reordered.

    No edit has an empty path: a document is changed member by member, never replaced as a whole.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping) and (old or not path):
        keys = list(differing_keys(old, new))
        removals: list[Edit] = [Drop((*path, key)) for key in keys if key not in new]
        present = [key for key in keys if key in new]
        return removals + [
            edit for key in present for edit in patch((*path, key), old.get(key, MISSING), new[key])
        ]
    if old is not MISSING and alike(old, new):
        return []
    return [Put(path, new)]


def emptied_paths(path: Path, old: object, new: object) -> list[Path]:
    """The paths at which `new` has an empty object where `old` has a non-empty one."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return []
    if not new:
        return [path] if path else []
    return [inner for key in new if key in old for inner in emptied_paths((*path, key), old[key], new[key])]


def value_after(value: object, edits: Iterable[Edit]) -> Any:
    """The document's value after the edits; `value` itself is not changed."""
    for edit in edits:
        value = _changed(value, edit.path, edit)
    return value


def _changed(value: object, rest: Path, edit: Edit) -> object:
    if not rest:
        return _leaf(value, edit)
    members = value if isinstance(value, Mapping) else {}
    old = members.get(rest[0], MISSING)
    if isinstance(edit, Drop | DropItem | Rename) and old is MISSING:
        return value
    if isinstance(edit, Rename) and len(rest) == 1:
        return _with(_without(members, rest[0]), edit.to, old)
    new = _changed(old, rest[1:], edit)
    return _without(members, rest[0]) if new is MISSING else _with(members, rest[0], new)


def _with(members: Mapping[str, object], key: str, value: object) -> Mapping[str, object]:
    return members.with_member(key, value) if isinstance(members, Sparse) else {**members, key: value}


def _without(members: Mapping[str, object], key: str) -> Mapping[str, object]:
    if isinstance(members, Sparse):
        return members.without_member(key)
    return {name: value for name, value in members.items() if name != key}


def _leaf(value: object, edit: Edit) -> object:
    match edit:
        case Put():
            return edit.value
        case Drop():
            return MISSING
        case AddItem():
            return [*_items(value, edit.path), edit.value]
        case DropItem():
            return (
                value
                if value is None
                else [item for item in _items(value, edit.path) if not alike(item, edit.value)]
            )
        case Rename():
            raise ValueError("a document has no name")


def _items(value: object, path: Path) -> list[object]:
    """A list's items. `null` counts as an empty list; any other value belongs to the user and is refused."""
    if value is MISSING or value is None:
        return []
    if not isinstance(value, list):
        raise ConfigInvalid(
            f"{'.'.join(path)} is not a list.", hint="Correct it in the file, then try again."
        )
    return value


def alike(first: object, second: object) -> bool:
    """Whether two values are equal in JSON's sense: `1`, `1.0` and `true` are three different values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(
            alike(first[key], second[key]) for key in differing_keys(first, second)
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, float) != isinstance(second, float):
        return False
    return bool(first == second)


def differing_keys(first: Mapping[str, object], second: Mapping[str, object]) -> Iterable[str]:
    """The keys whose values may differ: for two large objects, only those whose text differs."""
    if isinstance(first, Sparse) and isinstance(second, Sparse):
        return first.differing_keys(second)
    return {**first, **second}


def without_empty_parents(value: object, path: Path) -> object:
    """`value` without the empty tables on the way to `path`: TOML does not write them."""
    if len(path) < 2 or not isinstance(value, Mapping) or path[0] not in value:
        return value
    inner = without_empty_parents(value[path[0]], path[1:])
    if isinstance(inner, Mapping) and not inner:
        return _without(value, path[0])
    return _with(value, path[0], inner)
