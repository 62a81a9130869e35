"""Takes the last line of a refined answer, `Position: kept` or `Position: changed`, out of the answer as it arrives.

Text that may be the beginning of that line is held back until more of it arrives, so no follower sees it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from counsel.types import Event, Finished, Position, Text, Withdrawn

REQUEST = "End with one line of its own that says whether you changed your position: `Position: kept`, or `Position: changed`."
_MOST = 1_000  # characters to hold back; a longer ending is not that line
_MARKUP = re.compile(r"[\s*_`#>.]+")
_STATEMENTS: dict[str, Position] = {"position:kept": "kept", "position:changed": "changed"}


def split(text: str) -> tuple[str, Position | None]:
    """The text without the line, and the position that it states; the whole text and None if there is no such line."""
    start = _start(text, is_start=True)
    position = _STATEMENTS.get(_normalized(text[start:]))
    return (text[:start], position) if position and start else (text, position)


async def without_statement(events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """The events without the line; `Finished` has the position that it states."""
    pending, length = "", 0  # `length`: characters that were passed on
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Text):
                text = pending + event.delta
                start = _start(text, is_start=not length)
                if start:
                    length += start
                    yield replace(event, delta=text[:start])
                pending = text[start:]
            elif isinstance(event, Withdrawn):
                pending, visible = _split_withdrawal(pending, event)
                length = max(0, length - len(visible.text))
                yield visible
            elif isinstance(event, Finished):
                position = _STATEMENTS.get(_normalized(pending))
                if pending and not (position and length):
                    yield Text(pending)
                pending = ""
                yield replace(event, position=position)
            else:
                yield event


def _split_withdrawal(pending: str, event: Withdrawn) -> tuple[str, Withdrawn]:
    """Apply a withdrawal to the text held back, which nobody has seen; the rest of it is passed on."""
    if event.text.endswith(pending):
        return "", replace(event, text=event.text.removesuffix(pending))
    return pending.removesuffix(event.text), replace(event, text="")


def _start(text: str, *, is_start: bool) -> int:
    """Where an ending that may be the line begins, with the white space before it. `is_start`: nothing precedes it."""
    tail = text[-_MOST:]
    body = tail.rstrip()
    line = body.rfind("\n") + 1
    is_line = line > 0 or is_start
    end = body[:line].rstrip() if is_line and _may_be(_normalized(body[line:])) else body
    if not end and len(tail) < len(text):  # too long for that line
        return len(text)
    return len(text) - len(tail) + len(end)


def _may_be(line: str) -> bool:
    return any(statement.startswith(line) for statement in _STATEMENTS)


def _normalized(text: str) -> str:
    return _MARKUP.sub("", text).lower()
