"""What clients demand of fields that counsel does not read: one wrong value, and they do not load the entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from counsel.agents.server_format import Entry


class Rule(NamedTuple):
    fits: Callable[[object], bool]
    words: str  # a value must be …


def first_violation(entry: Entry, rules: Mapping[str, Rule]) -> tuple[str, str] | None:
    """The first wrong field and what it must be. Names have points (`oauth.clientId`) and stars (`tools.*.mode`)."""
    for path, rule in rules.items():
        for name, value in _fields(entry, path.split(".")):
            if not rule.fits(value):
                return name, rule.words
    return None


def _fields(value: object, path: Sequence[str]) -> Iterator[tuple[str, object]]:
    if not path:
        yield "", value
        return
    if isinstance(value, Mapping):
        for key in value if path[0] == "*" else [path[0]] if path[0] in value else []:
            for name, field in _fields(value[key], path[1:]):
                yield f"{key}.{name}" if name else str(key), field


def whole_number(low: int, high: int) -> Rule:
    """As JavaScript sees it: 80.0 is one, too."""
    return _range(low, high, (int, float))


def integer(low: int, high: int) -> Rule:
    return _range(low, high, int)


def _range(low: int, high: int, kind: type | tuple[type, ...]) -> Rule:
    def fits(value: Any) -> bool:
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        return is_number and low <= value <= high and value == int(value)

    return Rule(fits, f"a whole number from {low} to {high}")


def one_of(*choices: str) -> Rule:
    return Rule(lambda value: value in choices, f"one of {', '.join(choices)}")


FLAG = Rule(lambda value: isinstance(value, bool), "true or false")
TEXT = Rule(lambda value: isinstance(value, str), "a string")
SOME_TEXT = Rule(lambda value: isinstance(value, str) and bool(value), "a string that is not empty")
LIST = Rule(lambda value: isinstance(value, list), "a list")
TEXTS = Rule(
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "a list of strings",
)
TABLE = Rule(lambda value: isinstance(value, Mapping), "a table")
HTTPS = Rule(lambda value: isinstance(value, str) and value.startswith("https://"), "an https address")
