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
from counsel.doors import environment
from counsel.doors.link import RETRY, Link, older
from counsel.doors.protocol import INTERNAL_ERROR, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from counsel.doors.protocol import Talk
    from counsel.types import Json

READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CHUNK = 1 << 16
PATIENCE = 20.0  # seconds for a daemon to start
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress"'
TOKENS = 1000  # of calls whose progress is counted
DEATHS = 5  # of daemons in a row under one call, before it is given up


def whole_lines(kept: bytearray, data: bytes) -> list[bytes]:
    """The lines that `data` completes; what remains is kept. Appending is cheap however long a line gets."""
    if b"\n" not in data:
        kept += data
        return []
    *lines, rest = data.split(b"\n")
    lines[0] = bytes(kept) + lines[0]
    kept[:] = rest
    return lines


def as_line(message: Json) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # the folder is gone
        return "/nowhere"


class Pending:
    """A request that the daemon has to answer."""

    __slots__ = ("cancelled", "deaths", "job", "key", "line", "request_id")

    def __init__(self, request_id: Any, line: bytes) -> None:
        self.request_id = request_id
        self.line = line
        self.key = os.urandom(16).hex()
        self.job = ""
        self.deaths = 0
        self.cancelled = b""  # the client's notification, for the next daemon once it has found the job

    def sent(self) -> bytes:
        return b'@{"key":"%s"}\n%s\n' % (self.key.encode(), self.line)

    def failures(self, why: str, talk: Talk) -> list[Json]:
        """The answer that no daemon gave; of a batch, one for each of its requests."""
        what = f"counsel's daemon cannot be reached: {why}."
        ids = self.request_id if isinstance(self.request_id, list) else [self.request_id]
        if b'"tools/call"' not in self.line:
            return [RpcError(INTERNAL_ERROR, what).response(request_id) for request_id in ids]
        result = talk.stamped("tools/call", self._failed_call(what))
        return [{"jsonrpc": "2.0", "id": request_id, "result": result} for request_id in ids]

    def _failed_call(self, what: str) -> Json:
        kept = f"The job is kept: check_status with continuation_id {self.job}." if self.job else ""
        failure = {"error": what, "code": "INTERNAL", "hint": kept or "Run `counsel doctor`."}
        if self.job:
            failure["job_id"] = self.job
        text = f"INTERNAL: {what} {failure['hint']}"
        return {"content": [{"type": "text", "text": text}], "structuredContent": failure, "isError": True}


class Progress:
    """Numbers of one call's progress. They must grow, and each daemon counts for itself."""

    __slots__ = ("before", "last")

    def __init__(self) -> None:
        self.before: float = 0
        self.last: float = 0

    def grown(self, line: bytes, message: Json) -> bytes:
        self.last = message["params"]["progress"] = self.before + message["params"]["progress"]
        return as_line(message) if self.before else line


class Carrier:
    def __init__(
        self, agent: str | None, talk: Talk, poll: select.poll, tell: Callable[[bytes], None]
    ) -> None:
        self.agent = agent
        self.talk = talk
        self.poll = poll
        self.tell = tell  # a line to the client
        self.link = Link(os.environ)
        self.daemon: socket.socket | None = None
        self.up = bytearray()  # to the daemon
        self.down = bytearray()  # from the daemon, not yet a whole line
        self.known = False  # the daemon has said hello, and
        self.greeted = False  # it is not older than we are
        self.dismissed = False  # the daemon said that it ends: nobody needs the next one before we do
        self.retry_at = 0.0  # when to try to reach the daemon again; 0: no need to
        self.give_up_at = 0.0
        self.client: Json | None = None  # what it said in `initialize`
        self.ready = False  # it has sent `notifications/initialized`: each daemon is told
        self.waiting: dict[str, Pending] = {}  # by the JSON of their id (of a batch: of all ids)
        self.queue: list[bytes] = []  # notifications and answers for a daemon that is not there yet
        self.answering: str | None = None  # the next line from the daemon answers this
        self.progress: dict[str, Progress] = {}  # by the JSON of their tokens, while calls wait

    # ── from the client ──

    def ask(self, request_id: Any, line: bytes) -> None:
        pending = Pending(request_id, line)
        self.waiting[json.dumps(request_id)] = pending
        if self.greeted:
            self.up += pending.sent()
        else:
            self.need()

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
            pending.cancelled = line
            if self.greeted:
                self._send(line)

    def introduce(self, client: Json | None) -> None:
        again, self.client = self.client is not None, client
        if again and self.greeted:
            self._send(b"@" + json.dumps({"initialize": client}).encode())

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
            self._replace() if self.known else self._give_up(self.link.silent())
            return
        try:
            self.daemon = self.link.attempt()
        except OSError as error:
            self._give_up(str(error))
            return
        if self.daemon is not None:
            self.retry_at = time.monotonic() + PATIENCE  # to give up, unless it has said hello by then
            self.daemon.setblocking(False)
            self._send(b"@" + json.dumps({"hello": self._hello()}).encode())
        elif time.monotonic() > self.give_up_at:
            self._give_up("the daemon does not answer")
        else:
            self.retry_at = time.monotonic() + RETRY

    def _replace(self) -> None:
        """An older daemon: as soon as nobody else is starting one, it is told to end; then ours is started."""
        if self.link.take_lock():
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

    def watch(self) -> None:
        if self.daemon is not None:
            self.poll.register(self.daemon.fileno(), select.POLLIN | (select.POLLOUT if self.up else 0))

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
        for line in whole_lines(self.down, data):
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
        self.waiting.pop(name, None)
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
        if older(version):
            self.retry_at = time.monotonic()
            return
        self.greeted, self.retry_at = True, 0.0
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
        was_greeted, self.greeted, self.answering = self.greeted, False, None
        killed, self.dismissed, self.known = not self.dismissed, False, False
        self.retry_at = 0.0
        self.up.clear()
        self.down.clear()
        for progress in self.progress.values():
            progress.before = progress.last
        for name, pending in list(self.waiting.items()):
            pending.deaths += was_greeted
            if pending.deaths >= DEATHS:
                self._fail(self.waiting.pop(name), "the daemon ended again and again")
        if self.waiting or self.queue or killed:
            self.need()

    def _give_up(self, why: str) -> None:
        """No daemon can be had: say so to everybody who waits. The next call tries again."""
        self.link.release()
        self.retry_at = 0.0
        self.known = self.greeted = False
        for kept in (self.queue, self.up, self.down):
            kept.clear()
        self._disconnect()
        for pending in self.waiting.values():
            self._fail(pending, why)
        self.waiting.clear()

    def _disconnect(self) -> None:
        if self.daemon is not None:
            self.poll.unregister(self.daemon.fileno())
            self.daemon.close()
            self.daemon = None

    def _fail(self, pending: Pending, why: str) -> None:
        for failure in pending.failures(why, self.talk):
            self.tell(as_line(failure))
