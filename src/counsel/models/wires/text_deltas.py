"""Deltas of one text that arrived together, decoded by one call: 20 of them cost as much as three one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from counsel import strict_json


class OneByOne:
    """A reader of a wire whose deltas are not joined."""

    delta_event: str | None = None

    def text_of(self, deltas: list[str]) -> str | None:  # noqa: ARG002 - readers that join deltas use it
        return None


@cache
def _decoder() -> Callable[[str], list[Any]]:
    import msgspec  # `strict_json` has imported it already

    fields: list[str | tuple[str, Any] | tuple[str, Any, Any]] = [
        ("type", str),
        ("delta", str),
        ("output_index", int, 0),
        ("content_index", int, 0),
    ]
    delta = msgspec.defstruct("Delta", fields, gc=False)
    return msgspec.json.Decoder(list[delta]).decode  # type: ignore[valid-type]


def joined(deltas: list[str], kind: str, message: int | None) -> str | None:
    """The text of OpenAI's deltas; None if one of them has another type, part or shape."""
    if not strict_json.is_quick():
        return None
    try:
        items = _decoder()(f"[{','.join(deltas)}]")
    except Exception:  # noqa: BLE001 - a lone surrogate, or not JSON: they are read one by one
        return None
    if len(items) != len(deltas):
        return None
    for delta in items:
        if delta.output_index != message or delta.content_index or delta.type != kind:
            return None
    return "".join([delta.delta for delta in items])
