"""Floods of messages, connections and unfinished lines, and peers that never read: other clients are still served."""

from __future__ import annotations

import json
import os
import socket as sockets
import time
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.jobs.event_queue import MANY, EventQueue, merged
from counsel.front import json_messages, protocol
from counsel.http.exchange import Exchange
from counsel.job_event_json import event_from
from counsel.mcp import jsonlines
from counsel.mcp.jsonlines import Splitter
from support.floods import GROWTH, HELLO, INITIALIZE
from support.processes import LIMIT, PING, Lines, daemon, encoded, front, log_of, piped, resident, serve

pytestmark = pytest.mark.slow  # left out of `make check`

BATCH = b"[" + b"{}," * 349_999 + b"{}]"  # a megabyte


# ── messages ──


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (BATCH, "100,000 values"),
        (b"{" + b",".join(b'"%d":0' % n for n in range(300_000)) + b"}", "100,000 values"),
        (b'{"a":' + b'""' * 1 + b"," * 200_000 + b"}", "100,000 values"),
        (b"[" * 100_000, "100 levels deep"),
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
    with daemon(tmp_path) as (pid, path), front(tmp_path) as (_, client):
        client.send(encoded(INITIALIZE) + BATCH + b"\n" + encoded(PING))
        assert [reply.get("id") for reply in client.until("alive?")] == ["init", None, "alive?"]
        peer, second = Lines.to(path), Lines.to(path)
        for connection in (peer, second):
            connection.send(HELLO + b'@{"initialize":' + json.dumps(INITIALIZE["params"]).encode() + b"}\n")
            connection.line()
        before = resident(pid)
        for _ in range(20):
            peer.send(BATCH + b"\n")
        second.send(encoded(PING))
        assert "result" in second.until("alive?")[-1]
        peer.send(b"[" + b"{}," * 101 + b"{}]\n" + encoded(PING))
        reply = peer.until("alive?")
        assert sum("error" in line for line in reply) == 21
        assert resident(pid) - before < GROWTH
        for connection in (peer, second):
            connection.close()


async def test_a_refused_batch_is_not_waited_for(tmp_path: Path) -> None:
    """The front would send it again to every daemon."""
    with front(tmp_path) as (process, client):
        client.send(
            encoded({**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-11-25"}})
        )
        client.send(b"[]\n" + encoded([PING]) + encoded(PING))
        reply = client.until("alive?")
        assert [line["error"]["code"] for line in reply[1:3]] == [protocol.INVALID_REQUEST] * 2
        piped(process.stdin).close()
        assert process.wait(LIMIT) == 0


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
def test_no_error_repeats_a_large_input(client_lines: Lines, message: Any) -> None:
    client_lines.send(encoded(message))
    reply = client_lines.line()
    assert "error" in reply or reply["result"]["isError"]
    assert len(json.dumps(reply)) < 50_000


@pytest.fixture(scope="module")
def client_lines(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("window")
    with daemon(home), front(home) as (_, client):
        yield client


# ── lines ──


def test_a_line_that_never_ends_is_dropped_and_the_next_one_read() -> None:
    lines: list[bytes] = []
    refusals: list[Any] = []
    unfinished = jsonlines.UnfinishedBytes()
    splitter = Splitter(lines.append, refusals.append, longest=1_000, total=unfinished)
    for part in (b"a" * 600, b"b" * 600, b"c" * 600, b"d\nnext\n", b"e" * 900, b"e" * 900, b"\nlast", b"\n"):
        splitter.feed(part)
        assert unfinished.bytes <= 1_000
    assert lines == [b"next", b"last"]
    assert [line.size for line in refusals] == [1_801, 1_800]


def test_all_unfinished_lines_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "MOST_UNFINISHED", 1_000)
    unfinished = jsonlines.UnfinishedBytes()
    refusals: list[Any] = []
    splitters = [
        Splitter(lambda _: pytest.fail("a line"), refusals.append, total=unfinished) for _ in range(3)
    ]
    for splitter in splitters:
        splitter.feed(b"x" * 400)
        assert unfinished.bytes <= 1_000
    splitters[2].feed(b"\n")
    assert len(refusals) == 1
    splitters[0].drop()
    splitters[1].drop()
    assert unfinished.bytes == 0


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
        reply = keeper.until("alive?")
        assert "the limit is 67,108,864" in reply[0]["error"]["message"]
        assert "result" in reply[-1]
        keeper.close()
        assert resident(pid) - before < GROWTH
        assert "Traceback" not in log_of(tmp_path)


def test_a_front_answers_a_line_that_is_too_long_and_continues(tmp_path: Path) -> None:
    with front(tmp_path) as (process, client):
        client.send(encoded(INITIALIZE))
        client.line()
        for _ in range(70):
            client.send(b"z" * 2**20)
        client.send(b"\n" + encoded(PING))
        assert "the limit is 67,108,864" in client.line()["error"]["message"]
        assert "result" in client.line()
        assert resident(process.pid) < 15 + GROWTH


# ── peers that do not read ──


def pump(out: int, data: bytes, seconds: float = 3.0) -> int:
    """Write until nothing is accepted for `seconds`, or 100 MB were; return how many bytes were accepted."""
    os.set_blocking(out, False)
    count, last = 0, time.monotonic()
    while time.monotonic() - last < seconds and count < 100_000_000:
        try:
            count += os.write(out, data[count % len(data) :])
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    os.set_blocking(out, True)
    return count


def test_a_front_whose_client_never_reads_stays_small_and_loses_no_answer(tmp_path: Path) -> None:
    ask = encoded({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
    with front(tmp_path) as (process, client):
        client.send(encoded(INITIALIZE))
        client.line()
        byte_count = pump(piped(process.stdin).fileno(), ask * 100, 1.0)
        assert byte_count < 100_000_000
        assert resident(process.pid) < 15 + 10
        piped(process.stdin).write(ask[byte_count % len(ask) :] if byte_count % len(ask) else b"")
        client.send(b"")
        request_count = -(-byte_count // len(ask))
        assert all(client.line()["id"] == 7 for _ in range(request_count))


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
        client = Lines.to(path)
        client.send(HELLO + encoded(PING))
        assert "result" in client.until("alive?")[-1]
        assert resident(pid) - before < GROWTH
        for connection in (peer, junk, client):
            connection.close()


def test_events_wait_in_few_pieces_and_no_word_is_lost() -> None:
    queue = EventQueue()
    queue.put(event_from(1, 0.0, "model_started", "0", {"model": "a"}))
    reply = {"0": "", "1": ""}
    for number in range(20_000):
        slot, word = str(number % 2), f"w{number} "
        queue.put(event_from(number, 0.0, "text", slot, {"text": word, "offset": len(reply[slot])}))
        queue.put(event_from(number, 0.0, "thinking", slot, {"text": "hm"}))
        reply[slot] += word
    queue.put(event_from(50_000, 0.0, "restarted", "0", {"offset": 4}))
    queue.put(event_from(50_001, 0.0, "text", "0", {"text": "anew", "offset": 4}))
    queue.put(event_from(50_002, 0.0, "done", "", {}))
    assert len(queue) <= MANY + 10
    texts = {"0": "", "1": ""}
    events = merged(queue._items)
    assert len(events) < 30
    for event in events:
        if event.kind == "text":
            texts[event.slot] = texts[event.slot][: event.data["offset"]] + event.data["text"]
        elif event.kind == "restarted":
            assert texts["0"] == reply["0"]
    assert texts == {"0": reply["0"][:4] + "anew", "1": reply["1"]}
    kinds = [event.kind for event in events if event.kind not in {"text", "thinking"}]
    assert kinds == ["model_started", "restarted", "done"]


async def test_of_progress_that_is_not_read_the_newest_is_kept() -> None:
    nothing: Any = None
    exchange = Exchange(nothing, nothing, takes_stream=True)
    for number in range(1_000):
        params = {"progressToken": number % 3, "progress": number}
        exchange._notify({"method": "notifications/progress", "params": params})
    assert [note["params"]["progress"] for note in exchange._pending.values()] == [999, 997, 998]
