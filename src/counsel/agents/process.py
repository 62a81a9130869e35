"""One agent as a process: JSON lines on stdout, bounded in size and time, and never left running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Self

from counsel import resource_errors, strict_json
from counsel.agents.supervisor import GRACE
from counsel.lazy_dataclass import dataclass
from counsel.types import Limits

MAX_OUTPUT = 64 * 1024 * 1024  # bytes of one run's stdout
MAX_LINE = 32 * 1024 * 1024  # bytes of one line; a longer one is skipped like one that is not JSON
STDERR_TAIL = 8 * 1024
EXIT_GRACE = 10.0  # seconds between the end of the agent's output and its exit
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """`argv[0]` is a full path. Never put a prompt or a key into `argv`: any user can list processes."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes = field(default=b"", repr=False)
    dialog: bool = False  # stdin stays open: the reader answers the agent's requests
    notes: tuple[str, ...] = ()  # what the caller should know about this run


@dataclass(frozen=True, slots=True)
class Exit:
    code: int  # negative: ended by that signal
    stderr: str = field(default="", repr=False)  # its tail
    garbage: int = 0  # lines of stdout that were not JSON objects


def _grow(line: bytearray, data: bytes) -> None:
    """Append data, but keep only as much of a long line as shows that it is too long."""
    line += data[: max(0, MAX_LINE + 1 - len(line))]


class OutputTooLarge(Exception):
    """The agent wrote more than `MAX_OUTPUT`."""


class Process:
    """`async with Process(command, limits) as agent`: leaving the block ends the agent and all it started."""

    def __init__(
        self, command: Command, limits: Limits, stderr_line: Callable[[str], bool] | None = None
    ) -> None:
        """`stderr_line` gets each line of stderr; if it returns True, the agent is ended at once."""
        self.command = command
        self._on_stderr = stderr_line or (lambda _: False)
        self.garbage = 0
        self._limits = limits
        self._tail: deque[bytes] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._lifeline = -1

    async def __aenter__(self) -> Self:
        try:
            return await self._start()
        except OSError as error:
            if shortage := resource_errors.failure(
                error, f"{self.command.argv[0]} could not be started", starting=True
            ):
                raise shortage from None
            raise

    async def _start(self) -> Self:
        now = asyncio.get_running_loop().time()
        self._deadline = now + self._limits.total
        self._first_by = min(self._deadline, now + self._limits.first_event)
        supervisor_end, self._lifeline = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _SUPERVISOR, str(supervisor_end), *self.command.argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.command.cwd,
                env=dict(self.command.env),
                pass_fds=(supervisor_end,),
                start_new_session=True,
            )
        except BaseException:
            self._cut_lifeline()
            raise
        finally:
            os.close(supervisor_end)
        self._tasks = [asyncio.create_task(self._keep_tail()), asyncio.create_task(self._feed())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cut_lifeline()  # from here on the supervisor ends the agent, even if this task is cancelled again
        try:
            await self._wait_for_exit()
        finally:
            for task in self._tasks:
                task.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public API

    @property
    def pid(self) -> int:
        return self._process.pid

    async def lines(self) -> AsyncGenerator[dict[str, object]]:
        """Each JSON object that the agent prints; other lines are counted. Raises `TimeoutError`."""
        line = bytearray()  # the incomplete line
        size = 0
        while chunk := await self._read():
            if (size := size + len(chunk)) > MAX_OUTPUT:
                raise OutputTooLarge
            *line_ends, rest = chunk.split(b"\n")
            for piece in line_ends:
                _grow(line, piece)
                if (message := self._parse(line)) is not None:
                    self._first_by = self._deadline
                    yield message
                line.clear()
            _grow(line, rest)
        if (message := self._parse(line)) is not None:
            yield message

    async def send(self, message: Mapping[str, object]) -> None:
        """Write one line to the agent's stdin. If the agent has exited, nothing happens: `lines` ends."""
        assert self._process.stdin is not None  # it is always a pipe
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    async def wait(self) -> Exit:
        """Close stdin, give the agent time to exit by itself, then end it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        seconds = min(EXIT_GRACE, max(0.0, self._deadline - asyncio.get_running_loop().time()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._drain()
                await self._process.wait()
        self._cut_lifeline()
        await self._wait_for_exit()
        await asyncio.wait(self._tasks, timeout=GRACE)
        stderr = b"".join(self._tail)[-STDERR_TAIL:].decode(errors="replace")
        return Exit(
            -9 if self._process.returncode is None else self._process.returncode, stderr, self.garbage
        )

    async def _read(self) -> bytes:
        assert self._process.stdout is not None
        if asyncio.get_running_loop().time() >= self._first_by:  # a timer fires only while a task waits
            raise TimeoutError
        async with asyncio.timeout_at(self._first_by):
            return await self._process.stdout.read(_CHUNK)

    def _parse(self, line: bytearray) -> dict[str, object] | None:
        if not line.strip():
            return None
        try:
            message = strict_json.loads(bytes(line)) if len(line) <= MAX_LINE else None
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        self.garbage += 1
        return None

    async def _feed(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            if self.command.stdin:
                self._process.stdin.write(self.command.stdin)
                await self._process.stdin.drain()
        if not self.command.dialog:
            self._process.stdin.close()

    async def _keep_tail(self) -> None:
        assert self._process.stderr is not None
        size, rest = 0, ""
        while chunk := await self._process.stderr.read(_CHUNK):
            self._tail.append(chunk)
            size += len(chunk)
            while size - len(self._tail[0]) >= STDERR_TAIL:
                size -= len(self._tail.popleft())
            *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
            rest = rest[-_CHUNK:]
            if any(self._on_stderr(line) for line in lines):
                self._cut_lifeline()

    async def _drain(self) -> None:
        """Discard the rest of stdout: an agent that is blocked on its pipe cannot exit."""
        assert self._process.stdout is not None
        while await self._process.stdout.read(_CHUNK):
            pass

    async def _wait_for_exit(self) -> None:
        """Wait until the supervisor has ended the agent: its two grace periods, and one more for a loaded machine."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3 * GRACE):
                await self._drain()
                await self._process.wait()

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
