"""Floods: messages, connections, unfinished lines, and peers that never read. Other clients are served meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket as sockets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from counsel.daemon import connection, server
from counsel.daemon.files import DaemonFiles
from counsel.engine.jobs.event_queue import MANY, EventQueue, merged
from counsel.front import json_messages, protocol
from counsel.http import connection as http_connection
from counsel.http.exchange import Exchange
from counsel.job_events import event_from
from counsel.mcp import jsonlines
from counsel.mcp.jsonlines import Splitter
from support.fake_engine import FakeEngine
from support.http_server import served
from support.processes import LIMIT, PING, Lines, daemon, encoded, front, log_of, piped, resident, serve

pytestmark = pytest.mark.slow  # left out of `make check`

BATCH = b"[" + b"{}," * 349_999 + b"{}]"  # a megabyte
HELLO = b'@{"hello":{"role":"mcp","cwd":"/","env":{}}}\n'
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
GROWTH = 60  # MiB that a process may grow by


# ── messages ──


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (BATCH, "100,000 values"),
        (b"{" + b",".join(b'"%d":0' % n for n in range(300_000)) + b"}", "100,000 values"),
        (b'{"a":' + b'""' * 1 + b"," * 200_000 + b"}", "100,000 values"),
        (b"[" * 100_000, "not JSON"),
        (b"[" * 200 + b"]" * 200, "100 levels deep"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "100 levels deep"),
        (b"1" * 5_000, "400 digits"),
        (b"[" + b"1." + b"1" * 5_000 + b"]", "400 digits"),
        (b"NaN", "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b"\x00", "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not JSON"),
        (b'"\xff"', "not JSON"),
    ],
)
def test_a_message_that_costs_too_much_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(json_messages.Unreadable, match=words):
        json_messages.parse(data)


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": "a, b, c [d] {e} " * 50_000},
        {"prompt": '\\" , \\\\ " , ' * 50_000},
        {"list": [1] * 90_000},
        {"half": "\ud800", "number": 10**300, "real": 1e300},
    ],
)
def test_a_large_message_of_few_values_is_read(value: Any) -> None:
    assert json_messages.parse(json_messages.encode(value)) == value
    assert json_messages.parse(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value


def test_a_batch_of_350_000_is_one_error_on_http_while_others_are_answered(tmp_path: Path) -> None:
    with serve(tmp_path) as http:
        name, before = http.session(), resident(http.process.pid)
        with http.connect() as peer:
            peer.sendall(http.request("POST", "/mcp", BATCH, {"Mcp-Session-Id": name}))
            assert http.health() == 200
            answer = peer.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 400")
        status, body = http.ask("POST", "/mcp", b"[" + b"{}," * 101 + b"{}]", Mcp_Session_Id=name)
        assert (status, json.loads(body)["error"]["message"]) == (
            400,
            "A batch may hold at most 100 messages",
        )
        huge = b"[" + b"{}," * (20 * 2**20) + b"{}]"
        assert http.ask("POST", "/mcp", huge, Mcp_Session_Id=name)[0] == 400
        assert resident(http.process.pid) - before < 3 * len(huge) / 2**20


def test_a_batch_of_350_000_is_one_error_over_stdio_and_on_the_socket(tmp_path: Path) -> None:
    with daemon(tmp_path) as (pid, path), front(tmp_path) as (_, window):
        window.send(encoded(INITIALIZE) + BATCH + b"\n" + encoded(PING))
        assert [said.get("id") for said in window.until("alive?")] == ["init", None, "alive?"]
        peer, other = Lines.to(path), Lines.to(path)
        for each in (peer, other):
            each.send(HELLO + b'@{"initialize":' + json.dumps(INITIALIZE["params"]).encode() + b"}\n")
            each.line()
        before = resident(pid)
        for _ in range(20):
            peer.send(BATCH + b"\n")
        other.send(encoded(PING))
        assert "result" in other.until("alive?")[-1]
        peer.send(b"[" + b"{}," * 101 + b"{}]\n" + encoded(PING))
        said = peer.until("alive?")
        assert sum("error" in line for line in said) == 21
        assert resident(pid) - before < GROWTH
        for each in (peer, other):
            each.close()


async def test_a_refused_batch_is_not_waited_for(tmp_path: Path) -> None:
    """The front would send it again to every daemon."""
    with front(tmp_path) as (made, window):
        window.send(
            encoded({**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-11-25"}})
        )
        window.send(b"[]\n" + encoded([PING]) + encoded(PING))
        said = window.until("alive?")
        assert [line["error"]["code"] for line in said[1:3]] == [protocol.INVALID_REQUEST] * 2
        piped(made.stdin).close()
        assert made.wait(LIMIT) == 0


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": LONG, "method": "ping"},
        {"jsonrpc": "2.0", "id": 10**390, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": LONG},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": LONG}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": ["x"] * 50_000}},
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": LONG}},
        {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": LONG}},
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "chat", "arguments": {f"{n}{LONG[:50]}": n for n in range(50_000)}},
        },
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "chat", "arguments": {"prompt": "x", "temperature": 10**300, "model": LONG}},
        },
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "chat", "arguments": {"prompt": "x", "files": ["x" * 50] * 50_000}},
        },
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "check_status", "arguments": {"continuation_id": LONG}},
        },
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LONG}},
    ],
    ids=lambda message: str(message)[17:100],
)
def test_no_error_repeats_a_large_input(windows: Lines, message: Any) -> None:
    windows.send(encoded(message))
    said = windows.line()
    assert "error" in said or said["result"]["isError"]
    assert len(json.dumps(said)) < 50_000


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("window")
    with daemon(home), front(home) as (_, window):
        yield window


# ── lines ──


def test_a_line_that_never_ends_is_dropped_and_the_next_one_read() -> None:
    got: list[bytes] = []
    refused: list[Any] = []
    together = jsonlines.Unfinished()
    split = Splitter(got.append, refused.append, longest=1_000, unfinished=together)
    for part in (b"a" * 600, b"b" * 600, b"c" * 600, b"d\nnext\n", b"e" * 900, b"e" * 900, b"\nlast", b"\n"):
        split.feed(part)
        assert together.bytes <= 1_000
    assert got == [b"next", b"last"]
    assert [line.size for line in refused] == [1_801, 1_800]


def test_all_unfinished_lines_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "MOST_UNFINISHED", 1_000)
    together = jsonlines.Unfinished()
    refused: list[Any] = []
    splits = [
        Splitter(lambda _: pytest.fail("a line"), refused.append, unfinished=together) for _ in range(3)
    ]
    for split in splits:
        split.feed(b"x" * 400)
        assert together.bytes <= 1_000
    splits[2].feed(b"\n")
    assert len(refused) == 1
    splits[0].drop()
    splits[1].drop()
    assert together.bytes == 0


def test_an_unfinished_line_goes_with_its_sender(tmp_path: Path) -> None:
    with daemon(tmp_path) as (pid, path):
        before = resident(pid)
        for _ in range(2):
            peer = Lines.to(path)
            peer.send(HELLO)
            peer.line()
            for _ in range(40):
                peer.send(b"x" * 2**20)
            peer.send(b"\n" + encoded(PING) + b"y" * 2**20 * 40)
            assert "error" in peer.until("alive?")[0]
            peer.close()
        keeper = Lines.to(path)
        keeper.send(HELLO)
        keeper.line()
        for _ in range(70):
            keeper.send(b"z" * 2**20)
        keeper.send(b"\n" + encoded(PING))
        said = keeper.until("alive?")
        assert "the limit is 67,108,864" in said[0]["error"]["message"]
        assert "result" in said[-1]
        keeper.close()
        assert resident(pid) - before < GROWTH
        assert "Traceback" not in log_of(tmp_path)


def test_a_front_answers_a_line_that_is_too_long_and_continues(tmp_path: Path) -> None:
    with front(tmp_path) as (made, window):
        window.send(encoded(INITIALIZE))
        window.line()
        for _ in range(70):
            window.send(b"z" * 2**20)
        window.send(b"\n" + encoded(PING))
        assert "the limit is 67,108,864" in window.line()["error"]["message"]
        assert "result" in window.line()
        assert resident(made.pid) < 15 + GROWTH


# ── who does not read ──


def pump(out: int, data: bytes, seconds: float = 3.0) -> int:
    """Write until nothing more is taken for so long, or 100 MB are: how many bytes were."""
    os.set_blocking(out, False)
    sent, last = 0, time.monotonic()
    while time.monotonic() - last < seconds and sent < 100_000_000:
        try:
            sent += os.write(out, data[sent % len(data) :])
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    os.set_blocking(out, True)
    return sent


def test_a_front_whose_client_never_reads_stays_small_and_loses_no_answer(tmp_path: Path) -> None:
    ask = encoded({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
    with front(tmp_path) as (made, window):
        window.send(encoded(INITIALIZE))
        window.line()
        sent = pump(piped(made.stdin).fileno(), ask * 100, 1.0)
        assert sent < 100_000_000
        assert resident(made.pid) < 15 + 10
        piped(made.stdin).write(ask[sent % len(ask) :] if sent % len(ask) else b"")
        window.send(b"")
        whole = -(-sent // len(ask))
        assert all(window.line()["id"] == 7 for _ in range(whole))


def test_the_daemon_waits_for_a_peer_that_never_reads_and_serves_others(tmp_path: Path) -> None:
    with daemon(tmp_path) as (pid, path):
        before = resident(pid)
        peer = sockets.socket(sockets.AF_UNIX)
        peer.connect(path)
        peer.sendall(HELLO)
        ask = encoded({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
        assert pump(peer.fileno(), ask * 100, 1.0) < 100_000_000
        junk = sockets.socket(sockets.AF_UNIX)
        junk.connect(path)
        junk.sendall(HELLO)
        assert pump(junk.fileno(), b"x\n" * 1_000, 1.0) < 100_000_000
        other = Lines.to(path)
        other.send(HELLO + encoded(PING))
        assert "result" in other.until("alive?")[-1]
        assert resident(pid) - before < GROWTH
        for each in (peer, junk, other):
            each.close()


def test_events_wait_in_few_pieces_and_no_word_is_lost() -> None:
    queue = EventQueue()
    queue.put(event_from(1, 0.0, "model_started", "0", {"model": "a"}))
    said = {"0": "", "1": ""}
    for number in range(20_000):
        slot, word = str(number % 2), f"w{number} "
        queue.put(event_from(number, 0.0, "text", slot, {"text": word, "offset": len(said[slot])}))
        queue.put(event_from(number, 0.0, "thinking", slot, {"text": "hm"}))
        said[slot] += word
    queue.put(event_from(50_000, 0.0, "restarted", "0", {"offset": 4}))
    queue.put(event_from(50_001, 0.0, "text", "0", {"text": "anew", "offset": 4}))
    queue.put(event_from(50_002, 0.0, "done", "", {}))
    assert len(queue) <= MANY + 10
    heard = {"0": "", "1": ""}
    events = merged(queue._items)
    assert len(events) < 30
    for event in events:
        if event.kind == "text":
            heard[event.slot] = heard[event.slot][: event.data["offset"]] + event.data["text"]
        elif event.kind == "restarted":
            assert heard["0"] == said["0"]
    assert heard == {"0": said["0"][:4] + "anew", "1": said["1"]}
    assert [event.kind for event in events if event.kind != "text"] == ["model_started", "restarted", "done"]


async def test_of_progress_that_is_not_read_the_newest_is_kept() -> None:
    nobody: Any = None
    exchange = Exchange(nobody, nobody, takes_stream=True)
    for number in range(1_000):
        exchange._notify({"params": {"progressToken": number % 3, "progress": number}})
    assert [note["params"]["progress"] for note in exchange._progress.values()] == [999, 997, 998]


# ── connections ──


def most_sockets(wanted: int) -> int:
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)


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
        busy = []
        for _ in range(8):  # bodies on their way
            peer = http.connect()
            peer.sendall(http.request("POST", "/mcp", b"", expecting))
            assert b"100 Continue" in peer.recv(100)
            busy.append(peer)
        status, body = http.ask("GET", "/api/jobs")
        assert (status, json.loads(body)["code"]) == (503, "RATE_LIMIT_EXCEEDED")
        assert http.health() == 200
        for peer in busy:
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
        other = Lines.to(path)
        other.send(HELLO + encoded(PING))
        assert "result" in other.until("alive?")[-1]
        for peer in [*peers, other]:
            peer.close()
        assert len(log_of(tmp_path)) < 20_000


async def test_headers_and_bodies_have_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_TIMEOUT", 0.5)
    monkeypatch.setattr(http_connection, "BODY_TIMEOUT", 0.5)
    async with served(tmp_path) as door:
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        auth = b"Authorization: Bearer a-token-for-the-tests\r\nContent-Type: application/json\r\n"
        for data, status in (
            (b"", b""),
            (head, b"408"),
            (head + auth + b"Content-Length: 100\r\n\r\n{", b"408"),
            (head + auth + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"408"),
            (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /he", b"200"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(data)
            said = await asyncio.wait_for(reader.read(), LIMIT)
            assert (b"HTTP/1.1 " + status in said) is bool(status), said
            await hang_up(writer)
        await door.initialize()


async def test_a_slow_call_is_not_taken_for_a_slow_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEAD_TIMEOUT", 0.2)
    monkeypatch.setattr(http_connection, "BODY_TIMEOUT", 0.2)
    async with served(tmp_path) as door:
        await door.initialize()
        asked = asyncio.ensure_future(door.call("chat", prompt=f"slowly {tmp_path / 'now'}"))
        await asyncio.wait({asked}, timeout=2.5)  # two looks of the server at its connections
        (tmp_path / "now").touch()
        assert (await asked)["structuredContent"]["content"] == "slowly done"


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
    async with served(tmp_path) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        auth = b"Authorization: Bearer a-token-for-the-tests\r\nContent-Type: application/json\r\n"
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + auth + head + b"\r\n" + body)
        assert (await asyncio.wait_for(reader.readline(), LIMIT)).startswith(b"HTTP/1.1 %d" % status)
        await hang_up(writer)
        async with door.session.get(f"{door.base}/health") as response:
            assert response.status == 200


async def test_a_client_that_reads_no_answer_is_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "READ_TIMEOUT", 0.5)
    async with served(tmp_path, MAX_MCP_OUTPUT_TOKENS="200000") as door:
        await door.initialize()
        peer = sockets.socket()
        peer.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        peer.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(peer, ("127.0.0.1", door.port))
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        body = json.dumps([message] * 100).encode()
        door.held["Mcp-Session-Id"] = await _old_session(door)
        head = "".join(f"{name}: {value}\r\n" for name, value in door.headers().items())
        one = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(loop.sock_sendall(peer, one * 10_000), LIMIT)
        peer.close()


async def _old_session(door: Any) -> str:
    await door.initialize("2025-03-26")
    return str(door.held["Mcp-Session-Id"])


# ── who may talk to the daemon ──


@pytest.fixture
async def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    files = DaemonFiles(tmp_path)
    files.take()
    inside = server.DaemonServer(FakeEngine(), files)
    inside._most = 5
    await inside.listen()
    yield files.socket, inside
    await inside.close()
    files.release()


async def hang_up(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()


async def told(path: str, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    said = await asyncio.wait_for(reader.read(), LIMIT)
    await hang_up(writer)
    return said


@pytest.mark.parametrize(
    "line",
    [
        b'@{"handover":true}',
        b'@{"key":"k"}',
        b'@{"initialize":{}}',
        b"@" + b"[" * 100_000,
        b'@{"hello":' * 50,
    ],
)
async def test_nothing_but_hello_is_accepted_first(path: Any, line: bytes) -> None:
    at, inside = path
    assert b"refused" in await told(at, line + b"\n")
    assert not inside._over.done()


async def test_another_users_handover_is_ignored(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, inside = path
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert b"another user" in await told(at, b'@{"handover":true}\n')
    assert not inside._over.done()
    assert not inside.connections


async def test_a_hello_has_its_time_and_its_size(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, _ = path
    monkeypatch.setattr(connection, "HELLO_TIMEOUT", 0.2)
    assert b"no hello" in await told(at, b'@{"hel')
    monkeypatch.setattr(connection, "HELLO_TIMEOUT", 20)
    assert b"at most" in await told(at, b'@{"hello":{"x":"' + b"x" * 5_000_000 + b"\n")


async def test_connections_without_hello_are_dropped_first(path: Any) -> None:
    at, inside = path
    silent = [await asyncio.open_unix_connection(at) for _ in range(20)]
    known = []
    for _ in range(5):
        reader, writer = await asyncio.open_unix_connection(at)
        writer.write(HELLO)
        assert b"hello" in await reader.readline()
        known.append((reader, writer))
    assert b"too many connections" in await told(at, b"")
    for reader, writer in known:
        writer.write(encoded(PING))
        assert b"done" in await reader.readline()
        assert b"result" in await reader.readline()
    assert len(inside.connections) == 5
    await hang_up(*(writer for _, writer in [*silent, *known]))


async def test_a_client_that_says_initialized_again_and_again_is_asked_once_at_a_time(path: Any) -> None:
    at, inside = path
    reader, writer = await asyncio.open_unix_connection(at)
    params = {**INITIALIZE["params"], "capabilities": {"roots": {}}}
    writer.write(HELLO + b'@{"initialize":' + json.dumps(params).encode() + b"}\n")
    writer.write(encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}) * 300 + encoded(PING))
    while b"alive?" not in await reader.readline():
        pass
    (visit,) = inside.connections
    assert len(visit._mcp.session._asked) <= 2
    await hang_up(writer)
