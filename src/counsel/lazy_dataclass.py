"""`@dataclass` of the standard library, whose methods are made when they are first used.

The library compiles six methods of every class when its module is imported, 0.9 ms a class: 100 of the 470 ms of CPU that
the imports of `counsel serve` took, for 110 classes of which one run uses a part. Here a class begins with a stand-in for
`__init__`. Its first call has the library make the method, on the class as it was declared, and puts it in its own place:
from then on a call costs what it always did. `fields`, `replace` and `asdict` of the library work as ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - what type checkers know
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
        """As the standard library's, with the options that are used here."""

        def build(declared: type) -> type:
            return _Class(declared, frozen=frozen, slots=slots, kw_only=kw_only).build(eq=eq)

        return build if cls is None else build(cls)


_TOLD = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_NOT_COPIED = frozenset({"__dict__", "__weakref__"})
_lock = RLock()  # two threads may be the first to use a class


class _Class:
    """One class: as it was declared, and as it is used."""

    def __init__(self, declared: type, *, frozen: bool, slots: bool, kw_only: bool) -> None:
        self._declared = declared
        self._used = declared
        self._frozen = frozen
        self._slots = slots
        self._options = {"repr": False, "eq": False, "frozen": frozen, "slots": slots, "kw_only": kw_only}
        self._made = False

    def build(self, *, eq: bool) -> type:
        """The class with its slots, which have to be there from the start, and with stand-ins."""
        declared, own = self._declared, _fields(self._declared)
        body = {name: value for name, value in vars(declared).items() if name not in _NOT_COPIED}
        for name in own:
            default = body.pop(name, dataclasses.MISSING)
            default = default.default if isinstance(default, dataclasses.Field) else default
            if not self._slots and default is not dataclasses.MISSING:
                body[name] = default
        if self._slots:
            inherited = {name for base in declared.__mro__ for name in vars(base).get("__slots__", ())}
            body["__slots__"] = tuple(name for name in own if name not in inherited)
        body["__annotations__"] = declared.__annotations__
        self._used = type(declared)(declared.__name__, declared.__bases__, {**self._methods(eq=eq), **body})
        self._used.__qualname__ = declared.__qualname__
        return self._used

    def make(self) -> type:
        """What the library makes of the declared class, in the place of the stand-ins."""
        with _lock:
            if self._made:
                return self._used
            declared, used = self._declared, self._used
            declared.__doc__ = declared.__doc__ or " "  # else the library writes a signature there, slowly
            written = "__init__" in vars(declared)
            made: type = dataclasses.dataclass(**self._options)(declared)
            for name in (*_TOLD, *(() if written else ("__init__",))):
                setattr(used, name, vars(made)[name])
            self._made = True
            return used

    def _methods(self, *, eq: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"__init__": self._stand_in(), "__repr__": _repr}
        found |= {name: _Told(self.make, name) for name in _TOLD}
        if eq:
            found["__eq__"], hashing = _comparing(self.make)
            found["__hash__"] = hashing if self._frozen else None
        if self._frozen:
            found |= {"__setattr__": _not_assigned, "__delattr__": _not_deleted}
            found |= {"__getstate__": _state, "__setstate__": _restore}
        return found

    def _stand_in(self) -> Callable[..., None]:
        def init(instance: Any, /, *given: Any, **named: Any) -> None:
            self.make().__init__(instance, *given, **named)  # type: ignore[misc] # another than this one

        return init


def _fields(declared: type) -> tuple[str, ...]:
    """Annotations are strings here; `ClassVar` is no field."""
    return tuple(
        name for name, kind in declared.__annotations__.items() if not str(kind).startswith("ClassVar")
    )


class _Told:
    """An attribute of the class that is known once it is made."""

    def __init__(self, make: Callable[[], type], name: str) -> None:
        self._make = make
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        return vars(self._make())[self._name]


def _comparing(make: Callable[[], type]) -> tuple[Callable[..., Any], Callable[[Any], int]]:
    key: Callable[[Any], Any] | None = None

    def values(instance: Any) -> Any:
        nonlocal key
        if key is None:
            names = [field.name for field in dataclasses.fields(make()) if field.compare]
            several = attrgetter(*names) if len(names) > 1 else None
            key = several or (lambda one: tuple(getattr(one, name) for name in names))
        return key(instance)

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return equal, hashed


def _repr(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _not_assigned(_self: Any, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _not_deleted(_self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
