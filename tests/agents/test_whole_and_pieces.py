"""An agent's text arrives in pieces, as a whole, or both: it counts once."""

from __future__ import annotations

from typing import Any

import pytest

from agents.reading import CLEAN, parts, request_to
from counsel.agents.claude import run as claude
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.driver import Step
from counsel.agents.gemini import run as gemini
from counsel.types import Finished


def feed_all(reader: Any, *lines: dict[str, Any]) -> list[Step]:
    steps = [step for line in lines for step in reader.feed(line)]
    return [*steps, *reader.finish(CLEAN)]


def codex_lines(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": 1, "result": {}},
        {"id": 3, "result": {"thread": {"id": "t"}, "model": "gpt-5.1"}},
        *items,
        {"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "u", "status": "completed"}}},
    ]


def codex_item(text: str, number: str = "m1", event: str = "completed", **more: Any) -> dict[str, Any]:
    item = {"type": "agentMessage", "id": number, "text": text, **more}
    return {"method": f"item/{event}", "params": {"threadId": "t", "item": item}}


def codex_piece(text: str, number: str = "m1") -> dict[str, Any]:
    return {
        "method": "item/agentMessage/delta",
        "params": {"threadId": "t", "itemId": number, "delta": text},
    }


@pytest.mark.parametrize(
    "items",
    [
        [codex_item("Ber", event="started"), codex_piece("Ber"), codex_piece("lin."), codex_item("Berlin.")],
        [codex_item("Berlin.")],
        [codex_piece("Ber"), codex_item("Berlin.")],
        [codex_item("Hm.", "m0", phase="commentary"), codex_item("Berlin.")],
        [codex_item("Berlin.", phase="commentary")],
    ],
    ids=["pieces and whole", "whole", "a part in pieces", "after a comment", "nothing but a comment"],
)
def test_codex_says_the_same_in_pieces_and_whole(items: list[dict[str, Any]]) -> None:
    assert parts(feed_all(codex.Reader(request_to("codex")), *codex_lines(*items)))[0] == "Berlin."


def test_codex_messages_of_a_turns_end_count() -> None:
    lines = codex_lines(codex_piece("One.", "m0"), codex_item("One.", "m0"))
    lines[-1]["params"]["turn"]["items"] = [
        {"type": "agentMessage", "id": "m0", "text": "One."},
        {"type": "agentMessage", "id": "m1", "text": "Two."},
    ]
    assert parts(feed_all(codex.Reader(request_to("codex")), *lines))[0] == "One.\n\nTwo."


def claude_piece(text: str, message: str = "a") -> list[dict[str, Any]]:
    start = {"type": "message_start", "message": {"id": message}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return [{"type": "stream_event", "event": event} for event in (start, delta)]


def claude_whole(*texts: str, message: str = "a") -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "assistant", "message": {"id": message, "model": "claude", "content": content}}


def claude_result(text: str, stop: str = "end_turn") -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, "stop_reason": stop}


@pytest.mark.parametrize(
    "lines",
    [
        [*claude_piece("Berlin."), claude_whole("Berlin."), claude_result("Berlin.")],
        [claude_whole("Berlin."), claude_result("Berlin.")],
        [*claude_piece("Ber"), claude_whole("Berlin."), claude_result("Berlin.")],
        [claude_result("Berlin.")],
        [*claude_piece("Ber"), claude_whole("Ber"), claude_whole("lin."), claude_result("Berlin.")],
    ],
    ids=["pieces and whole", "whole", "a part in pieces", "the result alone", "a block in no piece"],
)
def test_claude_says_the_same_in_pieces_and_whole(lines: list[dict[str, Any]]) -> None:
    assert parts(feed_all(claude.Reader(request_to("claude")), *lines))[0] == "Berlin."


def test_a_last_message_of_claude_that_came_with_the_result_alone_counts() -> None:
    lines = [*claude_piece("I look."), claude_whole("I look."), claude_result("Berlin.")]
    assert parts(feed_all(claude.Reader(request_to("claude")), *lines))[0] == "I look.\n\nBerlin."


@pytest.mark.parametrize("words", ["", " ", "(no content)", "No response requested."])
def test_claudes_placeholder_for_no_answer_is_not_text(words: str) -> None:
    assert not parts(feed_all(claude.Reader(request_to("claude")), claude_result(words)))[0].strip()


def test_a_refusal_of_claude_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No.", "recommended_model": "opus"}
    delta = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    lines = ({"type": "stream_event", "event": delta}, claude_result("", "refusal"))
    finished = feed_all(claude.Reader(request_to("claude")), *lines)[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "filtered"
    assert finished.vendor == {"reason": "cyber", "text": "No.", "recommended_model": "opus"}


@pytest.mark.parametrize(
    "pieces",
    [
        [("Ber", True), ("lin.", True), ("Berlin.", None)],
        [("Berlin.", None)],
        [("Ber", None), ("lin.", None)],
        [("Ber", True), ("Berlin.", False)],
        [],
    ],
)
def test_gemini_says_the_same_in_pieces_and_whole(pieces: list[tuple[str, bool | None]]) -> None:
    lines = [
        {"type": "message", "role": "assistant", "content": text}
        | ({} if delta is None else {"delta": delta})
        for text, delta in pieces
    ]
    last = {"type": "result", "status": "success", "stats": {}, "response": "Berlin."}
    assert parts(feed_all(gemini.Reader(request_to("gemini")), *lines, last))[0] == "Berlin."


def cursor_message(text: str, *, piece: bool) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message} | ({"timestamp_ms": 1} if piece else {})


@pytest.mark.parametrize(
    "lines",
    [
        [
            cursor_message("Ber", piece=True),
            cursor_message("lin.", piece=True),
            cursor_message("Berlin.", piece=False),
        ],
        [cursor_message("Berlin.", piece=False)],
        [cursor_message("Ber", piece=True), cursor_message("Berlin.", piece=False)],
        [],
    ],
    ids=["pieces and whole", "whole", "a part in pieces", "the result alone"],
)
def test_cursor_says_the_same_in_pieces_and_whole(lines: list[dict[str, Any]]) -> None:
    last = {"type": "result", "subtype": "success", "is_error": False, "result": "Berlin."}
    assert parts(feed_all(cursor.Reader(request_to("cursor")), *lines, last))[0] == "Berlin."


def test_complete_text_of_cursor_after_its_tools_counts() -> None:
    tool = {"type": "tool_call", "subtype": "started", "call_id": "1", "tool_call": {"readToolCall": {}}}
    lines = [
        cursor_message("I look.", piece=True),
        cursor_message("I look.", piece=False),
        tool,
        cursor_message("Berlin.", piece=False),
    ]
    last = {"type": "result", "subtype": "success", "is_error": False, "result": "I look.Berlin."}
    assert parts(feed_all(cursor.Reader(request_to("cursor")), *lines, last))[0] == "I look.\n\nBerlin."
