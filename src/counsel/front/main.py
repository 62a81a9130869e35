"""`counsel stdio`: the process that every agent starts as its MCP server. The daemon does the work.

It answers the handshake and `tools/list` from a manifest, connects to the daemon or starts one meanwhile, and relays
everything else to it (`relay.py`). This module parses the command and serves stdin and stdout.

One thread around `poll`, and as few imports as possible: they are most of the cost of starting.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from counsel import run_paths
from counsel.front.bounded_lines import Lines, TooLong
from counsel.front.json_messages import Unreadable, parse
from counsel.front.pending_request import as_line
from counsel.front.protocol import (
    ProtocolState,
    RpcError,
    batch_ids,
    check_batch,
    check_message,
    is_request,
    reply_id,
    unreadable,
)
from counsel.front.relay import Relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from counsel.types import Json

USAGE = """usage: counsel stdio [--as AGENT] [--standalone]

Speak MCP on stdin and stdout, as the MCP server that an agent starts.

  --as AGENT     the calling agent: claude, codex, gemini … (default: from the client's name)
  --standalone   run the engine in this process instead of using the daemon
"""
WAITING = """\
counsel stdio is waiting for an MCP client on standard input.
Agents start it; `counsel setup` registers it with them.
Ctrl-C or Ctrl-D ends it. To ask a model from here: counsel ask "…"
"""
CHUNK = 1 << 16
WRITE_AT_ONCE = 4_096  # a pipe that polls as writable takes this much without blocking
# When its reader is gone, a pipe reports POLLERR; a pipe on macOS and a socket that Node.js gives its children,
# POLLHUP.
GONE = select.POLLERR | select.POLLNVAL | select.POLLHUP
ANSWER_GRACE = 2.0  # seconds for pending answers after the client has closed our stdin
READ_GRACE = 10.0  # seconds without a byte read, after which the last answers are dropped
MAX_UNREAD = 1 << 20  # bytes of unread answers; beyond this, nothing more is read from the client


def main(argv: list[str]) -> int:
    try:
        agent, standalone = _options(argv)
    except ValueError as error:
        sys.stderr.write(f"counsel stdio: {error}\n{USAGE}")
        return 2
    if agent == "help":
        sys.stdout.write(USAGE)
        return 0
    if problem := run_paths.home_problem(os.environ):
        return _answer_all(f"{problem} {run_paths.HOME_HINT}")
    try:
        if os.isatty(0):
            sys.stderr.write(WAITING)
        if standalone:
            from counsel.daemon.standalone import serve

            return serve(agent)
        return Front(agent).run()
    except KeyboardInterrupt:
        if os.isatty(0):
            sys.stderr.write("\n")  # after the terminal's ^C
        return 130


def _answer_all(problem: str) -> int:
    """Answer every request with the problem: clients show errors to their users, and hide a server's stderr."""
    sys.stderr.write(f"counsel stdio: {problem}\n")
    sys.stderr.flush()
    while line := sys.stdin.buffer.readline(CHUNK):
        try:
            message = parse(line)
        except Unreadable:
            continue
        if isinstance(message, dict) and is_request(message):
            sys.stdout.buffer.write(as_line(RpcError(-32603, problem).response(message["id"])) + b"\n")
            sys.stdout.buffer.flush()
    return 1


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


def _manifest() -> list[dict[str, object]]:
    with open(os.path.join(os.path.dirname(__file__), "manifest.json"), "rb") as file:
        tools: list[Json] = json.load(file)["tools"]
    return tools


class Front:
    """The client's side: its lines on stdin, our answers on stdout."""

    def __init__(self, agent: str | None) -> None:
        self.state = ProtocolState(_manifest())
        self.poll = select.poll()
        self.stdout = select.poll()
        self.stdout.register(1, select.POLLOUT)
        self.relay = Relay(agent, self.state, self.poll, self._write_line)
        self.stdin = Lines()  # from the client
        self.stdin_open, self.stdin_watched = True, False
        self.out = bytearray()  # to the client
        self.ends_at = 0.0  # when to drop unanswered requests, once stdin is closed

    # ── the loop ──

    def run(self) -> int:
        while not self._finished():
            self._watch_stdin()
            # stdout: always watched for a reader that leaves, and for space when there is something to write
            self.poll.register(1, select.POLLOUT if self.out else 0)
            self.relay.watch(client_reads=len(self.out) < MAX_UNREAD)
            for file, event in self.poll.poll(self._timeout()):
                self._handle(file, event)
            self._write_what_fits()  # before looking for a daemon, which takes milliseconds
            self.relay.connect_if_due()
        self._last_writes()
        self.relay.close()
        return 0

    def _watch_stdin(self) -> None:
        """Read from the client unless it does not read its answers or is faster than the daemon: nothing piles up."""
        if self.stdin_open and len(self.out) < MAX_UNREAD and not self.relay.is_backlogged():
            self.poll.register(0, select.POLLIN)
            self.stdin_watched = True
        elif self.stdin_watched:
            self.poll.unregister(0)
            self.stdin_watched = False

    def _finished(self) -> bool:
        if not self.ends_at:
            return False
        return not (self.relay.waiting or self.out) or time.monotonic() > self.ends_at

    def _timeout(self) -> float | None:
        deadlines = [at for at in (self.relay.retry_at, self.ends_at) if at]
        return max(0.0, min(deadlines) - time.monotonic()) * 1000 if deadlines else None

    def _handle(self, file: int, event: int) -> None:
        if file == 0:
            self._read_stdin()
        elif file == 1:
            self._write_stdout(event)
        else:
            self.relay.serve(file, event)

    def _read_stdin(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except OSError:
            data = b""
        if not data:
            self.stdin_open = False
            self.ends_at = time.monotonic() + ANSWER_GRACE
            data = b"\n"
        for line in self.stdin.feed(data):
            if isinstance(line, TooLong):
                self._write_line(as_line(line.response()))
            elif line.strip():
                self._from_client(line)

    def _write_stdout(self, event: int) -> None:
        if event & GONE:
            self._reader_gone()
        elif event & select.POLLOUT:
            self._write()

    def _write(self) -> None:
        try:
            del self.out[: os.write(1, self.out[:WRITE_AT_ONCE])]
        except ConnectionError:
            self._reader_gone()

    def _reader_gone(self) -> None:
        self.out.clear()
        self.relay.close()
        self.relay.waiting.clear()
        self.ends_at = self.ends_at or time.monotonic()

    def _write_what_fits(self) -> None:
        while self.out and (events := self.stdout.poll(0)):
            self._write_stdout(events[0][1])

    def _last_writes(self) -> None:
        while self.out and self.stdout.poll(READ_GRACE * 1000):
            self._write()

    def _write_line(self, line: bytes) -> None:
        self.out += line + b"\n"

    # ── messages from the client ──

    def _from_client(self, line: bytes) -> None:
        try:
            message = parse(line)  # also refuses lines with `@`, which are between front and daemon
        except Unreadable as error:
            self._refuse(unreadable(error))
            return
        try:
            if isinstance(message, list):
                check_batch(message, self.state.version)
                self.relay.request(batch_ids(message), line)
                return
            check_message(message)
        except RpcError as error:
            self._refuse(error, reply_id(message))
            return
        if is_request(message):
            self._on_request(message, line)
        elif message.get("method") == "notifications/initialized":
            self.relay.client_initialized()
        elif message.get("method") == "notifications/cancelled":
            self.relay.cancel((message.get("params") or {}).get("requestId"), line)
        else:
            self.relay.forward(line)

    def _refuse(self, error: RpcError, request_id: object = None) -> None:
        self._write_line(as_line(error.response(request_id)))

    def _on_request(self, message: Json, line: bytes) -> None:
        try:
            self.state.open(message)
            answer = self.state.static(message)
        except RpcError as error:
            answer = error.response(message["id"])
        if answer is None:
            self.relay.request(message["id"], line)
            return
        self._write_line(as_line(answer))
        if message["method"] == "initialize" and "result" in answer:
            self.relay.client_initialize(message.get("params"))
        self.relay.connect_soon()  # the daemon starts while the client reads the answer
