"""A vendor's count of tokens is believed, however long its tokens are, in every wire and form of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from counsel.models.transport import Transport
from counsel.types import Call, Turn, UsageReport
from fake import FakeAPI
from models.test_vendor_responses import target
from models.vendor_responses import USUAL_MODEL, Shape

TEXT = " ".join(["internationalization"] * 6)
CALL = Call(turns=(Turn("user", "Which word?"),), tokens=9)
WHOLE: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 2, "output_tokens": 6},
    },
    "openai_chat": {
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8},
    },
    "openai_responses": {
        "object": "response",
        "status": "completed",
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": TEXT}]}
        ],
        "usage": {"input_tokens": 2, "output_tokens": 6, "total_tokens": 8},
    },
    "gemini": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 6, "totalTokenCount": 8},
    },
}


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    instance = Transport()
    yield instance
    await instance.close()


async def last_report(transport: Transport, fake_api: FakeAPI, wire: str) -> UsageReport:
    to = target(Shape(f"{wire}-usage", {}), fake_api)
    events = [event async for event in transport.stream(CALL, to.model, to.endpoint)]
    return [event for event in events if isinstance(event, UsageReport)][-1]


@pytest.mark.parametrize("wire", USUAL_MODEL)
async def test_of_a_whole_answer(fake_api: FakeAPI, transport: Transport, wire: str) -> None:
    fake_api.script(body=WHOLE[wire], times=None)
    usage = (await last_report(transport, fake_api, wire)).usage
    assert (usage.input, usage.output, usage.estimated) == (2, 6, False)


@pytest.mark.parametrize("deltas", [1, 3])
@pytest.mark.parametrize("wire", USUAL_MODEL)
async def test_of_a_stream(fake_api: FakeAPI, transport: Transport, wire: str, deltas: int) -> None:
    fake_api.script(text=TEXT, deltas=deltas, times=None)
    usage = (await last_report(transport, fake_api, wire)).usage
    assert (usage.input, usage.output, usage.estimated) == (2, 6, False)


async def test_of_a_stream_with_as_many_tokens_as_its_first_event_says(
    fake_api: FakeAPI, transport: Transport
) -> None:
    """Anthropic's first event counts a token before anything is written."""
    fake_api.script(text="internationalization", thinking="Which word is long?", times=None)
    usage = (await last_report(transport, fake_api, "anthropic")).usage
    assert (usage.output, usage.estimated) == (1, False)
