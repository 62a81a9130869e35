"""What is to change in a document, as data; and what the document must mean afterwards."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from counsel.configfiles.json.sparse import Sparse
from counsel.errors import ConfigInvalid
from counsel.records import Record

Path: TypeAlias = tuple[str, ...]
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING", "__bool__": lambda _: False})()


class Put(Record):
    """Set a member; what is missing on the way to it is made."""

    path: Path
    value: Any


class Drop(Record):
    """Take a member out; the object that held it stays."""

    path: Path


class AddItem(Record):
    """Append to the list at `path`, which is made when missing."""

    path: Path
    value: Any


class DropItem(Record):
    """Take every item equal to `value` out of the list at `path`."""

    path: Path
    value: Any


class Rename(Record):
    """Give a member another name, in its place; `to` must be free."""

    path: Path
    to: str


Edit: TypeAlias = Put | Drop | AddItem | DropItem | Rename


def lookup(value: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def patch(path: Path, old: Any, new: Any) -> list[Edit]:
    """The fewest edits that turn `old` at `path` into `new`: what is equal is not touched, nor reordered.

    No edit has an empty path: a document becomes another one member by member.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping) and (old or not path):
        keys = list(unlike(old, new))
        gone: list[Edit] = [Drop((*path, key)) for key in keys if key not in new]
        there = [key for key in keys if key in new]
        return gone + [edit for key in there for edit in patch((*path, key), old.get(key, MISSING), new[key])]
    if old is not MISSING and alike(old, new):
        return []
    return [Put(path, new)]


def emptied(path: Path, old: Any, new: Any) -> list[Path]:
    """Where `new` has an empty object in the place of another object."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return []
    if not new:
        return [path] if path else []
    return [found for key in new if key in old for found in emptied((*path, key), old[key], new[key])]


def intended(value: Any, edits: Iterable[Edit]) -> Any:
    """What the document must mean after the edits; `value` itself is not changed."""
    for edit in edits:
        value = _changed(value, edit.path, edit)
    return value


def _changed(value: Any, rest: Path, edit: Edit) -> Any:
    if not rest:
        return _leaf(value, edit)
    held = value if isinstance(value, Mapping) else {}
    old = held.get(rest[0], MISSING)
    if isinstance(edit, Drop | DropItem | Rename) and old is MISSING:
        return value
    if isinstance(edit, Rename) and len(rest) == 1:
        return _with(_without(held, rest[0]), edit.to, old)
    new = _changed(old, rest[1:], edit)
    return _without(held, rest[0]) if new is MISSING else _with(held, rest[0], new)


def _with(held: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any]:
    return held.having(key, value) if isinstance(held, Sparse) else {**held, key: value}


def _without(held: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    if isinstance(held, Sparse):
        return held.lacking(key)
    return {name: kept for name, kept in held.items() if name != key}


def _leaf(value: Any, edit: Edit) -> Any:
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


def _items(value: Any, path: Path) -> list[Any]:
    """A list's own items. `null` is a list that nobody has begun; anything else is not ours to replace."""
    if value is MISSING or value is None:
        return []
    if not isinstance(value, list):
        raise ConfigInvalid(
            f"{'.'.join(path)} is not a list.", hint="Correct it in the file, then try again."
        )
    return value


def alike(one: Any, other: Any) -> bool:
    """Equal in JSON's sense: `1`, `1.0` and `true` are three values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in unlike(one, other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) != isinstance(other, float):
        return False
    return bool(one == other)


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterable[str]:
    """The members that may differ: of two large objects only those that are written otherwise."""
    if isinstance(one, Sparse) and isinstance(other, Sparse):
        return one.unlike(other)
    return {**one, **other}


def without_empty_parents(value: Any, path: Path) -> Any:
    """`value` without the tables on the way to `path` that hold nothing: in TOML these need no words."""
    if len(path) < 2 or not isinstance(value, Mapping) or path[0] not in value:
        return value
    inner = without_empty_parents(value[path[0]], path[1:])
    if isinstance(inner, Mapping) and not inner:
        return _without(value, path[0])
    return _with(value, path[0], inner)
