"""Resumes a job's events exactly where a client stopped reading, with no word missing or repeated.

The `id` of each event is a cursor: the number of the last event that the client has, and how much it has of each
model's text. Text has no event numbers of its own, since every few characters would need one. For example,
`17~0.answer.120.9f3a11bc` means: all events up to 17, and 120 characters (with this CRC-32) of model 0 in its phase
`answer`. A number alone is the cursor of a client that has no text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Self

from counsel.errors import InvalidArgument
from counsel.front.json_messages import quoted
from counsel.job_events import (
    LAST_EVENTS,
    JobDone,
    JobEvent,
    ModelStarted,
    Restarted,
    TextAdded,
    TextFold,
    ThinkingAdded,
)
from counsel.lazy_dataclass import dataclass

LONGEST = 4_000  # characters of a cursor: 20 models need about 600
_TEXT = r"~[0-9a-z]{1,20}\.[0-9a-z_]{0,20}\.[0-9]{1,10}\.(?:[0-9a-f]{8})?"
_CURSOR = re.compile(rf"(0|[1-9][0-9]{{0,18}})((?:{_TEXT})*)").fullmatch
_MOST = 2**62


@dataclass(slots=True)
class Position:
    """How much of one model's text a client has."""

    phase: str
    length: int = 0  # characters
    crc: int | None = 0  # CRC-32 of them; None: unknown

    def extend(self, offset: int, text: str) -> None:
        if offset == self.length and self.crc is not None:
            self.crc = _crc(text, self.crc)
        else:
            self.crc = _crc(text) if offset == 0 else None
        self.length = offset + len(text)

    def cut(self, offset: int) -> None:
        if offset < self.length:
            self.length, self.crc = offset, None if offset else 0

    def begins(self, text: str) -> bool:
        """Whether the client's part is the beginning of this text; otherwise the client needs all of it."""
        return self.crc is None or _crc(text[: self.length]) == self.crc


def _crc(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), before)


class Cursor:
    """How much of a job's events a client has."""

    def __init__(self, seq: int = 0, texts: dict[str, Position] | None = None) -> None:
        self.seq = seq
        self.texts = texts or {}  # by slot

    @classmethod
    def parse(cls, name: str, value: str) -> Self:
        match = _CURSOR(value) if len(value) <= LONGEST else None
        if match is None or int(match[1]) > _MOST:
            raise InvalidArgument(
                f"{name} must be the id of an event, not {quoted(value)!r}.",
                hint="Use the `id` of the last event that you received, or 0 for all of them.",
            )
        parts = (part.split(".") for part in match[2].split("~")[1:])
        texts = {
            slot: Position(phase, int(length), int(code, 16) if code else None)
            for slot, phase, length, code in parts
        }
        return cls(int(match[1]), texts)

    def __str__(self) -> str:
        return f"{self.seq}{''.join(_part(slot, text) for slot, text in self.texts.items() if text.length)}"

    def advance(self, event: JobEvent) -> None:
        """Record that the client has this event."""
        if isinstance(event, TextAdded):
            position = self.texts.get(event.slot)
            if position is None or position.phase != event.phase:
                position = self.texts[event.slot] = Position(event.phase)
            position.extend(event.offset, event.text)
        elif not isinstance(event, ThinkingAdded):
            self.seq = max(self.seq, event.seq)
        if isinstance(event, ModelStarted):
            self.texts[event.slot] = Position(event.phase)
        elif isinstance(event, Restarted) and event.slot in self.texts:
            self.texts[event.slot].cut(event.offset)


def _part(slot: str, text: Position) -> str:
    return f"~{slot}.{text.phase}.{text.length}.{'' if text.crc is None else f'{text.crc:08x}'}"


async def resumed(events: AsyncGenerator[JobEvent], cursor: Cursor) -> AsyncGenerator[tuple[str, JobEvent]]:
    """Yield the events that the client lacks, each with its cursor. `events` is a replay from the start."""
    reader = _Reader(cursor)
    async with aclosing(events):
        async for event in events:
            for missing in reader.missing(event):
                cursor.advance(missing)
                yield str(cursor), missing


class _Reader:
    """Drops the events and the text that the client already has.

    Until the replay passes the cursor, texts are only collected: the client may have more of a text than the events
    before the cursor contain, and part of that text may have been discarded later.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._fold: TextFold | None = TextFold() if cursor.seq else None
        self._phases: dict[str, str] = {}
        self._shorter: dict[str, TextAdded] = {}  # by slot: a whole text that is shorter than the client's

    def missing(self, event: JobEvent) -> Iterator[JobEvent]:
        if isinstance(event, TextAdded):
            if self._fold is None:
                yield from self._rest(event)
            else:
                self._fold.add(event)
                self._phases[event.slot] = event.phase
        elif isinstance(event, ThinkingAdded):
            yield event
        elif event.seq > self._cursor.seq or isinstance(event, LAST_EVENTS):
            yield from self._caught_up(event)
            if isinstance(event, JobDone):  # no more text comes, so the shorter text is the answer
                yield from self._shorter.values()
            yield event
        else:
            if self._fold is None:  # another process took the job over and replays it from its start
                self._fold = TextFold()
            self._fold.add(event)
            if event.seq == self._cursor.seq:
                yield from self._caught_up(event)

    def _caught_up(self, event: JobEvent) -> Iterator[JobEvent]:
        fold, self._fold = self._fold, None
        for slot, buffer in (fold.texts if fold else {}).items():
            if text := buffer.text():
                yield from self._rest(
                    TextAdded(event.seq, event.at, slot, text, 0, self._phases.get(slot, ""))
                )

    def _rest(self, event: TextAdded) -> Iterator[JobEvent]:
        """The part of a text that the client does not have."""
        position = self._cursor.texts.get(event.slot)
        self._shorter.pop(event.slot, None)
        if position is None or position.phase != event.phase or event.offset >= position.length:
            yield event
        elif event.offset == 0 and len(event.text) < position.length:
            self._shorter[event.slot] = event  # the client is ahead of the database, or has a different text
        elif event.offset == 0 and not position.begins(event.text):
            yield event
        elif event.offset + len(event.text) > position.length:
            text = event.text[position.length - event.offset :]
            yield replace(event, text=text, offset=position.length)
