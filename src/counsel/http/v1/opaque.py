"""A vendor's reasoning inside a field of another vendor's API: `counsel1.WIRE.BASE64`.

A client sends the field back with the next turn, as it does with signatures of that API's own vendor, and the reasoning
reaches the vendor that wrote it unchanged.
"""

from __future__ import annotations

import base64
import binascii

from counsel import strict_json
from counsel.types import Thought

_PREFIX = "counsel1."


def encode(wire: str, item: object) -> str:
    return f"{_PREFIX}{wire}.{base64.urlsafe_b64encode(strict_json.encode(item)).decode()}"


def decode(value: str) -> Thought | None:
    """The block; None if the value is not ours."""
    if not value.startswith(_PREFIX):
        return None
    wire, _, payload = value[len(_PREFIX) :].partition(".")
    try:
        item = strict_json.loads(base64.urlsafe_b64decode(payload.encode()))
    except (binascii.Error, ValueError):
        return None
    return Thought(wire, item) if isinstance(item, dict) else None


def is_ours(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIX)
