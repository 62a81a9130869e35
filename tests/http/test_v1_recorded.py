"""Real answers of vendors: the SDK of each API sees the same through counsel, except for what is listed
here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from fake import FakeAPI
from models.vendor_responses import FOLDER
from support import v1_views
from support.v1 import V1, served

MODELS = {"anthropic": "claude-sonnet-4-6", "openai_chat": "deepseek-chat", "openai_responses": "gpt-5.1"}
STREAMS = {
    file.stem: file
    for folder in (FOLDER, FOLDER.with_name("oracles") / "streams")
    for file in sorted(folder.glob("*.sse"))
    if file.stem.partition("-")[0] in MODELS
}
_PARAGRAPHS = "texts around another block are paragraphs: each later one begins with an empty line"
_TAGS = "reasoning in <think> tags is reasoning, as with models that have a field for it"
DIFFERENCES = {
    "anthropic-two_text_blocks": _PARAGRAPHS,
    "anthropic-web_search": f"{_PARAGRAPHS}; searches are not counted in the usage",
    "openai_chat-thinking_tags": _TAGS,
    "openai_chat-thinking_tag_unclosed": _TAGS,
    "openai_chat-google_separate_reasoning": "reasoning that the vendor bills is part of the output tokens",
    "openai_chat-separate_reasoning": "reasoning that the vendor bills is part of the output tokens",
    "openai_chat-deepseek": "DeepSeek counts its cache in fields of its own, too",
    "openai_chat-byok": "OpenRouter's cost is in `counsel`",
    "openai_chat-openrouter_bill": "OpenRouter's cost is in `counsel`",
    "openai_chat-fragments": "OpenRouter's `reasoning` is `reasoning_content`, and a role is sent once",
    "openai_chat-wrong_request_midway": "an error before the first word has a status of its own",
    "openai_chat-error_object_midway": "the SDK cannot read vLLM's error",
    "openai_responses-flagged_midway": "an error before the first word has a status of its own",
    "anthropic-error_of_a_gateway": "the SDK cannot read a gateway's error",
    "openai_chat-error_in_plain_words": "the SDK cannot read words where JSON should be",
    "openai_chat-status_as_text": "an error before the first word has a status of its own",
    "openai_chat-no_usage": "usage that the vendor does not report is estimated",
    "openai_chat-usage_before_text": "usage that the vendor does not report is estimated",
    "openai_chat-usage_in_choice": "usage in the choice is the usage",
    "openai_chat-cost_as_object": "Perplexity's cost is in `counsel`",
    "openai_chat-negative_cost": "counts as text are numbers",
    "openai_chat-call_without_arguments": "parallel calls with the same index are several calls",
    "openai_chat-words_without_events": "words instead of events are an error",
    "openai_chat-error_without_events": "an error instead of events is one",
    "openai_chat-error_in_choice": "an error in the choice is one",
    "openai_chat-minimax_balance": "an error of MiniMax is one",
    "openai_chat-refusal_as_reason": "a vendor's own reason is OpenAI's",
    "openai_chat-guardrail": "a vendor's own reason is OpenAI's",
    "openai_chat-end_turn": "a vendor's own reason is OpenAI's",
    "openai_chat-max_tokens": "a vendor's own reason is OpenAI's",
    "openai_chat-usage_in_parts": "counts in several events are put together, and a later zero erases none",
    "openai_chat-calls_with_one_index": "parallel calls with the same index are several calls",
    "openai_chat-zhipu_network_error": "an answer that broke off is an error",
    "openai_chat-zhipu_sensitive": "a vendor's own reason is OpenAI's",
    "openai_responses-error_midway": "the SDK cannot read the vendor's stream: it begins with another event",
}
# Streams of compatible servers, which the SDK cannot read: through counsel it can.
UNREADABLE = frozenset(
    {
        "anthropic-nulls",
        "anthropic-usage_before_text",
        "openai_chat-calls_without_index",
        "openai_chat-refusal_part",
        "openai_chat-usage_as_text",
        "openai_chat-whole_message",
        "openai_chat-pieces_and_whole",
        "openai_responses-content_filter",
        "openai_responses-error_as_text",
        "openai_responses-failed_at_the_end",
        "openai_responses-incomplete_without_reason",
        "openai_responses-usage_as_text",
        "openai_responses-whole_text",
        "openai_responses-pieces_and_whole",
        "openai_responses-two_text_blocks",
        "openai_responses-citation",
    }
)


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


async def _view(client: Any, wire: str, name: str) -> Any:
    model, question = MODELS[wire], f"<{name}>"
    user: Any = {"role": "user", "content": question}
    try:
        if wire == "anthropic":
            async with client.messages.stream(model=model, max_tokens=1000, messages=[user]) as stream:
                view = v1_views.message(await stream.get_final_message())
        elif wire == "openai_responses":
            async with client.responses.stream(model=model, input=question) as stream:
                view = v1_views.response([event async for event in stream][-1].response)
        else:
            view = await v1_views.chat_stream(client, model=model, messages=[user])
    except (openai.APIError, anthropic.APIError) as error:
        return type(error).__name__
    except (RuntimeError, AttributeError, TypeError, AssertionError, ValueError, UserWarning):
        return "unreadable"
    return _without_empty({**view, "model": None})


def _without_empty(value: Any) -> Any:
    """counsel sends a zero where some vendors send no count, and an empty content where some send none."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    rows = {name: _without_empty(inner) for name, inner in value.items()}
    return {name: inner for name, inner in rows.items() if inner not in (0, None, "", {}, [])}


@pytest.mark.parametrize("wire", MODELS)
async def test_the_sdk_sees_what_the_vendor_sent(v1: V1, fake_api: FakeAPI, wire: str) -> None:
    clients = (v1.anthropic, v1.anthropic_vendor) if wire == "anthropic" else (v1.openai, v1.openai_vendor)
    names = [name for name in STREAMS if name.partition("-")[0] == wire]
    assert len(names) > 8
    for name in names:
        fake_api.script(raw=STREAMS[name].read_text("utf-8"), contains=f"<{name}>", times=None)
        ours, theirs = [await _view(client, wire, name) for client in clients]
        if name in UNREADABLE:
            assert (name, theirs) == (name, "unreadable")
            assert isinstance(ours, dict), name
        elif name in DIFFERENCES:
            assert ours != theirs, f"{name} has no difference: take it out of the list"
            assert ours != "unreadable"
        else:
            assert (name, ours) == (name, theirs)
