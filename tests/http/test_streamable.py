"""MCP over HTTP: the guard, both eras, streams, sessions, and clients that disconnect."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from counsel import settings
from counsel.errors import ConfigInvalid
from counsel.front import protocol
from counsel.http import auth, envelope, exchange, mcp_sessions, serve
from support.http_server import TOKEN, Http, events, served
from support.session_client import ENVELOPE

MODERN = {"MCP_Protocol_Version": "2026-07-28"}


async def test_health_needs_no_token_and_says_little(tmp_path: Path) -> None:
    async with served(tmp_path) as client, client.session.get(f"{client.base}/health") as response:
        assert response.status == 200
        assert set(await response.json()) == {"status", "version"}


async def test_everything_else_needs_the_token(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        for path in ("/mcp", "/metrics", "/x", "/api/x", "/health/x"):
            for values in ("", "Bearer wrong", "Bearer ", f"Basic {TOKEN}", TOKEN):
                headers = {"Authorization": values} if values else {}
                async with client.session.post(f"{client.base}{path}", headers=headers) as response:
                    assert response.status == 401
                    reply = await response.json()
                    assert reply["code"] == "AUTHENTICATION_FAILED"
                    assert ("required" in reply["error"]) is not bool(values)
                    assert TOKEN not in await response.text()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
    ],
)
async def test_other_web_pages_get_nothing(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async with served(tmp_path) as client:
        for path in ("/mcp", "/health"):
            async with client.session.post(
                f"{client.base}{path}", headers={**client.headers(), **headers}
            ) as response:
                assert response.status == status
                assert "Access-Control-Allow-Origin" not in response.headers


async def test_our_own_page_and_listed_origins_may_ask(tmp_path: Path) -> None:
    async with served(tmp_path, COUNSEL_CORS_ORIGINS="https://app.example") as client:
        async with client.session.get(f"{client.base}/health", headers={"Origin": client.base}) as response:
            assert response.status == 200
            assert "Access-Control-Allow-Origin" not in response.headers
        headers = {"Origin": "https://app.example"}
        async with client.session.get(f"{client.base}/health", headers=headers) as response:
            assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
        preflight = {**headers, "Access-Control-Request-Method": "POST"}
        async with client.session.options(f"{client.base}/mcp", headers=preflight) as response:
            assert response.status == 204
            assert "mcp-session-id" in response.headers["Access-Control-Allow-Headers"]
        async with client.session.post(f"{client.base}/mcp", headers=headers) as response:
            assert response.status == 401


@pytest.mark.parametrize("version", protocol.HANDSHAKE)
async def test_each_handshake_revision(tmp_path: Path, version: str) -> None:
    async with served(tmp_path) as client:
        assert (await client.initialize(version))["protocolVersion"] == version
        assert len((await client.ask("tools/list"))["result"]["tools"]) == 5
        assert (await client.call("chat", prompt="echo hi"))["structuredContent"]["content"] == "echo hi"


async def test_the_stateless_revision(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        result = await client.ask(
            "server/discover", {"_meta": ENVELOPE}, **MODERN, Mcp_Method="server/discover"
        )
        assert result["result"]["supportedVersions"] == ["2026-07-28"]
        params = {"name": "chat", "arguments": {"prompt": "echo hi"}, "_meta": ENVELOPE}
        reply = await client.ask("tools/call", params, **MODERN, Mcp_Method="tools/call", Mcp_Name="chat")
        assert reply["result"]["structuredContent"]["content"] == "echo hi"
        assert client.engine.jobs["conv_1"].caller.agent == "claude"
        encoded_reply = await client.ask(
            "tools/call", params, **MODERN, Mcp_Method="tools/call", Mcp_Name="=?base64?Y2hhdA==?="
        )
        assert "result" in encoded_reply


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {"_meta": ENVELOPE}, {}, 400, protocol.HEADER_MISMATCH),
        ("tools/list", {"_meta": ENVELOPE}, {"Mcp_Method": "TOOLS/LIST"}, 400, protocol.HEADER_MISMATCH),
        (
            "tools/call",
            {"name": "chat", "_meta": ENVELOPE},
            {"Mcp_Method": "tools/call"},
            400,
            protocol.HEADER_MISMATCH,
        ),
        ("tools/list", {}, {"Mcp_Method": "tools/list"}, 400, protocol.INVALID_PARAMS),
        ("initialize", {"_meta": ENVELOPE}, {"Mcp_Method": "initialize"}, 404, protocol.METHOD_NOT_FOUND),
        ("ping", {"_meta": ENVELOPE}, {"Mcp_Method": "ping"}, 404, protocol.METHOD_NOT_FOUND),
    ],
)
async def test_stateless_requests_that_are_refused(
    tmp_path: Path, method: str, params: Any, headers: dict[str, str], status: int, code: int
) -> None:
    async with (
        served(tmp_path) as client,
        client.post(client.message(method, params), **MODERN, **headers) as response,
    ):
        assert response.status == status
        answer = await response.json()
        assert (answer["error"]["code"], answer["id"]) == (code, 1)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {"Mcp_Session_Id": "x"}, 404),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', {}, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', {"Mcp_Session_Id": "x"}, 404),
        (b"{}", {"Content_Type": "text/plain"}, 415),
        (b"{}", {"Accept": "text/html"}, 406),
    ],
)
async def test_posts_that_are_refused(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int
) -> None:
    async with served(tmp_path) as client, client.post(body, **headers) as response:
        assert response.status == status
        assert "error" in await response.json()


async def test_a_body_of_many_images_fits_and_one_past_the_limit_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as client:
        await client.initialize()
        images = ["data:image/png;base64," + "A" * 10_000_000] * 2
        result = await client.call("chat", prompt="echo", images=images)
        assert "isError" not in result
        monkeypatch.setattr(envelope, "LARGEST_BODY", 1_000)
        async with client.post(b"x" * 1_001) as response:
            assert response.status == 413


async def test_progress_comes_as_a_stream_and_the_answer_ends_it(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.initialize()
        params = {"name": "chat", "arguments": {"prompt": "hang some"}, "_meta": {"progressToken": 1}}
        async with client.post(client.message("tools/call", params)) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            stream = events(response)
            assert (await anext(stream))["params"]["message"] == "some"
            client.engine.jobs["conv_1"].end({"content": "some text"})
            assert (await anext(stream))["result"]["structuredContent"] == {"content": "some text"}
            assert [event async for event in stream] == []


async def test_a_subscription_to_tasks_is_a_stream_until_they_have_ended(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        capabilities: Any = {"extensions": {protocol.TASKS: {}}}
        meta = {**ENVELOPE, protocol.META_CAPABILITIES: capabilities}
        call = {"name": "chat", "arguments": {"prompt": "hang", "async": True}, "_meta": meta}
        reply = await client.ask("tools/call", call, **MODERN, Mcp_Method="tools/call", Mcp_Name="chat")
        task = reply["result"]["taskId"]
        params = {"notifications": {"taskIds": [task, "nobody"]}, "_meta": meta}
        message = client.message(protocol.LISTEN, params)
        async with client.post(message, **MODERN, Mcp_Method=protocol.LISTEN) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            stream = events(response)
            acknowledgement = await anext(stream)
            assert acknowledgement["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledgement["params"]["notifications"] == {"taskIds": [task]}
            assert (await anext(stream))["params"]["status"] == "working"
            client.engine.jobs[task].end({"content": "done"})
            last = await anext(stream)
            assert (last["params"]["taskId"], last["params"]["status"]) == (task, "completed")
            assert (await anext(stream))["id"] == message["id"]
            assert [event async for event in stream] == []
        async with client.post(message, **MODERN, Mcp_Method=protocol.LISTEN) as response:
            messages = [event async for event in events(response)]
        assert [event["params"].get("status") for event in messages[:-1]] == [None, "completed"]  # at once


async def test_without_a_stream_the_answer_is_json(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.initialize()
        params = {"name": "chat", "arguments": {"prompt": "echo"}, "_meta": {"progressToken": 1}}
        async with client.post(client.message("tools/call", params), Accept="application/json") as response:
            assert response.headers["Content-Type"] == "application/json"
            assert (await response.json())["result"]["structuredContent"]["content"] == "echo"


async def test_a_long_silence_is_filled_with_keepalive_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE", 0.05)
    async with served(tmp_path) as client:
        await client.initialize()
        params = {"name": "chat", "arguments": {"prompt": "hang"}}
        async with client.post(client.message("tools/call", params)) as response:
            assert (await response.content.readline()).startswith(b":")
            client.engine.jobs["conv_1"].end({"content": "done"})
            assert (await anext(events(response)))["result"]["structuredContent"] == {"content": "done"}


async def test_cancelling_by_notification_and_by_disconnecting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_sessions, "RETURN_WITHIN", 0.05)
    async with served(tmp_path) as client:
        await client.initialize()
        params = {"name": "chat", "arguments": {"prompt": "hang"}}
        first = asyncio.ensure_future(client.ask("tools/call", params))
        await client.engine.started.wait()
        notification = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": client.number},
        }
        async with client.post(notification) as response:
            assert response.status == 202
        with pytest.raises(aiohttp.ContentTypeError):
            await first  # there is no answer to a request that was cancelled
        assert client.engine.jobs["conv_1"].status == "cancelled"
        client.engine.started.clear()
        second = asyncio.ensure_future(client.ask("tools/call", params))
        await client.engine.started.wait()
        second.cancel()
        await asyncio.wait_for(client.engine.jobs["conv_2"].ended.wait(), 10)
        assert client.engine.jobs["conv_2"].status == "cancelled"


async def hang_up(client: Http) -> int:
    """Send a request and close its connection; return the request's id."""
    params = {"name": "chat", "arguments": {"prompt": "hang"}}
    async with client.post(client.message("tools/call", params)) as response:
        await response.content.readline()  # a first event while it waits
        await client.engine.started.wait()
    return client.number


async def test_a_client_that_hangs_up_and_comes_back_finds_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE", 0.05)
    monkeypatch.setattr(mcp_sessions, "CANCEL_WITHIN", 0.05)
    async with served(tmp_path) as client:
        await client.initialize()
        await hang_up(client)
        job = client.engine.jobs["conv_1"]
        while not job.background:
            status = await client.call("check_status", continuation_id="conv_1")
            assert status["structuredContent"]["content"]["status"] == "processing"
        assert job.status == "processing"


@pytest.mark.parametrize(
    ("reason", "status"), [("user", "cancelled"), ("MCP error -32001: Request timed out", "processing")]
)
async def test_a_client_that_hangs_up_may_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, status: str
) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE", 0.05)
    async with served(tmp_path) as client:
        await client.initialize()
        params = {"requestId": await hang_up(client), "reason": reason}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        async with client.post(message) as response:
            assert response.status == 202
        job = client.engine.jobs["conv_1"]
        while not (job.background or job.ended.is_set()):
            await client.ask("ping")
        assert job.status == status


async def test_a_client_that_came_back_may_still_cancel_its_earlier_call() -> None:
    abandoned: list[object] = []
    entry: Any = SimpleNamespace(
        request_arrived=asyncio.Event(), session=SimpleNamespace(abandon=abandoned.append)
    )
    work: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(mcp_sessions.Sessions(None).await_return(entry, 7, work))
    await asyncio.sleep(0)
    entry.request_arrived.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert abandoned == []
    work.set_result(None)
    await waiting
    assert abandoned == [7]


async def test_waiting_for_a_client_leaves_no_task_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_sessions, "RETURN_WITHIN", 0.0)
    entry: Any = SimpleNamespace(request_arrived=asyncio.Event())
    work: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    before = asyncio.all_tasks()
    await mcp_sessions.Sessions(None).await_return(entry, 7, work)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_many_clients_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.initialize()
        slow = asyncio.ensure_future(client.call("chat", prompt="hang"))
        await client.engine.started.wait()
        answers = await asyncio.gather(*(client.call("chat", prompt=f"echo {at}") for at in range(50)))
        assert [answer["structuredContent"]["content"] for answer in answers] == [
            f"echo {at}" for at in range(50)
        ]
        client.engine.jobs["conv_1"].end({"content": "x"})
        await slow


async def test_a_session_ends_with_delete(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.initialize()
        async with client.session.delete(f"{client.base}/mcp", headers=client.headers()) as response:
            assert response.status == 200
        async with client.post(client.message("ping")) as response:
            assert response.status == 404
        async with client.session.get(f"{client.base}/mcp", headers=client.headers()) as response:
            assert response.status == 405


async def test_old_sessions_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_sessions, "MOST_SESSIONS", 2)
    async with served(tmp_path) as client:
        await client.initialize()
        first = dict(client.session_headers)
        for _ in range(2):
            client.session_headers = {}
            await client.initialize()
        assert (await client.ask("ping"))["result"] == {}
        client.session_headers = first
        async with client.post(client.message("ping")) as response:
            assert response.status == 404


async def test_batches_of_2025_03_26(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.initialize("2025-03-26")
        batch = [
            client.message("ping"),
            client.message("tools/list"),
            {"jsonrpc": "2.0", "method": "notifications/x"},
        ]
        async with client.post(batch) as response:
            assert [part["id"] for part in await response.json()] == [2, 3]


async def test_a_server_that_ends_leaves_its_jobs_in_the_database_and_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.initialize()
        call = asyncio.ensure_future(
            client.ask("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}})
        )
        await client.engine.started.wait()
    assert client.engine.jobs["conv_1"].status == "processing"
    assert "This server is being stopped" in str(await call)


# ── the token and the address ──


def test_the_token_is_made_once_and_is_the_users_alone(tmp_path: Path) -> None:
    config = settings.load({"COUNSEL_HOME": str(tmp_path)})
    first = auth.token(config)
    assert len(first) > 30
    assert auth.token(config) == first
    assert auth.token_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_token_that_cannot_be_stored_is_reported(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    with pytest.raises(ConfigInvalid) as error:
        auth.token(settings.load({"COUNSEL_HOME": str(tmp_path)}))
    assert "COUNSEL_TOKEN" in str(error.value)


def test_another_address_needs_a_good_token() -> None:
    auth.check_bind("127.0.0.1", "short")
    auth.check_bind("0.0.0.0", "x" * 16)
    with pytest.raises(ConfigInvalid):
        auth.check_bind("0.0.0.0", "short")


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("10.1.2.3:80", True),
        ("[fe80::1]:80", True),
        (f"{socket.gethostname()}:1", True),
        ("evil.example", False),
    ],
)
def test_hosts_of_a_server_that_is_open_to_others(host: str, fits: bool) -> None:
    guard = auth.Guard(lambda *_: None, secret="x", host="0.0.0.0")  # type: ignore[arg-type]
    assert guard._is_own_host(auth._host_name(host)) is fits


def test_addresses_as_text() -> None:
    assert serve.address("::1", 1) == "http://[::1]:1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_replies_do_not_wait_for_the_clients_delayed_ack(host: str) -> None:
    no_delay: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        no_delay.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    server = await asyncio.start_server(connected, sock=serve.listen(host, 0))
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await no_delay
        writer.close()
