"""The relay on its own: what a daemon gets, what the client gets, and what becomes of both when one of them is gone."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import __version__, pending_calls
from counsel.front import relay as relay_module
from counsel.front.bounded_lines import TooLong
from counsel.front.launcher import RETRY
from counsel.front.protocol import ProtocolState
from counsel.front.relay import Relay

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"chat"}}'
LIST = b'{"jsonrpc":"2.0","id":%d,"method":"resources/list"}'


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class LauncherStub:
    """A launcher that reaches a daemon, if there is one."""

    def __init__(self, home: Path) -> None:
        self.home = str(home)
        self.problem = ""
        self.connections: list[socket.socket] = []
        self.gives_up = False
        self.may_lock = True
        self.seconds = 0.5
        self.notes: list[str] = []

    def attempt(self) -> socket.socket | None:
        self.notes.append("attempt")
        return self.connections.pop(0) if self.connections else None

    def should_give_up(self, since: float, limit: float) -> bool:
        self.limit = limit
        return self.gives_up

    def pause(self) -> float:
        return self.seconds

    def take_lock(self) -> bool:
        return self.may_lock

    def not_answering(self) -> str:
        return "process 5 does not answer"

    def __getattr__(self, name: str) -> Any:
        """`lost`, `greeted`, `answered`, `release`: noted."""
        return lambda: self.notes.append(name)


class Setup:
    def __init__(self, home: Path, clock: Clock) -> None:
        self.home, self.clock = home, clock
        self.to_client: list[bytes] = []
        self.relay = Relay("claude", ProtocolState([]), select.poll(), self.to_client.append)
        self.launcher = LauncherStub(home)
        self.relay.launcher = self.launcher  # type: ignore[assignment]
        self.daemon: socket.socket | None = None
        self._ends: list[socket.socket] = []

    def start_daemon(self) -> None:
        ours, self.daemon = socket.socketpair()
        ours.setblocking(False)
        self.daemon.setblocking(False)
        self.launcher.connections.append(ours)
        self._ends += [ours, self.daemon]

    def connect(self, version: str = __version__) -> list[bytes]:
        """Reach a daemon of this release. Returns what it gets after the hello."""
        self.start_daemon()
        self.relay.connect_soon()
        self.relay.connect_if_due()
        self.received()
        self.says(b'@{"hello":{"version":"%s"}}' % version.encode())
        return self.received()

    def received(self) -> list[bytes]:
        """What the daemon has received since the last time."""
        self._serve(select.POLLOUT)
        assert self.daemon is not None
        try:
            return self.daemon.recv(1 << 20).splitlines()
        except BlockingIOError:
            return []

    def says(self, *lines: bytes) -> None:
        assert self.daemon is not None
        self.daemon.sendall(b"".join(line + b"\n" for line in lines))
        self._serve(select.POLLIN)

    def dies(self) -> None:
        assert self.daemon is not None
        self.daemon.close()
        self._serve(select.POLLIN)

    def _serve(self, event: int) -> None:
        if self.relay.daemon is not None:
            self.relay.serve(self.relay.daemon.fileno(), event)

    def asked(self, number: int = 1, line: bytes = CALL) -> Any:
        self.relay.request(number, line % number)
        return self.relay.waiting[str(number)]

    def client_got(self) -> list[Any]:
        lines, self.to_client[:] = list(self.to_client), []
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        for end in self._ends:
            end.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock_ = Clock()
    monkeypatch.setattr(relay_module, "time", clock_)
    return clock_


@pytest.fixture
def setup(tmp_path: Path, clock: Clock) -> Iterator[Setup]:
    setup_ = Setup(tmp_path, clock)
    yield setup_
    setup_.close()


def is_waiting(setup: Setup) -> bool:
    return bool(setup.relay.waiting)


def test_the_daemon_learns_who_asks_and_gets_what_waits_in_order(setup: Setup) -> None:
    setup.relay.client_initialize(
        {"protocolVersion": "2025-06-18", "clientInfo": {"name": "x" * 300, "icons": ["…"]},
         "capabilities": {"roots": {"listChanged": True}, "sampling": {}}}
    )  # fmt: skip
    setup.relay.client_initialized()
    setup.relay.forward(b'{"a":1}')
    pending = setup.asked()
    setup.start_daemon()
    setup.relay.connect_if_due()
    (hello,) = setup.received()
    document = json.loads(hello.removeprefix(b"@"))["hello"]
    assert (document["role"], document["version"], document["agent"]) == ("mcp", __version__, "claude")
    assert document["initialize"] == {
        "protocolVersion": "2025-06-18", "clientInfo": {"name": "x" * 200}, "capabilities": {"roots": {}},
    }  # fmt: skip
    assert document["cwd"] == str(Path.cwd())
    setup.says(b'@{"hello":{"version":"%s"}}' % __version__.encode())
    initialized, head, line, notification = setup.received()
    assert (initialized, line, notification) == (relay_module.INITIALIZED, CALL % 1, b'{"a":1}')
    assert json.loads(head[1:])["key"] == pending.key
    assert "greeted" in setup.launcher.notes
    assert setup.relay.retry_at == 0.0
    assert setup.relay.queue == []


@pytest.mark.parametrize(
    ("params", "used"),
    [
        (None, None),
        ({}, {"protocolVersion": None, "clientInfo": {"name": ""}, "capabilities": {}}),
        ({"clientInfo": {"name": 5}, "capabilities": []}, {"protocolVersion": None, "clientInfo": {"name": ""}, "capabilities": {}}),
        ({"clientInfo": None, "capabilities": {"roots": True}}, {"protocolVersion": None, "clientInfo": {"name": ""}, "capabilities": {}}),
    ],
)  # fmt: skip
def test_of_a_handshake_only_what_the_daemon_uses_is_kept(
    setup: Setup, params: dict[str, object] | None, used: dict[str, object] | None
) -> None:
    setup.relay.client_initialize(params)
    assert setup.relay.initialize == used


def test_a_second_handshake_is_passed_on_at_once_and_a_first_one_with_the_hello(setup: Setup) -> None:
    setup.connect()
    setup.relay.client_initialize({"protocolVersion": "a"})
    assert setup.received() == []
    setup.relay.client_initialize({"protocolVersion": "b"})
    (line,) = setup.received()
    assert json.loads(line[1:])["initialize"]["protocolVersion"] == "b"
    setup.relay.client_initialized()
    assert setup.received() == [relay_module.INITIALIZED]


def test_a_connected_daemon_gets_requests_and_notifications_at_once(setup: Setup) -> None:
    assert setup.connect() == []
    pending = setup.asked(7)
    setup.relay.forward(b'{"a":1}')
    head, line, notification = setup.received()
    assert json.loads(head[1:]) == {"key": pending.key, "waited": 0.0, "new": True}
    assert (line, notification) == (CALL % 7, b'{"a":1}')


def test_an_answer_goes_to_the_client_and_ends_the_wait(setup: Setup) -> None:
    setup.connect()
    setup.asked(1)
    setup.asked(2)
    setup.says(b'{"note":1}', b'@{"done":1,"answered":true}', b'{"id":1,"result":{}}')
    assert setup.client_got() == [{"note": 1}, {"id": 1, "result": {}}]
    assert list(setup.relay.waiting) == ["2"]
    assert setup.launcher.notes.count("answered") == 1
    setup.says(b'@{"done":2,"answered":false}')
    assert not is_waiting(setup)
    setup.says(b'{"note":2}')
    assert setup.client_got() == [{"note": 2}]
    assert setup.launcher.notes.count("answered") == 2


@pytest.mark.parametrize("name", ['"a"', "[1, 2]", "0", "12345678901234567890123"])
def test_answers_to_any_id_are_recognised(setup: Setup, name: str) -> None:
    setup.connect()
    setup.relay.request(json.loads(name), b"{}")
    setup.says(b'@{"done":%s,"answered":true}' % name.encode(), b'{"id":1}')
    assert not is_waiting(setup)


def test_a_daemon_that_says_no_more_than_done_has_answered(setup: Setup) -> None:
    setup.connect()
    setup.asked(1)
    setup.says(b'@{"done":1}')
    assert is_waiting(setup)
    setup.says(b'{"id":1,"result":{}}')
    assert not is_waiting(setup)


def test_requests_that_a_dead_daemon_did_not_answer_are_sent_again_to_the_next(
    setup: Setup, clock: Clock
) -> None:
    setup.connect()
    pending = setup.asked()
    setup.received()
    clock.now += 5
    setup.dies()
    assert "lost" in setup.launcher.notes
    assert setup.relay.retry_at == clock.now
    head, line = setup.connect()
    document = json.loads(head[1:])
    assert document["key"] == pending.key
    assert "new" not in document, "the daemon may have started it"
    assert line == CALL % 1


def test_after_a_daemon_was_killed_the_next_is_started_even_if_nothing_waits(
    setup: Setup, clock: Clock
) -> None:
    setup.connect()
    setup.dies()
    assert setup.relay.retry_at == clock.now
    assert not setup.relay.connected
    assert setup.relay.daemon is None


def test_a_daemon_that_said_that_it_leaves_is_not_replaced_before_somebody_asks(
    setup: Setup, clock: Clock
) -> None:
    setup.connect()
    setup.says(b'@{"leaving":true}')
    setup.dies()
    assert setup.relay.retry_at == 0.0
    assert "lost" not in setup.launcher.notes
    setup.asked()
    assert setup.relay.retry_at == clock.now
    setup.connect()
    setup.dies()
    assert "lost" in setup.launcher.notes, "the next one had not said so"


def test_a_call_that_is_waiting_when_the_daemon_leaves_is_asked_again(setup: Setup, clock: Clock) -> None:
    setup.connect()
    setup.asked()
    setup.says(b'@{"leaving":true}')
    setup.dies()
    assert setup.relay.retry_at == clock.now


def test_half_a_line_of_a_dead_daemon_is_not_mixed_with_the_next_ones(setup: Setup) -> None:
    setup.connect()
    setup.asked()
    assert setup.daemon is not None
    setup.daemon.sendall(b'@{"done":1,"answered":true}\n{"id":')
    setup._serve(select.POLLIN)
    setup.dies()
    assert is_waiting(setup)
    setup.connect()
    setup.says(b'{"note":1}')
    assert setup.client_got() == [{"note": 1}]
    assert is_waiting(setup), "it did not answer"


def progress(value: float, token: object = "t") -> bytes:
    params = {"progressToken": token, "progress": value}
    return json.dumps(
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, separators=(",", ":")
    ).encode()


def test_progress_grows_although_the_next_daemon_counts_from_the_beginning(setup: Setup) -> None:
    setup.connect()
    setup.asked()
    setup.says(progress(1), progress(2))
    setup.dies()
    setup.connect()
    setup.says(progress(1), progress(1, "u"))
    assert [entry["params"]["progress"] for entry in setup.client_got()] == [1, 2, 3, 1]
    setup.says(b'@{"done":1,"answered":false}')
    assert setup.relay.progress == {}, "forgotten when nothing waits"


def test_the_numbers_of_many_tokens_take_bounded_memory(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MAX_TOKENS", 2)
    setup.connect()
    setup.says(progress(1, "a"), progress(1, "b"), progress(2, "a"), progress(1, "c"), progress(2, "c"))
    assert list(setup.relay.progress) == ['"b"', '"c"']


def cancelled(number: int, reason: str | None = None) -> bytes:
    params = {"requestId": number, **({"reason": reason} if reason else {})}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()


def test_a_cancelled_call_is_cancelled_in_the_daemon_and_again_in_the_next_once_it_has_the_job(
    setup: Setup,
) -> None:
    setup.connect()
    setup.asked()
    setup.received()
    line = cancelled(1)
    setup.relay.cancel(1, line)
    setup.relay.cancel(2, cancelled(2))
    assert setup.received() == [line], "nobody waits for the second"
    setup.dies()
    assert setup.connect()[1:] == [CALL % 1]
    setup.says(b'@{"job":"job_1","id":1}', b'@{"job":"job_9","id":9}')
    assert setup.received() == [line]
    assert setup.relay.waiting["1"].job == "job_1"


def test_a_call_is_not_cancelled_when_its_daemon_names_the_job(setup: Setup) -> None:
    setup.connect()
    setup.asked()
    setup.received()
    setup.says(b'@{"job":"job_1","id":1}')
    assert setup.received() == []


def noted_jobs(setup: Setup) -> list[str]:
    folder = setup.home / "run" / "kept"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize(("reason", "is_kept"), [(None, False), ("request timed out", True)])
def test_while_no_daemon_can_be_started_a_note_keeps_the_job_unless_the_client_cancelled_it(
    setup: Setup, reason: str | None, is_kept: bool
) -> None:
    setup.connect()
    pending = setup.asked(1)
    setup.asked(2, LIST)
    setup.received()
    setup.relay.cancel(1, cancelled(1, reason))
    setup.dies()
    setup.relay.connect_if_due()
    assert noted_jobs(setup) == [], "it may start in a moment"
    setup.launcher.problem = "the disk is full"
    setup.clock.now += 1
    setup.relay.connect_if_due()
    assert noted_jobs(setup) == ([pending_calls.job_id(pending.key)] if is_kept else [])


def test_a_note_is_removed_when_the_call_is_answered_cancelled_or_its_client_is_gone(setup: Setup) -> None:
    setup.connect()
    pending = [setup.asked(number) for number in (1, 2, 3)]
    setup.received()
    setup.dies()
    setup.launcher.problem = "the disk is full"
    setup.relay.connect_if_due()
    names = [pending_calls.job_id(entry.key) for entry in pending]
    assert noted_jobs(setup) == sorted(names)
    setup.relay.cancel(1, cancelled(1))
    assert noted_jobs(setup) == sorted(names[1:])
    setup.clock.now += 1
    setup.connect()
    setup.says(b'@{"done":2,"answered":false}')
    assert noted_jobs(setup) == names[2:]
    setup.relay.close()
    assert noted_jobs(setup) == []


def test_a_call_that_waited_too_long_fails_with_the_cause(setup: Setup, clock: Clock) -> None:
    setup.asked(1)
    setup.relay.connect_if_due()
    assert setup.client_got() == []
    setup.launcher.gives_up = True
    clock.now += 1
    setup.relay.connect_if_due()
    (failure,) = setup.client_got()
    text = failure["result"]["structuredContent"]["error"]
    assert text == "counsel's daemon cannot be reached: it has not started yet."
    assert not is_waiting(setup)
    assert setup.launcher.limit > 0
    setup.launcher.problem = "the disk is full"
    setup.asked(2)
    clock.now += 1
    setup.relay.connect_if_due()
    assert "the disk is full." in setup.client_got()[0]["result"]["structuredContent"]["error"]


def test_attempts_are_made_when_they_are_due_and_end_when_nothing_waits(setup: Setup, clock: Clock) -> None:
    setup.relay.connect_if_due()
    assert setup.launcher.notes == [], "nobody asked for a daemon"
    setup.relay.connect_soon()
    setup.relay.connect_if_due()
    assert setup.launcher.notes == ["attempt"]
    assert setup.relay.retry_at == clock.now + 0.5
    setup.relay.connect_if_due()
    assert setup.launcher.notes == ["attempt"], "the next one is due in half a second"
    clock.now += relay_module.HELLO_TIMEOUT
    setup.relay.connect_if_due()
    assert setup.launcher.notes == ["attempt", "attempt"]
    clock.now += 1
    setup.relay.connect_if_due()
    assert setup.launcher.notes == ["attempt", "attempt", "attempt", "release"]
    assert setup.relay.retry_at == 0.0


def test_jobs_with_a_note_are_looked_after_now_and_then(setup: Setup, clock: Clock) -> None:
    setup.connect()
    setup.asked()
    setup.received()
    setup.dies()
    setup.launcher.problem, setup.launcher.gives_up = "the disk is full", True
    setup.relay.connect_if_due()
    assert noted_jobs(setup)
    assert not is_waiting(setup)
    clock.now += relay_module.HELLO_TIMEOUT + 1
    setup.relay.connect_if_due()
    assert setup.relay.retry_at == clock.now + relay_module.IDLE_RETRY
    clock.now += relay_module.IDLE_RETRY
    setup.launcher.problem = ""
    setup.connect()
    setup.dies()
    clock.now += relay_module.HELLO_TIMEOUT + 1
    setup.relay.connect_if_due()
    assert setup.relay.retry_at == 0.0, "the daemon that was reached has found them"


def test_a_daemon_without_a_hello_is_given_up_and_named(setup: Setup, clock: Clock) -> None:
    setup.asked()
    setup.start_daemon()
    setup.relay.connect_if_due()
    assert setup.relay.retry_at == clock.now + relay_module.HELLO_TIMEOUT
    clock.now += relay_module.HELLO_TIMEOUT
    setup.relay.connect_if_due()
    assert "process 5 does not answer" in setup.client_got()[0]["result"]["structuredContent"]["error"]
    assert (setup.relay.daemon, setup.relay.connected, setup.relay.retry_at) == (None, False, 0.0)
    assert setup.launcher.notes[-1] == "release"
    assert not is_waiting(setup)


def test_a_daemon_that_refuses_this_front_says_why(setup: Setup) -> None:
    setup.asked()
    setup.start_daemon()
    setup.relay.connect_if_due()
    setup.says(b'@{"refused":"too many connections"}')
    assert "too many connections" in setup.client_got()[0]["result"]["structuredContent"]["error"]
    assert setup.relay.daemon is None


def test_an_older_daemon_hands_over_when_nobody_else_starts_one(setup: Setup, clock: Clock) -> None:
    setup.asked()
    assert setup.connect("0.0.1") == [], "it gets no call"
    assert not setup.relay.connected
    assert setup.relay.retry_at == clock.now
    setup.launcher.may_lock = False
    setup.relay.connect_if_due()
    assert setup.received() == []
    assert setup.relay.retry_at == clock.now + RETRY
    setup.launcher.may_lock = True
    clock.now += RETRY
    setup.relay.connect_if_due()
    assert setup.received() == [b'@{"handover":true}']
    assert setup.relay.retry_at == 0.0
    setup.dies()
    assert setup.relay.retry_at == clock.now
    assert setup.connect()[1:] == [CALL % 1]


def test_a_newer_daemon_serves_this_front(setup: Setup) -> None:
    setup.connect("999.0")
    assert setup.relay.connected


def test_so_many_requests_at_once_and_so_many_bytes_are_kept(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MOST_AT_ONCE", 2)
    setup.relay.request(1, b"a")
    setup.relay.request(2, b"b")
    setup.relay.request(3, b"c")
    setup.relay.request([4, 5], b"d")
    assert [entry["id"] for entry in setup.client_got()] == [3, None]
    assert list(setup.relay.waiting) == ["1", "2"]
    monkeypatch.setattr(relay_module, "MOST_AT_ONCE", 100)
    monkeypatch.setattr(relay_module, "MAX_UNANSWERED", 10)
    setup.relay.request(6, b"e" * 8)
    assert setup.client_got() == []
    setup.relay.request(7, b"f")
    assert [entry["id"] for entry in setup.client_got()] == [7]
    setup.relay.waiting.clear()
    setup.relay.request(8, b"g" * 100)
    assert setup.client_got() == [], "one request of any size is served"
    setup.relay.waiting.clear()
    for number in range(5):
        setup.relay.request(number, b"hh")
    assert setup.client_got() == []


def test_the_client_waits_when_too_much_is_queued_for_the_daemon(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MAX_BACKLOG", 10)
    setup.relay.forward(b"x" * 10)
    assert not setup.relay.is_backlogged()
    setup.relay.forward(b"y")
    assert setup.relay.is_backlogged()
    setup.relay.queue.clear()
    setup.relay.to_daemon += b"z" * 11
    assert setup.relay.is_backlogged()


class PollStub:
    def __init__(self) -> None:
        self.registered: dict[int, int] = {}

    def register(self, file: int, events: int) -> None:
        self.registered[file] = events

    def unregister(self, file: int) -> None:
        del self.registered[file]


@pytest.mark.parametrize(
    ("client_reads", "output", "events"),
    [
        (True, b"", select.POLLIN),
        (True, b"x", select.POLLIN | select.POLLOUT),
        (False, b"x", select.POLLOUT),
        (False, b"", None),
    ],
)
def test_the_daemon_is_watched_for_what_can_be_done(
    setup: Setup, client_reads: bool, output: bytes, events: int | None
) -> None:
    poll = PollStub()
    setup.relay.poll = poll  # type: ignore[assignment]
    setup.relay.watch(client_reads=True)
    assert poll.registered == {}, "there is no daemon"
    setup.connect()
    setup.relay.watch(client_reads=True)
    setup.relay.to_daemon += output
    setup.relay.watch(client_reads=client_reads)
    assert setup.relay.daemon is not None
    number = setup.relay.daemon.fileno()
    assert poll.registered == ({} if events is None else {number: events})
    setup.relay.watch(client_reads=False) if events is None else setup.dies()
    assert poll.registered == {}


def test_a_line_without_end_from_the_daemon_is_dropped(setup: Setup) -> None:
    setup.connect()
    setup.relay.from_daemon = SimpleNamespace(  # type: ignore[assignment]
        feed=lambda _: [TooLong(b""), b'{"note":1}'], clear=lambda: None
    )
    setup.says(b"x")
    assert setup.client_got() == [{"note": 1}]


def test_a_folder_that_was_deleted_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("os.getcwd", gone)
    assert relay_module._cwd() == "/nowhere"


def test_what_is_not_about_the_daemons_socket_is_ignored(setup: Setup) -> None:
    setup.relay.serve(99, select.POLLIN)
    setup.connect()
    setup.asked()
    setup.relay.serve(99, select.POLLIN | select.POLLOUT)
    assert setup.relay.connected
    assert setup.relay.to_daemon


def test_a_notification_alone_makes_the_front_look_for_a_daemon_and_is_kept_until_there_is_one(
    setup: Setup, clock: Clock
) -> None:
    setup.relay.forward(b'{"a":1}')
    assert setup.relay.retry_at == clock.now
    clock.now += relay_module.HELLO_TIMEOUT + 1
    setup.relay.connect_if_due()
    assert setup.relay.retry_at > clock.now, "it still waits for a daemon"
    clock.now += 1
    assert setup.connect() == [b'{"a":1}']
    setup.relay.connect_soon()
    assert setup.relay.retry_at == 0.0, "there is one"


def test_what_a_dead_daemon_had_not_read_is_sent_once_to_the_next(setup: Setup) -> None:
    setup.connect()
    setup.asked()
    setup.dies()
    assert setup.connect()[1:] == [CALL % 1]


def test_a_connection_that_breaks_is_a_daemon_that_died(setup: Setup, clock: Clock) -> None:
    setup.connect()
    setup.asked()
    setup._serve(select.POLLOUT)
    setup.dies()  # with something unread: the connection is reset
    assert "lost" in setup.launcher.notes
    assert setup.relay.daemon is None


def test_a_daemon_that_dies_before_its_hello_is_replaced_at_once(setup: Setup, clock: Clock) -> None:
    setup.asked()
    setup.start_daemon()
    setup.relay.connect_if_due()
    setup.received()
    setup.dies()
    assert setup.relay.retry_at == clock.now


def test_the_next_daemon_has_to_say_hello_too(setup: Setup, clock: Clock) -> None:
    setup.connect()
    setup.asked()
    setup.received()
    setup.dies()
    setup.start_daemon()
    setup.relay.connect_if_due()
    clock.now += relay_module.HELLO_TIMEOUT
    setup.relay.connect_if_due()
    (failure,) = setup.client_got()
    assert "process 5 does not answer" in failure["result"]["structuredContent"]["error"]
    assert failure["result"]["structuredContent"]["job_id"] in noted_jobs(setup), "it continues without us"
    assert b"handover" not in b"".join(setup.daemon.recv(1 << 16).splitlines() if setup.daemon else [])


def test_after_a_daemon_was_given_up_the_next_call_begins_anew(setup: Setup, clock: Clock) -> None:
    setup.connect()
    setup.relay.forward(b'{"a":1}')
    setup.says(b'@{"refused":"too many"}')
    assert (setup.relay.connected, setup.relay.hello_received) == (False, False)
    setup.asked()
    assert [line for line in setup.connect() if not line.startswith(b"@")] == [CALL % 1]


def test_the_same_id_may_be_used_again_and_a_line_in_between_does_not_answer_it(setup: Setup) -> None:
    setup.connect()
    setup.asked()
    setup.says(b'@{"done":1,"answered":true}', b'{"id":1}')
    setup.asked()
    setup.says(b'{"note":1}')
    assert is_waiting(setup)


def test_calls_of_a_megabyte_wait_for_a_daemon(setup: Setup) -> None:
    for number in range(3):
        setup.relay.request(number, b"x" * (1 << 20))
    assert setup.client_got() == []
    setup.relay.forward(b"x" * (1 << 20))
    assert not setup.relay.is_backlogged()
    setup.relay.forward(b"y")
    assert setup.relay.is_backlogged()
