"""One agent as a process: JSON lines out, bounded in size and time, and never left behind."""

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
from counsel.types import Json, Limits

MAX_OUTPUT = 64 * 1024 * 1024  # bytes of one run's stdout
MAX_LINE = 32 * 1024 * 1024  # bytes of one line; a longer one is passed over like any that is no JSON
STDERR_TAIL = 8 * 1024
EXIT_GRACE = 10.0  # seconds between the end of the agent's output and the end of the agent
_WARDEN = str(Path(__file__).with_name("supervisor.py"))
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """`argv[0]` is a full path. No prompt and no key belongs in `argv`: any user can list processes."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes = field(default=b"", repr=False)
    dialog: bool = False  # stdin stays open: the reader answers what the agent says
    notes: tuple[str, ...] = ()  # what the caller should know about this run


@dataclass(frozen=True, slots=True)
class Exit:
    code: int  # negative: ended by that signal
    stderr: str = field(default="", repr=False)  # its tail
    garbage: int = 0  # lines of stdout that were no JSON object


def _grow(kept: bytearray, data: bytes) -> None:
    """Of a line that is too long only as much is kept as shows that it is."""
    kept += data[: max(0, MAX_LINE + 1 - len(kept))]


class OutputTooLarge(Exception):
    """The agent wrote more than `MAX_OUTPUT`."""


class Process:
    """`async with Process(command, limits) as agent`: leaving the block ends the agent and all it started."""

    def __init__(self, command: Command, limits: Limits, heard: Callable[[str], bool] | None = None) -> None:
        """`heard` gets each line of stderr; True ends the agent at once."""
        self.command = command
        self._heard = heard or (lambda _: False)
        self.garbage = 0
        self._limits = limits
        self._tail: deque[bytes] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._lifeline = -1

    async def __aenter__(self) -> Self:
        try:
            return await self._start()
        except OSError as error:
            if lack := resource_errors.failure(
                error, f"{self.command.argv[0]} could not be started", starting=True
            ):
                raise lack from None
            raise

    async def _start(self) -> Self:
        now = asyncio.get_running_loop().time()
        self._deadline = now + self._limits.total
        self._first_by = min(self._deadline, now + self._limits.first_event)
        kept, self._lifeline = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _WARDEN, str(kept), *self.command.argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.command.cwd,
                env=dict(self.command.env),
                pass_fds=(kept,),
                start_new_session=True,
            )
        except BaseException:
            self._cut_lifeline()
            raise
        finally:
            os.close(kept)
        self._tasks = [asyncio.create_task(self._keep_tail()), asyncio.create_task(self._feed())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cut_lifeline()  # from here on the warden ends the agent, even if this task is cancelled again
        try:
            await self._gone()
        finally:
            for task in self._tasks:
                task.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - no public way

    @property
    def pid(self) -> int:
        return self._process.pid

    async def lines(self) -> AsyncGenerator[Json]:
        """Each JSON object that the agent prints; other lines are counted. Raises `TimeoutError`."""
        kept = bytearray()  # of the line that is not whole yet
        size = 0
        while chunk := await self._read():
            if (size := size + len(chunk)) > MAX_OUTPUT:
                raise OutputTooLarge
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                _grow(kept, line)
                if (found := self._parse(kept)) is not None:
                    self._first_by = self._deadline
                    yield found
                kept.clear()
            _grow(kept, rest)
        if (found := self._parse(kept)) is not None:
            yield found

    async def send(self, message: Json) -> None:
        """Write one line to an agent whose stdin is open; one that has gone shows in its output's end."""
        assert self._process.stdin is not None  # noqa: S101 - it is always a pipe
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    async def ended(self) -> Exit:
        """How it ended, having been given the time to end by itself."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.close()
        patience = min(EXIT_GRACE, max(0.0, self._deadline - asyncio.get_running_loop().time()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._drain()
                await self._process.wait()
        self._cut_lifeline()
        await self._gone()
        await asyncio.wait(self._tasks, timeout=GRACE)
        stderr = b"".join(self._tail)[-STDERR_TAIL:].decode(errors="replace")
        return Exit(
            -9 if self._process.returncode is None else self._process.returncode, stderr, self.garbage
        )

    async def _read(self) -> bytes:
        assert self._process.stdout is not None  # noqa: S101
        if asyncio.get_running_loop().time() >= self._first_by:  # a timer only goes off where a task waits
            raise TimeoutError
        async with asyncio.timeout_at(self._first_by):
            return await self._process.stdout.read(_CHUNK)

    def _parse(self, line: bytearray) -> Json | None:
        if not line.strip():
            return None
        try:
            found = strict_json.loads(bytes(line)) if len(line) <= MAX_LINE else None
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        self.garbage += 1
        return None

    async def _feed(self) -> None:
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(ConnectionError):
            if self.command.stdin:
                self._process.stdin.write(self.command.stdin)
                await self._process.stdin.drain()
        if not self.command.dialog:
            self._process.stdin.close()

    async def _keep_tail(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        kept, rest = 0, ""
        while chunk := await self._process.stderr.read(_CHUNK):
            self._tail.append(chunk)
            kept += len(chunk)
            while kept - len(self._tail[0]) >= STDERR_TAIL:
                kept -= len(self._tail.popleft())
            *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
            rest = rest[-_CHUNK:]
            if any(self._heard(line) for line in lines):
                self._cut_lifeline()

    async def _drain(self) -> None:
        """Throw away what is left of stdout: an agent that waits for a reader cannot end."""
        assert self._process.stdout is not None  # noqa: S101
        while await self._process.stdout.read(_CHUNK):
            pass

    async def _gone(self) -> None:
        """The warden has been told to end the agent: its two graces, and one more for a loaded machine."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3 * GRACE):
                await self._drain()
                await self._process.wait()

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
