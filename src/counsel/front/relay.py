"""Carries a window's requests to the daemon and the answers back, whatever daemons come and go.

It reaches the daemon or starts one (`link.py`), says who and where it is, and passes lines both ways; how the two talk
is in `socket.py`. When the daemon dies it reaches the next one and sends again what was not answered, each call under
its own unguessable key, so that the caller gets the answer of the job that it started.

Nothing here blocks: `stdio.py` has the loop. As few imports as can be, like there.
"""

from __future__ import annotations

import json
import os
import select
import time

from counsel import __version__
from counsel import pending_calls as kept
from counsel.front import environment
from counsel.front.bounded_lines import Lines, TooLong
from counsel.front.json_messages import encode
from counsel.front.launcher import RETRY, Launcher, older
from counsel.front.protocol import INTERNAL_ERROR, MOST_AT_ONCE, RpcError, busy

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from counsel.front.protocol import ProtocolState
    from counsel.types import Json

READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CHUNK = 1 << 16
PATIENCE = 20.0  # seconds for a daemon to say hello
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"'
TOKENS = 1000  # of calls whose progress is counted
UNHURRIED = 30.0  # seconds between attempts when no call waits: jobs that were kept go on in the next daemon
CROWDED = 1 << 20  # bytes for the daemon, beyond which nothing more is read from the client
MOST_KEPT = 256 << 20  # bytes of requests that are not answered: they are sent again when a daemon dies
LONGEST_NAME = 200  # characters that a client may call itself


def as_line(message: Json) -> bytes:
    return encode(message)[:-1]


def _known(client: Json | None) -> Json | None:
    """What the daemon uses of `initialize`; the rest may be megabytes, and each daemon is told."""
    if client is None:
        return None
    name = (client.get("clientInfo") or {}).get("name")
    capabilities = client.get("capabilities")
    has_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
    return {
        "protocolVersion": client.get("protocolVersion"),
        "clientInfo": {"name": name[:LONGEST_NAME] if isinstance(name, str) else ""},
        "capabilities": {"roots": {}} if has_roots else {},
    }


def _is_timeout(cancellation: bytes) -> bool:
    from counsel.mcp import client_timeouts  # noqa: PLC0415 - few calls are cancelled

    return client_timeouts.is_timeout(json.loads(cancellation)["params"].get("reason"))


def _cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # the folder is gone
        return "/nowhere"


class PendingRequest:
    """A request that the daemon has to answer."""

    __slots__ = ("began", "cancelled", "job", "kept", "key", "left", "line", "request_id", "was_sent")

    def __init__(self, request_id: Any, line: bytes) -> None:
        self.request_id = request_id
        self.line = line
        self.key = os.urandom(16).hex()
        self.began = time.monotonic()
        self.job = ""
        self.was_sent = False  # a daemon may have begun it
        self.kept = False  # a note says that its job goes on without us
        self.left = False  # the client gave up by its own clock: the job goes on
        self.cancelled = b""  # the client's notification, for the next daemon once it has found the job

    def sent(self) -> bytes:
        new, self.was_sent = b"" if self.was_sent else b',"new":true', True
        waited = b"%.1f" % (time.monotonic() - self.began)  # the client's clock runs while a daemon starts
        return b'@{"key":"%s","waited":%s%s}\n%s\n' % (self.key.encode(), waited, new, self.line)

    @property
    def is_call(self) -> bool:
        return b'"tools/call"' in self.line

    def jobs(self) -> list[str]:
        """The jobs that a daemon has made of this, if it came that far."""
        if not self.is_call or not self.was_sent:
            return []
        if not isinstance(self.request_id, list):
            return [kept.job_id(self.key)]
        return [kept.job_id(f"{self.key}.{at}") for at in range(len(self.request_id))]

    def failures(self, why: str, protocol_state: ProtocolState) -> list[Json]:
        """The answer that no daemon gave; of a batch, one for each of its requests."""
        what = f"counsel's daemon cannot be reached: {why}."
        ids = self.request_id if isinstance(self.request_id, list) else [self.request_id]
        if not self.is_call:
            return [RpcError(INTERNAL_ERROR, what).response(request_id) for request_id in ids]
        jobs = self.jobs() or [""] * len(ids)
        if self.job and len(ids) == 1:
            jobs = [self.job]
        results = [protocol_state.stamped("tools/call", self._failed_call(what, job)) for job in jobs]
        return [
            {"jsonrpc": "2.0", "id": request_id, "result": result}
            for request_id, result in zip(ids, results, strict=True)
        ]

    def _failed_call(self, what: str, job: str) -> Json:
        failure = {"error": what, "code": "INTERNAL", "hint": self._hint(job)}
        if job:
            failure["job_id"] = job
        text = f"INTERNAL: {what} {failure['hint']}"
        return {"content": [{"type": "text", "text": text}], "structuredContent": failure, "isError": True}

    def _hint(self, job: str) -> str:
        if not job:
            return "Nothing was asked. `counsel doctor` may say more; then ask again."
        if not self.kept:
            return (
                f"The call was interrupted; check_status with continuation_id {job} says whether it goes on."
            )
        if self.job:
            return f"The job is kept and goes on as soon as a daemon runs: check_status with continuation_id {job}."
        return (
            f"If it had begun, it goes on as soon as a daemon runs: check_status with continuation_id {job}."
        )


class Progress:
    """Numbers of one call's progress. They must grow, and each daemon counts for itself."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.before: float = 0
        self.last: float = 0

    def grown(self, line: bytes, message: Json) -> bytes:
        self.last = message["params"]["progress"] = self.before + message["params"]["progress"]
        return as_line(message) if self.before else line


class Relay:
    def __init__(
        self,
        agent: str | None,
        protocol_state: ProtocolState,
        poll: select.poll,
        tell: Callable[[bytes], None],
    ) -> None:
        self.agent = agent
        self.protocol_state = protocol_state
        self.poll = poll
        self.tell = tell  # a line to the client
        self.launcher = Launcher(os.environ)
        self.daemon: socket.socket | None = None
        self.watched = False  # `poll` looks at the daemon
        self.up = bytearray()  # to the daemon
        self.down = Lines()  # from the daemon
        self.known = False  # the daemon has said hello, and
        self.greeted = False  # it is not older than we are
        self.dismissed = False  # the daemon said that it ends: nobody needs the next one before we do
        self.retry_at = 0.0  # when to try to reach the daemon again; 0: no need to
        self.give_up_at = 0.0  # when to stop trying if nobody waits
        self.kept = False  # jobs of ours wait for the next daemon
        self.client: Json | None = None  # what it said in `initialize`
        self.ready = False  # it has sent `notifications/initialized`: each daemon is told
        self.waiting: dict[str, PendingRequest] = {}  # by the JSON of their id (of a batch: of all ids)
        self.longest = 0  # bytes of the longest line that waits
        self.queue: list[bytes] = []  # notifications and answers for a daemon that is not there yet
        self.answering: str | None = None  # the next line from the daemon answers this
        self.progress: dict[str, Progress] = {}  # by the JSON of their tokens, while calls wait

    # ── from the client ──

    def ask(self, request_id: Any, line: bytes) -> None:
        if len(self.waiting) >= MOST_AT_ONCE or not self._has_room(len(line)):
            self.tell(as_line(busy().response(None if isinstance(request_id, list) else request_id)))
            return
        pending = PendingRequest(request_id, line)
        self.waiting[json.dumps(request_id)] = pending
        if self.greeted:
            self.up += pending.sent()
        else:
            self.need()

    def _has_room(self, size: int) -> bool:
        """Lines are counted one by one only when as many of the longest would be too much."""
        self.longest = max(self.longest, size) if self.waiting else size
        if len(self.waiting) * self.longest + size <= MOST_KEPT:
            return True
        return not self.waiting or size + sum(len(other.line) for other in self.waiting.values()) <= MOST_KEPT

    def forward(self, line: bytes) -> None:
        """What has no answer, or none that we could give instead."""
        if self.greeted:
            self._send(line)
        else:
            self.queue.append(line)
            self.need()

    def cancel(self, request_id: Any, line: bytes) -> None:
        pending = self.waiting.get(json.dumps(request_id))
        if pending is not None:
            pending.cancelled, pending.left = line, _is_timeout(line)
            if not pending.left:
                self._unkeep(pending)
            if self.greeted:
                self._send(line)

    def crowded(self) -> bool:
        """Whether the client must wait until the daemon has taken what it said."""
        return len(self.up) + sum(map(len, self.queue)) > CROWDED

    def introduce(self, client: Json | None) -> None:
        again, self.client = self.client is not None, _known(client)
        if again and self.greeted:
            self._send(b"@" + as_line({"initialize": self.client}))

    def initialized(self) -> None:
        self.ready = True
        if self.greeted:
            self._send(READY)

    def _send(self, line: bytes) -> None:
        self.up += line + b"\n"

    # ── reaching a daemon ──

    def need(self) -> None:
        if self.daemon is None and not self.retry_at:
            self.retry_at = time.monotonic()
            self.give_up_at = self.retry_at + PATIENCE

    def connect_if_due(self) -> None:
        if not self.retry_at or time.monotonic() < self.retry_at:
            return
        if self.daemon is not None:
            self._replace() if self.known else self._give_up(self.launcher.silent())
            return
        self.daemon = self.launcher.attempt()
        if self.daemon is not None:
            self.retry_at = time.monotonic() + PATIENCE  # to give up, unless it has said hello by then
            self.daemon.setblocking(False)
            self._send(b"@" + as_line({"hello": self._hello()}))
        else:
            self._wait_on()

    def _wait_on(self) -> None:
        """There is no daemon yet. Calls wait for one until their client's limit; their jobs are not given up meanwhile."""
        limit = self._limit() if self.waiting else 0.0
        overdue = [name for name, one in self.waiting.items() if self.launcher.hopeless(one.began, limit)]
        if self.launcher.problem or overdue:
            self._keep_jobs()
        for name in overdue:
            self._fail(self.waiting.pop(name), self.launcher.problem or "it has not started yet")
        pause = self.launcher.pause()
        if not (self.waiting or self.queue) and time.monotonic() > self.give_up_at:
            self.launcher.release()
            pause = UNHURRIED if self.kept else 0.0
        self.retry_at = time.monotonic() + pause if pause else 0.0

    def _limit(self) -> float:
        """Seconds that this client waits for a call, as far as is known without a daemon."""
        from counsel.mcp import client_timeouts  # noqa: PLC0415 - only where no daemon can be had

        return client_timeouts.patience_of(self.protocol_state.client, "stdio", os.environ)

    def _keep_jobs(self) -> None:
        """Another engine on this home would give up an interrupted call whose client does not come back in a minute."""
        for pending in self.waiting.values():
            stopped = pending.cancelled and not pending.left
            if not pending.kept and not stopped and (jobs := pending.jobs()):
                noted = [kept.note(self.launcher.home, job) for job in jobs]
                pending.kept = all(noted)

    def _unkeep(self, pending: PendingRequest) -> None:
        if pending.kept:
            for job in pending.jobs():
                kept.take(self.launcher.home, job)

    def _replace(self) -> None:
        """An older daemon: as soon as nobody else is starting one, it is told to end; then ours is started."""
        if self.launcher.take_lock():
            self._send(b'@{"handover":true}')
            self.retry_at = 0.0
        else:
            self.retry_at = time.monotonic() + RETRY

    def _hello(self) -> Json:
        return {
            "role": "mcp",
            "version": __version__,
            "agent": self.agent,
            "cwd": _cwd(),
            "env": environment.travelling(os.environ),
            "initialize": self.client,
        }

    # ── the daemon's side of the loop ──

    def watch(self, *, is_heard: bool) -> None:
        """`is_heard`: the client reads; else the daemon's words wait with the daemon, which drops progress then."""
        if self.daemon is None:
            return
        events = (select.POLLIN if is_heard else 0) | (select.POLLOUT if self.up else 0)
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
            if event & select.POLLOUT and self.up:
                del self.up[: self.daemon.send(self.up[: 1 << 18])]
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
        for line in self.down.feed(data):
            if isinstance(line, TooLong):  # no daemon says so much
                continue
            if line.startswith(b"@"):
                self._noted(json.loads(line[1:]))
            else:
                self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        self.tell(self._counted(line) if line.startswith(PROGRESS) else line)
        if self.answering is not None:
            self._answered(self.answering)
            self.answering = None

    def _counted(self, line: bytes) -> bytes:
        message = json.loads(line)
        token = json.dumps(message["params"]["progressToken"])
        if token not in self.progress and len(self.progress) >= TOKENS:
            del self.progress[next(iter(self.progress))]
        return self.progress.setdefault(token, Progress()).grown(line, message)

    def _answered(self, name: str) -> None:
        if pending := self.waiting.pop(name, None):
            self._unkeep(pending)
            self.launcher.answered()
        if not self.waiting:
            self.progress.clear()

    def _noted(self, note: Json) -> None:
        if "done" in note:
            self._done(json.dumps(note["done"]), answered=note.get("answered", True))
        elif "job" in note:
            if pending := self.waiting.get(json.dumps(note["id"])):
                pending.job = str(note["job"])
                if pending.cancelled:
                    self._send(pending.cancelled)
        elif "hello" in note:
            self._greeted(str(note["hello"].get("version")))
        elif "leaving" in note:
            self.dismissed = True
        elif "refused" in note:
            self._give_up(str(note["refused"]))

    def _done(self, name: str, *, answered: bool) -> None:
        if answered:
            self.answering = name
        else:
            self._answered(name)

    def _greeted(self, version: str) -> None:
        self.known = True
        self.launcher.greeted()
        if older(version):
            self.retry_at = time.monotonic()
            return
        self.greeted, self.retry_at, self.kept = True, 0.0, False
        if self.ready:
            self._send(READY)
        for pending in self.waiting.values():
            self.up += pending.sent()
        for line in self.queue:
            self._send(line)
        self.queue.clear()

    # ── when it is gone ──

    def _lost(self) -> None:
        """The daemon has gone. Whoever still waits is taken to the next one, and so are its jobs if it was killed."""
        self._disconnect()
        self.greeted, self.answering = False, None
        killed, self.dismissed, self.known = not self.dismissed, False, False
        self.retry_at = 0.0
        self.up.clear()
        self.down.clear()
        for progress in self.progress.values():
            progress.before = progress.last
        if killed:
            self.launcher.lost()
        if self.waiting or self.queue or killed:
            self.need()

    def _give_up(self, why: str) -> None:
        """No daemon can be had: say so to everybody who waits. The next call tries again."""
        self._keep_jobs()
        self.launcher.release()
        self.retry_at = 0.0
        self.known = self.greeted = False
        for buffer in (self.queue, self.up, self.down):
            buffer.clear()
        self._disconnect()
        for pending in self.waiting.values():
            self._fail(pending, why)
        self.waiting.clear()

    def _disconnect(self) -> None:
        if self.daemon is not None:
            self._unwatch()
            self.daemon.close()
            self.daemon = None

    def close(self) -> None:
        """The client has gone. Nobody was promised anything about the calls that still wait."""
        for pending in self.waiting.values():
            self._unkeep(pending)

    def _fail(self, pending: PendingRequest, why: str) -> None:
        self.kept |= pending.kept
        for failure in pending.failures(why, self.protocol_state):
            self.tell(as_line(failure))
