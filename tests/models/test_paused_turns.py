"""A turn that the vendor pauses while it searches the web is continued, and the caller sees one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from counsel.errors import TimedOut, UpstreamError
from counsel.models import paused_turns
from counsel.models.transport import Transport
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Finished,
    Limits,
    Model,
    ModelSettings,
    Notice,
    Provider,
    Text,
    ToolSpec,
    ToolUse,
    Turn,
    UsageReport,
)
from fake import FakeAPI

PAGE = {"url": "https://example.com/1", "title": "One"}
OTHER = {"url": "https://example.com/2", "title": "Two"}
MODEL = Model("claude", "anthropic", "claude", web_search=True, temperature=None)
SEARCH = Call((Turn("user", "what is new?"),), model_settings=ModelSettings(web_search=True, temperature=0.1))


class Asker:
    def __init__(self, fake: FakeAPI) -> None:
        self.fake, self.transport = fake, Transport(backoff=0)
        self.endpoint = Endpoint(Provider("anthropic", "Anthropic", "anthropic", ""), fake.url, "k")

    async def ask(self, call: Call = SEARCH, **limits: Any) -> list[Event]:
        stream = self.transport.stream(call, MODEL, self.endpoint, Limits(**limits))
        return [event async for event in stream]

    def pause(self, text: str = "I search.", **fields: Any) -> None:
        self.fake.script(
            finish="paused", text=text, sources=[PAGE], usage={"input": 10, "output": 5}, **fields
        )


@pytest.fixture
async def claude(fake_api: FakeAPI) -> AsyncIterator[Asker]:
    asker = Asker(fake_api)
    yield asker
    await asker.transport.close()


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


def usage_of(events: list[Event]) -> tuple[int, int]:
    last = [event.usage for event in events if isinstance(event, UsageReport)][-1]
    return last.input, last.output


async def test_a_paused_turn_continues_as_one_answer(claude: Asker) -> None:
    claude.pause(thinking="hm")
    claude.pause("Once more.")
    claude.fake.script(text="Here it is.", sources=[PAGE, OTHER], usage={"input": 30, "output": 7})
    events = await claude.ask()
    assert text_of(events) == "I search.\n\nOnce more.\n\nHere it is."
    assert usage_of(events) == (50, 17)
    assert [
        event.data["url"] for event in events if isinstance(event, Notice) and event.kind == "source"
    ] == [
        PAGE["url"],
        OTHER["url"],
    ]
    assert sum(isinstance(event, Notice) and event.kind == "left_out" for event in events) == 1
    assert sum(isinstance(event, Finished) for event in events) == 1
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


async def test_earlier_text_is_sent_back_verbatim(claude: Asker) -> None:
    claude.pause(thinking="hm")
    claude.pause("Once more.")
    await claude.ask()
    first, second, third = (request.body["messages"] for request in claude.fake.calls)
    assert [len(request) for request in (first, second, third)] == [1, 2, 2]
    assert second[-1]["role"] == "assistant"
    kinds = [block["type"] for block in second[-1]["content"]]
    assert kinds == ["thinking", "server_tool_use", "web_search_tool_result", "text"]
    assert second[-1]["content"][0]["signature"] == "fake-signature"
    assert second[-1]["content"][1]["input"] == {"query": "fake"}
    assert second[-1]["content"][2]["content"][0]["encrypted_content"] == "opaque=="
    assert third[-1]["content"][:4] == second[-1]["content"]
    assert [block["type"] for block in third[-1]["content"][4:]] == kinds[1:]
    bodies = [
        {name: messages for name, messages in request.body.items() if name != "messages"}
        for request in claude.fake.calls
    ]
    assert bodies[0] == bodies[1] == bodies[2]


async def test_a_call_after_a_pause_keeps_what_came_before_it(claude: Asker) -> None:
    """In a tool loop, the whole turn goes back, with its part before the pause."""
    claude.pause()
    claude.fake.script(tool_calls=[{"name": "look", "arguments": {}}])
    events = await claude.ask(replace(SEARCH, tools=(ToolSpec("look", "Look", {"type": "object"}),)))
    assert any(isinstance(event, ToolUse) for event in events)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"
    kinds = [block["type"] for block in events[-1].native]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text", "tool_use"]


async def test_pauses_are_limited_and_reported(claude: Asker) -> None:
    claude.pause(times=None)
    events = await claude.ask()
    assert len(claude.fake.calls) == paused_turns.MAX_PAUSES + 1
    warning, finished = events[-2:]
    assert isinstance(warning, Notice)
    assert warning.kind == "warning"
    assert isinstance(finished, Finished)
    assert finished.reason == "other"


async def test_a_failure_after_a_pause_is_tried_again(claude: Asker) -> None:
    claude.pause()
    claude.fake.script(status=500)
    events = await claude.ask()
    assert text_of(events) == "I search.\n\nclaude says: what is new?"
    assert len(claude.fake.calls) == 3


async def test_the_time_limit_is_for_the_whole_answer(claude: Asker) -> None:
    claude.pause()
    claude.fake.script(hang_after=1)
    with pytest.raises(TimedOut) as excinfo:
        await claude.ask(total=0.2)
    assert excinfo.value.fields["limit"] == "total"


async def test_a_broken_stream_after_a_pause_fails(claude: Asker) -> None:
    claude.pause()
    claude.fake.script(cut_after=1, text="half of it", deltas=2)
    with pytest.raises(UpstreamError):
        await claude.ask()
    assert len(claude.fake.calls) == 2


async def test_leaving_closes_the_connection(claude: Asker) -> None:
    claude.pause()
    claude.fake.script(hang_after=1)
    async with aclosing(claude.transport.stream(SEARCH, MODEL, claude.endpoint)) as events:
        async for _ in events:
            if len(claude.fake.calls) == 2:
                break
    await claude.fake.wait_for(state="disconnected")
