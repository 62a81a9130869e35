"""Relays a client's requests to the daemon and the answers back, and survives the daemon's death.

It connects to the daemon or starts one (`launcher.py`), identifies itself, and passes lines both ways; their protocol
is described in `daemon/connection.py`. When the daemon dies, it connects to the next one and sends unanswered requests
again. Each call has an unguessable key of its own, so that the caller gets the answer of the job it started.

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
HELLO_TIMEOUT = 20.0  # seconds for a daemon to send its hello
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"'
MAX_TOKENS = 1000  # calls whose progress numbers are remembered
IDLE_RETRY = 30.0  # seconds between attempts when only jobs with a note wait for the next daemon
MAX_BACKLOG = 1 << 20  # bytes queued for the daemon; beyond this, nothing more is read from the client
MAX_UNANSWERED = 256 << 20  # bytes of unanswered requests, kept to be sent again when a daemon dies
LONGEST_NAME = 200  # characters of a client's name


# the daemon's most frequent line, exactly as it encodes it
_DONE = re.compile(rb'@\{"done":(0|[1-9][0-9]*),"answered":true\}').fullmatch


def _used_params(initialize: Json | None) -> dict[str, object] | None:
    """The parameters of `initialize` that the daemon uses. The rest may be megabytes, to be sent to every daemon."""
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


def _name(request_id: object) -> str:
    """The JSON of a request's id."""
    return str(request_id) if type(request_id) is int else json.dumps(request_id)


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
        self.hello_received = False  # the daemon has sent its hello
        self.connected = False  # and it is not older than we are
        self.daemon_leaves = False  # the daemon announced its exit: reconnect only when a request needs one
        self.retry_at = 0.0  # when to try to reach the daemon again; 0: not at all
        self.give_up_at = 0.0  # when to stop trying if no request waits for a daemon
        self.has_noted_jobs = False  # jobs with a note wait for the next daemon
        self.initialize: Json | None = None  # the client's parameters of `initialize`
        self.initialized = False  # the client has sent `notifications/initialized`: each daemon gets it
        self.waiting: dict[str, PendingRequest] = {}  # by the JSON of the id (for a batch, of all ids)
        self.longest = 0  # bytes of the longest waiting line
        self.queue: list[bytes] = []  # notifications and answers for a daemon that is not connected yet
        self.answering: str | None = None  # the next line from the daemon answers this request
        self.progress: dict[str, Progress] = {}  # by the JSON of the token, while calls wait

    # ── from the client ──

    def request(self, request_id: object, line: bytes) -> None:
        if len(self.waiting) >= MOST_AT_ONCE or not self._has_space(len(line)):
            self.write(as_line(busy().response(None if isinstance(request_id, list) else request_id)))
            return
        pending = PendingRequest(request_id, line)
        self.waiting[_name(request_id)] = pending
        if self.connected:
            self.to_daemon += pending.to_send()
        else:
            self.connect_soon()

    def _has_space(self, size: int) -> bool:
        """Whether another line fits. Lengths are added up only when that many of the longest line would not fit."""
        self.longest = max(self.longest, size) if self.waiting else size
        if len(self.waiting) * self.longest + size <= MAX_UNANSWERED or not self.waiting:
            return True
        return size + sum(len(pending.line) for pending in self.waiting.values()) <= MAX_UNANSWERED

    def forward(self, line: bytes) -> None:
        """Pass on a line that is not a request."""
        if self.connected:
            self._send(line)
        else:
            self.queue.append(line)
            self.connect_soon()

    def cancel(self, request_id: object, line: bytes) -> None:
        pending = self.waiting.get(_name(request_id))
        if pending is not None:
            pending.cancelled, pending.abandoned = line, _is_timeout(line)
            if not pending.abandoned:
                self._remove_notes(pending)
            if self.connected:
                self._send(line)

    def is_backlogged(self) -> bool:
        """Whether so much is queued for the daemon that the client must wait."""
        return len(self.to_daemon) + sum(map(len, self.queue)) > MAX_BACKLOG

    def client_initialize(self, params: dict[str, object] | None) -> None:
        is_repeat, self.initialize = self.initialize is not None, _used_params(params)
        if is_repeat and self.connected:
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
            self.retry_at = time.monotonic() + HELLO_TIMEOUT  # when to give up waiting for its hello
            self._send(b"@" + as_line({"hello": self._hello()}))
        else:
            self._wait_for_daemon()

    def _wait_for_daemon(self) -> None:
        """Let calls wait for a daemon up to their client's limit. Notes keep their jobs from being given up."""
        limit = self._limit() if self.waiting else 0.0
        overdue = [
            name
            for name, pending in self.waiting.items()
            if self.launcher.should_give_up(pending.began, limit)
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
        """Seconds that this client waits for a call, as far as the front knows."""
        from counsel.mcp import client_timeouts  # needed only while no daemon can be reached

        return client_timeouts.time_limit_of(self.state.client, "stdio", os.environ)

    def _note_jobs(self) -> None:
        """Leave notes that our jobs continue: another engine on this home gives up interrupted calls after a minute."""
        for pending in self.waiting.values():
            stopped = pending.cancelled and not pending.abandoned
            if not pending.noted and not stopped and (jobs := pending.jobs()):
                notes = [pending_calls.note(self.launcher.home, job) for job in jobs]
                pending.noted = all(notes)

    def _remove_notes(self, pending: PendingRequest) -> None:
        if pending.noted:
            for job in pending.jobs():
                pending_calls.take(self.launcher.home, job)

    def _replace(self) -> None:
        """Tell an older daemon to hand over, as soon as no other process is starting one; then start ours."""
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
        """Watch the daemon's socket.

        While the client does not read, output stays in the daemon, which drops progress.
        """
        if self.daemon is None:
            return
        events = (select.POLLIN if client_reads else 0) | (select.POLLOUT if self.to_daemon else 0)
        if events:
            self.poll.register(self.daemon.fileno(), events)
            self.watched = True
        else:  # else a daemon that hangs up would wake us again and again
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
            if (match := _DONE(line)) and len(match[1]) < 20:
                self.answering = match[1].decode()
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
        """Handle a message from the daemon to the front itself."""
        if "done" in message:
            self._done(_name(message["done"]), answered=message.get("answered", True))
        elif "job" in message:
            if pending := self.waiting.get(_name(message["id"])):
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
        """Reconnect if requests wait, or if the daemon was killed: the next one continues its jobs."""
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
        """Fail all waiting requests, because no daemon can be reached. The next call tries again."""
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
        """Remove the notes of calls that still wait: the client is gone and was not told that they continue."""
        for pending in self.waiting.values():
            self._remove_notes(pending)

    def _fail(self, pending: PendingRequest, reason: str) -> None:
        self.has_noted_jobs |= pending.noted
        for failure in pending.failures(reason, self.state):
            self.write(as_line(failure))
