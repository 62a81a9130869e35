"""A request of `/v1` while its client is there: in one task, which is cancelled when the client disconnects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from counsel.http.v1.calls import Calls
from fake import FakeAPI
from support import api_client
from support.api_client import Api, in_process
from support.v1 import V1, address, served

ASK: dict[str, Any] = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]}
OURS = ("RequestResponseCycle.", "Runner.", "V1.", "_wait_for_disconnect", "_HttpRequest.")


class Client:
    """A connection whose client disconnects when the test says so."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.is_there = is_there
        self.lost: Callable[[], None] | None = None

    def watch(self, on_disconnect: Callable[[], None]) -> bool:
        self.lost = on_disconnect
        return self.is_there

    def unwatch(self, on_disconnect: Callable[[], None]) -> None:
        if self.lost is on_disconnect:
            self.lost = None


class Request:
    """One request that is answered when `answered` is set."""

    def __init__(self, client: Client | None = None) -> None:
        self.calls = Calls(cast(Any, None), cast(Any, None))
        self.client = client
        self.left = asyncio.Event()
        self.begun = asyncio.Event()
        self.answered = asyncio.Event()
        self.events: list[str] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self.calls.run_while_connected(self._work(), self._receive, self._stopped, self.client)
        self.events.append("over")

    async def _work(self) -> None:
        self.begun.set()
        try:
            await self.answered.wait()
            self.events.append("answered")
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise

    async def _receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _stopped(self) -> None:
        await asyncio.sleep(0)  # the task can wait again
        self.events.append("stopped")

    def leave(self) -> None:
        if self.client is None:
            self.left.set()
        else:
            assert self.client.lost
            self.client.lost()


@pytest.fixture(params=["watched", "received"])
async def request_(request: pytest.FixtureRequest) -> Request:
    new_request = Request(Client() if request.param == "watched" else None)
    await new_request.begun.wait()
    return new_request


async def test_a_request_is_answered(request_: Request) -> None:
    request_.answered.set()
    await request_.task
    assert request_.events == ["answered", "over"]
    assert request_.client is None or request_.client.lost is None


async def test_a_client_that_disconnects_stops_the_work(request_: Request) -> None:
    request_.leave()
    await request_.task
    assert request_.events == ["cancelled", "stopped", "over"]


async def test_a_server_that_closes_stops_the_work_and_cancels_no_job(request_: Request) -> None:
    await request_.calls.close()
    await request_.task
    assert request_.events == ["cancelled", "over"]


async def test_any_other_cancellation_is_raised(request_: Request) -> None:
    request_.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request_.task
    assert request_.events == ["cancelled"]


async def test_a_client_that_is_gone_before_the_work_begins() -> None:
    request = Request(Client(is_there=False))
    await request.task
    assert request.events == ["cancelled", "stopped", "over"]


# ── with a server ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


async def test_a_client_that_does_not_wait_for_its_plain_answer_cancels_the_call(
    v1: V1, fake_api: FakeAPI
) -> None:
    fake_api.script(gate="never")
    call = asyncio.create_task(v1.post("/v1/chat/completions", ASK))
    await fake_api.wait_for(count=1)
    call.cancel()
    await fake_api.wait_for(state="disconnected")


async def test_a_plain_request_to_a_server_that_stops_is_answered_with_where_its_job_continues(
    tmp_path: Path, fake_api: FakeAPI
) -> None:
    fake_api.script(gate="never")
    async with AsyncExitStack() as client:
        async with in_process(tmp_path, fake_api) as api:
            session = await client.enter_async_context(api_client.client(address(api)))
            call = asyncio.create_task(Api(session).post("/v1/chat/completions", {**ASK, "store": True}))
            await fake_api.wait_for(count=1)
        status, document = await call
    assert status == 503
    assert "This server is being stopped. Job job_" in document["error"]["message"]
    assert "continues when counsel runs again" in document["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_and_its_job_are_one_task_each(
    v1: V1, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Each task more costs some turns of the event loop."""
    loop, tasks = asyncio.get_running_loop(), Counter[str]()
    create = loop.create_task

    def counting(work: Any, **options: Any) -> Any:
        tasks[work.__qualname__] += 1
        return create(work, **options)

    async with v1.session.post("/v1/chat/completions", json=ASK) as answer:
        await answer.read()
    monkeypatch.setattr(loop, "create_task", counting)
    async with v1.session.post("/v1/chat/completions", json={**ASK, "stream": stream}) as answer:
        await answer.read()
    ours = {name: count for name, count in tasks.items() if name.startswith(OURS)}
    assert ours == {"RequestResponseCycle.run_asgi": 1, "Runner._run": 1}
