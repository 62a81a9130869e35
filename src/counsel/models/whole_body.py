"""A whole JSON body where a stream was asked for, as some proxies and compatible servers answer."""

from __future__ import annotations

from typing import Any

from counsel import strict_json
from counsel.models.failures import Complained, understand

MOST_BYTES = 64 * 1024 * 1024


class WholeBody:
    """In the place of an `EventParser`: one event, at the end."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._held = bytearray()
        self._most = most

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        self._held += chunk
        if len(self._held) > self._most:
            raise ValueError("a body without an end")
        return []

    def end(self) -> list[tuple[str, str]]:
        """Raises `Complained` for an error that came with status 200, `ValueError` for what is not JSON."""
        text = self._held.decode("utf-8", "replace")
        body: Any = strict_json.loads(text)
        if understand(200, body).words:
            raise Complained(body, 200)
        return [("", text)]
