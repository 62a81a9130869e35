"""SIGTERM to real servers and workers: clients that wait get an answer, and unfinished jobs continue elsewhere."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from fake import FakeAPI
from support.provider_keys import keys
from team.fleet import Fleet, Member

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("postgres"), pytest.mark.thorough]
LONGEST = 120.0  # seconds, on a busy machine
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture
async def fleet(tmp_path: Path, postgres_server: PostgresServer, fake_api: FakeAPI) -> AsyncIterator[Fleet]:
    with postgres_server.migrated() as url:
        async with Fleet(tmp_path, url, keys(fake_api)) as fleet:
            yield fleet


async def added(fleet: Fleet, kind: str, name: str, **env: str) -> Member:
    member = fleet.add(kind, name, **env)
    await member.start()
    await member.ready(fleet.session)
    if kind == "worker":
        await logged(member, "runs up to")
    return member


async def logged(member: Member, words: str) -> None:
    async with asyncio.timeout(LONGEST):
        while words not in member.log:
            await asyncio.sleep(0.1)


async def drains(fleet: Fleet, server: Member) -> None:
    async with asyncio.timeout(LONGEST):
        while True:
            async with fleet.session.get(f"{server.url}/ready") as response:
                if response.status == 503:
                    return
            await asyncio.sleep(0.1)


async def exit_code(member: Member) -> int:
    assert member.process is not None
    return await asyncio.wait_for(member.process.wait(), LONGEST)


class Client:
    """A client of one server that asks through every interface and waits for the answer."""

    def __init__(self, session: aiohttp.ClientSession, server: Member) -> None:
        self._session = session
        self._url = server.url

    async def api(self, prompt: str) -> tuple[int, Any]:
        body = {"prompt": prompt, "model": "gpt-5", "mode": "sync"}
        async with self._session.post(f"{self._url}/api/jobs", json=body) as response:
            return response.status, await response.json()

    async def v1(self, prompt: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": prompt}]}
        async with self._session.post(
            f"{self._url}/v1/chat/completions", json=body, headers=headers
        ) as response:
            return response.status, await response.json(), dict(response.headers)

    async def v1_stream(self, prompt: str) -> tuple[int, str]:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": prompt}], "stream": True}
        async with self._session.post(f"{self._url}/v1/chat/completions", json=body) as response:
            return response.status, (await response.read()).decode()

    async def mcp(self, prompt: str) -> tuple[int, Any]:
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        first = await self._mcp({}, {"id": 1, "method": "initialize", "params": hello})
        session = {"Mcp-Session-Id": first[2]["Mcp-Session-Id"]}
        params = {"name": "chat", "arguments": {"prompt": prompt, "model": "gpt-5"}}
        return (await self._mcp(session, {"id": 2, "method": "tools/call", "params": params}))[:2]

    async def _mcp(self, headers: dict[str, str], message: dict[str, Any]) -> tuple[int, Any, Any]:
        async with self._session.post(
            f"{self._url}/mcp", json={"jsonrpc": "2.0", **message}, headers=MCP | headers
        ) as response:
            text = await response.text()
            lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
            return response.status, json.loads(lines[-1] if lines else text), response.headers


async def test_a_call_that_outlives_the_drain_is_answered_with_its_job_which_continues(
    fleet: Fleet, fake_api: FakeAPI
) -> None:
    first = await added(fleet, "serve", "first", COUNSEL_DRAIN_SECONDS="1")
    names = ("api", "v1", "keyed", "streamed", "mcp")
    fake_api.script(gate="first", gate_after=1, times=len(names))
    client = Client(fleet.session, first)
    async with asyncio.TaskGroup() as group:
        api = group.create_task(client.api("api"))
        plain = group.create_task(client.v1("v1"))
        keyed_call = group.create_task(client.v1("keyed", **{"Idempotency-Key": "k"}))
        streamed_call = group.create_task(client.v1_stream("streamed"))
        mcp = group.create_task(client.mcp("mcp"))
        await fake_api.wait_for(deltas=1, count=len(names))
        first.signal(signal.SIGTERM)
    assert await exit_code(first) == 0

    status, document = api.result()
    assert (status, document["status"]) == (202, "processing")
    jobs = {"api": document["job_id"]}

    status, error, headers = plain.result()
    assert (status, headers["x-should-retry"]) == (
        503,
        "true",
    )  # its messages are not stored, so it cannot continue
    assert "Send it again" in error["error"]["message"]

    status, error, headers = keyed_call.result()
    jobs["keyed"] = headers["x-counsel-job"]
    assert (status, headers["x-should-retry"]) == (503, "true")
    assert f"Job {jobs['keyed']} continues on another server" in error["error"]["message"]
    assert "same Idempotency-Key" in error["error"]["message"]

    status, text = streamed_call.result()
    assert status == 200
    assert "This server is being stopped" in text

    status, answer = mcp.result()
    assert status == 200, answer
    assert "check_status" in str(answer)
    assert "This server is being stopped" in str(answer)
    jobs["mcp"] = answer["result"]["structuredContent"]["job_id"]

    second = await added(fleet, "serve", "second")
    for name, job in jobs.items():
        url = f"{second.url}/api/jobs/{job}"
        async with asyncio.timeout(LONGEST):
            async with fleet.session.get(f"{url}/events") as response:
                await response.read()
        async with fleet.session.get(url) as response:
            assert f"gpt-5 says: {name}" in json.dumps(await response.json())
    status, answer, _ = await Client(fleet.session, second).v1("keyed", **{"Idempotency-Key": "k"})
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "gpt-5 says: keyed")
    call_counts = Counter(request.text for request in fake_api.calls)
    assert call_counts == {"api": 2, "v1": 1, "keyed": 2, "streamed": 1, "mcp": 2}  # of two, one was cut off


async def test_a_second_signal_ends_a_server_and_a_worker_at_once_and_others_continue(
    fleet: Fleet, fake_api: FakeAPI
) -> None:
    server = await added(fleet, "serve", "server", COUNSEL_DRAIN_SECONDS="600")
    fake_api.script(gate="never", gate_after=1, times=2)
    call = asyncio.create_task(Client(fleet.session, server).api("long"))
    await fake_api.wait_for(deltas=1)
    server.signal(signal.SIGTERM)
    await drains(fleet, server)
    assert not call.done()
    server.signal(signal.SIGTERM)
    status, document = await asyncio.wait_for(call, LONGEST)
    assert (status, document["status"]) == (202, "processing")
    assert await exit_code(server) == 0

    worker = await added(fleet, "worker", "worker", COUNSEL_DRAIN_SECONDS="600")
    await fake_api.wait_for(deltas=1, count=2)
    worker.signal(signal.SIGTERM)
    await logged(worker, "takes no more jobs")
    worker.signal(signal.SIGTERM)
    assert await exit_code(worker) == 0

    last = await added(fleet, "serve", "last")
    async with asyncio.timeout(LONGEST):
        async with fleet.session.get(f"{last.url}/api/jobs/{document['job_id']}/events") as response:
            assert '"kind":"done"' in (await response.text()).replace(" ", "")
    assert len(fake_api.calls) == 3


async def test_a_client_of_a_server_that_only_answers_requests_gets_the_workers_answer_while_both_drain(
    fleet: Fleet, fake_api: FakeAPI, postgres_server: PostgresServer
) -> None:
    """The server runs no jobs itself, but must not stop before its clients have their answers."""
    server = await added(fleet, "serve", "server", COUNSEL_CONCURRENCY="0", COUNSEL_DRAIN_SECONDS="600")
    worker = await added(fleet, "worker", "worker", COUNSEL_DRAIN_SECONDS="600")
    fake_api.script(gate="drain", gate_after=1, times=3)
    client = Client(fleet.session, server)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(call) for call in (client.api("api"), client.v1("v1"), client.mcp("mcp"))]
        await fake_api.wait_for(deltas=1, count=3)
        for member in (server, worker):
            member.signal(signal.SIGTERM)
        await drains(fleet, server)
        await logged(worker, "takes no more jobs")
        fake_api.open_gate("drain")
    assert [call.result()[0] for call in calls] == [200, 200, 200]
    for name, call in zip(("api", "v1", "mcp"), calls, strict=True):
        assert f"gpt-5 says: {name}" in json.dumps(call.result()[1])
    assert await exit_code(server) == 0
    assert await exit_code(worker) == 0
    assert len(fake_api.calls) == 3
    # The messages of `/v1` were stored for the worker only, until the end.
    tasks = postgres_server.execute("SELECT task FROM counsel.jobs WHERE tool = 'completion'", "counsel")
    assert [json.loads(str(row[0]))["completion"] for row in tasks] == [None]
