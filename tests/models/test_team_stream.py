"""Calls through a team's server: what is tried again, what is final, and what is cancelled there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from counsel import settings, team_login
from counsel.errors import CounselError, ProviderUnavailable, RateLimited, UpstreamError
from counsel.models.catalog import Catalog, Target
from counsel.models.team_call import TeamCalls
from counsel.models.transport import Transport
from counsel.types import Call, Event, Finished, Limits, Model, Notice, Text, Turn, Usage, UsageReport

END = {"finish_reason": "stop", "answered_by": "gpt-5-1", "usage": {"input_tokens": 3, "output_tokens": 4}}
ANSWER = [("text", "one "), ("text", "two"), ("end", END)]


def own_error(code: str) -> dict[str, object]:
    return {"error": f"It is {code}.", "code": code}


class TeamServer:
    """Gives its answers one after another: each is a status with a document, or a list of events."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.keys: list[str | None] = []
        self.cancelled: list[str] = []
        self.was_cancelled: list[bool] = []
        self.ended = asyncio.Event()
        self.url = ""

    async def ask(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.keys.append(request.headers.get("idempotency-key"))
        answer = self.answers.pop(0)
        if isinstance(answer, tuple):
            return web.json_response(answer[1], status=answer[0])
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event, data in answer:
            if event == "wait":
                await asyncio.Event().wait()
            await response.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        return response

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        self.cancelled.append((await request.json())["key"])
        answer = self.was_cancelled.pop(0) if self.was_cancelled else True
        if answer:
            self.ended.set()
        return web.json_response({"cancelled": answer})


@pytest.fixture
async def server() -> AsyncIterator[TeamServer]:
    instance = TeamServer()
    application = web.Application()
    application.add_routes(
        [web.post("/v1/counsel", instance.ask), web.post("/v1/counsel/cancel", instance.cancel)]
    )
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    instance.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield instance
    await runner.cleanup()


@pytest.fixture
def target(server: TeamServer, tmp_path: Path) -> Target:
    team_login.write(tmp_path, server.url, "csl_" + "x" * 40, {"counsel": "1", "models": [], "providers": []})
    (tmp_path / team_login.MODELS_FILE).unlink()
    return Catalog.load(settings.load({"COUNSEL_HOME": str(tmp_path)})).resolve("gpt-5")


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    instance = Transport(sleep=no_wait)
    yield instance
    await instance.close()


async def stream(transport: Transport, target: Target, **fields: Any) -> list[Event]:
    call = Call((Turn("user", "hi"),), **{"key": "job-1", **fields})
    return [
        event async for event in transport.stream(call, target.model, target.endpoint, Limits(total=60.0))
    ]


def text(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


class Budget:
    """Allows everything, and records what was used."""

    output_limit, lowered = None, ""

    def __init__(self) -> None:
        self.settled: list[Usage | None] = []

    async def reserve(self, _call: Call, _model: Model) -> Budget:
        return self

    def settle(self, usage: Usage | None) -> None:
        self.settled.append(usage)


async def test_a_budget_of_the_laptop_counts_what_the_server_reports(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    server.answers, budget = [ANSWER], Budget()
    await stream(transport, target, budget=budget)
    (usage,) = budget.settled
    assert usage is not None
    assert (usage.input, usage.output) == (3, 4)


async def test_an_answer(server: TeamServer, target: Target, transport: Transport) -> None:
    server.answers = [ANSWER]
    events = await stream(transport, target)
    assert text(events) == "one two"
    assert isinstance(events[-1], Finished)
    assert [event.usage.output for event in events if isinstance(event, UsageReport)] == [4]
    assert server.cancelled == [], "it ended by itself"


@pytest.mark.parametrize(
    "failure",
    [(503, own_error("CANCELLED")), (502, {"message": "bad gateway"}), (503, {"message": "no server"})],
)
async def test_a_failure_before_the_server_is_tried_again(
    server: TeamServer, target: Target, transport: Transport, failure: object
) -> None:
    server.answers = [failure, ANSWER]
    events = await stream(transport, target)
    assert text(events) == "one two"
    assert [event.kind for event in events if isinstance(event, Notice)] == ["retry"]
    assert server.keys[0] == server.keys[1], "the same call, paid once"


@pytest.mark.parametrize(
    "failure",
    [(503, own_error("UPSTREAM_ERROR")), (500, own_error("CANCELLED")), (429, own_error(RateLimited.code))],
)
async def test_the_servers_own_failures_are_final(
    server: TeamServer, target: Target, transport: Transport, failure: tuple[int, dict[str, Any]]
) -> None:
    server.answers = [failure, ANSWER]
    with pytest.raises(CounselError) as excinfo:
        await stream(transport, target)
    assert excinfo.value.code == failure[1]["code"]
    assert len(server.keys) == 1
    assert server.cancelled == [], "it has already ended on the server"


async def test_a_stream_that_breaks_is_followed_again(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    server.answers = [ANSWER[:1], ANSWER]
    events = await stream(transport, target)
    assert text(events) == "one two", "nothing twice"
    assert server.keys[0] == server.keys[1]


async def test_without_a_key_nothing_is_asked_twice(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    server.answers = [ANSWER[:1], ANSWER]
    with pytest.raises(UpstreamError):
        await stream(transport, target, key="")
    assert server.keys == [None]
    server.answers = [(502, {}), ANSWER]
    assert text(await stream(transport, target, key="")) == "one two", "nothing had begun"


async def test_a_failure_in_the_stream_reports_what_it_used(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    failure = {**own_error("UPSTREAM_ERROR"), "usage": {"input_tokens": 7}}
    server.answers = [[("text", "one"), ("error", failure)]]
    events: list[Event] = []

    async def read() -> None:
        call = Call((Turn("user", "hi"),), key="job-1")
        async for event in transport.stream(call, target.model, target.endpoint, Limits()):
            events.append(event)

    with pytest.raises(UpstreamError, match="It is UPSTREAM_ERROR"):
        await read()
    assert [event.usage.input for event in events if isinstance(event, UsageReport)] == [7]
    assert server.cancelled == []


async def broken_off(transport: Transport, target: Target, **fields: Any) -> None:
    """A call whose caller stops after the first text."""
    call = Call((Turn("user", "hi"),), **{"key": "job-1", **fields})
    events: Any = transport.stream(call, target.model, target.endpoint, Limits())
    async for event in events:
        if isinstance(event, Text):
            break
    await events.aclose()


async def test_a_call_that_is_broken_off_ends_at_the_server_too(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    server.answers = [[*ANSWER[:1], ("wait", None)]]
    server.was_cancelled = [False, True]
    await broken_off(transport, target)
    await asyncio.wait_for(server.ended.wait(), 60)
    assert server.cancelled == [server.keys[0]] * 2, "until the server has received it"


async def test_a_call_that_continues_elsewhere_is_not_ended(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    server.answers = [[*ANSWER[:1], ("wait", None)], [*ANSWER[:1], ("wait", None)]]
    await broken_off(transport, target, is_handed_over=lambda: True)
    await broken_off(transport, target, key="")
    await transport.close()
    assert server.cancelled == []


async def test_a_server_that_is_gone_says_that_it_is_unreachable(
    server: TeamServer, target: Target, transport: Transport
) -> None:
    server.answers = [(503, {"message": "x"})] * 5
    with pytest.raises(ProviderUnavailable) as excinfo:
        await stream(transport, target)
    assert excinfo.value.fields["unreachable"] is True
    assert len(server.keys) == Limits().attempts


async def test_pauses_between_reconnections_grow(server: TeamServer, target: Target) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    transport = Transport(sleep=note)
    server.answers = [ANSWER[:1], ANSWER[:1], ANSWER[:1], ANSWER]
    assert text(await stream(transport, target)) == "one two"
    assert pauses == [0.5, 1.0, 2.0]
    await transport.close()


async def test_an_end_that_cannot_be_read_leaves_no_connection_open(target: Target) -> None:
    class Response:
        status, headers, content_type = 200, dict[str, str](), "application/json"
        closed = 0

        async def readany(self, until: float) -> bytes:
            raise ConnectionResetError

        def close(self) -> None:
            self.closed += 1

    class Sender:
        async def send(self, *_: object, **__: object) -> Response:
            return response

    response, sender = Response(), Sender()
    any_sender: Any = sender
    calls = TeamCalls(any_sender, 0.5, asyncio.sleep, set())
    request: Any = SimpleNamespace(url="http://x", headers={"idempotency-key": "k"})
    await calls._cancel(request, target.endpoint)
    assert response.closed == 1
