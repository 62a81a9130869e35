"""How the readers of Claude Code, Gemini CLI and Cursor read single lines: tokens, reasons, repetitions."""

from __future__ import annotations

from typing import Any

import pytest

from agents.reading import CLEAN, request_to
from counsel.agents.claude import run as claude
from counsel.agents.cursor import run as cursor
from counsel.agents.failures import LostSession
from counsel.agents.gemini import run as gemini
from counsel.errors import CounselError
from counsel.types import Finished, Notice, Text, Thinking, ToolCall, ToolUse, Usage, UsageReport, Withdrawn

# ── Claude Code ──────────────────────────────────────────────────────────────────────────────────────


def claude_event(**event: object) -> dict[str, Any]:
    return {"type": "stream_event", "event": event}


def test_claudes_tokens_and_why_it_ended() -> None:
    reader = claude.Reader(request_to("claude"))
    reader.feed(
        {
            "type": "assistant",
            "message": {"model": "claude-opus", "id": "m", "content": [{"type": "text", "text": "so"}]},
        }
    )
    reader.feed(
        {
            "type": "assistant",
            "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "no"}]},
        }
    )
    usage = {
        "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2,
        "output_tokens_details": {"thinking_tokens": 3},
    }  # fmt: skip
    line = {
        "type": "result",
        "subtype": "success",
        "result": "so",
        "stop_reason": "max_tokens",
        "session_id": "s",
        "usage": usage,
    }
    (report,) = reader.feed(line)
    assert isinstance(report, UsageReport)
    tokens = report.usage
    assert (tokens.input, tokens.output, tokens.reasoning, tokens.cache_read, tokens.cache_write) == (
        16,
        5,
        3,
        4,
        2,
    )
    assert reader.done
    (finished,) = reader.finish(CLEAN)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.model, finished.session) == ("length", "claude-opus", "s")
    assert finished.vendor == {"reason": "max_tokens"}


def test_claude_says_why_it_refused() -> None:
    reader = claude.Reader(request_to("claude"))
    details = {"category": "cyber", "explanation": "It is not safe.", "recommended_model": None}
    assert reader.feed(claude_event(type="message_delta", delta={"stop_details": details})) == []
    reader.feed({"type": "result", "subtype": "success", "result": "no", "stop_reason": "refusal"})
    (finished,) = reader.finish(CLEAN)
    assert isinstance(finished, Finished)
    assert finished.vendor == {"reason": "cyber", "text": "It is not safe."}


def test_claude_withdraws_blocks_of_a_stream_that_broke() -> None:
    reader = claude.Reader(request_to("claude"))

    def text(words: str, index: int) -> list[Any]:
        delta = {"type": "text_delta", "text": words}
        return [*reader.feed(claude_event(type="content_block_delta", index=index, delta=delta))]

    reader.feed(claude_event(type="message_start", message={"id": "m1"}))
    assert text("One.", 0) + text(" Tw", 1) + text("o", 1) == [Text("One."), Text(" Tw"), Text("o")]
    abandoned_line = {"type": "stream_event", "event": {}, "abandoned_blocks": {"from_block_index": 1}}
    assert reader.feed(abandoned_line) == [
        Withdrawn(" Two", "Claude Code lost the model's stream and asks again.")
    ]
    assert reader.feed(abandoned_line) == []
    reader.feed(claude_event(type="message_start", message={"id": "m2"}))
    assert text("Three.", 0) == [Text("\n\nThree.")]
    assert text("", 0) == []
    thinking_line = claude_event(
        type="content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"}
    )
    assert reader.feed(thinking_line) == [Thinking("hm")]


@pytest.mark.parametrize(
    ("line", "session", "expected"),
    [
        ({"subtype": "error_during_execution", "errors": ["One.", "Two."]}, None, "One.; Two."),
        ({"is_error": True, "subtype": "success", "result": "It broke."}, None, "It broke."),
        ({"subtype": "error_max_turns"}, None, "error_max_turns"),
        ({"is_error": True, "result": "Please run /login"}, None, "not logged in"),
        ({"is_error": True, "result": "No conversation found with id"}, None, "No conversation found"),
    ],
)
def test_why_claude_failed(line: dict[str, Any], session: str | None, expected: str) -> None:
    with pytest.raises(CounselError, match=expected):
        claude.Reader(request_to("claude", session)).feed({"type": "result", **line})


def test_a_session_that_claude_no_longer_has() -> None:
    line = {"type": "result", "is_error": True, "result": "No conversation found with id"}
    with pytest.raises(LostSession):
        claude.Reader(request_to("claude", "s")).feed(line)


def test_claudes_retries_are_reported_with_their_pause() -> None:
    line = {
        "type": "system",
        "subtype": "api_retry",
        "error_status": 529,
        "retry_delay_ms": 3400,
        "error": "overloaded",
    }
    (notice,) = claude.Reader(request_to("claude")).feed(line)
    assert notice == Notice("retry", "Claude Code retries in 3 s (overloaded).", {"status": 529})
    assert claude.Reader(request_to("claude")).feed({"type": "system", "subtype": "init"}) == []
    assert claude.Reader(request_to("claude")).feed({"type": "new"}) == []


# ── Gemini CLI and Cursor ────────────────────────────────────────────────────────────────────────────


def test_geminis_tokens_and_the_model_that_wrote_most() -> None:
    reader = gemini.Reader(request_to("gemini"))
    reader.feed({"type": "init", "session_id": "s", "model": "auto"})
    models = {"flash": {"output_tokens": 3}, "pro": {"output_tokens": 9}}
    stats = {"input_tokens": 10, "output_tokens": 12, "cached": 4, "models": models}
    steps = reader.feed({"type": "result", "status": "success", "response": "All of it.", "stats": stats})
    assert steps == [Text("All of it."), UsageReport(Usage(10, 12, 0, 4))]
    assert reader.finish(CLEAN) == [Finished("stop", "pro", session="s")]


def test_geminis_answer_is_not_repeated_at_its_end() -> None:
    reader = gemini.Reader(request_to("gemini"))
    reader.feed({"type": "message", "role": "assistant", "content": "All of it.", "delta": True})
    assert reader.feed({"type": "message", "role": "assistant", "content": "All of it."}) == []
    assert reader.feed({"type": "message", "role": "user", "content": "look"}) == []
    steps = reader.feed({"type": "result", "status": "success", "response": "All of it.", "stats": {}})
    assert [type(step) for step in steps] == [UsageReport]


def test_geminis_tools_and_warnings() -> None:
    reader = gemini.Reader(request_to("gemini"))
    call = {"type": "tool_use", "tool_id": "t", "tool_name": "read_file", "parameters": {"path": "a"}}
    assert reader.feed(call) == [ToolUse(ToolCall("t", "read_file", {"path": "a"}))]
    assert reader.feed({"type": "error", "severity": "warning", "message": "careful hush-hush"}) == [
        Notice("warning", "careful ***")
    ]
    assert reader.feed({"type": "error", "severity": "error", "message": "x"}) == []


def test_cursors_text_is_not_repeated_and_tools_separate_it() -> None:
    reader = cursor.Reader(request_to("cursor"))

    def events_of(text: str, **fields: object) -> list[Any]:
        content = [{"type": "text", "text": text}]
        return [*reader.feed({"type": "assistant", "message": {"content": content}, **fields})]

    assert events_of("I will", timestamp_ms=1) + events_of(" look.", timestamp_ms=2) == [
        Text("I will"),
        Text(" look."),
    ]
    assert events_of("I will look.", timestamp_ms=3, model_call_id="c") == []
    call = {
        "type": "tool_call",
        "subtype": "started",
        "call_id": "t",
        "tool_call": {"readToolCall": {"args": {"path": "a"}}},
    }
    assert reader.feed(call) == [ToolUse(ToolCall("t", "read", {"path": "a"}))]
    assert events_of("It says", timestamp_ms=4) == [Text("\n\nIt says")]
    assert events_of("I will look.It says note.") == [Text(" note.")]
    assert reader.feed({"type": "result", "subtype": "success", "result": "It says note."}) == []
