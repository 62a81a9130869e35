"""A proxy before PostgreSQL that cuts connections at a chosen moment, as networks do."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

_SOCKET = ".s.PGSQL.5432"


class PostgresProxy:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._database = parts.path.lstrip("/")
        self._target = Path(parse_qs(parts.query)["host"][0]) / _SOCKET
        self._folder = Path(tempfile.mkdtemp(prefix="counsel-pp-", dir="/tmp"))
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: tuple[bytes, bool] | None = None
        self.cuts = 0  # how often a chosen moment came
        self.refuses = False  # whether new connections are closed at once

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self._folder / _SOCKET)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        shutil.rmtree(self._folder)

    @property
    def url(self) -> str:
        return f"postgresql://counsel@/{self._database}?host={self._folder}"

    def cut_at(self, statement: bytes, *, forward: bool) -> None:
        """Cut the next connection that sends `statement`. `forward`: the server executes it, but its answer is lost."""
        self._cut = (statement, forward)

    def cut_all(self) -> None:
        for writer in self._connections:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections.add(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if not self.refuses:
                await self._relay(reader, writer)
        writer.transport.abort()
        self._connections.discard(writer)
        self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_unix_connection(self._target)
        back = asyncio.create_task(_copy(answers, writer))
        try:
            while data := await reader.read(65536):
                if self._cut and self._cut[0] in data:
                    (_, forward), self._cut = self._cut, None
                    self.cuts += 1
                    back.cancel()
                    await asyncio.gather(back, return_exceptions=True)
                    if forward:
                        server.write(data)
                        await answers.read(1)
                    return
                server.write(data)
        finally:
            back.cancel()
            server.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.transport.abort()
