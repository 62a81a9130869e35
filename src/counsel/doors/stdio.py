"""`counsel stdio`: what every agent window starts. A small front; the work is done by the daemon.

It answers the handshake and `tools/list` at once from a manifest, reaches or starts the daemon meanwhile, says who
and where it is, and passes MCP both ways. When the daemon dies it reaches the next one and sends again what was not
answered, each call under its own unguessable key, so that the caller gets the answer of the job that it started.

One thread around `poll`, and as few imports as can be: they are most of what its start costs.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from counsel import __version__
from counsel.doors import environment
from counsel.doors.link import RETRY, Link, older
from counsel.doors.protocol import INTERNAL_ERROR, RpcError, Talk, check_message, is_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from counsel.types import Json

USAGE = """usage: counsel stdio [--as AGENT] [--standalone]

Speak MCP on stdin and stdout: what an agent starts as its MCP server.

  --as AGENT     who is calling: claude, codex, gemini or cursor (else by the client's name)
  --standalone   run the engine in this process instead of using the daemon
"""
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CHUNK = 1 << 16
WRITE_AT_ONCE = 4_096  # a pipe that polls as writable takes this much without blocking
LAST_WORDS = 2.0  # seconds that answers may still take when the client has closed our stdin
PATIENCE = 20.0  # seconds for a daemon to start
DEATHS = 5  # of daemons in a row under one call, before it is given up


def main(argv: list[str]) -> int:
    try:
        agent, standalone = _options(argv)
    except ValueError as error:
        sys.stderr.write(f"counsel stdio: {error}\n{USAGE}")
        return 2
    if agent == "help":
        sys.stdout.write(USAGE)
        return 0
    if standalone:
        from counsel.doors.standalone import serve  # noqa: PLC0415

        return serve(agent)
    try:
        return Front(agent).run()
    except KeyboardInterrupt:
        return 130


def _options(argv: list[str]) -> tuple[str | None, bool]:
    agent, standalone, rest = None, False, list(argv)
    while rest:
        option = rest.pop(0)
        if option in {"-h", "--help"}:
            return "help", False
        if option == "--standalone":
            standalone = True
        elif option == "--as" and rest:
            agent = rest.pop(0)
        elif option.startswith("--as="):
            agent = option[5:]
        else:
            raise ValueError(f"{option} needs a value" if option == "--as" else f"unknown option {option}")
    return agent, standalone


def _manifest() -> list[Json]:
    with open(os.path.join(os.path.dirname(__file__), "manifest.json"), "rb") as file:  # noqa: PTH118, PTH120, PTH123
        tools: list[Json] = json.load(file)["tools"]
    return tools


def _lines(kept: bytearray, data: bytes) -> list[bytes]:
    """The lines that `data` completes; what remains is kept. Appending is cheap however long a line gets."""
    if b"\n" not in data:
        kept += data
        return []
    *lines, rest = data.split(b"\n")
    lines[0] = bytes(kept) + lines[0]
    kept[:] = rest
    return lines


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


class Front:
    def __init__(self, agent: str | None) -> None:
        self.agent = agent
        self.talk = Talk(_manifest())
        self.link = Link(os.environ)
        self.poll = select.poll()
        self.stdin = bytearray()  # from the client, not yet a whole line
        self.out = bytearray()  # to the client
        self.up = bytearray()  # to the daemon
        self.down = bytearray()  # from the daemon, not yet a whole line
        self.daemon: socket.socket | None = None
        self.known = False  # the daemon has said hello, and
        self.greeted = False  # it is not older than we are
        self.dismissed = False  # the daemon said that it ends: nobody needs the next one before we do
        self.retry_at = 0.0  # when to try to reach the daemon again; 0: no need to
        self.give_up_at = 0.0
        self.ends_at = 0.0  # stdin is closed: when to leave whatever is still unanswered
        self.initialized: Json | None = None  # what the client said in `initialize`
        self.ready = False  # it has sent `notifications/initialized`: each daemon is told
        self.waiting: dict[str, Pending] = {}  # by the JSON of their id (of a batch: of all ids)
        self.queue: list[bytes] = []  # notifications and answers for a daemon that is not there yet
        self.answering: str | None = None  # the next line from the daemon answers this

    # ── the loop ──

    def run(self) -> int:
        self.poll.register(0, select.POLLIN)
        while not self._finished():
            self._watch_stdout()
            for file, event in self.poll.poll(self._timeout()):
                self._handle(file, event)
            self._connect_if_due()
        self._last_writes()
        return 0

    def _finished(self) -> bool:
        if not self.ends_at:
            return False
        return not (self.waiting or self.out) or time.monotonic() > self.ends_at

    def _timeout(self) -> float | None:
        moments = [moment for moment in (self.retry_at, self.ends_at) if moment]
        return max(0.0, min(moments) - time.monotonic()) * 1000 if moments else None

    def _watch_stdout(self) -> None:
        """Always for a reader that has gone; for room to write when there is something to write."""
        self.poll.register(1, select.POLLOUT if self.out else 0)
        if self.daemon is not None:
            mode = select.POLLIN | (select.POLLOUT if self.up else 0)
            self.poll.register(self.daemon.fileno(), mode)

    def _handle(self, file: int, event: int) -> None:
        if file == 0:
            self._read_stdin()
        elif file == 1:
            self._write_stdout(event)
        elif self.daemon is not None and file == self.daemon.fileno():
            self._serve_daemon(event)

    def _read_stdin(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except OSError:
            data = b""
        if not data:
            self.poll.unregister(0)
            self.ends_at = time.monotonic() + LAST_WORDS
            data = b"\n"
        for line in _lines(self.stdin, data):
            if line.strip():
                self._from_client(line)

    def _write_stdout(self, event: int) -> None:
        if event & (select.POLLERR | select.POLLNVAL):  # the reader has gone
            self.out.clear()
            self.waiting.clear()
            self.ends_at = self.ends_at or time.monotonic()
        elif event & select.POLLOUT:
            del self.out[: os.write(1, self.out[:WRITE_AT_ONCE])]

    def _last_writes(self) -> None:
        while self.out:
            del self.out[: os.write(1, self.out[:WRITE_AT_ONCE])]

    # ── the client ──

    def _from_client(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if isinstance(message, list):
                self._wait_for([part.get("id") for part in message], line)
                return
            check_message(message)
        except (ValueError, RecursionError, AttributeError, RpcError):
            # the daemon says what is wrong with it; but `@` is how we two talk, and a client is no part of that
            self._forward(b" " + line if line.startswith(b"@") else line)
            return
        if is_request(message):
            self._requested(message, line)
        elif message.get("method") == "notifications/initialized":
            self.ready = True
            if self.greeted:
                self._up(READY)
        elif message.get("method") == "notifications/cancelled":
            self._cancelled(message, line)
        else:
            self._forward(line)

    def _cancelled(self, message: Json, line: bytes) -> None:
        pending = self.waiting.get(json.dumps((message.get("params") or {}).get("requestId")))
        if pending is not None:
            pending.cancelled = line
            if self.greeted:
                self._up(line)

    def _requested(self, message: Json, line: bytes) -> None:
        try:
            self.talk.open(message)
            answer = self.talk.static(message)
        except RpcError as error:
            answer = error.response(message["id"])
        if answer is None:
            self._wait_for(message["id"], line)
            return
        self._answer(answer)
        if message["method"] == "initialize" and "result" in answer:
            self._know(message.get("params"))
        self._need_daemon()  # it starts while the client reads this

    def _know(self, params: Json | None) -> None:
        again, self.initialized = self.initialized is not None, params
        if again and self.greeted:
            self._up(b"@" + json.dumps({"initialize": params}).encode())

    def _answer(self, message: Json) -> None:
        self.out += (
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        )

    def _wait_for(self, request_id: Any, line: bytes) -> None:
        pending = Pending(request_id, line)
        self.waiting[json.dumps(request_id)] = pending
        if self.greeted:
            self.up += pending.sent()
        else:
            self._need_daemon()

    def _forward(self, line: bytes) -> None:
        if self.greeted:
            self._up(line)
        else:
            self.queue.append(line)
            self._need_daemon()

    # ── the daemon ──

    def _need_daemon(self) -> None:
        if self.daemon is None and not self.retry_at:
            self.retry_at = time.monotonic()
            self.give_up_at = self.retry_at + PATIENCE

    def _connect_if_due(self) -> None:
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
            self._up(b"@" + json.dumps({"hello": self._hello()}).encode())
        elif time.monotonic() > self.give_up_at:
            self._give_up("the daemon does not answer")
        else:
            self.retry_at = time.monotonic() + RETRY

    def _replace(self) -> None:
        """An older daemon: as soon as nobody else is starting one, it is told to end; then ours is started."""
        if self.link.take_lock():
            self._up(b'@{"handover":true}')
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
            "initialize": self.initialized,
        }

    def _up(self, line: bytes) -> None:
        self.up += line + b"\n"

    def _serve_daemon(self, event: int) -> None:
        assert self.daemon is not None  # noqa: S101 - the loop looked
        try:
            if event & select.POLLOUT and self.up:
                del self.up[: self.daemon.send(self.up[: 1 << 18])]
            if event & ~select.POLLOUT:
                data = self.daemon.recv(CHUNK)
                if not data:
                    self._lost()
                    return
                self._from_daemon(data)
        except BlockingIOError:
            return
        except OSError:
            self._lost()

    def _from_daemon(self, data: bytes) -> None:
        for line in _lines(self.down, data):
            if line.startswith(b"@"):
                self._noted(json.loads(line[1:]))
            else:
                self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        self.out += line + b"\n"
        if self.answering is not None:
            self.waiting.pop(self.answering, None)
            self.answering = None

    def _noted(self, note: Json) -> None:
        if "done" in note:
            self._done(json.dumps(note["done"]), answered=note.get("answered", True))
        elif "job" in note:
            if pending := self.waiting.get(json.dumps(note["id"])):
                pending.job = str(note["job"])
                if pending.cancelled:
                    self._up(pending.cancelled)
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
            self.waiting.pop(name, None)

    def _greeted(self, version: str) -> None:
        self.known = True
        if older(version):
            self.retry_at = time.monotonic()
            return
        self.greeted, self.retry_at = True, 0.0
        if self.ready:
            self._up(READY)
        for pending in self.waiting.values():
            self.up += pending.sent()
        for line in self.queue:
            self._up(line)
        self.queue.clear()

    def _lost(self) -> None:
        """The daemon has gone. Whoever still waits is taken to the next one, and so are its jobs if it was killed."""
        assert self.daemon is not None  # noqa: S101 - the loop looked
        self.poll.unregister(self.daemon.fileno())
        self.daemon.close()
        was_greeted, self.greeted, self.daemon, self.answering = self.greeted, False, None, None
        killed, self.dismissed, self.known = not self.dismissed, False, False
        self.retry_at = 0.0
        self.up.clear()
        self.down.clear()
        for name, pending in list(self.waiting.items()):
            pending.deaths += was_greeted
            if pending.deaths >= DEATHS:
                self._fail(self.waiting.pop(name), "the daemon ended again and again")
        if self.waiting or self.queue or killed:
            self._need_daemon()

    def _give_up(self, why: str) -> None:
        """No daemon can be had: say so to everybody who waits. The next call tries again."""
        self.link.release()
        self.retry_at = 0.0
        self.known = self.greeted = False
        for kept in (self.queue, self.up, self.down):
            kept.clear()
        if self.daemon is not None:
            self.poll.unregister(self.daemon.fileno())
            self.daemon.close()
            self.daemon = None
        for pending in self.waiting.values():
            self._fail(pending, why)
        self.waiting.clear()

    def _fail(self, pending: Pending, why: str) -> None:
        what = f"counsel's daemon cannot be reached: {why}."
        todo = f"The job is kept: check_status with continuation_id {pending.job}." if pending.job else ""
        ids = pending.request_id if isinstance(pending.request_id, list) else [pending.request_id]
        failure = {"error": what, "code": "INTERNAL", "hint": todo or "Run `counsel doctor`."}
        if pending.job:
            failure["job_id"] = pending.job
        for request_id in ids:
            if b'"tools/call"' in pending.line:
                text = f"INTERNAL: {what} {failure['hint']}"
                result = {
                    "content": [{"type": "text", "text": text}],
                    "structuredContent": failure,
                    "isError": True,
                }
                self._answer(
                    {"jsonrpc": "2.0", "id": request_id, "result": self.talk.stamped("tools/call", result)}
                )
            else:
                self._answer(RpcError(INTERNAL_ERROR, what).response(request_id))
