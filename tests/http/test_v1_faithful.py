"""What a client reads is what the vendor said: refusals stay refusals, and citations stay with the words they belong to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support import v1_views
from support.v1 import V1, served

CLAUDE = "claude-sonnet-4-6"
ASK: Any = [{"role": "user", "content": "x"}]


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as made:
        yield made


# ── a refusal without words: Anthropic's older models give no `stop_details` ─────────────────────────


@pytest.mark.parametrize("text", ["", "Well,"], ids=["nothing", "partial"])
async def test_a_refusal_without_words_is_no_complete_answer(v1: V1, fake_api: FakeAPI, text: str) -> None:
    fake_api.script(finish="filtered", text=text, times=None)
    plain = await v1.openai.chat.completions.create(model=CLAUDE, messages=ASK)
    streamed = await v1_views.chat_stream(v1.openai, model=CLAUDE, messages=ASK)
    assert plain.choices[0].finish_reason == "content_filter"
    assert streamed["choices"][0]["finish_reason"] == "content_filter"
    response = await v1.openai.responses.create(model=CLAUDE, input="x")
    async with v1.openai.responses.stream(model=CLAUDE, input="x") as stream:
        ended: Any = [event async for event in stream][-1]
    for shown in (response, ended.response, await v1.openai.responses.retrieve(response.id)):
        assert (shown.status, shown.incomplete_details.reason) == ("incomplete", "content_filter")
