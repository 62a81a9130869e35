"""Many, slow and half-open connections: other clients are served, and nothing waits forever."""

from __future__ import annotations

import asyncio
import json
import resource
import socket as sockets
from pathlib import Path
from typing import Any

import pytest

from counsel.http import connection as http_connection
from support.floods import GROWTH, HELLO, hang_up
from support.http_server import served
from support.processes import LIMIT, PING, Lines, daemon, encoded, log_of, resident, serve

pytestmark = pytest.mark.slow  # left out of `make check`


def most_sockets(count: int) -> int:
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)


def test_thousands_of_half_open_connections_block_no_client(tmp_path: Path) -> None:
    with serve(tmp_path) as http:
        before = resident(http.process.pid)
        half_open = []
        for _ in range(most_sockets(2_500)):
            peer = http.connect()
            peer.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
            half_open.append(peer)
        assert http.health() == 200
        assert http.ask("GET", "/api/jobs")[0] == 200
        assert len(list(Path(f"/proc/{http.process.pid}/fd").iterdir())) < 1_100
        assert resident(http.process.pid) - before < GROWTH
        for peer in half_open:
            peer.close()
        assert "Traceback" not in log_of(tmp_path)


def test_health_is_answered_when_all_connections_are_busy(tmp_path: Path) -> None:
    with serve(tmp_path, COUNSEL_MAX_CONNECTIONS="8") as http:
        name = http.session("2025-11-25")
        expecting = {"Mcp-Session-Id": name, "Content-Length": "100000", "Expect": "100-continue"}
        peers = []
        for _ in range(8):  # incomplete bodies
            peer = http.connect()
            peer.sendall(http.request("POST", "/mcp", b"", expecting))
            assert b"100 Continue" in peer.recv(100)
            peers.append(peer)
        status, body = http.ask("GET", "/api/jobs")
        assert (status, json.loads(body)["code"]) == (503, "RATE_LIMIT_EXCEEDED")
        assert http.health() == 200
        for peer in peers:
            peer.close()
        while http.ask("GET", "/api/jobs")[0] != 200:
            pass


def test_a_server_with_few_descriptors_goes_on_serving(tmp_path: Path) -> None:
    with serve(tmp_path, files=128) as http:
        peers = [http.connect() for _ in range(200)]
        for peer in peers:
            peer.sendall(b"GET /he")
        assert http.health() == 200
        for peer in peers:
            peer.close()
        assert http.health() == 200
        assert len(log_of(tmp_path)) < 20_000


def test_a_daemon_with_few_descriptors_goes_on_serving(tmp_path: Path) -> None:
    with daemon(tmp_path, files=128) as (_, path):
        peers = [Lines.to(path) for _ in range(100)]
        client = Lines.to(path)
        client.send(HELLO + encoded(PING))
        assert "result" in client.until("alive?")[-1]
        for peer in [*peers, client]:
            peer.close()
        assert len(log_of(tmp_path)) < 20_000


async def test_headers_and_bodies_have_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_TIMEOUT", 0.5)
    monkeypatch.setattr(http_connection, "BODY_TIMEOUT", 0.5)
    async with served(tmp_path) as server:
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        auth = b"Authorization: Bearer a-token-for-the-tests\r\nContent-Type: application/json\r\n"
        for data, status in (
            (b"", b""),
            (head, b"408"),
            (head + auth + b"Content-Length: 100\r\n\r\n{", b"408"),
            (head + auth + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"408"),
            (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /he", b"200"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            response = await asyncio.wait_for(reader.read(), LIMIT)
            assert (b"HTTP/1.1 " + status in response) is bool(status), response
            await hang_up(writer)
        await server.initialize()


async def test_a_slow_call_is_not_taken_for_a_slow_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEAD_TIMEOUT", 0.2)
    monkeypatch.setattr(http_connection, "BODY_TIMEOUT", 0.2)
    async with served(tmp_path) as server:
        await server.initialize()
        call = asyncio.ensure_future(server.call("chat", prompt=f"slowly {tmp_path / 'now'}"))
        await asyncio.wait({call}, timeout=2.5)  # the server checks its connections twice
        (tmp_path / "now").touch()
        assert (await call)["structuredContent"]["content"] == "slowly done"


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n" * 20_000, 400),
        (b"Content-Length: " + b"9" * 5_000 + b"\r\n", b"", 400),
        (b"Content-Length: " + b"9" * 18 + b"\r\n", b"", 413),
        (b"".join(b"X-%d: y\r\n" % number for number in range(200)), b"", 431),
        (b"X-Long: " + b"y" * 300_000 + b"\r\n", b"", 400),
        (b"".join(b"X-%d: y\r\n" % number for number in range(30_000)), b"", 400),
    ],
    ids=["tiny chunks", "5,000 digits", "too long", "200 headers", "a long header", "30,000 headers"],
)
async def test_http_in_crumbs_and_in_lumps_is_refused(
    tmp_path: Path, head: bytes, body: bytes, status: int
) -> None:
    async with served(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        auth = b"Authorization: Bearer a-token-for-the-tests\r\nContent-Type: application/json\r\n"
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + auth + head + b"\r\n" + body)
        assert (await asyncio.wait_for(reader.readline(), LIMIT)).startswith(b"HTTP/1.1 %d" % status)
        await hang_up(writer)
        async with server.session.get(f"{server.base}/health") as response:
            assert response.status == 200


async def test_a_client_that_reads_no_answer_is_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "READ_TIMEOUT", 0.5)
    async with served(tmp_path, MAX_MCP_OUTPUT_TOKENS="200000") as server:
        await server.initialize()
        peer = sockets.socket()
        peer.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        peer.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(peer, ("127.0.0.1", server.port))
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        body = json.dumps([message] * 100).encode()
        server.session_headers["Mcp-Session-Id"] = await _old_session(server)
        head = "".join(f"{name}: {value}\r\n" for name, value in server.headers().items())
        request = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(loop.sock_sendall(peer, request * 10_000), LIMIT)
        peer.close()


async def _old_session(server: Any) -> str:
    await server.initialize("2025-03-26")
    return str(server.session_headers["Mcp-Session-Id"])
