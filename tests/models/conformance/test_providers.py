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
class Subject:
    """The provider under test, pointed at the fake."""

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
async def subject(request: pytest.FixtureRequest, fake_api: FakeAPI) -> AsyncIterator[Subject]:
    provider: Provider = request.param
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    transport = Transport(sleep=sleep)
    endpoint = Endpoint(provider, base_url(provider, fake_api), KEY)
    yield Subject(provider, model_of(provider), endpoint, transport, fake_api, waits)
    await transport.close()


async def test_stream(subject: Subject) -> None:
    subject.fake.script(
        text="größer als 🦉 und mehr", deltas=7, split=[1, 5, 3], usage={"input": 100, "output": 20}
    )
    events = await subject.ask()
    assert text_of(events) == "größer als 🦉 und mehr"
    assert sum(isinstance(event, Text) for event in events) > 1
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"
    assert events[-1].model == subject.model.wire_id
    usage = [event.usage for event in events if isinstance(event, UsageReport)]
    if subject.provider.options.get("stream_usage", True):
        assert (usage[-1].input, usage[-1].output) == (100, 20)
    assert subject.fake.last.stream


async def test_plain(subject: Subject) -> None:
    """A question without settings, and its answer."""
    events = await subject.ask("what is a lark?")
    assert text_of(events) == f"{subject.model.wire_id} says: what is a lark?"
    assert subject.fake.last.text == "what is a lark?"
    assert not any(isinstance(event, Notice) for event in events)
    headers = subject.fake.last.headers
    assert KEY in {
        headers.get("x-api-key"),
        headers.get("x-goog-api-key"),
        headers.get("authorization", "")[7:],
    }


async def test_image(subject: Subject) -> None:
    png = Image("image/png", b"\x89PNG-bytes")
    await subject.ask(Call((Turn("user", "look", images=(png, png)),)))
    assert (subject.fake.last.images, subject.fake.last.text) == (2, "look")


async def test_conversation(subject: Subject) -> None:
    turns = (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three"))
    await subject.ask(Call(turns, system="be brief"))
    body = repr(subject.fake.last.body)
    places = [body.index(repr(word)) for word in ("one", "two", "three")]
    assert places == sorted(places)
    assert repr("be brief") in body
    assert subject.fake.last.text == "three"


async def test_long_answer(subject: Subject) -> None:
    subject.fake.script(size=2_000_000, delta_size=50_000)
    assert len(text_of(await subject.ask())) == 2_000_000


async def test_401(subject: Subject) -> None:
    subject.fake.keys = {"another"}
    error = await subject.fail(AuthenticationFailed)
    assert "[key]" in error.message
    assert len(subject.fake.calls) == 1


async def test_404(subject: Subject) -> None:
    subject.fake.script(status=404)
    error = await subject.fail(ModelNotFound)
    assert subject.model.wire_id in error.message
    assert len(subject.fake.calls) == 1


async def test_429_is_waited_for(subject: Subject) -> None:
    subject.fake.script(status=429, retry_after=7)
    events = await subject.ask()
    assert subject.waits == [7]
    assert [event.kind for event in events if isinstance(event, Notice)] == ["retry"]
    assert isinstance(events[-1], Finished)
    assert len(subject.fake.calls) == 2


async def test_429_beyond_the_time_limit_fails_at_once(subject: Subject) -> None:
    subject.fake.script(status=429, retry_after=700, times=None)
    error = await subject.fail(RateLimited, total=60)
    assert error.retry_after == 700
    assert (subject.waits, len(subject.fake.calls)) == ([], 1)


async def test_quota_is_not_retried(subject: Subject) -> None:
    subject.fake.script(error="quota", times=None)
    error = await subject.fail(RateLimited)
    assert error.fields["reason"] == "insufficient_quota"
    assert len(subject.fake.calls) == 1


async def test_500_three_times(subject: Subject) -> None:
    subject.fake.script(status=500, times=None)
    error = await subject.fail(UpstreamError)
    assert error.status == 500
    assert len(subject.fake.calls) == 3
    assert subject.waits[1] > subject.waits[0] > 0


async def test_500_once(subject: Subject) -> None:
    subject.fake.script(status=500)
    assert isinstance((await subject.ask())[-1], Finished)


async def test_overloaded(subject: Subject) -> None:
    subject.fake.script(error="overloaded", times=None)
    await subject.fail(ProviderUnavailable)
    assert len(subject.fake.calls) == 3


async def test_context(subject: Subject) -> None:
    subject.fake.script(error="context")
    error = await subject.fail(ContextLengthExceeded)
    assert error.max_tokens < error.provided_tokens
    assert len(subject.fake.calls) == 1


async def test_hang_before_the_headers(subject: Subject) -> None:
    subject.fake.script(hang_after=-1)
    error = await subject.fail(TimedOut, first_event=0.2)
    assert error.limit == "first_event"
    if subject.fake.requests:  # on a busy machine the limit may pass before the request is sent
        await subject.fake.wait_for(state="disconnected")


async def test_hang_in_the_middle(subject: Subject) -> None:
    subject.fake.script(hang_after=1, text="half of it", deltas=2)
    error = await subject.fail(TimedOut, idle=0.05)
    assert (error.limit, error.partial) == ("idle", "half ")
    await subject.fake.wait_for(state="disconnected")


async def test_total_limit(subject: Subject) -> None:
    subject.fake.script(hang_after=1)
    error = await subject.fail(TimedOut, total=0.1)
    assert error.limit == "total"


@pytest.mark.parametrize("cut", ["abort", "end"])
async def test_cut_stream_keeps_what_arrived(subject: Subject, cut: str) -> None:
    subject.fake.script(cut_after=1, cut=cut, text="half of it", deltas=2)
    error = await subject.fail(UpstreamError)
    assert error.partial == "half "
    assert len(subject.fake.calls) == 1, "what was passed on cannot be asked for again"


@pytest.mark.parametrize("cut", ["abort", "end"])
async def test_stream_cut_before_its_first_word_is_retried(subject: Subject, cut: str) -> None:
    subject.fake.script(cut_after=0, cut=cut)
    assert isinstance((await subject.ask())[-1], Finished)
    assert len(subject.fake.calls) == 2


async def test_error_inside_the_stream(subject: Subject) -> None:
    subject.fake.script(error="server", error_after=1, text="half of it", deltas=2)
    error = await subject.fail(UpstreamError)
    assert error.partial == "half "


async def test_malformed(subject: Subject) -> None:
    for part in ("body", "event", "html"):
        subject.fake.script(malformed=part)
        await subject.fail(UpstreamError)
    assert len(subject.fake.calls) == 3


async def test_cancelling_the_task_closes_the_connection(subject: Subject) -> None:
    subject.fake.script(hang_after=1)
    task = asyncio.create_task(subject.ask())
    await subject.fake.wait_for(deltas=1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await subject.fake.wait_for(state="disconnected")
    assert subject.fake.log.open_calls == 0


async def test_cancelling_before_the_first_byte(subject: Subject) -> None:
    subject.fake.script(hang_after=-1)
    task = asyncio.create_task(subject.ask())
    await subject.fake.wait_for(state="received")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await subject.fake.wait_for(state="disconnected")


async def test_leaving_the_stream_closes_the_connection(subject: Subject) -> None:
    subject.fake.script(hang_after=1)
    async with aclosing(subject.stream()) as events:
        async for event in events:
            if isinstance(event, Text):
                break
    await subject.fake.wait_for(state="disconnected")


async def test_tool_loop_sends_the_assistants_turn_back(subject: Subject) -> None:
    if not subject.model.tools:
        pytest.skip("the row says that it takes no tools")
    tool = ToolSpec("look", "Look at it", {"type": "object", "properties": {"at": {"type": "string"}}})
    subject.fake.script(
        times=None,
        thinking="hm",
        tool_calls=[{"name": "look", "arguments": {"at": "sky"}}],
        text="it is blue",
    )
    call = Call((Turn("user", "what colour?"),), tools=(tool,))
    events = await subject.ask(call)
    (tool_call,) = [event.call for event in events if isinstance(event, ToolUse)]
    assert (tool_call.name, tool_call.arguments) == ("look", {"at": "sky"})
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"
    turns = (
        *call.turns,
        Turn("assistant", native=events[-1].native),
        Turn("tool", tool_results=(ToolResult(tool_call.id, "look", "blue"),)),
    )
    assert text_of(await subject.ask(replace(call, turns=turns))) == "it is blue"


async def test_listing(subject: Subject) -> None:
    wire = WIRES[subject.provider.wire]
    document = await subject.transport.get_json(subject.endpoint, wire.models_path, Limits())
    assert "gpt-5.1" in repr(document)
    subject.fake.keys = {"another"}
    with pytest.raises(AuthenticationFailed):
        await subject.transport.get_json(subject.endpoint, wire.models_path, Limits())
