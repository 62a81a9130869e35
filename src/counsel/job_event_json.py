"""Reads job events from JSON: from the daemon's socket and from rows of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from counsel import answer_parts
from counsel import json_reader as read
from counsel.errors import CounselError, from_dict
from counsel.job_events import (
    EventData,
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Noticed,
    OtherEvent,
    PartAdded,
    PhaseStarted,
    Restarted,
    RestartReason,
    Spent,
    Started,
    TextAdded,
    ThinkingAdded,
    ToolInputAdded,
    ToolRun,
    ToolUsed,
    Wait,
    Waiting,
)


def event_from(seq: int, at: float, kind: str, slot: str, data: EventData) -> JobEvent:
    """An event that another process wrote, perhaps of another release: missing fields have defaults."""
    make = _READERS.get(kind)
    return make(seq, at, slot, data) if make else OtherEvent(seq, at, slot, kind, data)


def event_from_json(document: Mapping[str, Any]) -> JobEvent:
    return event_from(
        document["seq"], document["at"], document["kind"], document.get("slot", ""), document.get("data", {})
    )


def _text(data: EventData, name: str) -> str:
    return str(data.get(name, ""))


def _error(data: EventData) -> CounselError:
    return from_dict(data.get("error") or {})


def _started(seq: int, at: float, slot: str, data: EventData) -> JobEvent:
    models = tuple(data.get("models", ()))
    return Started(
        seq, at, slot, _text(data, "tool"), models, _text(data, "job_id"), _text(data, "continuation_id")
    )


def _restarted(seq: int, at: float, slot: str, data: EventData) -> JobEvent:
    reason: RestartReason = data.get("reason", "failed")
    texts = (_text(data, "model"), _text(data, "phase"))
    after = (_text(data, "error"), _text(data, "next"))
    return Restarted(seq, at, slot, *texts, reason, *after, data.get("offset", 0), data.get("code"))


def _tool(seq: int, at: float, slot: str, data: EventData) -> JobEvent:
    return ToolUsed(seq, at, slot, _text(data, "name"), ToolRun.from_json(data) if "server" in data else None)


def _finished(seq: int, at: float, slot: str, data: EventData) -> JobEvent:
    texts = (_text(data, "model"), _text(data, "phase"), _text(data, "provider"))
    spending = Spent.from_json(data["spent"]) if data.get("spent") else None
    return ModelFinished(
        seq, at, slot, *texts, data.get("ms", 0), data.get("length", 0), data.get("first_ms"), spending
    )


_Reader: TypeAlias = Callable[[int, float, str, EventData], JobEvent]

_READERS: dict[str, _Reader] = {
    "started": _started,
    "model_started": lambda seq, at, slot, data: ModelStarted(
        seq, at, slot, _text(data, "model"), _text(data, "phase")
    ),
    "text": lambda seq, at, slot, data: TextAdded(
        seq, at, slot, data["text"], data["offset"], _text(data, "phase")
    ),
    "restarted": _restarted,
    "thinking": lambda seq, at, slot, data: ThinkingAdded(
        seq, at, slot, _text(data, "text"), data.get("offset", 0)
    ),
    "tool": _tool,
    "tool_input": lambda seq, at, slot, data: ToolInputAdded(
        seq, at, slot, _text(data, "text"), data.get("offset", 0), _text(data, "id"), _text(data, "name")
    ),
    "part": lambda seq, at, slot, data: PartAdded(
        seq, at, slot, answer_parts.from_json(read.part(data, "part"))
    ),
    "notice": lambda seq, at, slot, data: Noticed(
        seq, at, slot, _text(data, "kind_of"), _text(data, "text"), data.get("setting")
    ),
    "model_finished": _finished,
    "model_failed": lambda seq, at, slot, data: ModelFailed(
        seq, at, slot, _text(data, "model"), _text(data, "phase"), _error(data), data.get("first_ms")
    ),
    "waiting": lambda seq, at, slot, data: Waiting(seq, at, slot, Wait.from_json(data)),
    "phase": lambda seq, at, slot, data: PhaseStarted(seq, at, slot, _text(data, "phase")),
    "done": lambda seq, at, slot, data: JobDone(seq, at, slot, _text(data, "status")),
    "failed": lambda seq, at, slot, data: JobFailed(seq, at, slot, _error(data)),
    "cancelled": lambda seq, at, slot, data: JobCancelled(seq, at, slot, _error(data)),
}
