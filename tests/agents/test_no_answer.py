"""What an agent's vendor sends instead of an answer, and how the real agents report it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.reading import CLEAN, request_to
from agents.rigs import LIMITS, RIGS, Rig, start_once
from counsel.agents import failures
from counsel.agents.claude import run as claude
from counsel.agents.codex import run as codex
from counsel.agents.definitions import AGENTS
from counsel.agents.driver import Step
from counsel.agents.gemini import run as gemini
from counsel.agents.opencode import run as opencode
from counsel.agents.registry import resolve
from counsel.engine.consult import empty_answers
from counsel.engine.consult.routes import Route, Router
from counsel.errors import CounselError, RateLimited, UpstreamError
from counsel.models.transport import Transport
from counsel.types import Event, Finished, Notice, Text, UsageReport, Withdrawn
from fake import FakeAPI
from models.vendor_responses import EXPECTED, Shape

REAL = [
    ("claude", "anthropic-refusal", "CONTENT_FILTERED"),
    ("claude", "anthropic-empty", "EMPTY_ANSWER"),
    ("claude", "anthropic-spending_cap", "RATE_LIMIT_EXCEEDED"),
    ("codex", "openai_responses-content_filter", "CONTENT_FILTERED"),
    ("codex", "openai_responses-refusal", "EMPTY_ANSWER"),  # it drops the vendor's message
    ("codex", "openai_responses-reasoning_used_up", "EMPTY_ANSWER"),
    ("gemini", "gemini-recitation", "CONTENT_FILTERED"),
    ("gemini", "gemini-per_minute", "RATE_LIMIT_EXCEEDED"),
    ("opencode", "openai_chat-deepseek_risk", "CONTENT_FILTERED"),
]


def rig_of(agent: str, fake: FakeAPI, tmp_path: Path) -> Rig:
    rig = RIGS[agent](fake, tmp_path)
    if agent == "gemini":
        start_once(rig)
    return rig


def route_to(rig: Rig) -> Route:
    return Router(Transport()).route(rig.name, rig.caller())


async def outcome(rig: Rig) -> tuple[str, list[Event], CounselError | None]:
    """The final text, the events, and the failure that the engine reports for them."""
    driver = resolve(rig.name)
    assert driver is not None
    text, collected = "", list[Event]()
    limits = replace(LIMITS, total=50.0)
    try:
        async for event in driver.answer(rig.call("Where?"), rig.caller(), limits):
            collected.append(event)
            if isinstance(event, Text):
                text += event.delta
            elif isinstance(event, Withdrawn):
                text = text.removesuffix(event.text)
    except CounselError as error:
        return text, collected, error
    finished = collected[-1]
    assert isinstance(finished, Finished)
    return text, collected, empty_answers.failure(route_to(rig), finished, text)


@pytest.mark.client
@pytest.mark.xdist_group("agents")
@pytest.mark.parametrize(
    ("agent", "shape", "code"), REAL, ids=[f"{agent}: {name}" for agent, name, _ in REAL]
)
async def test_a_real_agent_without_an_answer_is_a_failure_that_says_what_it_is(
    fake_api: FakeAPI, tmp_path: Path, agent: str, shape: str, code: str
) -> None:
    Shape(shape, EXPECTED[shape]).play(fake_api)
    _, events, error = await outcome(rig_of(agent, fake_api, tmp_path))
    assert error is not None
    assert (error.code, error.provider) == (code, agent)
    if shape == "anthropic-refusal":
        assert error.fields["vendor_reason"] == "cyber"
        assert error.fields["recommended_model"] == "claude-opus-4-8"
    if shape in {"anthropic-refusal", "gemini-recitation"}:  # what was used must be paid for anyway
        assert [event.usage.output for event in events if isinstance(event, UsageReport)][-1] > 0
    if shape == "gemini-per_minute":
        assert error.fields["retry_after"] == pytest.approx(48.1)
    elif isinstance(error, RateLimited):
        assert error.fields["reason"] == "insufficient_quota"


@pytest.mark.client
@pytest.mark.xdist_group("agents")
async def test_text_of_a_refusing_model_is_not_part_of_the_next_models_answer(
    fake_api: FakeAPI, tmp_path: Path
) -> None:
    refusal = Shape("anthropic-refusal_midway", {}).file.read_text(encoding="utf-8")
    for number in (1, 2):
        fake_api.script(raw=refusal.replace("msg_1", f"msg_{number}"))
    text, events, error = await outcome(rig_of("claude", fake_api, tmp_path))
    assert error is None
    assert text.count("First you need") == 1  # the first was stopped and stands; the second was withdrawn
    assert " says: " in text
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("refused (cyber): Claude Code asks claude-" in notice for notice in notices)


# ── the same, from single lines ──


def feed_all(reader: Any, *lines: dict[str, Any]) -> list[Step]:
    steps = [step for line in lines for step in reader.feed(line)]
    return [*steps, *reader.finish(CLEAN)]


def test_a_refusal_by_claudes_last_model_is_a_refusal() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No.", "recommended_model": "opus"}
    event = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "stop_reason": "refusal",
        "result": "API Error: Opus' safeguards flagged this message.",
        "usage": {"input_tokens": 60, "output_tokens": 10},
    }
    report, finished = feed_all(
        claude.Reader(request_to("claude")), {"type": "stream_event", "event": event}, result
    )
    assert isinstance(report, UsageReport)
    assert report.usage.output == 10
    assert isinstance(finished, Finished)
    assert finished.reason == "filtered"
    assert finished.vendor == {"reason": "cyber", "text": "No.", "recommended_model": "opus"}


@pytest.mark.parametrize(
    ("retracted", "expected"),
    [
        (["u1"], ["First ", Withdrawn("First ", "opus refused: Claude Code asks haiku."), "Berlin."]),
        ([], ["First ", "\n\nBerlin."]),
    ],
)
def test_claude_asks_another_model(retracted: list[str], expected: list[Any]) -> None:
    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": "stream_event", "event": {"type": kind, **more}}

    def text(words: str) -> dict[str, Any]:
        return event("content_block_delta", index=0, delta={"type": "text_delta", "text": words})

    lines = [
        event("message_start", message={"id": "m1"}),
        text("First "),
        {
            "type": "system",
            "subtype": "model_refusal_fallback",
            "original_model": "opus",
            "fallback_model": "haiku",
            "retracted_message_uuids": retracted,
        },
        event("message_delta", delta={"stop_reason": "refusal", "stop_details": {"category": "cyber"}}),
        event("message_start", message={"id": "m2"}),
        text("Berlin."),
        {"type": "result", "subtype": "success", "result": "Berlin.", "stop_reason": "end_turn"},
    ]
    steps = feed_all(claude.Reader(request_to("claude")), *lines)
    assert [
        step.delta if isinstance(step, Text) else step for step in steps if isinstance(step, Text | Withdrawn)
    ] == expected
    assert Notice("warning", "opus refused: Claude Code asks haiku.") in steps
    assert isinstance(steps[-1], Finished)
    assert steps[-1].vendor == {"reason": "end_turn"}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("The model response was blocked due to safety settings.", "filtered"),
        ("The model response was blocked due to recitation/copyright filters.", "filtered"),
        (
            "Model stream ended due to safety settings (SAFETY) with empty response text.",
            "filtered",
        ),
        ("Model response was truncated because it exceeded the token limit. Try using /compress.", "length"),
        ("Model stream ended with unexpected tool call.", "broken"),
        ("The model returned an empty response with no text or thoughts.", "broken"),
    ],
)
def test_gemini_says_why_there_is_no_answer(message: str, reason: str) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "error", "severity": "error", "message": message},
        {"type": "result", "status": "error", "stats": {"input_tokens": 32, "output_tokens": 20}},
    ]
    report, finished = feed_all(gemini.Reader(request_to("gemini")), *lines)
    assert isinstance(report, UsageReport)
    assert report.usage.total == 52
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.vendor) == (reason, {"text": message})


def test_another_error_of_gemini_is_repeated() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "error", "severity": "error", "message": "Maximum session turns exceeded."},
        {"type": "result", "status": "error"},
    ]
    with pytest.raises(UpstreamError, match="Maximum session turns exceeded"):
        feed_all(gemini.Reader(request_to("gemini")), *lines)


def test_a_turn_of_codex_that_used_up_its_output_ends_there() -> None:
    message = "Incomplete response returned, reason: max_output_tokens"
    turn = {"id": "u", "status": "failed", "error": {"message": message}}
    lines: list[dict[str, Any]] = [
        {"id": 3, "result": {"thread": {"id": "t"}}},
        {"method": "turn/completed", "params": {"threadId": "t", "turn": turn}},
    ]
    (finished,) = [
        step for step in feed_all(codex.Reader(request_to("codex")), *lines) if isinstance(step, Finished)
    ]
    assert finished.reason == "length"


@pytest.mark.parametrize(
    ("log_text", "expected"),
    [
        ('mode=primary error.error="AI_APICallError: Content Exists Risk"', "Content Exists Risk"),
        ('error.error="AI_APICallError: It said \\"no\\""', 'It said "no"'),
        ('error.error.message="Failed to call a function." error.error.type=x', "Failed to call a function."),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_opencode_shows_the_vendors_words_and_not_its_log(log_text: str, expected: str) -> None:
    reader = opencode.Reader(request_to("opencode"))
    line = f'timestamp=2026 level=ERROR message="stream error" session.id=ses_429 {log_text}'
    message = reader.retry_message(line)
    assert message == (line if expected == "nothing of the kind" else expected)


@pytest.mark.parametrize(
    ("status", "message", "wait"),
    [
        (
            400,
            "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
            None,
        ),
        (400, "Credit balance is too low", None),
        (None, "You exceeded your current quota, please check your plan and billing details.", None),
        (None, "You exceeded your current quota. Please retry in 48.1s.", 48.1),
    ],
)
def test_the_accounts_limit_is_distinguished_from_a_temporary_one(
    status: int | None, message: str, wait: float | None
) -> None:
    error = failures.by_status(AGENTS["claude"], status, message)
    assert isinstance(error, RateLimited)
    assert error.retry_after == wait
    assert error.fields.get("reason") == (None if wait else "insufficient_quota")


def test_a_models_own_limit_is_not_the_accounts() -> None:
    """The agent's other models may still answer."""
    error = failures.by_status(AGENTS["gemini"], 429, "You have exhausted your daily quota on this model.")
    assert isinstance(error, RateLimited)
    assert "reason" not in error.fields
