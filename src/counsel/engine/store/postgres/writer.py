"""The one task that writes: whatever has queued up is committed together, in order.

When the connection is lost, nothing is guessed. If COMMIT was not sent yet, nothing took effect, and the same writes
run again on another connection. If it was sent, the server is asked what became of the transaction.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import psycopg

from counsel.engine.store.postgres import connections
from counsel.engine.store.postgres.commits import Commit, Outcome, Work, Write, end_transaction, was_committed
from counsel.engine.store.postgres.connections import Connection
from counsel.engine.store.records import StoreError
from counsel.errors import ConfigInvalid

log = logging.getLogger("counsel.store")
T = TypeVar("T")
WRITE_SECONDS = 20.0  # that writes wait for a database that was reachable before
STALLED_MS = 5_000  # a process that is suspended inside a transaction would keep its locks, and others would wait for it
_WHEN_CLOSING = 2.0
_BATCH = 500  # writes in one commit; bounds how long a caller waits for others
_SHORTLY = 0.005  # seconds that a write waits for the next one, to share its commit
_CONFLICTS = 10  # attempts of one write that runs into deadlocks with other servers


class Writer:
    def __init__(
        self,
        info: str,
        ready: Callable[[], Awaitable[None]],
        report: Callable[[Sequence[str]], None],
    ) -> None:
        self._info = info
        self._ready = ready
        self._report = report
        self._queue: deque[Write[Any]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._closing = False
        self._busy = False
        self.pid = 0  # of our session on the server
        self.problem: str | None = None

    def write(self, work: Work[T], *, may_wait: bool = False) -> Write[T]:
        """Queue a write. `may_wait`: it may wait some milliseconds for the next one."""
        write = Write(work)
        if self._closing:
            write.settle(Outcome(error=StoreError("The store is closed.")))
            return write
        self._queue.append(write)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="counsel-store")
        if may_wait:
            asyncio.get_running_loop().call_later(_SHORTLY, self._wake.set)
        else:
            self._wake.set()
        return write

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._busy

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        if self._connection is not None:
            await self._connection.close()

    async def _run(self) -> None:
        while self._queue or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                self._busy = True
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
                for write, outcome in zip(batch, await self._outcomes(batch), strict=True):
                    write.settle(outcome)
                self._busy = False
            if self._closing:
                self._wake.set()

    async def _outcomes(self, batch: Sequence[Write[Any]]) -> list[Outcome]:
        """Never raises: the task must survive, since no other would answer the waiting callers."""
        try:
            return await self._commit(batch)
        except ConfigInvalid as error:
            return [Outcome(error=error)] * len(batch)
        except Exception as error:
            log.exception("the writer failed")
            return self._failed(batch, error)

    async def _commit(self, batch: Sequence[Write[Any]]) -> list[Outcome]:
        deadline = time.monotonic() + self._longest_wait()
        conflicts = 0
        while True:
            try:
                return await self._attempt(batch, deadline)
            except connections.CONFLICTS as error:
                if len(batch) > 1:  # one by one, they hold few locks at a time
                    return [outcome for write in batch for outcome in await self._commit([write])]
                conflicts += 1
                if conflicts == _CONFLICTS:
                    return self._failed(batch, error)
                await asyncio.sleep(random.uniform(0, 0.05))  # noqa: S311 - so that two do not meet again
            except (psycopg.Error, OSError) as error:
                if not _is_lost(error) or time.monotonic() > deadline:
                    return self._failed(batch, error)
                await asyncio.sleep(0.1)

    async def _attempt(self, batch: Sequence[Write[Any]], deadline: float) -> list[Outcome]:
        commit = Commit(await self._current_connection())
        try:
            await commit.run(batch)
        except (psycopg.Error, OSError) as error:
            if not _is_lost(error):
                raise
            await commit.connection.close()
            if not commit.xid or not await self._was_committed(commit, deadline):
                raise
        self.problem = None
        self._report(commit.changed)
        return commit.outcomes

    async def _was_committed(self, commit: Commit, deadline: float) -> bool:
        """Whether a transaction whose connection was lost has taken effect; raises when the server cannot be asked."""
        while True:
            try:
                connection = await self._current_connection()
                if commit.sent:
                    return await was_committed(connection, commit.xid)
                await end_transaction(connection, commit.xid)
            except (psycopg.Error, OSError) as error:
                if not _is_lost(error) or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
            else:
                return False

    async def _current_connection(self) -> Connection:
        if self._connection is None or self._connection.closed:
            await self._ready()
            connection = await connections.connect(self._info)
            await connection.execute(f"SET idle_in_transaction_session_timeout = {STALLED_MS}".encode())
            self._connection = connection
            self.pid = connection.info.backend_pid
        return self._connection

    def _longest_wait(self) -> float:
        """Zero once the server is known to be unreachable: callers get their answers at once, with a warning."""
        if self._closing:
            return _WHEN_CLOSING
        return 0.0 if self.problem else WRITE_SECONDS

    def _failed(self, batch: Sequence[Write[Any]], error: BaseException) -> list[Outcome]:
        failure = error if isinstance(error, StoreError) else connections.unreachable(self._info, error)
        if _is_lost(error):
            self.problem = f"{failure.message} New answers are not stored until it can be reached."
        return [Outcome(error=failure)] * len(batch)


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, (OSError, StoreError)) or connections.is_lost(error)
