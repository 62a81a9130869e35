"""What a request may hold, whoever made it. The MCP doors check their schemas; Python, the shell and sockets end here, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any, get_args

from counsel.errors import InvalidArgument
from counsel.requests import ChatRequest, ConsensusRequest, Request
from counsel.types import EFFORTS, MediaResolution, Verbosity


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _texts(value: object) -> str | None:
    good = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    return None if good else "must be a list of strings"


def _flag(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _share(value: object) -> str | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return None if good else "must be a number from 0 to 1"


def _one_of(*choices: str) -> Callable[[object], str | None]:
    return lambda value: None if value in choices else f"must be one of {', '.join(choices)}"


def _folder(value: object) -> str | None:
    return None if isinstance(value, bool | str) else "must be true, false or a folder"


_CHECKS: dict[str, Callable[[object], str | None]] = {
    "prompt": _text,
    "model": _text,
    "models": _texts,
    "files": _texts,
    "images": _texts,
    "tools": _texts,
    "continuation_id": _text,
    "session_tag": _text,
    "cross_feedback_prompt": _text,
    "temperature": _share,
    "reasoning_effort": _one_of(*EFFORTS),
    "verbosity": _one_of(*get_args(Verbosity)),
    "media_resolution": _one_of(*get_args(MediaResolution)),
    "use_websearch": _flag,
    "enable_cross_feedback": _flag,
    "export": _folder,
}


_FIELDS: dict[type, list[tuple[str, Any]]] = {
    kind: [(field.name, field.default) for field in fields(kind) if field.name in _CHECKS]
    for kind in (ChatRequest, ConsensusRequest)
}


def without_blanks(request: Request) -> Request:
    """`None` and `""` for an optional argument mean that it was not given."""
    blank = {
        name: default
        for name, default in _FIELDS[type(request)]
        if default is not MISSING
        and _is_blank(getattr(request, name))
        and default is not getattr(request, name)
    }
    return replace(request, **blank) if blank else request


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)


def check(request: Request) -> None:
    """Raises `InvalidArgument` that names every wrong argument."""
    if problems := list(_problems(request)):
        raise InvalidArgument(
            f"{'; '.join(problems)}.", hint="Nothing was sent. docs/use/tools.md lists the arguments."
        )


def _problems(request: Request) -> Iterator[str]:
    for name, default in _FIELDS[type(request)]:
        value = getattr(request, name)
        if value is not default and (problem := _CHECKS[name](value)):
            yield f"{name} {problem}, not {str(value)[:80]!r}"
