"""How many connections a daemon has, which silent ones make room, when it exits, and what a front's lines mean."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import resource
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from counsel import __version__
from counsel.caller import Caller
from counsel.daemon import process_limits, server
from counsel.daemon.connection import Connection
from counsel.daemon.files import DaemonFiles
from counsel.daemon.process_limits import PendingConnections
from counsel.daemon.rpc_server import caller_to_json
from counsel.daemon.server import DaemonServer
from counsel.front.bounded_lines import TooLong
from counsel.front.json_messages import LARGEST_MESSAGE
from counsel.requests import NewKey
from support.fake_engine import FakeEngine


class Peer:
    """A connection as the server sees it."""

    def __init__(self, role: str = "") -> None:
        self.role, self.busy = role, False
        self.refusals: list[str] = []
        self.ends: list[str] = []

    def close_if_silent(self, why: str) -> None:
        self.refusals.append(why)

    async def close(self, why: str) -> None:
        self.ends.append(why)

    def about(self) -> dict[str, object]:
        return {"client": "x", "agent": None, "version": "1"}


@pytest.fixture
async def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(server, "most_connections", lambda: 2)
    return DaemonServer(FakeEngine(), DaemonFiles(tmp_path))


async def test_beyond_the_limit_the_oldest_silent_connection_makes_room(daemon: Any) -> None:
    first, second, third, fourth = (Peer() for _ in range(4))
    assert daemon.admit(first)
    assert daemon.admit(second)
    daemon.greeted(first)
    assert daemon.admit(third)
    assert (first.refusals, second.refusals) == ([], ["replaced by a newer connection"])
    assert daemon.connections == {first, third}
    daemon.greeted(third)
    assert not daemon.admit(fourth), "all have said hello"
    assert daemon.connections == {first, third}
    daemon.remove(first)
    assert daemon.admit(fourth)
    assert fourth.refusals == []


async def test_a_silent_connection_that_has_left_makes_room_for_nobody(daemon: Any) -> None:
    first, second = Peer(), Peer()
    daemon.admit(first)
    daemon.admit(second)
    daemon.greeted(second)
    daemon.remove(first)
    daemon.admit(Peer())
    daemon.greeted(next(iter(daemon.connections - {second})))
    assert not daemon.admit(Peer())
    assert first.refusals == []


def timer_of(daemon: Any) -> asyncio.TimerHandle:
    timer: asyncio.TimerHandle = daemon._idle_timer
    return timer


async def test_the_idle_time_begins_when_the_last_connection_has_left(daemon: Any) -> None:
    at_first = timer_of(daemon)
    peers = [Peer(), Peer()]
    for peer in peers:
        daemon.admit(peer)
    daemon.remove(peers[0])
    assert timer_of(daemon) is at_first
    daemon.remove(peers[1])
    assert timer_of(daemon) is not at_first
    assert at_first.cancelled()
    assert not timer_of(daemon).cancelled()


@pytest.mark.parametrize(
    ("state", "ends"),
    [("idle", True), ("connected", False), ("busy", False), ("in use", False), ("broken", True)],
)
async def test_an_idle_daemon_exits_unless_somebody_needs_it(
    daemon: Any, monkeypatch: pytest.MonkeyPatch, state: str, ends: bool
) -> None:
    async def busy() -> bool:
        if state == "broken":
            raise OSError("the database is damaged")
        return state == "busy"

    monkeypatch.setattr(daemon.engine, "busy", busy)
    daemon.console = SimpleNamespace(in_use=state == "in use")
    if state == "connected":
        daemon.admit(Peer())
    before = timer_of(daemon)
    await daemon._end_if_idle()
    assert daemon._end_reason.done() is ends
    assert (timer_of(daemon) is not before) is (state in {"busy", "in use"}), "it looks again later"
    if ends:
        assert await daemon.end_reason() == "idle"
        daemon.end("signal")
        assert await daemon.end_reason() == "idle", "the first reason counts"


async def test_what_a_daemon_says_about_itself(daemon: Any, tmp_path: Path) -> None:
    for role in ("mcp", "engine", ""):
        daemon.connections.add(Peer(role))
    status = daemon.status()
    assert status["clients"] == [{"client": "x", "agent": None, "version": "1"}], "only those of agents"
    assert (status["running"], status["pid"], status["version"]) == (True, os.getpid(), __version__)
    assert (status["home"], status["socket"]) == (str(tmp_path), daemon.files.socket)
    assert status["started_at"] > 0


async def test_a_daemon_without_a_home_closes_idle_connections_and_ends_when_none_is_left(
    daemon: Any,
) -> None:
    idle, busy = Peer("mcp"), Peer("mcp")
    busy.busy = True
    daemon.connections |= {idle, busy}
    daemon.retired = True
    await daemon._check_files()
    assert (idle.ends, busy.ends) == (["handover"], [])
    assert not daemon._end_reason.done()
    daemon.connections.clear()
    await daemon._check_files()
    assert await daemon.end_reason() == "the home was replaced"


async def test_files_are_made_again_at_the_second_look_and_only_if_they_are_still_lost(
    daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, made = ["lost"], list[str]()

    async def repair() -> None:
        made.append("again")

    monkeypatch.setattr(daemon, "files", SimpleNamespace(state=lambda: states[-1]))
    monkeypatch.setattr(daemon, "_repair_files", repair)
    await daemon._check_files()
    assert made == [], "an `rm -r` may be in progress"
    states.append("ours")
    await daemon._check_files()
    states.append("lost")
    await daemon._check_files()
    assert made == []
    await daemon._check_files()
    assert made == ["again"]


# ── a connection's lines ─────────────────────────────────────────────────────────────────────────────


class PipeStub:
    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.is_closed = False
        self.allowed = 0
        self.transport = None
        self.full = False
        self.splitter = SimpleNamespace(allow=self._allow)

    def _allow(self, size: int) -> None:
        self.allowed = size

    def write(self, line: bytes) -> None:
        self.lines.append(json.loads(line.removeprefix(b"@")))

    def refuse(self, line: bytes) -> None:
        self.write(line)
        self.is_closed = True

    def close(self) -> None:
        self.is_closed = True

    async def drain(self) -> None:
        """Nothing waits."""


class ServerStub:
    def __init__(self, home: Path) -> None:
        self.home, self.retired, self.console = home, False, None
        self.engine = FakeEngine()
        self.ends: list[str] = []
        self.notes: list[str] = []

    def status(self) -> dict[str, object]:
        return {"pid": 7}

    def end(self, why: str) -> None:
        self.ends.append(why)

    def greeted(self, _: Connection) -> None:
        self.notes.append("greeted")

    def remove(self, _: Connection) -> None:
        self.notes.append("removed")


class McpStub:
    def __init__(self) -> None:
        self.taken: list[tuple[bytes, str | None, float]] = []
        self.refused: list[TooLong] = []
        self.ends: list[str] = []
        self.busy = False
        self.session = SimpleNamespace(
            protocol_state=SimpleNamespace(client="Claude", initialize=self._initialize)
        )
        self.initialized: list[object] = []

    def _initialize(self, params: object) -> None:
        self.initialized.append(params)

    def line(self, data: bytes, key: str | None, waited: float) -> None:
        self.taken.append((data, key, waited))

    def refuse(self, line: TooLong) -> None:
        self.refused.append(line)

    async def close(self, why: str) -> None:
        self.ends.append(why)


class Front:
    """A connection without a socket."""

    def __init__(self, home: Path, *, role: str = "mcp") -> None:
        self.server = ServerStub(home)
        owner: Any = self.server
        connection: Any = Connection(owner)
        self.connection, self.pipe = connection, PipeStub()
        self.connection.pipe = self.pipe
        if role:
            self.say(hello=self.hello(role))
            self.pipe.lines.clear()
        self.mcp: Any = McpStub()
        if role == "mcp":
            self.connection._mcp = self.mcp

    def hello(self, role: str = "mcp", **fields: object) -> dict[str, object]:
        return {"role": role, "version": "1.2", "agent": "claude", "cwd": "/", "env": {"A": "1"}, **fields}

    def say(self, **message: object) -> None:
        self.connection._line(b"@" + json.dumps(message).encode())

    def refusal(self) -> str:
        (line,) = self.pipe.lines
        return str(line["refused"])


@pytest.fixture
def front(tmp_path: Path) -> Front:
    return Front(tmp_path)


def test_a_hello_opens_the_connection_and_is_answered(tmp_path: Path) -> None:
    front = Front(tmp_path, role="")
    front.connection._hello_timer = timer = SimpleNamespace(
        cancel=lambda: front.server.notes.append("in time")
    )
    front.say(
        hello=front.hello(initialize={"protocolVersion": "2025-06-18", "clientInfo": {"name": "Claude"}})
    )
    assert front.pipe.lines == [{"hello": {"version": __version__, "pid": os.getpid()}}]
    assert front.server.notes == ["in time", "greeted"]
    assert timer
    assert front.pipe.allowed == LARGEST_MESSAGE
    session = front.connection._mcp.session
    assert session.identity.env == {"A": "1", "COUNSEL_HOME": str(tmp_path)}
    assert session.identity.agent == "claude"
    assert session.protocol_state.client == "Claude"
    assert front.connection.about() == {"client": "Claude", "agent": "claude", "version": "1.2"}


def test_a_program_says_hello_with_its_caller(tmp_path: Path) -> None:
    front = Front(tmp_path, role="")
    registered: list[Caller] = []
    vars(front.server.engine)["register_caller"] = registered.append
    front.say(hello=front.hello("engine", caller=caller_to_json(Caller("cli", cwd=Path("/")))))
    assert [caller.client for caller in registered] == ["cli"]
    assert front.connection.about()["client"] == "engine"
    assert not front.connection.busy


@pytest.mark.parametrize(
    ("role", "line", "why"),
    [
        ("mcp", b'@{"hello":{"role":"mcp"}}', "cannot parse a line: ValueError a second hello"),
        ("", b'@{"hello":5}', "cannot parse a line: TypeError a hello is an object"),
        ("", b'{"id":1}', "the first line must be a hello"),
        ("", b'@{"key":"k"}', "the first line must be a hello"),
        ("mcp", b'@{"dance":1}', "cannot parse a line: ValueError an unknown control message"),
        ("engine", b'@{"initialize":{}}', "cannot parse a line: ValueError an unknown control message"),
        ("mcp", b'@{"key":5}', "cannot parse a line: ValueError a key is a string of at most 200 characters"),
        (
            "mcp",
            b'@{"key":"%s"}' % (b"k" * 201),
            "cannot parse a line: ValueError a key is a string of at most 200",
        ),
        ("mcp", b"@nonsense", "cannot parse a line: Unreadable"),
    ],
)
def test_lines_that_make_no_sense_end_the_connection(
    tmp_path: Path, role: str, line: bytes, why: str
) -> None:
    front = Front(tmp_path, role=role)
    front.connection._line(line)
    assert front.refusal().startswith(why)
    assert front.pipe.is_closed


FAST = "0123.0123456789abcdef0123456789ab"


@pytest.mark.parametrize(
    ("line", "key", "is_new", "waited"),
    [
        (b'@{"key":"%s","waited":12.5,"new":true}' % FAST.encode(), FAST, True, 12.5),
        (b'@{"key":"%s","waited":0.0}' % FAST.encode(), FAST, False, 0.0),
        (b'@{"key":"mine","waited":3,"new":true}', "mine", True, 3.0),
        (b'@{"key":"mine","new":1}', "mine", False, 0.0),
        (b'@{"key":"mine","waited":-1}', "mine", False, 0.0),
        (b'@{"key":"mine","waited":86399.5}', "mine", False, 86_399.5),
        (b'@{"key":"mine","waited":86400}', "mine", False, 0.0),
        (b'@{"key":"mine","waited":"5"}', "mine", False, 0.0),
        (b'@{"key":"%s"}' % (b"k" * 200), "k" * 200, False, 0.0),
    ],
)
def test_the_key_of_a_call_is_for_the_next_line_alone(
    front: Front, line: bytes, key: str, is_new: bool, waited: float
) -> None:
    front.connection._line(line)
    front.connection._line(b'{"id":1}')
    front.connection._line(b'{"id":2}')
    assert front.mcp.taken == [(b'{"id":1}', key, waited), (b'{"id":2}', None, 0.0)]
    assert isinstance(front.mcp.taken[0][1], NewKey) is is_new


def test_a_newer_release_and_a_second_handshake(front: Front) -> None:
    front.say(handover=True)
    assert front.server.ends == ["handover"]
    front.say(initialize={"protocolVersion": "x"})
    assert front.mcp.initialized == [{"protocolVersion": "x"}]
    assert front.pipe.lines == []


@pytest.mark.parametrize(
    ("line", "is_taken"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', False),
        (b'[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]', False),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', True),
        (b"nonsense", True),
    ],
)
def test_a_daemon_whose_home_is_gone_takes_no_new_requests(front: Front, line: bytes, is_taken: bool) -> None:
    front.server.retired = True
    front.connection._line(line)
    assert [data for data, *_ in front.mcp.taken] == ([line] if is_taken else [])
    assert front.pipe.lines == []


def test_a_line_that_is_too_long_is_answered_where_its_request_can_be_named(tmp_path: Path) -> None:
    line = TooLong(b"x")
    front = Front(tmp_path)
    front.connection._too_long(line)
    assert (front.mcp.refused, front.pipe.lines) == ([line], [])
    silent = Front(tmp_path, role="")
    silent.connection._too_long(line)
    assert silent.refusal() == "a hello may have at most 4,194,304 bytes"
    program = Front(tmp_path, role="engine")
    program.connection._too_long(line)
    assert program.refusal().startswith("This message has 1 bytes")


def test_only_a_connection_without_a_hello_is_closed_as_silent(tmp_path: Path) -> None:
    silent, front = Front(tmp_path, role=""), Front(tmp_path)
    for each in (silent, front):
        each.connection.close_if_silent("no hello within 10 s")
    assert (silent.refusal(), front.pipe.lines) == ("no hello within 10 s", [])


async def test_a_connection_closes_once_for_the_first_reason(front: Front) -> None:
    await front.connection.close("handover")
    front.connection._lost()
    await front.connection.close("gone")
    assert front.mcp.ends == ["handover"]
    assert front.pipe.lines == [{"leaving": "handover"}]
    assert front.pipe.is_closed
    assert front.server.notes == ["greeted", "removed"]


async def test_a_connection_that_is_lost_stops_waiting_for_its_hello(tmp_path: Path) -> None:
    front = Front(tmp_path, role="")
    stopped: list[str] = []
    front.connection._hello_timer = SimpleNamespace(cancel=lambda: stopped.append("timer"))
    front.connection._lost()
    await front.connection.close("gone")
    assert (stopped, front.server.notes) == (["timer"], ["removed"])


def test_a_client_that_waits_keeps_the_connection_busy(front: Front) -> None:
    assert not front.connection.busy
    front.mcp.busy = True
    assert front.connection.busy


# ── limits of the process ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("soft", "most", "expected"),
    [
        (256, 1_000, 96),
        (8_192, 1_000, 1_000),
        (64, 1_000, 8),
        (1_064, 500, 500),
        (1_064, 501, 500),
        (-1, 7, 7),
    ],
)
def test_so_many_connections_leave_files_for_the_work(
    monkeypatch: pytest.MonkeyPatch, soft: int, most: int, expected: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert process_limits.most_connections(most) == expected


@pytest.mark.parametrize(
    ("soft", "hard", "target"),
    [
        (256, 4_096, 4_096),
        (256, 100_000, 8_192),
        (256, -1, 8_192),
        (10_000, 100_000, None),
        (-1, -1, None),
        (8_192, 9_000, None),
    ],
)
def test_a_process_opens_as_many_files_as_it_may_and_writes_no_core(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, target: int | None
) -> None:
    limits = {resource.RLIMIT_CORE: (5, 7), resource.RLIMIT_NOFILE: (soft, hard)}
    made: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", made.__setitem__)
    process_limits.prepare_process()
    expected = {resource.RLIMIT_CORE: (0, 7)}
    assert made == (expected if target is None else {**expected, resource.RLIMIT_NOFILE: (target, hard)})


def test_connections_that_said_nothing_are_known_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(process_limits, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    pending = PendingConnections[str]()
    assert pending.oldest() is None
    for name in ("a", "b", "c"):
        pending.add(name)
        clock[0] += 10
    pending.add("a")
    assert pending.oldest() == "b"
    assert pending.overdue(15) == ["b"]
    assert pending.overdue(5) == ["b", "c"]
    pending.discard("b")
    pending.discard("x")
    assert pending.oldest() == "c"


async def test_failed_accepts_are_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [10.0]
    monkeypatch.setattr(process_limits, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    loop = asyncio.new_event_loop()
    try:
        process_limits.limit_accept_warnings(loop)
        caplog.set_level(logging.WARNING, "counsel.daemon")

        def warnings() -> int:
            loop.call_exception_handler(
                {"message": "socket.accept() out of system resource", "exception": OSError("x")}
            )
            return sum("cannot accept connections" in record.message for record in caplog.records)

        assert [warnings(), warnings()] == [1, 1]
        clock[0] += 60.0
        assert warnings() == 1
        clock[0] += 0.1
        assert warnings() == 2
        caplog.set_level(logging.ERROR, "asyncio")
        loop.call_exception_handler({"message": "something else"})
        assert "something else" in caplog.text
    finally:
        loop.close()


class FullListener(socket.socket):
    """A listening socket of a process that has no free descriptor."""

    def accept(self) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_server_that_closes_after_failed_accepts_logs_no_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.01)
    loop = asyncio.get_running_loop()
    process_limits.limit_accept_warnings(loop)
    listener = FullListener()
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(lambda *_: None, sock=listener)
    with socket.create_connection(listener.getsockname()):
        while "cannot accept connections" not in caplog.text:
            await asyncio.sleep(0)
        server.close()
        retried = asyncio.Event()  # timers run in the order of their times
        loop.call_later(0.05, retried.set)
        await retried.wait()
    assert "_start_serving" not in caplog.text
