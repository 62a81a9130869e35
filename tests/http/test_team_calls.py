"""The same call, asked directly and through a team's server: the vendor and the caller must see the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.models.catalog import Catalog
from counsel.models.transport import Transport
from counsel.types import (
    Call,
    Event,
    Finished,
    Image,
    ModelSettings,
    Notice,
    Text,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    UsageReport,
)
from fake import FakeAPI
from support.team import address, join, server
from support.v1 import vendors

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"where": {"type": "string"}}})
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
HELLO = Turn("user", "hello")
EARLIER = (Turn("user", "one"), Turn("assistant", "two"), HELLO)
CALLS: dict[str, Call] = {
    "plain": Call((HELLO,)),
    "conversation": Call(EARLIER, system="Be brief."),
    "settings": Call((HELLO,), model_settings=ModelSettings(0.2, "high", "low")),
    "search": Call((HELLO,), model_settings=ModelSettings(web_search=True)),
    "image": Call((Turn("user", "see", images=(Image("image/png", PNG, "x.png", Path("/x.png")),)),)),
    "media": Call((HELLO,), model_settings=ModelSettings(media_resolution="MEDIA_RESOLUTION_LOW")),
    "limit": Call((HELLO,), max_output=77, output_limit=50),
    "schema": Call((HELLO,), schema=SCHEMA),
    "tools": Call((HELLO,), tools=(LOOK,)),
}
MODELS = ["gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "gemini-3-pro-preview", "deepseek-chat", "grok-4"]


@dataclass
class BothWays:
    own: Catalog
    team: Catalog
    transport: Transport
    fake: FakeAPI

    async def events(self, catalog: Catalog, name: str, call: Call) -> tuple[list[Event], Any]:
        target = catalog.resolve(name)
        if call.model_settings.web_search:
            target = target.searching()
        before = len(self.fake.calls)
        stream = self.transport.stream(call, target.model, target.endpoint)
        events = [event async for event in stream]
        (request,) = self.fake.calls[before:]
        return events, request

    async def same(self, name: str, call: Call) -> tuple[list[Event], list[Event]]:
        direct, ours = await self.events(self.own, name, call)
        through, theirs = await self.events(self.team, name, call)
        assert (theirs.path, theirs.body) == (ours.path, ours.body)
        return direct, through


@pytest.fixture
async def both(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[BothWays]:
    keys = {
        **vendors(fake_api),
        "OPENAI_API_KEY": "sk-test-openai-0000000000000000",
        "OPENAI_BASE_URL": fake_api.v1,
        "XAI_API_KEY": "xai-test-00000000000000000000",
        "XAI_BASE_URL": fake_api.v1,
    }
    transport = Transport()
    async with server(tmp_path / "server", fake_api, **keys) as api:
        home = tmp_path / "laptop"
        home.mkdir()
        await join(home, address(api))
        own = Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path / "none"), **keys}))
        team = Catalog.load(settings.load({"COUNSEL_HOME": str(home)}))
        yield BothWays(own, team, transport, fake_api)
    await transport.close()


def view(events: list[Event]) -> dict[str, Any]:
    """The content of events for a caller, whatever pieces they arrive in."""
    end = events[-1]
    assert isinstance(end, Finished)
    usages = [event.usage for event in events if isinstance(event, UsageReport)]
    last = usages[-1]
    return {
        "text": "".join(event.delta for event in events if isinstance(event, Text)),
        "thinking": "".join(event.delta for event in events if isinstance(event, Thinking)),
        "calls": [(event.call.name, event.call.arguments) for event in events if isinstance(event, ToolUse)],
        "tokens": (last.input, last.output, last.reasoning, last.cache_read),
        "notices": sorted(
            (event.kind, event.data.get("setting") or event.data.get("url") or event.text)
            for event in events
            if isinstance(event, Notice)
        ),
        "reason": end.reason,
    }


async def test_the_vendor_gets_the_same_request(both: BothWays) -> None:
    """One server for all of them: its start takes longer than they do."""
    both.fake.script(
        text="Yes, 🦉.", thinking="Hm.", sources=[{"url": "https://a.example/", "title": "A"}], times=None
    )
    for model in MODELS:
        for name, call in CALLS.items():
            if name != "image" or both.own.lookup(model).vision:
                direct, through = await both.same(model, call)
                assert view(through) == view(direct), (model, name)


async def test_tools_and_reasoning_survive_a_second_turn(both: BothWays) -> None:
    both.fake.script(
        tool_calls=[{"name": "look", "arguments": {"where": "here"}, "id": "call_1"}],
        thinking="Let me see.",
        text="done",
        times=None,
    )
    for model in MODELS:
        direct, through = await both.same(model, Call((HELLO,), tools=(LOOK,)))
        assert view(through) == view(direct), model
        signatures = [
            await _signatures(both, catalog, model, events)
            for catalog, events in ((both.own, direct), (both.team, through))
        ]
        assert signatures[1] == signatures[0], model


async def _signatures(both: BothWays, catalog: Catalog, model: str, events: list[Event]) -> list[Any]:
    """What the vendor gets back of its reasoning, with the results of its tools."""
    end = events[-1]
    assert isinstance(end, Finished)
    uses = tuple(event.call for event in events if isinstance(event, ToolUse))
    text = "".join(event.delta for event in events if isinstance(event, Text))
    results = tuple(ToolResult(use.id, use.name, "It is here.") for use in uses)
    answer = Turn("assistant", text, tool_calls=uses, native=end.native)
    turns = (HELLO, answer, Turn("tool", tool_results=results))
    reply, request = await both.events(catalog, model, Call(turns, tools=(LOOK,)))
    assert view(reply)["text"] == "done"
    return list(_values(request.body, SIGNATURES))


SIGNATURES = {"signature", "thoughtSignature", "encrypted_content", "reasoning_content"}


def _values(value: Any, names: set[str]) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name in names:
                yield item
            yield from _values(item, names)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, names)
