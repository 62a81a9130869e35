"""The last line of a refined answer, `Position: kept` or `Position: changed`: taken out of the answer as it arrives.

Text that may be the beginning of that line is held back until more of it is known, so no follower sees it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from counsel.types import Event, Finished, Position, Text, Withdrawn

REQUEST = "End with one line of its own that says whether you changed your position: `Position: kept`, or `Position: changed`."
_MOST = 1_000  # characters that are held back; a longer end is not that line
_MARKUP = re.compile(r"[\s*_`#>.]+")
_STATEMENTS: dict[str, Position] = {"position:kept": "kept", "position:changed": "changed"}


def split(text: str) -> tuple[str, Position | None]:
    """The text without its last line, and what that line states; the text as it is if it states nothing."""
    start = _start(text, is_start=True)
    position = _STATEMENTS.get(_bare(text[start:]))
    return (text[:start], position) if position and start else (text, position)


async def taken_out(events: AsyncIterator[Event]) -> AsyncGenerator[Event]:
    """The events without the line; `Finished` has what it states."""
    pending, shown = "", 0  # characters that were passed on
    async with aclosing(cast(AsyncGenerator[Event], events)):
        async for event in events:
            if isinstance(event, Text):
                text = pending + event.delta
                start = _start(text, is_start=not shown)
                if start:
                    shown += start
                    yield replace(event, delta=text[:start])
                pending = text[start:]
            elif isinstance(event, Withdrawn):
                pending, visible = _withdrawn(pending, event)
                shown = max(0, shown - len(visible.text))
                yield visible
            elif isinstance(event, Finished):
                position = _STATEMENTS.get(_bare(pending))
                if pending and not (position and shown):
                    yield Text(pending)
                pending = ""
                yield replace(event, position=position)
            else:
                yield event


def _withdrawn(pending: str, event: Withdrawn) -> tuple[str, Withdrawn]:
    """What is held back was never shown: it is discarded here."""
    if event.text.endswith(pending):
        return "", replace(event, text=event.text.removesuffix(pending))
    return pending.removesuffix(event.text), replace(event, text="")


def _start(text: str, *, is_start: bool) -> int:
    """Where an end begins that may be the line, with the white space before it. `is_start`: nothing is before the text."""
    tail = text[-_MOST:]
    body = tail.rstrip()
    line = body.rfind("\n") + 1
    is_line = line > 0 or is_start
    end = body[:line].rstrip() if is_line and _may_be(_bare(body[line:])) else body
    if not end and len(tail) < len(text):  # too long to be that line
        return len(text)
    return len(text) - len(tail) + len(end)


def _may_be(bare: str) -> bool:
    return any(statement.startswith(bare) for statement in _STATEMENTS)


def _bare(text: str) -> str:
    return _MARKUP.sub("", text).lower()
