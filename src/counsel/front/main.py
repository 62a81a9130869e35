"""`counsel stdio`: what every agent window starts. A small front; the work is done by the daemon.

It answers the handshake and `tools/list` at once from a manifest; everything else goes to the daemon and comes back
through `carrier.py`, which reaches or starts one meanwhile. Here are the command, stdin and stdout, and the client.

One thread around `poll`, and as few imports as can be: they are most of what its start costs.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from counsel.front.bounded_lines import Lines, TooLong
from counsel.front.json_messages import Unreadable, parse
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
from counsel.front.relay import Relay, as_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from counsel.types import Json

USAGE = """usage: counsel stdio [--as AGENT] [--standalone]

Speak MCP on stdin and stdout: what an agent starts as its MCP server.

  --as AGENT     who is calling: claude, codex, gemini … (else by the client's name)
  --standalone   run the engine in this process instead of using the daemon
"""
CHUNK = 1 << 16
WRITE_AT_ONCE = 4_096  # a pipe that polls as writable takes this much without blocking
# A pipe says POLLERR when its reader has gone; a socket, which Node.js gives its children, and macOS' pipes say POLLHUP.
GONE = select.POLLERR | select.POLLNVAL | select.POLLHUP
LAST_WORDS = 2.0  # seconds that answers may still take when the client has closed our stdin
LAST_READ = 10.0  # seconds without a byte read, after which the last answers are not waited for
UNREAD = 1 << 20  # bytes of answers that the client has not read, beyond which nothing more is read for it


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
        from counsel.mcp.standalone import serve  # noqa: PLC0415

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


class Front:
    """The client's side: its lines on stdin, our answers on stdout."""

    def __init__(self, agent: str | None) -> None:
        self.protocol_state = ProtocolState(_manifest())
        self.poll = select.poll()
        self.room = select.poll()  # on stdout
        self.room.register(1, select.POLLOUT)
        self.relay = Relay(agent, self.protocol_state, self.poll, self._tell)
        self.stdin = Lines()  # from the client
        self.stdin_open, self.stdin_watched = True, False
        self.out = bytearray()  # to the client
        self.ends_at = 0.0  # stdin is closed: when to leave whatever is still unanswered

    # ── the loop ──

    def run(self) -> int:
        while not self._finished():
            self._watch_stdin()
            # stdout: always for a reader that has gone; for room to write when there is something to write
            self.poll.register(1, select.POLLOUT if self.out else 0)
            self.relay.watch(is_heard=len(self.out) < UNREAD)
            for file, event in self.poll.poll(self._timeout()):
                self._handle(file, event)
            self._write_what_fits()  # before a daemon is looked for, which takes milliseconds
            self.relay.connect_if_due()
        self._last_writes()
        self.relay.close()
        return 0

    def _watch_stdin(self) -> None:
        """Who does not read its answers, or is quicker than the daemon, waits: nothing piles up here."""
        if self.stdin_open and len(self.out) < UNREAD and not self.relay.crowded():
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
        moments = [moment for moment in (self.relay.retry_at, self.ends_at) if moment]
        return max(0.0, min(moments) - time.monotonic()) * 1000 if moments else None

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
            self.ends_at = time.monotonic() + LAST_WORDS
            data = b"\n"
        for line in self.stdin.feed(data):
            if isinstance(line, TooLong):
                self._tell(as_line(line.response()))
            elif line.strip():
                self._from_client(line)

    def _write_stdout(self, event: int) -> None:
        if event & GONE:
            self._unheard()
        elif event & select.POLLOUT:
            self._write()

    def _write(self) -> None:
        try:
            del self.out[: os.write(1, self.out[:WRITE_AT_ONCE])]
        except ConnectionError:
            self._unheard()

    def _unheard(self) -> None:
        self.out.clear()
        self.relay.close()
        self.relay.waiting.clear()
        self.ends_at = self.ends_at or time.monotonic()

    def _write_what_fits(self) -> None:
        while self.out and (found := self.room.poll(0)):
            self._write_stdout(found[0][1])

    def _last_writes(self) -> None:
        while self.out and self.room.poll(LAST_READ * 1000):
            self._write()

    def _tell(self, line: bytes) -> None:
        self.out += line + b"\n"

    # ── what the client says ──

    def _from_client(self, line: bytes) -> None:
        try:
            message = parse(line)  # never true of a line with `@`, which is how we and the daemon talk
        except Unreadable as error:
            self._refuse(unreadable(error))
            return
        try:
            if isinstance(message, list):
                check_batch(message, self.protocol_state.version)
                self.relay.ask(batch_ids(message), line)
                return
            check_message(message)
        except RpcError as error:
            self._refuse(error, reply_id(message))
            return
        if is_request(message):
            self._requested(message, line)
        elif message.get("method") == "notifications/initialized":
            self.relay.initialized()
        elif message.get("method") == "notifications/cancelled":
            self.relay.cancel((message.get("params") or {}).get("requestId"), line)
        else:
            self.relay.forward(line)

    def _refuse(self, error: RpcError, request_id: Any = None) -> None:
        self._tell(as_line(error.response(request_id)))

    def _requested(self, message: Json, line: bytes) -> None:
        try:
            self.protocol_state.open(message)
            answer = self.protocol_state.static(message)
        except RpcError as error:
            answer = error.response(message["id"])
        if answer is None:
            self.relay.ask(message["id"], line)
            return
        self._tell(as_line(answer))
        if message["method"] == "initialize" and "result" in answer:
            self.relay.introduce(message.get("params"))
        self.relay.need()  # a daemon starts while the client reads this
