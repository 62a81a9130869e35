"""Cursors: where a page of a list ends, as the sort key and the row's number or name, so that no row is missing or
repeated when others are added or deleted meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import math
import re

from counsel.errors import InvalidArgument


def cursor(key: float, name: object) -> str:
    """Opaque, and safe in a URL."""
    return base64.urlsafe_b64encode(f"{key!r} {name}".encode()).decode().rstrip("=")


def parse(text: str, *, numbered: bool = False) -> tuple[str, str]:
    """The key, which is a number, and the name or number. Raises `InvalidArgument`."""
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        key, separator, name = plain.partition(" ")
        is_valid = re.fullmatch(r"[0-9]{1,18}", name) if numbered else name
        if separator and is_valid and math.isfinite(float(key)):
            return key, name
    except (binascii.Error, ValueError):
        pass
    raise InvalidArgument("cursor is not the `next` of any page.", hint="Use `next` of the previous page.")
