"""The process's one LISTEN connection: it receives notifications, and shows that this process is alive (`presence.py`).

It is used every few seconds, so that its silent death is noticed, and is opened again when it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import psycopg

from counsel.engine.store.postgres import connections
from counsel.engine.store.postgres.commits import CHANNEL, QUEUE_CHANNEL
from counsel.engine.store.postgres.connections import Connection
from counsel.engine.store.postgres.notifications import Changes
from counsel.engine.store.postgres.presence import BEAT, Presence
from counsel.errors import CounselError

log = logging.getLogger("counsel.store")
_PAUSES = (0.1, 1.0)  # seconds before the first and the later attempts to connect again


class Listener:
    def __init__(
        self,
        info: str,
        ready: Callable[[], Awaitable[None]],
        own_pid: Callable[[], int],
        changes: Changes,
        presence: Presence,
    ) -> None:
        self._info = info
        self._ready = ready
        self._own_pid = own_pid  # our writer's session, whose changes are known here
        self._changes = changes
        self._presence = presence
        self._task: asyncio.Task[None] | None = None
        self._is_lost = False
        self.on_queue: Callable[[], None] = lambda: None  # a job of the queue may be free

    def start(self) -> None:
        """Called when it is first needed: a command that only reads does not listen."""
        if self._task is None:
            with contextlib.suppress(RuntimeError):  # no event loop, so nobody can wait
                self._task = asyncio.get_running_loop().create_task(self._run(), name="counsel-listen")

    async def close(self) -> None:
        if self._task is not None:
            await connections.end(self._task)

    async def _run(self) -> None:
        pause, longest = _PAUSES
        while True:
            try:
                await self._ready()
                async with await connections.connect(self._info) as connection:
                    pause = _PAUSES[0]
                    await self._listen(connection)
            except (psycopg.Error, OSError, CounselError) as error:
                level = (
                    logging.DEBUG if self._is_lost else logging.WARNING
                )  # otherwise each attempt would log a line
                log.log(level, "the LISTEN connection was lost: %s", connections.reason(error))
                self._is_lost = True
            except Exception:  # the task must survive: without it this process counts as dead
                log.exception("the listener failed")
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _listen(self, connection: Connection) -> None:
        await connection.execute(f"LISTEN {CHANNEL}; LISTEN {QUEUE_CHANNEL}".encode())
        if self._is_lost:
            log.warning("the LISTEN connection is back")
            self._is_lost = False
        self._changes.report_all()  # notifications sent meanwhile were missed
        self.on_queue()
        while True:
            await self._presence.beat(connection)
            async for notification in connection.notifies(timeout=BEAT):
                if notification.channel == QUEUE_CHANNEL:
                    self.on_queue()
                elif notification.pid != self._own_pid():
                    self._changes.report([notification.payload])
