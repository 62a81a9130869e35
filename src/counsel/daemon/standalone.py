"""`counsel stdio --standalone`: the same dispatcher with the engine in the same process, for containers and CI."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from counsel import logs, settings
from counsel.daemon.server import OpenEngine, default_engine
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import McpLines, Splitter
from counsel.mcp.session import Session
from counsel.settings import default_home

CHUNK = 1 << 16
CHUNKS_AHEAD = 4
ANSWER_GRACE = 2.0  # seconds for pending answers after the client has closed our stdin


def serve(agent: str | None, open_engine: OpenEngine = default_engine) -> int:
    asyncio.run(_serve(agent, open_engine))
    return 0


async def _serve(agent: str | None, open_engine: OpenEngine) -> None:
    reading, writing = _claim(0, os.O_RDONLY), _claim(1, os.O_WRONLY)
    logs.setup(settings.load(), stderr=True)
    engine = await open_engine(default_home(os.environ))
    out = Writer(writing)
    identity = ClientIdentity(env=dict(os.environ), cwd=Path.cwd(), agent=agent, front=os.getpid())
    lines = McpLines(Session(engine, identity), out.write, is_full=out.full)
    input_end = asyncio.Event()
    try:
        _read(reading, Splitter(lines.line, lines.refuse), out, input_end)
        await input_end.wait()
        await lines.drain(ANSWER_GRACE)
    finally:
        await lines.close("gone")
        await engine.close()
        out.close()


def _claim(file: int, mode: int) -> int:
    """A private copy of stdin or stdout. Libraries and child processes get stderr or /dev/null instead."""
    copy = os.dup(file)
    replacement = os.dup(2) if mode == os.O_WRONLY else os.open(os.devnull, mode)
    os.dup2(replacement, file)
    os.close(replacement)
    return copy


def _read(file: int, splitter: Splitter, out: Writer, input_end: asyncio.Event) -> None:
    """Read in a thread, because stdin may be a file, a terminal or a pipe, and asyncio supports only some of them.

    The thread waits while the loop is several chunks behind, and while the client does not read its answers.
    """
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(CHUNKS_AHEAD)

    def in_loop(work: Callable[..., None], *arguments: bytes) -> None:
        with suppress(RuntimeError):  # the loop was closed before stdin
            loop.call_soon_threadsafe(work, *arguments)

    def feed(data: bytes) -> None:
        splitter.feed(data)
        room.release()

    def read() -> None:
        while data := os.read(file, CHUNK):
            room.acquire()
            out.writable.wait()
            in_loop(feed, data)
        in_loop(splitter.end)
        in_loop(input_end.set)

    threading.Thread(target=read, daemon=True).start()


class Writer:
    """Writes in a thread, so that a client that does not read its answers delays only itself."""

    MOST = 1 << 20  # queued bytes; beyond this, progress is dropped and nothing more is read from the client

    def __init__(self, file: int) -> None:
        self.writable = threading.Event()
        self.writable.set()
        self._waiting = 0
        self._lock = threading.Lock()
        self._file = file
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        if data and self._file >= 0:
            self._count(len(data))
            self._queue.put(data)

    def _count(self, size: int) -> None:
        with self._lock:
            self._waiting += size
            (self.writable.clear if self._waiting > self.MOST else self.writable.set)()

    def full(self) -> bool:
        return not self.writable.is_set()

    def close(self) -> None:
        self._queue.put(b"")
        self._thread.join(timeout=ANSWER_GRACE)

    def _work(self) -> None:
        while data := self._queue.get():
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._file, view) :]
            except OSError:  # the reader is gone
                self._discard()
                return
            self._count(-len(data))

    def _discard(self) -> None:
        self._file = -1
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        self.writable.set()
