"""The caller's system prompt and schema for an agent, which has no field for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import pytest

from counsel.agents import prompt
from counsel.caller import Caller
from counsel.engine.consult.routes import Route, Router
from counsel.engine.engine import Engine
from counsel.requests import ChatRequest
from counsel.types import Call, Event, Finished, Text


async def test_an_agent_gets_it_before_the_question_and_a_notice_says_so(
    engine: Engine, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Call] = []

    async def answer(call: Call) -> AsyncGenerator[Event]:
        calls.append(call)
        yield Text("[1]" if len(calls) == 1 else "[true]")
        yield Finished(session="own")

    route = Route("codex", "codex", answer, lambda _: None)
    monkeypatch.setattr(Router, "route", lambda *_: route)
    schema = {"type": "array", "items": {"type": "boolean"}}
    request = ChatRequest(prompt="Why?", model="codex", system="Be brief.", schema=schema)
    result = await engine.wait(await engine.submit(request, caller()))
    document = result.to_json()
    assert document["content"] == "[true]"
    text = prompt.compose(calls[0], history=True)
    assert text.startswith("Be brief.\n\nAnswer with exactly one JSON document")
    assert text.endswith("Why?")
    assert calls[1].session == "own"
    assert "$[0]: 1 is not of type 'boolean'" in calls[1].turns[-1].text
    notices = [notice["text"] for notice in document["metadata"]["notices"]]
    assert notices[0] == "codex has its own system prompt, so yours was put before the question."
