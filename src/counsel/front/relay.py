"""Relays a client's requests to the daemon and the answers back, and survives the daemon's death.

It connects to the daemon or starts one (`launcher.py`), identifies itself, and passes lines both ways; the protocol of
the two is described in `daemon/connection.py`. When the daemon dies, it connects to the next one and sends again what
was not answered, each call under its own unguessable key, so that the caller gets the answer of the job it started.

Nothing here blocks: the loop is in `main.py`. As few imports as possible, for a quick start.
"""

from __future__ import annotations

import json
import os
import re
import select
import time

from counsel import __version__, pending_calls
from counsel.front import environment
from counsel.front.bounded_lines import Lines, TooLong
from counsel.front.launcher import RETRY, Launcher, older
from counsel.front.pending_request import PendingRequest, Progress, as_line
from counsel.front.protocol import MOST_AT_ONCE, busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from counsel.front.protocol import ProtocolState
    from counsel.types import Json

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CHUNK = 1 << 16
HELLO_TIMEOUT = 20.0  # seconds for a daemon to say hello
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"'
MAX_TOKENS = 1000  # calls whose progress is counted
IDLE_RETRY = 30.0  # seconds between attempts when no call waits: noted jobs continue in the next daemon
MAX_BACKLOG = 1 << 20  # bytes queued for the daemon, beyond which nothing more is read from the client
MAX_UNANSWERED = 256 << 20  # bytes of unanswered requests: they are sent again when a daemon dies
LONGEST_NAME = 200  # characters of a client's name


# what the daemon sends most, and its encoder's form of it
_DONE = re.compile(rb'@\{"done":(0|[1-9][0-9]*),"answered":true\}').fullmatch


def _relevant(initialize: Json | None) -> dict[str, object] | None:
    """The part of `initialize` that the daemon uses; the rest may be megabytes, and every daemon gets it."""
    if initialize is None:
        return None
    name = (initialize.get("clientInfo") or {}).get("name")
    capabilities = initialize.get("capabilities")
    has_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
    return {
        "protocolVersion": initialize.get("protocolVersion"),
        "clientInfo": {"name": name[:LONGEST_NAME] if isinstance(name, str) else ""},
        "capabilities": {"roots": {}} if has_roots else {},
    }


def _is_timeout(cancellation: bytes) -> bool:
    from counsel.mcp import client_timeouts  # few calls are cancelled

    return client_timeouts.is_timeout(json.loads(cancellation)["params"].get("reason"))


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder was deleted
        return "/nowhere"


class Relay:
    def __init__(
        self, agent: str | None, state: ProtocolState, poll: select.poll, write: Callable[[bytes], None]
    ) -> None:
        self.agent = agent
        self.state = state
        self.poll = poll
        self.write = write  # a line to the client
        self.launcher = Launcher(os.environ)
        self.daemon: socket.socket | None = None
        self.watched = False  # `poll` watches the daemon's socket
        self.to_daemon = bytearray()
        self.from_daemon = Lines()
        self.hello_received = False  # from the daemon, and
        self.connected = False  # it is not older than we are
        self.daemon_leaves = False  # it announced its end: the next one is needed only when we need it
        self.retry_at = 0.0  # when to try to reach the daemon again; 0: no need to
        self.give_up_at = 0.0  # when to stop trying if nothing waits for a daemon
        self.has_noted_jobs = False  # jobs of ours wait for the next daemon
        self.initialize: Json | None = None  # the client's parameters of `initialize`
        self.initialized = False  # the client has sent `notifications/initialized`: each daemon gets it
        self.waiting: dict[str, PendingRequest] = {}  # by the JSON of their id (of a batch: of all ids)
        self.longest = 0  # bytes of the longest waiting line
        self.queue: list[bytes] = []  # notifications and answers for a daemon that is not connected yet
        self.answering: str | None = None  # the next line from the daemon answers this request
        self.progress: dict[str, Progress] = {}  # by the JSON of their tokens, while calls wait

    # ── from the client ──

    def request(self, request_id: object, line: bytes) -> None:
        if len(self.waiting) >= MOST_AT_ONCE or not self._has_space(len(line)):
            self.write(as_line(busy().response(None if isinstance(request_id, list) else request_id)))
            return
        pending = PendingRequest(request_id, line)
        self.waiting[json.dumps(request_id)] = pending
        if self.connected:
            self.to_daemon += pending.to_send()
        else:
            self.connect_soon()

    def _has_space(self, size: int) -> bool:
        """Lines are summed up only when as many of the longest would be too much."""
        self.longest = max(self.longest, size) if self.waiting else size
        if len(self.waiting) * self.longest + size <= MAX_UNANSWERED or not self.waiting:
            return True
        return size + sum(len(other.line) for other in self.waiting.values()) <= MAX_UNANSWERED

    def forward(self, line: bytes) -> None:
        """Pass on what has no answer, or none that we could give instead."""
        if self.connected:
            self._send(line)
        else:
            self.queue.append(line)
            self.connect_soon()

    def cancel(self, request_id: object, line: bytes) -> None:
        pending = self.waiting.get(json.dumps(request_id))
        if pending is not None:
            pending.cancelled, pending.abandoned = line, _is_timeout(line)
            if not pending.abandoned:
                self._remove_notes(pending)
            if self.connected:
                self._send(line)

    def is_backlogged(self) -> bool:
        """Whether the client must wait until the daemon has taken what it sent."""
        return len(self.to_daemon) + sum(map(len, self.queue)) > MAX_BACKLOG

    def client_initialize(self, params: dict[str, object] | None) -> None:
        again, self.initialize = self.initialize is not None, _relevant(params)
        if again and self.connected:
            self._send(b"@" + as_line({"initialize": self.initialize}))

    def client_initialized(self) -> None:
        self.initialized = True
        if self.connected:
            self._send(INITIALIZED)

    def _send(self, line: bytes) -> None:
        self.to_daemon += line + b"\n"

    # ── reaching a daemon ──

    def connect_soon(self) -> None:
        if self.daemon is None and not self.retry_at:
            self.retry_at = time.monotonic()
            self.give_up_at = self.retry_at + HELLO_TIMEOUT

    def connect_if_due(self) -> None:
        if not self.retry_at or time.monotonic() < self.retry_at:
            return
        if self.daemon is not None:
            self._replace() if self.hello_received else self._give_up(self.launcher.not_answering())
            return
        self.daemon = self.launcher.attempt()
        if self.daemon is not None:
            self.retry_at = time.monotonic() + HELLO_TIMEOUT  # to give up, unless it has said hello by then
            self._send(b"@" + as_line({"hello": self._hello()}))
        else:
            self._wait_for_daemon()

    def _wait_for_daemon(self) -> None:
        """Calls wait for a daemon until their client's limit; meanwhile their jobs are not given up."""
        limit = self._limit() if self.waiting else 0.0
        overdue = [
            name for name, pending in self.waiting.items() if self.launcher.hopeless(pending.began, limit)
        ]
        if self.launcher.problem or overdue:
            self._note_jobs()
        for name in overdue:
            self._fail(self.waiting.pop(name), self.launcher.problem or "it has not started yet")
        pause = self.launcher.pause()
        if not (self.waiting or self.queue) and time.monotonic() > self.give_up_at:
            self.launcher.release()
            pause = IDLE_RETRY if self.has_noted_jobs else 0.0
        self.retry_at = time.monotonic() + pause if pause else 0.0

    def _limit(self) -> float:
        """Seconds that this client waits for a call, as far as is known without a daemon."""
        from counsel.mcp import client_timeouts  # only where no daemon can be reached

        return client_timeouts.time_limit_of(self.state.client, "stdio", os.environ)

    def _note_jobs(self) -> None:
        """Another engine on this home gives up an interrupted call whose client does not return within a minute."""
        for pending in self.waiting.values():
            stopped = pending.cancelled and not pending.abandoned
            if not pending.noted and not stopped and (jobs := pending.jobs()):
                written = [pending_calls.note(self.launcher.home, job) for job in jobs]
                pending.noted = all(written)

    def _remove_notes(self, pending: PendingRequest) -> None:
        if pending.noted:
            for job in pending.jobs():
                pending_calls.take(self.launcher.home, job)

    def _replace(self) -> None:
        """Tell an older daemon to end, as soon as no other process is starting one; then start ours."""
        if self.launcher.take_lock():
            self._send(b'@{"handover":true}')
            self.retry_at = 0.0
        else:
            self.retry_at = time.monotonic() + RETRY

    def _hello(self) -> dict[str, object]:
        return {
            "role": "mcp",
            "version": __version__,
            "agent": self.agent,
            "cwd": _cwd(),
            "env": environment.for_calls(os.environ),
            "initialize": self.initialize,
        }

    # ── the daemon's side of the loop ──

    def watch(self, *, client_reads: bool) -> None:
        """While the client does not read, output stays with the daemon, which then drops progress."""
        if self.daemon is None:
            return
        events = (select.POLLIN if client_reads else 0) | (select.POLLOUT if self.to_daemon else 0)
        if events:
            self.poll.register(self.daemon.fileno(), events)
            self.watched = True
        else:  # a daemon that hangs up would wake us again and again
            self._unwatch()

    def _unwatch(self) -> None:
        if self.watched and self.daemon is not None:
            self.poll.unregister(self.daemon.fileno())
        self.watched = False

    def serve(self, file: int, event: int) -> None:
        if self.daemon is None or file != self.daemon.fileno():
            return
        try:
            if event & select.POLLOUT and self.to_daemon:
                del self.to_daemon[: self.daemon.send(self.to_daemon[: 1 << 18])]
            if event & ~select.POLLOUT:
                data = self.daemon.recv(CHUNK)
                if not data:
                    self._lost()
                    return
                self._received(data)
        except BlockingIOError:
            return
        except OSError:
            self._lost()

    def _received(self, data: bytes) -> None:
        for line in self.from_daemon.feed(data):
            if isinstance(line, TooLong):  # no daemon sends such a line
                continue
            if (done := _DONE(line)) and len(done[1]) < 20:
                self.answering = done[1].decode()
            elif line.startswith(b"@"):
                self._control(json.loads(line[1:]))
            else:
                self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        self.write(self._with_progress(line) if line.startswith(PROGRESS) else line)
        if self.answering is not None:
            self._answered(self.answering)
            self.answering = None

    def _with_progress(self, line: bytes) -> bytes:
        message = json.loads(line)
        token = json.dumps(message["params"]["progressToken"])
        if token not in self.progress and len(self.progress) >= MAX_TOKENS:
            del self.progress[next(iter(self.progress))]
        return self.progress.setdefault(token, Progress()).adjusted(line, message)

    def _answered(self, name: str) -> None:
        if pending := self.waiting.pop(name, None):
            self._remove_notes(pending)
            self.launcher.answered()
        if not self.waiting:
            self.progress.clear()

    def _control(self, message: Json) -> None:
        """A message of the daemon to us, not to the client."""
        if "done" in message:
            self._done(json.dumps(message["done"]), answered=message.get("answered", True))
        elif "job" in message:
            if pending := self.waiting.get(json.dumps(message["id"])):
                pending.job = str(message["job"])
                if pending.cancelled:
                    self._send(pending.cancelled)
        elif "hello" in message:
            self._greeted(str(message["hello"].get("version")))
        elif "leaving" in message:
            self.daemon_leaves = True
        elif "refused" in message:
            self._give_up(str(message["refused"]))

    def _done(self, name: str, *, answered: bool) -> None:
        if answered:
            self.answering = name
        else:
            self._answered(name)

    def _greeted(self, version: str) -> None:
        self.hello_received = True
        self.launcher.greeted()
        if older(version):
            self.retry_at = time.monotonic()
            return
        self.connected, self.retry_at, self.has_noted_jobs = True, 0.0, False
        if self.initialized:
            self._send(INITIALIZED)
        for pending in self.waiting.values():
            self.to_daemon += pending.to_send()
        for line in self.queue:
            self._send(line)
        self.queue.clear()

    # ── when the daemon is gone ──

    def _lost(self) -> None:
        """Take what still waits to the next daemon, and if this one was killed, its jobs too."""
        self._disconnect()
        self.connected, self.answering = False, None
        killed, self.daemon_leaves, self.hello_received = not self.daemon_leaves, False, False
        self.retry_at = 0.0
        self.to_daemon.clear()
        self.from_daemon.clear()
        for progress in self.progress.values():
            progress.restart()
        if killed:
            self.launcher.lost()
        if self.waiting or self.queue or killed:
            self.connect_soon()

    def _give_up(self, reason: str) -> None:
        """No daemon can be reached: fail every waiting request. The next call tries again."""
        self._note_jobs()
        self.launcher.release()
        self.retry_at = 0.0
        self.hello_received = self.connected = False
        for buffer in (self.queue, self.to_daemon, self.from_daemon):
            buffer.clear()
        self._disconnect()
        for pending in self.waiting.values():
            self._fail(pending, reason)
        self.waiting.clear()

    def _disconnect(self) -> None:
        if self.daemon is not None:
            self._unwatch()
            self.daemon.close()
            self.daemon = None

    def close(self) -> None:
        """The client is gone, and was promised nothing about the calls that still wait."""
        for pending in self.waiting.values():
            self._remove_notes(pending)

    def _fail(self, pending: PendingRequest, reason: str) -> None:
        self.has_noted_jobs |= pending.noted
        for failure in pending.failures(reason, self.state):
            self.write(as_line(failure))
