"""counsel's `@dataclass` against the standard library's: the same classes, declared twice."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import lazy_dataclass as own
from counsel.lazy_dataclass import dataclass

SOURCES = Path(__file__).parent.parent / "src" / "counsel"


def declared_classes(dataclass: Callable[..., Any]) -> SimpleNamespace:
    @dataclass(frozen=True, slots=True)
    class Frozen:
        """With words."""

        name: str
        secret: str = field(default="s", repr=False)
        tags: tuple[str, ...] = ()
        more: dict[str, int] = field(default_factory=dict, compare=False)

        def shout(self) -> str:
            return self.name.upper()

        @property
        def short(self) -> str:
            return self.name[:1]

    @dataclass(slots=True)
    class Open:
        count: int = 0
        seen: list[int] = field(default_factory=list)

    @dataclass(slots=True, eq=False)
    class Itself:
        count: int = 0
        later: int | None = field(default=None, init=False)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        prompt: str
        model: str = "auto"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        rounds: int = 2

    @dataclass(frozen=True)
    class One:
        only: int = 3

    @dataclass
    class Checked:
        low: int
        high: int = field(init=False)

        def __post_init__(self) -> None:
            self.high = self.low + 1

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, type)})


@dataclass(frozen=True, slots=True)
class Carried:
    name: str
    tags: tuple[str, ...] = ()


OURS, THEIRS = declared_classes(dataclass), declared_classes(dataclasses.dataclass)

CASES: dict[str, Callable[[SimpleNamespace], Any]] = {
    "repr": lambda k: repr(k.Frozen("a", tags=("x",))),
    "repr of one": lambda k: repr(k.One()),
    "equal": lambda k: k.Frozen("a", more={"x": 1}) == k.Frozen("a"),
    "not equal": lambda k: k.Frozen("a") == k.Frozen("b"),
    "another class": lambda k: k.Frozen("a") == k.One(),
    "equal to itself only": lambda k: k.Itself() == k.Itself(),
    "hash": lambda k: hash(k.Frozen("a")) == hash(k.Frozen("a", more={"x": 1})),
    "hash of one": lambda k: hash(k.One()),
    "no hash": lambda k: hash(k.Open()),
    "hash by identity": lambda k: isinstance(hash(k.Itself()), int),
    "assign": lambda k: setattr(k.Frozen("a"), "name", "b"),
    "delete": lambda k: delattr(k.Frozen("a"), "name"),
    "no such attribute": lambda k: setattr(k.Open(), "other", 1),
    "assign to an open one": lambda k: setattr(k.Open(), "count", 1),
    "missing": lambda k: k.Frozen(),
    "unknown": lambda k: k.Frozen("a", nothing=1),
    "too many": lambda k: k.Open(1, [], 3),
    "keywords only": lambda k: k.Base("p"),
    "derived": lambda k: repr(k.Derived(prompt="p", rounds=3)),
    "derived fields": lambda k: [row.name for row in dataclasses.fields(k.Derived)],
    "fields": lambda k: [(row.name, row.repr, row.compare, row.default) for row in dataclasses.fields(k.Frozen)][:3],
    "fields of a new class": lambda k: len(dataclasses.fields(k.Itself)),
    "replace": lambda k: repr(dataclasses.replace(k.Frozen("a", "b"), name="c")),
    "asdict": lambda k: dataclasses.asdict(k.Frozen("a")),
    "is one": lambda k: (dataclasses.is_dataclass(k.Open), dataclasses.is_dataclass(k.Open())),
    "match args": lambda k: (k.Frozen.__match_args__, k.Base.__match_args__),
    "not asked for": lambda k: (k.Itself(3).later, [row.init for row in dataclasses.fields(k.Itself)]),
    "own list each": lambda k: k.Open().seen is not k.Open().seen,
    "after init": lambda k: repr(k.Checked(4)),
    "method": lambda k: (k.Frozen("a").shout(), k.Frozen("a").short),
    "slots": lambda k: (k.Frozen.__slots__, k.Derived.__slots__, hasattr(k.Open(), "__dict__")),
    "default on the class": lambda k: k.One.only,
    "copy": lambda k: repr(copy.deepcopy(k.Frozen("a", more={"x": 1}))),
    "words": lambda k: k.Frozen.__doc__,
    "names": lambda k: (k.Frozen.__name__, k.Frozen.__qualname__, k.Frozen.__module__),
    "annotations": lambda k: k.Frozen.__annotations__,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_class_does_what_the_librarys_does(case: str) -> None:
    assert outcome(CASES[case], OURS) == outcome(CASES[case], THEIRS)


def outcome(case: Callable[[SimpleNamespace], Any], classes: SimpleNamespace) -> Any:
    try:
        return case(classes)
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


REPLACED: dict[str, Callable[[SimpleNamespace], tuple[Any, dict[str, Any]]]] = {
    "one field": lambda k: (k.Frozen("a", "x", ("t",), {"m": 1}), {"name": "b"}),
    "all fields": lambda k: (k.Frozen("a"), {"name": "b", "secret": "c", "tags": ("d",), "more": {}}),
    "no field": lambda k: (k.Frozen("a"), {}),
    "keywords only": lambda k: (k.Derived(prompt="p", rounds=4), {"model": "m"}),
    "not frozen": lambda k: (k.Open(3, [1]), {"count": 4}),
    "one that is made later": lambda k: (k.Itself(3), {"count": 4}),
    "after `__post_init__`": lambda k: (k.Checked(3), {"low": 7}),
}


@pytest.mark.parametrize("case", REPLACED)
def test_a_copy_equals_the_librarys(case: str) -> None:
    for classes in (OURS, THEIRS):
        value, changes = REPLACED[case](classes)
        for _ in range(2):  # the second time the copier is known
            copy, expected = own.replace(value, **changes), dataclasses.replace(value, **changes)
            assert type(copy) is type(expected)
            assert repr(copy) == repr(expected)


@pytest.mark.parametrize("changes", [{"high": 3}, {"nothing": 3}])
def test_what_cannot_be_replaced_is_refused(changes: dict[str, Any]) -> None:
    value = OURS.Checked(3)
    with pytest.raises(TypeError, match=next(iter(changes))):
        own.replace(value, **changes)


def test_a_frozen_class_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Carried("a", ("x",)))) == Carried("a", ("x",))


def test_threads_that_use_a_class_first_all_get_it() -> None:
    for _ in range(50):
        classes = declared_classes(dataclass)
        names: list[str] = []
        begin = threading.Barrier(4)

        def use(classes: SimpleNamespace = classes, names: list[str] = names, begin: Any = begin) -> None:
            begin.wait()
            names.append(repr(classes.Frozen("a")))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert names == [repr(THEIRS.Frozen("a"))] * 4


def test_nothing_is_compiled_when_a_module_is_imported() -> None:
    code = (
        "import dataclasses; made = []; real = dataclasses.dataclass\n"
        "dataclasses.dataclass = lambda *a, **k: made.append(a) or real(*a, **k)\n"
        "import counsel.types; print(len(made))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(process.stdout) <= 2, (
        "`ModelSettings()` and `Network()` are defaults, and made at once; nothing else is"
    )


def test_no_module_uses_the_librarys_decorator() -> None:
    """Each class made by the standard library's decorator costs every start 0.9 ms."""
    path = Path(own.__file__)
    plain = [
        file.relative_to(SOURCES)
        for file in SOURCES.rglob("*.py")
        if file != path and any(line.startswith("from dataclasses import") and "dataclass" in line.split("import")[1].replace("dataclasses", "")
                                for line in file.read_text().splitlines())
    ]  # fmt: skip
    assert plain == []
