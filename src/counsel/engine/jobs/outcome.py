"""How a job ended, before it is written down."""

from __future__ import annotations

from counsel.engine.store.sqlite.conversations import Message
from counsel.lazy_dataclass import dataclass
from counsel.requests import Status
from counsel.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    status: Status
    result: Json
    messages: tuple[Message, ...]  # the turn that the conversation gains
    completed: int
    provider: str | None = None
    model: str | None = None
    session: tuple[str, str] | None = None  # agent, and its own session
    text: str = ""  # what a summary is made of
