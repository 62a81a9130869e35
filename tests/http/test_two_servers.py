"""Two servers on one database behind a load balancer: each request of a client reaches the other one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from counsel.engine.store.records import JobRecord
from counsel.http import mcp_sessions
from fake import FakeAPI
from support import api_client
from support.api_client import TOKEN, Api
from support.http_server import Http
from support.round_robin import RoundRobin, balanced

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.thorough]


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.migrated() as address:
        yield address


@pytest.fixture
async def proxy(tmp_path: Path, fake_api: FakeAPI, url: str) -> AsyncIterator[RoundRobin]:
    """Each server has a home of its own, as on two machines."""
    async with AsyncExitStack() as stack:
        servers: list[str] = []
        for name in ("one", "two"):
            home = tmp_path / name / "counsel"
            home.mkdir(parents=True)
            (home / ".env").write_text(f"COUNSEL_DATABASE={url}\n")
            api = await stack.enter_async_context(api_client.in_process(tmp_path / name, fake_api))
            servers.append(str(api.session._base_url).rstrip("/"))
        yield await stack.enter_async_context(balanced(*servers))


@pytest.fixture
async def api(proxy: RoundRobin) -> AsyncIterator[Api]:
    async with api_client.client(proxy.url) as session:
        yield Api(session)


@pytest.fixture
async def mcp(proxy: RoundRobin) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        client = Http(session, int(proxy.url.rpartition(":")[2]), None)
        client.session_headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


def used_both(proxy: RoundRobin) -> bool:
    return len(set(proxy.taken)) == 2


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdks_client_notices_nothing(proxy: RoundRobin, mode: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with create_mcp_http_client(headers=headers) as http:
        streams = streamable_http_client(f"{proxy.url}/mcp", http_client=http)
        async with Client(streams, mode=mode) as client:
            for number in range(3):
                result = await client.call_tool("chat", {"prompt": f"say {number}", "model": "gpt-5"})
                assert result.structured_content["content"] == f"gpt-5 says: say {number}"
            reply = await client.call_tool("chat", {"prompt": "later", "model": "gpt-5", "async": True})
            job = reply.structured_content["job_id"]
            while True:
                status = await client.call_tool("check_status", {"continuation_id": job})
                if status.structured_content["content"]["status"] != "processing":
                    break
            assert status.structured_content["content"]["status"] == "completed"
            assert job in str(await client.list_resources())
    assert used_both(proxy)


async def test_a_session_that_was_ended_is_unknown_to_both_servers(mcp: Http, proxy: RoundRobin) -> None:
    await mcp.initialize()
    for _ in range(3):
        assert (await mcp.ask("ping"))["result"] == {}
    async with mcp.session.delete(f"{mcp.base}/mcp", headers=mcp.headers()) as response:
        assert response.status == 200
    for _ in range(2):
        async with mcp.post(mcp.message("ping")) as response:
            assert response.status == 404
    assert used_both(proxy)


async def test_many_sessions_of_one_person_make_room(
    mcp: Http, proxy: RoundRobin, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("counsel.engine.store.postgres.mcp_sessions")
    monkeypatch.setattr(module, "MOST", 2)
    first: dict[str, str] = {}
    for _ in range(3):
        await mcp.initialize()
        first = first or dict(mcp.session_headers)
        del mcp.session_headers["Mcp-Session-Id"]
    mcp.session_headers = first
    for _ in range(2):
        async with mcp.post(mcp.message("ping")) as response:
            assert response.status == 404
    assert used_both(proxy)


@pytest.mark.parametrize("early", [0, 2], ids=["stored", "about_to_be_stored"])
async def test_a_call_is_cancelled_through_the_other_server(
    mcp: Http, proxy: RoundRobin, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch, early: int
) -> None:
    jobs_elsewhere, looks = mcp_sessions.Sessions._jobs_elsewhere, itertools.count()

    async def stored(sessions: mcp_sessions.Sessions, *request: Any) -> list[JobRecord]:
        return [] if next(looks) < early else await jobs_elsewhere(sessions, *request)

    monkeypatch.setattr(mcp_sessions.Sessions, "_jobs_elsewhere", stored)
    await mcp.initialize()  # two requests
    fake_api.script(text="never", gate="never", gate_after=1)
    asking = asyncio.ensure_future(mcp.call("chat", prompt="wait", model="gpt-5"))
    await fake_api.wait_for(state="answering", deltas=1)
    params = {"requestId": mcp.number, "reason": "user"}
    async with mcp.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}) as reply:
        assert reply.status == 202
    assert proxy.taken[-1] != proxy.taken[-2]
    await fake_api.wait_for(state="disconnected")
    assert (await asyncio.wait_for(asking, 60))["structuredContent"]["code"] == "CANCELLED"


@pytest.mark.parametrize("pause", [False, True], ids=["at_once", "one_after_the_other"])
async def test_the_first_of_two_cancellations_through_the_other_server_counts(
    mcp: Http, proxy: RoundRobin, fake_api: FakeAPI, url: str, pause: bool
) -> None:
    """OpenCode reports its time limit, then that it aborted."""
    await mcp.initialize()
    fake_api.script(text="long", gate="long", gate_after=1)
    asking = asyncio.ensure_future(mcp.call("chat", prompt="wait", model="gpt-5"))
    await fake_api.wait_for(state="answering", deltas=1)
    (mcp.base,) = set(proxy.servers) - {proxy.taken[-1]}
    params: dict[str, Any] = {"requestId": mcp.number}
    import psycopg  # optional where these tests are skipped

    with psycopg.connect(url, autocommit=True) as database:
        for reason in (
            "McpError: MCP error -32001: Request timed out",
            "AbortError: The operation was aborted.",
        ):
            note = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {**params, "reason": reason},
            }
            async with mcp.post(note) as reply:
                assert reply.status == 202
            while pause and database.execute("SELECT background FROM counsel.jobs").fetchone() != (True,):
                await asyncio.sleep(0)
        while any("Sessions._cancel" in str(task.get_coro()) for task in asyncio.all_tasks()):
            await asyncio.sleep(0)
        fake_api.open_gate("long")
        await asyncio.wait_for(asking, 60)
        assert database.execute("SELECT background, status FROM counsel.jobs").fetchone() == (
            True,
            "completed",
        )


async def test_a_client_that_hangs_up_and_comes_back_at_the_other_server_keeps_its_job(
    mcp: Http, proxy: RoundRobin, fake_api: FakeAPI, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_sessions, "RETURN_WITHIN", 4.0)
    monkeypatch.setattr(mcp_sessions, "CANCEL_WITHIN", 0.0)
    await mcp.initialize()
    fake_api.script(text="long", gate="long", gate_after=0)
    asking = asyncio.ensure_future(mcp.call("chat", prompt="wait", model="gpt-5"))
    await fake_api.wait_for(state="answering")
    asking.cancel()
    (mcp.base,) = set(proxy.servers) - {proxy.taken[-1]}
    import psycopg  # optional where these tests are skipped

    with psycopg.connect(url, autocommit=True) as database:
        while (row := database.execute("SELECT background, status FROM counsel.jobs").fetchone()) in {
            None,
            (False, "processing"),
        }:
            assert (await mcp.ask("ping"))["result"] == {}
        assert row == (True, "processing")


async def test_a_job_is_followed_at_the_other_server_from_where_the_client_stopped(
    api: Api, proxy: RoundRobin, fake_api: FakeAPI
) -> None:
    fake_api.script(text="one two three", gate="half", gate_after=1)
    status, job = await api.post("/api/jobs", {"prompt": "count", "model": "gpt-5", "mode": "background"})
    assert status == 202
    text, kinds, cursor = "", [], "0"
    while not text:
        async with api.events(job["job_id"], **{"Last-Event-ID": cursor}) as events:
            async for event in events:
                cursor = event["id"]
                kinds.append(event["kind"])
                if event["kind"] == "text":
                    text = text[: event["data"]["offset"]] + event["data"]["text"]
                    break
    assert text.startswith("one")
    fake_api.open_gate("half")
    async with api.events(job["job_id"], **{"Last-Event-ID": cursor}) as events:
        async for event in events:
            kinds.append(event["kind"])
            if event["kind"] == "text":
                text = text[: event["data"]["offset"]] + event["data"]["text"]
    assert text == "one two three"
    assert (kinds.count("started"), kinds[-1]) == (1, "done")
    assert used_both(proxy)


@pytest.mark.parametrize(("name", "field"), [("a.pdf", "files"), ("a.txt", "files"), ("a.png", "images")])
async def test_an_error_about_an_upload_contains_no_path_of_the_server(
    api: Api, name: str, field: str
) -> None:
    async with api.session.post(
        "/api/files", params={"name": name}, data=b"%PDF-1.7 \0\xff damaged"
    ) as upload:
        path = (await upload.json())["path"]
    status, failure = await api.post("/api/jobs", {"prompt": "read", "model": "gpt-5", field: [path]})
    assert status >= 400
    assert path in failure["error"]
    assert failure["file"] == path
    assert "uploads" not in str(failure).replace(path, "")


async def test_uploads_keys_and_answers_are_the_same_at_both(
    api: Api, proxy: RoundRobin, fake_api: FakeAPI
) -> None:
    async with api.session.post(
        "/api/files", params={"name": "notes.txt"}, data=b"a file\nof two lines\n"
    ) as upload:
        path = (await upload.json())["path"]
    for _ in range(2):  # at either server
        status, answer = await api.post("/api/jobs", {"prompt": "read", "model": "gpt-5", "files": [path]})
        assert status == 200, answer
        _, job = await api.get(f"/api/jobs/{answer['job_id']}")
        assert "counsel/uploads" not in str(job) + str(answer)
    assert all("of two lines" in str(request.body) for request in fake_api.requests)
    before = len(fake_api.requests)
    body = {"prompt": "once", "model": "gpt-5"}
    first, second = [await api.post("/api/jobs", body, Idempotency_Key="k1") for _ in range(2)]
    assert first == second
    assert len(fake_api.requests) == before + 1
    status, failure = await api.post("/api/jobs", {**body, "prompt": "other"}, Idempotency_Key="k1")
    assert (status, failure["code"]) == (409, "CONFLICT")
    async with api.session.get("/api/jobs") as page:
        jobs = [job["job_id"] for job in (await page.json())["jobs"]]
    for job in jobs:
        assert (await api.get(f"/api/jobs/{job}"))[0] == 200
    assert used_both(proxy)


async def test_a_stored_response_is_shown_by_the_other_server(api: Api, proxy: RoundRobin) -> None:
    body = {"model": "gpt-5", "input": "hello", "background": True}
    async with api.session.post("/v1/responses", json=body) as answer:
        name = (await answer.json())["id"]
    while True:
        async with api.session.get(f"/v1/responses/{name}") as response:
            assert response.status == 200
            document = await response.json()
        if document["status"] not in {"queued", "in_progress"}:
            break
    assert document["status"] == "completed"
    assert used_both(proxy)
