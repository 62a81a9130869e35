"""A TCP proxy whose target can change: new connections go to the new target, as with a load balancer."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class TcpProxy:
    def __init__(self, port: int) -> None:
        self.target = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            from_target, to_target = await asyncio.open_connection("127.0.0.1", self.target)
            await asyncio.wait(
                [
                    asyncio.ensure_future(_copy(reader, to_target)),
                    asyncio.ensure_future(_copy(from_target, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
            to_target.close()
        except OSError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
