"""Text that an agent withdraws or corrects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.reading import CLEAN, request_to
from counsel.agents.claude import run as claude
from counsel.agents.codex import run as codex
from counsel.agents.gemini import run as gemini
from counsel.types import Text, Withdrawn


def _claude_piece(message: str, block: int, words: str) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": words}
    event = {"type": "content_block_delta", "index": block, "delta": delta}
    return {"type": "stream_event", "event": event, "api_message_id": message}


def _claude_event(kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": kind, "message": {"id": message}}, **more}


@pytest.mark.parametrize(("first", "void", "again"), [(0, "One. Tw", "Two."), (1, "Tw", "\n\nTwo.")])
def test_claude_withdraws_the_blocks_that_it_abandons(first: int, void: str, again: str) -> None:
    """When a stream breaks, Claude Code 2.x requests the message again from this block on, as another message."""
    reader = claude.Reader(request_to("claude"))
    fields = {"abandoned_blocks": {"api_message_id": "m1", "from_block_index": first}}
    lines = [
        _claude_event("message_start", "m1"),
        _claude_piece("m1", 0, "One. "),
        _claude_piece("m1", 1, "Tw"),
        _claude_event("message_stop", "m1", **fields),
        _claude_event("message_start", "m2"),
        _claude_piece("m2", 0, "Two."),
    ]
    steps = [step for line in lines for step in reader.feed(line)]
    reply = [step.text if isinstance(step, Withdrawn) else step.delta for step in steps]  # type: ignore[union-attr]
    assert reply == ["One. ", "Tw", void, again]
    assert isinstance(steps[2], Withdrawn)


def _codex(method: str, item: str = "", **params: Any) -> dict[str, Any]:
    content = {"item": {"type": "agentMessage", "id": item}} if method.startswith("item/") else {}
    return {"method": method, "params": {"itemId": item, **content, **params}}


@pytest.mark.parametrize(("complete", "void", "again"), [(False, ["One."], "Two."), (True, [], "\n\nTwo.")])
def test_codex_withdraws_a_message_that_was_not_complete(complete: bool, void: list[str], again: str) -> None:
    reader = codex.Reader(request_to("codex"))
    lines = [
        _codex("item/started", "m1"),
        _codex("item/agentMessage/delta", "m1", delta="One."),
        *([_codex("item/completed", "m1")] if complete else []),
        _codex("error", error={"message": "Reconnecting... 1/3"}, willRetry=True),
        _codex("item/started", "m2"),
        _codex("item/agentMessage/delta", "m2", delta="Two."),
    ]
    steps = [step for line in lines for step in reader.feed(line)]
    assert [step.text for step in steps if isinstance(step, Withdrawn)] == void
    assert [step.delta for step in steps if isinstance(step, Text)] == ["One.", again]


RECORD = [
    {
        "type": "gemini",
        "id": "0",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "content": "good",
    },  # an earlier turn's
    {"type": "user", "id": "1", "timestamp": "2026-01-02T00:00:01.000Z", "content": [{"text": "look"}]},
    {"type": "gemini", "id": "2", "timestamp": "2026-01-02T00:00:02.000Z", "content": "I look."},
    {
        "type": "gemini",
        "id": "2",
        "timestamp": "2026-01-02T00:00:02.000Z",
        "content": "I look.",
        "toolCalls": [],
    },
    {"type": "gemini", "id": "3", "timestamp": "2026-01-02T00:00:03.000Z", "content": ""},
    {"type": "gemini", "id": "4", "timestamp": "2026-01-02T00:00:04.000Z", "content": "good"},
]


@pytest.mark.parametrize(
    ("pieces", "right"),
    [
        (["I look.", None, "void ", "good\n"], "I look.\n\ngood\n"),
        (["I lo", "I look.", None, "good"], "I look.\n\ngood"),
        (["I look.", None, " good "], None),  # unchanged
        (["I look.", None, "void ", "another"], None),  # the record differs
        (["void ", "good"], None),
    ],
)
@pytest.mark.parametrize("half", [b"", b'{"type": "gem', b"[1]\n\xff"])
def test_gemini_is_corrected_by_its_own_record(
    tmp_path: Path, pieces: Any, right: str | None, half: bytes
) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "project" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-01-02T00-00-other000.jsonl").write_text(json.dumps(RECORD[0]))
    lines = b"\n".join(json.dumps(entry).encode() for entry in RECORD)
    (chats / "session-2026-01-02T00-00-abcdef01.jsonl").write_bytes(lines + b"\n" + half)
    reader = gemini.Reader(request_to("gemini", env={"HOME": str(tmp_path)}, cwd=tmp_path))
    session = {"session_id": "abcdef01-0000", "timestamp": "2026-01-02T00:00:00.500Z"}
    reader.feed({"type": "init", **session})
    for piece in pieces:
        kind = {"type": "message", "role": "assistant", "content": piece} if piece else {"type": "tool_use"}
        reader.feed(kind)
    reader.feed({"type": "result", "status": "success"})
    steps = reader.finish(CLEAN)
    assert [step.delta for step in steps if isinstance(step, Text)] == ([right] if right else [])
    assert len([step for step in steps if isinstance(step, Withdrawn)]) == bool(right)
