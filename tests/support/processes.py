"""Starts, measures and stops real counsel processes, for tests that send invalid or hostile input."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from counsel import run_paths
from support.stdio_client import daemon_pid

TOKEN = "a-token-for-these-tests"
LIMIT = 30.0  # seconds within which everything must be answered or closed
PING = {"jsonrpc": "2.0", "id": "alive?", "method": "ping"}


def environment(home: Path, **more: str) -> dict[str, str]:
    common = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "COUNSEL_HOME": str(home / "counsel"),
        "COUNSEL_TOKEN": TOKEN,
        "COUNSEL_DAEMON_IDLE_SECONDS": "30",
    }
    return {**common, **more}


def resident(pid: int) -> float:
    """Resident memory in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def log_of(home: Path) -> str:
    file = home / "counsel" / "logs" / "counsel.log"
    return file.read_text() if file.exists() else ""


@contextmanager
def process(
    home: Path, *args: str, files: int | None = None, env: Mapping[str, str] | None = None, **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """`counsel ARGS`. `files`: how many descriptors it may have."""

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    home.mkdir(parents=True, exist_ok=True)
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "counsel", *args],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment(home, **(env or {}), **more),
        cwd=home,
        preexec_fn=limit,  # noqa: PLW1509 - the test has one thread
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(LIMIT)
        finally:
            child.kill()
            for stream in (child.stdin, child.stdout, child.stderr):
                with suppress(BrokenPipeError):
                    piped(stream).close()


def piped(stream: IO[bytes] | None) -> IO[bytes]:
    """Return the stream of a process that was started with pipes."""
    assert stream is not None
    return stream


# ── HTTP ──


class Http:
    def __init__(self, home: Path, child: subprocess.Popen[bytes], port: int) -> None:
        self.home, self.process, self.port = home, child, port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> bytes:
        head = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **(headers or {}),
        }
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def exchange(self, data: bytes) -> tuple[int, bytes]:
        """Status and body of the first answer; 0 when the connection was closed without one."""
        with self.connect() as peer:
            with suppress(ConnectionError):
                peer.sendall(data)
            answer = read_all(peer)
        result = re.match(rb"HTTP/1\.1 (\d+)", answer)
        return (int(result[1]) if result else 0), answer.partition(b"\r\n\r\n")[2]

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.exchange(self.request(method, path, body, fields))

    def health(self) -> int:
        return self.ask("GET", "/health")[0]

    def session(self, version: str = "2025-03-26") -> str:
        info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}).encode()
        with self.connect() as peer:
            peer.sendall(self.request("POST", "/mcp", body))
            head = read_all(peer).decode()
        result = re.search(r"mcp-session-id: (\w+)", head)
        assert result is not None, head
        return result[1]


def read_all(peer: socket.socket) -> bytes:
    parts = []
    with suppress(ConnectionError):
        while part := peer.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@contextmanager
def serve(
    home: Path, *, files: int | None = None, env: Mapping[str, str] | None = None, **more: str
) -> Iterator[Http]:
    with process(home, "serve", "--port", "0", files=files, env=env, **more) as child:
        reply = ""
        while not (result := re.search(r"http://127\.0\.0\.1:(\d+)/mcp", reply)):
            line = piped(child.stderr).readline().decode()
            assert line, reply
            reply += line
        yield Http(home, child, int(result[1]))


# ── lines ──


class Lines:
    """Sends bytes and reads lines of JSON, over a socket or a process's pipes."""

    def __init__(self, out: IO[bytes], into: IO[bytes], peer: socket.socket | None = None) -> None:
        self.out, self.into, self.peer = out, into, peer

    @classmethod
    def to(cls, path: str) -> Lines:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(LIMIT)
        peer.connect(path)
        return cls(peer.makefile("wb"), peer.makefile("rb"), peer)

    def send(self, data: bytes) -> bool:
        try:
            self.out.write(data)
            self.out.flush()
        except (ConnectionError, ValueError):
            return False
        return True

    def line(self) -> Any:
        """The next line; None when the other side has closed."""
        try:
            data = self.into.readline()
        except ConnectionError:
            return None
        return json.loads(data.removeprefix(b"@")) if data else None

    def until(self, name: Any, key: str = "id") -> list[Any]:
        """Lines up to the answer with this id; the last is None if the peer closed first."""
        messages: list[Any] = []
        while not messages or (messages[-1] is not None and not _has_id(messages[-1], name, key)):
            messages.append(self.line())
        return messages

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self.out.close()
        self.into.close()
        if self.peer is not None:
            self.peer.close()


def _has_id(message: Any, name: Any, key: str) -> bool:
    return isinstance(message, dict) and message.get(key) == name and "method" not in message


@contextmanager
def front(
    home: Path, env: Mapping[str, str] | None = None, **more: str
) -> Iterator[tuple[subprocess.Popen[bytes], Lines]]:
    with process(home, "stdio", env={**(env or {}), **more}) as child:
        yield child, Lines(piped(child.stdin), piped(child.stdout))


@contextmanager
def daemon(
    home: Path, *, files: int | None = None, env: Mapping[str, str] | None = None, **more: str
) -> Iterator[tuple[int, str]]:
    """The daemon's process id and the path of its socket."""
    with process(home, "stdio", files=files, env=env, **more) as child:
        lines = Lines(piped(child.stdin), piped(child.stdout))
        lines.send(encoded({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}))
        assert "result" in lines.line()
    pid = daemon_pid(home / "counsel")
    assert pid is not None
    try:
        yield pid, run_paths.socket(str(home / "counsel"))
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + LIMIT
        while daemon_pid(home / "counsel") is not None and time.monotonic() < deadline:
            time.sleep(0.02)


def encoded(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)
