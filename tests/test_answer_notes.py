"""The line below an answer, and the notes for its reader."""

from __future__ import annotations

from typing import Any

import pytest

from counsel import answer_notes, resource_errors
from counsel.results import ChatResult
from counsel.results.answers import Accepted
from counsel.results.consensus import ConsensusResult
from counsel.results.parts import Continuation

USAGE = {"input_tokens": 1200, "output_tokens": 340}


def chat(continuation: dict[str, Any] | None = None, **metadata: Any) -> ChatResult:
    about = {"model": "gpt-5", "provider": "openai", "usage": USAGE, "cost_usd": 0.5, **metadata}
    return ChatResult.from_json(
        {"content": "c", "continuation": continuation or {"id": "conv_1"}, "metadata": about}
    )


def consensus(**metadata: Any) -> ConsensusResult:
    about = {"usage": USAGE, "cost_usd": 0.5, "cost_complete": False, **metadata}
    return ConsensusResult.from_json({"phases": {}, "continuation": {"id": "consensus_1"}, "metadata": about})


def test_one_line_says_who_answered_at_what_cost_and_how_to_go_on() -> None:
    assert answer_notes.footer(chat(response_time_ms=1500), "-c") == (
        "openai/gpt-5 · 1,200 → 340 tokens · $0.5000 · 1.5 s · -c conv_1"
    )
    new = chat({"id": "conv_123", "status": "new"})
    assert answer_notes.footer(new, "-c", lambda name: name[:6]).endswith("· -c conv_1 (a new conversation)")
    unknown = answer_notes.footer(chat({"id": ""}, usage={}, cost_usd=None), "-c")
    assert unknown == "openai/gpt-5 · ? tokens · cost ?"


def test_an_incomplete_sum_explains_its_plus() -> None:
    assert answer_notes.footer(consensus(), "-c") == (
        "1,200 → 340 tokens · $0.5000+ · +: at least, some prices are not known · -c consensus_1"
    )


def test_a_job_that_has_just_begun_has_only_its_name() -> None:
    accepted = Accepted(content="c", continuation=Continuation(id="conv_1"), job_id="j")
    assert answer_notes.footer(accepted, "-c") == "-c conv_1"


NOTES: dict[str, Any] = {
    "notices": [
        {"kind": "source", "text": "X", "url": "https://x"},
        {"kind": "source", "text": "", "url": "https://y"},
        {"kind": "retry", "text": "Attempt 2."},
    ],
    "passed_over": [{"model": "o3", "code": "TIMEOUT", "error": "It took too long."}],
    "warnings": ["It was long."],
    "finish_reason": "length",
    "settings_left_out": ["temperature", "effort"],
}


@pytest.mark.parametrize("was_live", [True, False])
def test_what_a_reader_should_know(was_live: bool) -> None:
    result = ChatResult.from_json({**chat(**NOTES).to_json(), "export": "/folder"})
    lines = list(answer_notes.notes(result, was_live=was_live, names={"effort": "--effort"}))
    assert lines == [
        "Sources:\n- X: https://x\n- https://y",
        "Note: o3 was passed over: It took too long.",
        *([] if was_live else ["Note: Attempt 2."]),
        "Note: It was long.",
        "Note: the answer was cut off at the model's output limit.",
        "Exported to /folder",
        "Note: gpt-5 does not take temperature, --effort: left out.",
    ]
    assert list(answer_notes.notes(chat(), was_live=was_live)) == []
    assert list(answer_notes.notes(consensus(warnings=["w"]), was_live=was_live)) == ["Note: w"]


# ── shortages ────────────────────────────────────────────────────────────────────────────────────────


def test_a_shortage_is_looked_for_in_few_causes_and_without_end() -> None:
    first = last = OSError("x")
    for _ in range(30):
        last.__cause__ = OSError("y")
        last = last.__cause__
    last.__cause__ = MemoryError()
    assert resource_errors.cause(first) is None
    assert len(resource_errors._chain(first)) == 20
    around = OSError("x")
    around.__cause__ = OSError("y")
    around.__cause__.__context__ = around
    assert resource_errors.cause(around) is None
    group = ExceptionGroup("several", [ValueError(), MemoryError()])
    assert resource_errors.cause(group) is not None
    busy = BlockingIOError(11, "x")
    assert resource_errors.cause(busy) is None
    cause = resource_errors.cause(busy, starting=True)
    assert cause is not None
    assert cause[0] == "no more processes can be started"


@pytest.mark.parametrize(
    ("reason", "words"), [("stop", None), ("length", "output limit"), ("other", "may be incomplete")]
)
def test_an_answer_that_may_not_be_whole_says_so(reason: str, words: str | None) -> None:
    notes = list(answer_notes.notes(chat(finish_reason=reason), was_live=False))
    assert [words in note for note in notes if words] == ([True] if words else [])
    assert len(notes) == (1 if words else 0)
