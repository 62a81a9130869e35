"""The standard library's `@dataclass`, with methods that are generated when they are first used.

The library compiles six methods of every class when its module is imported, 0.9 ms per class: 100 of the 470 ms of CPU
that the imports of `counsel serve` took, for 110 classes of which one run uses only some. Here a class starts with a
placeholder for `__init__`, which at its first call lets the library generate the method from the declared class and
replaces itself with it. Later calls cost as usual, and the library's `fields`, `replace` and `asdict` work as usual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - for type checkers
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        kw_only: bool = False,
    ) -> Any:
        """Like the standard library's, with the options that counsel uses."""

        def build(declared_class: type) -> type:
            return _Class(declared_class, frozen=frozen, slots=slots, kw_only=kw_only).build(eq=eq)

        return build if cls is None else build(cls)


T = TypeVar("T")
_copiers: dict[tuple[Any, ...], Callable[..., Any]] = {}


def replace(value: T, /, **changes: Any) -> T:
    """A copy with other values in some fields. The library's own `replace` examines every field each time."""
    kind = value.__class__
    copier = _copiers.get((kind, *changes)) or _copier(kind, tuple(changes))
    return copier(value, **changes)  # type: ignore[no-any-return]


def _copier(kind: type, changed_names: tuple[str, ...]) -> Callable[..., Any]:
    """The function that copies one class with one choice of changed fields; a program has few of either."""
    rows = dataclasses.fields(kind)
    unknown = set(changed_names) - {row.name for row in rows if row.init}
    if unknown:
        raise TypeError(f"{kind.__name__} has no fields {', '.join(sorted(unknown))} that can be replaced")
    values = {
        row.name: row.name if row.name in changed_names else f"_value.{row.name}" for row in rows if row.init
    }
    arguments = (
        f"{row.name}={values[row.name]}" if row.kw_only else values[row.name] for row in rows if row.init
    )
    names: dict[str, Any] = {"_kind": kind}
    exec(f"def copy({', '.join(['_value', *changed_names])}): return _kind({', '.join(arguments)})", names)  # noqa: S102 - its own text, as `dataclasses` does
    copier: Callable[..., Any] = names["copy"]
    _copiers[kind, *changed_names] = copier
    return copier


_GENERATED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_NOT_COPIED = frozenset({"__dict__", "__weakref__"})
_lock = RLock()  # two threads may use a class for the first time


class _Class:
    """One class in its two forms: as declared and as used."""

    def __init__(self, declared: type, *, frozen: bool, slots: bool, kw_only: bool) -> None:
        self._declared = declared
        self._used = declared
        self._frozen = frozen
        self._slots = slots
        self._options = {"repr": False, "eq": False, "frozen": frozen, "slots": slots, "kw_only": kw_only}
        self._generated = False

    def build(self, *, eq: bool) -> type:
        """The class with its slots, which must exist from the start, and with placeholders."""
        declared, own = self._declared, _fields(self._declared)
        body = {name: value for name, value in vars(declared).items() if name not in _NOT_COPIED}
        for name in own:
            default = body.pop(name, dataclasses.MISSING)
            default = default.default if isinstance(default, dataclasses.Field) else default
            if not self._slots and default is not dataclasses.MISSING:
                body[name] = default
        if self._slots:
            inherited_slots = {name for base in declared.__mro__ for name in vars(base).get("__slots__", ())}
            body["__slots__"] = tuple(name for name in own if name not in inherited_slots)
        body["__annotations__"] = declared.__annotations__
        self._used = type(declared)(declared.__name__, declared.__bases__, {**self._methods(eq=eq), **body})
        self._used.__qualname__ = declared.__qualname__
        return self._used

    def generate(self) -> type:
        """Replace the placeholders by what the library generates from the declared class."""
        with _lock:
            if self._generated:
                return self._used
            declared, used = self._declared, self._used
            # If there is no docstring, the library computes a signature for it, which is slow.
            declared.__doc__ = declared.__doc__ or " "
            has_init = "__init__" in vars(declared)
            generated_class: type = dataclasses.dataclass(**self._options)(declared)
            for name in (*_GENERATED, *(() if has_init else ("__init__",))):
                setattr(used, name, vars(generated_class)[name])
            if self._frozen and self._slots and not has_init and not hasattr(used, "__post_init__"):
                used.__init__ = _quick_init(used)  # type: ignore[misc]
            self._generated = True
            return used

    def _methods(self, *, eq: bool) -> dict[str, object]:
        methods: dict[str, object] = {"__init__": self._placeholder(), "__repr__": _repr}
        methods |= {name: _GeneratedAttribute(self.generate, name) for name in _GENERATED}
        if eq:
            methods["__eq__"], hashing = _comparing(self.generate)
            methods["__hash__"] = hashing if self._frozen else None
        if self._frozen:
            methods |= {"__setattr__": _not_assigned, "__delattr__": _not_deleted}
            methods |= {"__getstate__": _state, "__setstate__": _restore}
        return methods

    def _placeholder(self) -> Callable[..., None]:
        def init(instance: object, /, *arguments: Any, **keywords: Any) -> None:
            self.generate().__init__(instance, *arguments, **keywords)  # type: ignore[misc] # the generated one

        return init


def _fields(declared: type) -> tuple[str, ...]:
    """The names of the fields. Annotations are strings; one with `ClassVar` is not a field."""
    return tuple(
        name for name, kind in declared.__annotations__.items() if not str(kind).startswith("ClassVar")
    )


class _GeneratedAttribute:
    """A class attribute that exists once the class is generated."""

    def __init__(self, generate: Callable[[], type], name: str) -> None:
        self._generate = generate
        self._name = name

    def __get__(self, instance: object, owner: type) -> object:
        return vars(self._generate())[self._name]


_become = vars(object)["__class__"].__set__


def _quick_init(used: type) -> Callable[..., None]:
    """`__init__` of a frozen class. The library's calls `object.__setattr__` for every field: 5.4 µs for eight fields.

    Here the new instance belongs to a twin class without the guard while it is filled, then to its own class: 1 µs. For
    one or two fields, the slots' own setters are faster.
    """
    rows = dataclasses.fields(used)
    is_small = len(rows) <= 2
    twin = type(used)(
        used.__name__,
        used.__bases__,
        {"__slots__": vars(used)["__slots__"], "__setattr__": object.__setattr__},
    )
    names: dict[str, Any] = {"_become": _become, "_twin": twin, "_missing": dataclasses.MISSING}
    arguments, keyword_only, lines = ["self"], ["*"], list[str]()
    for row in rows:
        name, default = row.name, f"_default_{row.name}"
        is_made = row.default_factory is not dataclasses.MISSING
        has_default = is_made or row.default is not dataclasses.MISSING
        names[default] = row.default_factory if is_made else row.default
        if row.init:
            usual = f"={'_missing' if is_made else default}" if has_default else ""
            (keyword_only if row.kw_only else arguments).append(f"{name}{usual}")
            value = f"{default}() if {name} is _missing else {name}" if is_made else name
        elif has_default:
            value = f"{default}()" if is_made else default
        else:
            continue
        names[f"_set_{name}"] = getattr(used, name).__set__
        lines.append(f"_set_{name}(self, {value})" if is_small else f"self.{name} = {value}")
    if not is_small:
        lines = ["_own = self.__class__", "_become(self, _twin)", *lines, "self.__class__ = _own"]
    parameters = ", ".join(arguments + (keyword_only if len(keyword_only) > 1 else []))
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({parameters}):\n {body}", names)  # noqa: S102 - as the library makes it
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{used.__qualname__}.__init__"
    return init


def _comparing(generate: Callable[[], type]) -> tuple[Callable[..., object], Callable[[object], int]]:
    key: Callable[[Any], Any] | None = None

    def values(instance: object) -> Any:
        nonlocal key
        if key is None:
            names = [field.name for field in dataclasses.fields(generate()) if field.compare]
            key = (
                attrgetter(*names)
                if len(names) > 1
                else lambda value: tuple(getattr(value, name) for name in names)
            )
        return key(instance)

    def equal(self: object, other: object) -> object:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return equal, hashed


def _repr(self: Any) -> str:
    values = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(values)})"


def _not_assigned(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _not_deleted(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
