"""Events of a job to JSON and back, and the text that they produce."""

from __future__ import annotations

from typing import Any

import pytest

from counsel.answer_parts import ToolCallPart
from counsel.errors import Cancelled, NotFound, bounded
from counsel.job_event_json import event_from, event_from_json
from counsel.job_events import (
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
    Spent,
    Started,
    TextAdded,
    TextFold,
    ThinkingAdded,
    ToolInputAdded,
    ToolRun,
    ToolUsed,
    Wait,
    Waiting,
)
from counsel.types import Usage

CALL: ToolCallPart = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}
HEAD = (7, 12.5, "1")
ERROR = NotFound("There is none.", hint="Look.")
EVENTS: list[tuple[JobEvent, dict[str, Any]]] = [
    (
        Started(*HEAD, "chat", ("gpt-5", "o3"), "job_1", "conv_1"),
        {"tool": "chat", "models": ["gpt-5", "o3"], "job_id": "job_1", "continuation_id": "conv_1"},
    ),
    (ModelStarted(*HEAD, "gpt-5", "initial"), {"model": "gpt-5", "phase": "initial"}),
    (TextAdded(*HEAD, "so", 3, "initial"), {"text": "so", "offset": 3, "phase": "initial"}),
    (
        Restarted(*HEAD, "gpt-5", "initial", "retried", "It broke.", "o3", 4, "TIMEOUT"),
        {"model": "gpt-5", "phase": "initial", "reason": "retried", "error": "It broke.", "next": "o3", "offset": 4, "code": "TIMEOUT"},
    ),
    (
        Restarted(*HEAD, "gpt-5", "initial", "failed", "It broke.", "o3", 0),
        {"model": "gpt-5", "phase": "initial", "reason": "failed", "error": "It broke.", "next": "o3", "offset": 0},
    ),
    (ThinkingAdded(*HEAD, "hm", 9), {"text": "hm", "offset": 9}),
    (ToolUsed(*HEAD, "Bash"), {"name": "Bash"}),
    (
        ToolUsed(*HEAD, "read", ToolRun("files", "read", 12, ok=False)),
        {"name": "read", "server": "files", "tool": "read", "ms": 12, "ok": False},
    ),
    (ToolInputAdded(*HEAD, "{", 1, "c1", "look"), {"id": "c1", "name": "look", "text": "{", "offset": 1}),
    (PartAdded(*HEAD, CALL), {"part": CALL}),
    (Noticed(*HEAD, "warning", "careful"), {"kind_of": "warning", "text": "careful"}),
    (
        Noticed(*HEAD, "left_out", "it was left out", "temperature"),
        {"kind_of": "left_out", "text": "it was left out", "setting": "temperature"},
    ),
    (
        ModelFinished(*HEAD, "gpt-5", "refined", "openai", 900, 40),
        {"model": "gpt-5", "phase": "refined", "provider": "openai", "ms": 900, "length": 40},
    ),
    (
        ModelFinished(*HEAD, "gpt-5", "refined", "openai", 900, 40, 0, Spent(3, 4, None)),
        {"model": "gpt-5", "phase": "refined", "provider": "openai", "ms": 900, "length": 40, "first_ms": 0,
         "spent": {"input_tokens": 3, "output_tokens": 4, "cost_usd": None}},
    ),
    (ModelFailed(*HEAD, "gpt-5", "initial", ERROR), {"model": "gpt-5", "phase": "initial", "error": ERROR.as_dict()}),
    (
        ModelFailed(*HEAD, "gpt-5", "initial", ERROR, 5),
        {"model": "gpt-5", "phase": "initial", "error": ERROR.as_dict(), "first_ms": 5},
    ),
    (
        Waiting(*HEAD, Wait("turn", "for another", "job_0")),
        {"for": "turn", "text": "for another", "job_id": "job_0"},
    ),
    (Waiting(*HEAD, Wait("retry", "a while", at=3.5)), {"for": "retry", "text": "a while", "at": 3.5}),
    (Waiting(*HEAD, Wait("keys", "keys", names=("A", "B"))), {"for": "keys", "text": "keys", "names": ["A", "B"]}),
    (Waiting(*HEAD, None), {}),
    (PhaseStarted(*HEAD, "refined"), {"phase": "refined"}),
    (JobDone(*HEAD, "completed"), {"status": "completed"}),
    (JobFailed(*HEAD, ERROR), {"error": ERROR.as_dict()}),
    (JobCancelled(*HEAD, Cancelled("Stopped.")), {"error": Cancelled("Stopped.").as_dict()}),
]  # fmt: skip
KINDS = [
    "started",
    "model_started",
    "text",
    "restarted",
    "restarted",
    "thinking",
    "tool",
    "tool",
    "tool_input",
    "part",
    "notice",
    "notice",
    "model_finished",
    "model_finished",
    "model_failed",
    "model_failed",
    "waiting",
    "waiting",
    "waiting",
    "waiting",
    "phase",
    "done",
    "failed",
    "cancelled",
]


@pytest.mark.parametrize(("event", "data", "kind"), [(*each, kind) for each, kind in zip(EVENTS, KINDS, strict=True)])  # fmt: skip
def test_an_event_is_read_back(event: JobEvent, data: dict[str, Any], kind: str) -> None:
    document = {"seq": 7, "at": 12.5, "kind": kind, "slot": "1", "data": data}
    assert event.to_json() == document
    again = event_from_json(document)
    assert type(again) is type(event)
    assert again.to_json() == document


def test_an_event_of_another_release() -> None:
    event = event_from(7, 12.5, "sparkle", "0", {"a": 1})
    assert isinstance(event, OtherEvent)
    assert event.kind == "other"
    assert event.to_json() == {"seq": 7, "at": 12.5, "kind": "sparkle", "slot": "0", "data": {"a": 1}}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("started", {"tool": "", "models": [], "job_id": "", "continuation_id": ""}),
        ("restarted", {"model": "", "phase": "", "reason": "failed", "error": "", "next": "", "offset": 0}),
        ("thinking", {"text": "", "offset": 0}),
        ("tool", {"name": ""}),
        ("tool_input", {"id": "", "name": "", "text": "", "offset": 0}),
        ("part", {"part": {"type": "vendor", "wire": "", "item": {}}}),
        ("notice", {"kind_of": "", "text": ""}),
        ("model_finished", {"model": "", "phase": "", "provider": "", "ms": 0, "length": 0}),
        ("waiting", {}),
        ("done", {"status": ""}),
    ],
)
def test_what_an_older_release_does_not_say_has_a_default(kind: str, data: dict[str, Any]) -> None:
    event = event_from_json({"seq": 1, "at": 0.0, "kind": kind})
    assert (event.slot, event.data) == ("", data)


def test_a_failure_without_a_reason_is_a_failure() -> None:
    for kind in ("failed", "cancelled", "model_failed"):
        event: Any = event_from(1, 0.0, kind, "", {})
        assert event.error.code == "INTERNAL"


def test_spent_tokens_that_are_not_told_are_none() -> None:
    assert Spent.from_json({}) == Spent(0, 0, None)


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────


def test_text_is_folded_by_slot_and_begins_anew_with_each_phase() -> None:
    fold = TextFold()
    assert fold.add(TextAdded(1, 0.0, "0", "one ", 0, "initial"))
    assert fold.add(TextAdded(2, 0.0, "1", "uno", 0, "initial"))
    assert fold.add(TextAdded(3, 0.0, "0", "two", 4, "initial"))
    assert not fold.add(ThinkingAdded(4, 0.0, "0", "hm", 0))
    assert not fold.add(JobDone(5, 0.0, "", "completed"))
    assert (fold.of("0").text(), fold.of("1").text()) == ("one two", "uno")
    assert fold.add(TextAdded(6, 0.0, "0", "three", 4, "initial")), "what stood behind it is discarded"
    assert fold.of("0").text() == "one three"
    assert fold.add(Restarted(7, 0.0, "0", "a", "initial", "retried", "", "a", 2))
    assert fold.of("0").text() == "on"
    assert fold.add(ModelStarted(8, 0.0, "0", "a", "refined"))
    assert (fold.of("0").text(), fold.of("1").text(), fold.of("9").text()) == ("", "uno", "")


def test_a_fold_of_the_end_keeps_so_many_characters() -> None:
    fold = TextFold(tail=4)
    fold.add(TextAdded(1, 0.0, "0", "abcdef", 0, "initial"))
    assert fold.of("0").text().endswith("cdef")
    assert "ab" not in fold.of("0").text()


# ── amounts ──────────────────────────────────────────────────────────────────────────────────────────


def test_usages_add_up_and_an_unknown_cost_makes_the_sum_unknown() -> None:
    first = Usage(1, 2, 3, 4, 5, 0.5)
    second = Usage(10, 20, 30, 40, 50, 0.25, estimated=True)
    assert first + second == Usage(11, 22, 33, 44, 55, 0.75, estimated=True)
    assert second + first == first + second
    assert (first + Usage(input=1)).cost_usd is None
    assert (Usage(input=1) + first).cost_usd is None
    assert not (first + first).estimated
    assert first.total == 3


@pytest.mark.parametrize("length", [4_000, 4_001, 10_000])
def test_long_words_of_an_error_keep_their_ends(length: int) -> None:
    text = "a" * (length // 2) + "b" * (length - length // 2)
    text_after = bounded(text)
    if length == 4_000:
        assert text_after == text
    else:
        assert text_after == f"{text[:3000]}… [{length - 3800:,} characters omitted] …{text[-800:]}"
    assert bounded({"partial": text, "other": text}) == {"partial": text, "other": text_after}
    assert bounded([text]) == [text_after]
    assert bounded([text, 3])[1] == 3
    assert len(bounded(list(range(200)))) == 100
