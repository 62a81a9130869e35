"""The suite that every provider passes: each row of providers.toml, over its wire, through the real transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from counsel.errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    CounselError,
    ModelNotFound,
    ProviderUnavailable,
    RateLimited,
    TimedOut,
    UpstreamError,
)
from counsel.models import catalog_rows
from counsel.models.transport import Transport
from counsel.models.wires import WIRES
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Finished,
    Image,
    Limits,
    Model,
    Notice,
    Provider,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    UsageReport,
)
from fake import FakeAPI

KEY = "sk-secret-0123456789abcdef"
SHIPPED = catalog_rows.shipped()
# xAI searches over the Responses wire, which is tested as if it were a separate provider.
PROVIDERS = [
    *SHIPPED.providers.values(),
    *(
        replace(each, name=f"{each.name}-search", wire=each.options["web_search_wire"])
        for each in SHIPPED.providers.values()
        if "web_search_wire" in each.options
    ),
]


@dataclass
class Way:
    """One provider, pointed at the fake."""

    provider: Provider
    model: Model
    endpoint: Endpoint
    transport: Transport
    fake: FakeAPI
    waits: list[float]

    def stream(self, call: Call | str = "hello", **limits: Any) -> Any:
        request = Call((Turn("user", call),)) if isinstance(call, str) else call
        return self.transport.stream(request, self.model, self.endpoint, Limits(**limits))

    async def ask(self, call: Call | str = "hello", **limits: Any) -> list[Event]:
        return [event async for event in self.stream(call, **limits)]

    async def fail(self, kind: type[CounselError], call: Call | str = "hello", **limits: Any) -> Any:
        with pytest.raises(kind) as excinfo:
            await self.ask(call, **limits)
        error = excinfo.value
        assert type(error) is kind
        assert error.fields.get("provider") == self.provider.name
        assert KEY not in repr(error.as_dict())
        assert error.hint
        return error


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


def model_of(provider: Provider) -> Model:
    name = provider.name.removesuffix("-search")
    rows = [model for model in SHIPPED.models.values() if model.provider == name]
    model = next((row for row in rows if row.vision), rows[0] if rows else None)
    model = model or Model("some-model", name, "some-model")
    style = "reasoning" if provider.wire == "openai_responses" else model.effort_style
    return replace(model, effort_style=style if model.effort_style != "none" else "none")


def base_url(provider: Provider, fake: FakeAPI) -> str:
    return fake.v1 if provider.wire.startswith("openai") else fake.url


@pytest.fixture(params=PROVIDERS, ids=lambda provider: provider.name)
async def way(request: pytest.FixtureRequest, fake_api: FakeAPI) -> AsyncIterator[Way]:
    provider: Provider = request.param
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    transport = Transport(sleep=sleep)
    endpoint = Endpoint(provider, base_url(provider, fake_api), KEY)
    yield Way(provider, model_of(provider), endpoint, transport, fake_api, waits)
    await transport.close()


async def test_stream(way: Way) -> None:
    way.fake.script(
        text="größer als 🦉 und mehr", deltas=7, split=[1, 5, 3], usage={"input": 100, "output": 20}
    )
    events = await way.ask()
    assert text_of(events) == "größer als 🦉 und mehr"
    assert sum(isinstance(event, Text) for event in events) > 1
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"
    assert events[-1].model == way.model.wire_id
    usage = [event.usage for event in events if isinstance(event, UsageReport)]
    if way.provider.options.get("stream_usage", True):
        assert (usage[-1].input, usage[-1].output) == (100, 20)
    assert way.fake.last.stream


async def test_plain(way: Way) -> None:
    """A question without settings, and its answer."""
    events = await way.ask("what is a lark?")
    assert text_of(events) == f"{way.model.wire_id} says: what is a lark?"
    assert way.fake.last.text == "what is a lark?"
    assert not any(isinstance(event, Notice) for event in events)
    headers = way.fake.last.headers
    assert KEY in {
        headers.get("x-api-key"),
        headers.get("x-goog-api-key"),
        headers.get("authorization", "")[7:],
    }


async def test_image(way: Way) -> None:
    png = Image("image/png", b"\x89PNG-bytes")
    await way.ask(Call((Turn("user", "look", images=(png, png)),)))
    assert (way.fake.last.images, way.fake.last.text) == (2, "look")


async def test_conversation(way: Way) -> None:
    turns = (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three"))
    await way.ask(Call(turns, system="be brief"))
    body = repr(way.fake.last.body)
    places = [body.index(repr(word)) for word in ("one", "two", "three")]
    assert places == sorted(places)
    assert repr("be brief") in body
    assert way.fake.last.text == "three"


async def test_long_answer(way: Way) -> None:
    way.fake.script(size=2_000_000, delta_size=50_000)
    assert len(text_of(await way.ask())) == 2_000_000


async def test_401(way: Way) -> None:
    way.fake.keys = {"another"}
    error = await way.fail(AuthenticationFailed)
    assert "[key]" in error.message
    assert len(way.fake.calls) == 1


async def test_404(way: Way) -> None:
    way.fake.script(status=404)
    error = await way.fail(ModelNotFound)
    assert way.model.wire_id in error.message
    assert len(way.fake.calls) == 1


async def test_429_is_waited_for(way: Way) -> None:
    way.fake.script(status=429, retry_after=7)
    events = await way.ask()
    assert way.waits == [7]
    assert [event.kind for event in events if isinstance(event, Notice)] == ["retry"]
    assert isinstance(events[-1], Finished)
    assert len(way.fake.calls) == 2


async def test_429_beyond_the_time_limit_fails_at_once(way: Way) -> None:
    way.fake.script(status=429, retry_after=700, times=None)
    error = await way.fail(RateLimited, total=60)
    assert error.retry_after == 700
    assert (way.waits, len(way.fake.calls)) == ([], 1)


async def test_quota_is_not_retried(way: Way) -> None:
    way.fake.script(error="quota", times=None)
    error = await way.fail(RateLimited)
    assert error.fields["reason"] == "insufficient_quota"
    assert len(way.fake.calls) == 1


async def test_500_three_times(way: Way) -> None:
    way.fake.script(status=500, times=None)
    error = await way.fail(UpstreamError)
    assert error.status == 500
    assert len(way.fake.calls) == 3
    assert way.waits[1] > way.waits[0] > 0


async def test_500_once(way: Way) -> None:
    way.fake.script(status=500)
    assert isinstance((await way.ask())[-1], Finished)


async def test_overloaded(way: Way) -> None:
    way.fake.script(error="overloaded", times=None)
    await way.fail(ProviderUnavailable)
    assert len(way.fake.calls) == 3


async def test_context(way: Way) -> None:
    way.fake.script(error="context")
    error = await way.fail(ContextLengthExceeded)
    assert error.max_tokens < error.provided_tokens
    assert len(way.fake.calls) == 1


async def test_hang_before_the_headers(way: Way) -> None:
    way.fake.script(hang_after=-1)
    error = await way.fail(TimedOut, first_event=0.2)
    assert error.limit == "first_event"
    if way.fake.requests:  # on a busy machine the limit may pass before the request is sent
        await way.fake.wait_for(state="disconnected")


async def test_hang_in_the_middle(way: Way) -> None:
    way.fake.script(hang_after=1, text="half of it", deltas=2)
    error = await way.fail(TimedOut, idle=0.05)
    assert (error.limit, error.partial) == ("idle", "half ")
    await way.fake.wait_for(state="disconnected")


async def test_total_limit(way: Way) -> None:
    way.fake.script(hang_after=1)
    error = await way.fail(TimedOut, total=0.1)
    assert error.limit == "total"


@pytest.mark.parametrize("cut", ["abort", "end"])
async def test_cut_stream_keeps_what_came(way: Way, cut: str) -> None:
    way.fake.script(cut_after=1, cut=cut, text="half of it", deltas=2)
    error = await way.fail(UpstreamError)
    assert error.partial == "half "
    assert len(way.fake.calls) == 1, "what was passed on cannot be asked for again"


@pytest.mark.parametrize("cut", ["abort", "end"])
async def test_stream_cut_before_its_first_word_is_retried(way: Way, cut: str) -> None:
    way.fake.script(cut_after=0, cut=cut)
    assert isinstance((await way.ask())[-1], Finished)
    assert len(way.fake.calls) == 2


async def test_error_inside_the_stream(way: Way) -> None:
    way.fake.script(error="server", error_after=1, text="half of it", deltas=2)
    error = await way.fail(UpstreamError)
    assert error.partial == "half "


async def test_malformed(way: Way) -> None:
    for part in ("body", "event", "html"):
        way.fake.script(malformed=part)
        await way.fail(UpstreamError)
    assert len(way.fake.calls) == 3


async def test_cancelling_the_task_closes_the_connection(way: Way) -> None:
    way.fake.script(hang_after=1)
    task = asyncio.create_task(way.ask())
    await way.fake.wait_for(deltas=1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await way.fake.wait_for(state="disconnected")
    assert way.fake.log.open_calls == 0


async def test_cancelling_before_the_first_byte(way: Way) -> None:
    way.fake.script(hang_after=-1)
    task = asyncio.create_task(way.ask())
    await way.fake.wait_for(state="received")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await way.fake.wait_for(state="disconnected")


async def test_leaving_the_stream_closes_the_connection(way: Way) -> None:
    way.fake.script(hang_after=1)
    async with aclosing(way.stream()) as events:
        async for event in events:
            if isinstance(event, Text):
                break
    await way.fake.wait_for(state="disconnected")


async def test_tool_loop_sends_the_assistants_turn_back(way: Way) -> None:
    if not way.model.tools:
        pytest.skip("the row says that it takes no tools")
    tool = ToolSpec("look", "Look at it", {"type": "object", "properties": {"at": {"type": "string"}}})
    way.fake.script(
        times=None,
        thinking="hm",
        tool_calls=[{"name": "look", "arguments": {"at": "sky"}}],
        text="it is blue",
    )
    call = Call((Turn("user", "what colour?"),), tools=(tool,))
    events = await way.ask(call)
    (tool_call,) = [event.call for event in events if isinstance(event, ToolUse)]
    assert (tool_call.name, tool_call.arguments) == ("look", {"at": "sky"})
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"
    turns = (
        *call.turns,
        Turn("assistant", native=events[-1].native),
        Turn("tool", tool_results=(ToolResult(tool_call.id, "look", "blue"),)),
    )
    assert text_of(await way.ask(replace(call, turns=turns))) == "it is blue"


async def test_listing(way: Way) -> None:
    wire = WIRES[way.provider.wire]
    document = await way.transport.get_json(way.endpoint, wire.models_path, Limits())
    assert "gpt-5.1" in repr(document)
    way.fake.keys = {"another"}
    with pytest.raises(AuthenticationFailed):
        await way.transport.get_json(way.endpoint, wire.models_path, Limits())
