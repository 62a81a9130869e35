"""The daemon's engine for programs: `await connect()` returns an `Engine` that survives the daemon's death.

Every request can be repeated: a submitted call has a key, and waiting and following resume where they stopped. When the
daemon dies or a newer release replaces it, the client connects to the next one and repeats its requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from counsel import __version__, errors, pending_calls, resource_errors, size_limits
from counsel import json_reader as read
from counsel.caller import Caller
from counsel.daemon import rpc_server
from counsel.engine.jobs.event_queue import EventQueue
from counsel.errors import CounselError, FileTooLarge, Internal, InvalidArgument
from counsel.front.json_messages import LARGEST_MESSAGE, encode, too_large
from counsel.front.launcher import FAILING_LIMIT, RETRY, Launcher, older
from counsel.job_event_json import event_from_json
from counsel.job_events import JobEvent
from counsel.mcp.jsonlines import LinePipe
from counsel.requests import Request
from counsel.results import Accepted, Cancellation, JobList, JobStatus, Result, result_from_json

if TYPE_CHECKING:
    from counsel.daemon.console import OpenConsole
    from counsel.daemon.server import DaemonStatus

START_TIMEOUT = 20.0  # seconds for a daemon to start, and to say hello
FIRST_FAILING_LIMIT = 3.0  # like launcher.FAILING_LIMIT, while no request has been sent yet
RECONNECT_TIMEOUT = 300.0  # seconds for a request that has lost its daemon to reach the next one
LARGEST_ANSWER = 256 * 1024 * 1024  # bytes of one line from the daemon


async def connect(caller: Caller | None = None) -> RemoteEngine:
    """Connect to the daemon of this caller's COUNSEL_HOME. Start one if none runs."""
    engine = RemoteEngine(os.environ if caller is None else caller.env, caller)
    await engine.open()
    return engine


async def find(env: Mapping[str, str] | None = None) -> RemoteEngine | None:
    """Connect to the daemon, if one is running."""
    engine = RemoteEngine(os.environ if env is None else env)
    return engine if await engine.open(start=False) else None


class _Lost(Exception):
    pass


class RemoteEngine:
    def __init__(self, env: Mapping[str, str], caller: Caller | None = None) -> None:
        self._launcher = Launcher(env)
        self._caller = caller  # sent to each daemon: a job can only continue with its caller's keys
        self._pipe: LinePipe | None = None
        self._hello: asyncio.Future[dict[str, object]] | None = None
        self._waiting: dict[int, EventQueue] = {}
        # Jobs that we wait for, with the parameters to submit them again to the next daemon.
        self._submitted: dict[str, dict[str, object]] = {}
        self._confirmed: set[str] = set()  # those that a daemon has accepted
        self._noted: set[str] = set()  # those with a note that lets them continue without us
        self._promised: set[str] = set()  # those whose caller was told that they continue
        self._lost_at = 0.0  # when the daemon died while a request was waiting
        self._number = 0
        self._opening = asyncio.Lock()

    # ── the connection ──

    async def open(self, *, start: bool = True) -> bool:
        async with self._opening:
            while self._pipe is None:
                connection = await self._reach(start=start)
                if connection is None:
                    return False
                await self._greet(connection, replace=start)
        return True

    async def _reach(self, *, start: bool) -> socket.socket | None:
        launcher = self._launcher
        if not start:
            try:
                return launcher.existing()
            except OSError as error:
                raise _unreachable(str(error)) from error
        began, limit, failing_limit = time.monotonic(), START_TIMEOUT, FIRST_FAILING_LIMIT
        if self._lost_at:
            began, limit, failing_limit = self._lost_at, RECONNECT_TIMEOUT, FAILING_LIMIT
        while (connection := launcher.attempt()) is None:
            if launcher.problem:
                self._note_jobs()
            if launcher.should_give_up(began, limit, failing_limit):
                launcher.release()
                raise self._give_up(launcher.problem or "it has not started yet") from launcher.error
            await asyncio.sleep(launcher.pause())
        return connection

    def _note_jobs(self) -> None:
        """Leave notes that our jobs continue: another engine on this home gives up interrupted calls after a minute."""
        for job in self._submitted.keys() - self._noted - self._promised:
            if pending_calls.note(self._launcher.home, job):
                self._noted.add(job)

    def _forget(self, job: str) -> None:
        self._submitted.pop(job, None)
        self._confirmed.discard(job)
        if job in self._noted:
            self._noted.discard(job)
            pending_calls.take(self._launcher.home, job)

    def _give_up(self, reason: str) -> CounselError:
        self._note_jobs()
        jobs, confirmed = sorted(self._noted), self._noted <= self._confirmed
        self._promised |= self._noted
        self._noted.clear()
        if shortage := resource_errors.failure(
            self._launcher.error, "The daemon cannot be reached", starting=True
        ):
            return shortage
        if not jobs:
            return _unreachable(reason, f"See {self._launcher.error_file}.")
        condition = "" if confirmed else "If it had started, "
        return _unreachable(
            reason,
            f"{condition}{', '.join(jobs)} continues as soon as a daemon runs: `counsel jobs` shows it.",
        )

    async def _greet(self, connection: socket.socket, *, replace: bool) -> None:
        """Say hello. A daemon of an older release hands over and exits; the next attempt finds or starts a new one."""
        pipe = LinePipe(self._line, self._lost)
        pipe.splitter.allow(LARGEST_ANSWER)
        self._hello = asyncio.get_running_loop().create_future()
        await asyncio.get_running_loop().create_unix_connection(lambda: pipe, sock=connection)
        caller = rpc_server.caller_to_json(self._caller) if self._caller else None
        pipe.write(b"@" + encode({"hello": {"role": "engine", "version": __version__, "caller": caller}}))
        try:
            async with asyncio.timeout(START_TIMEOUT):
                hello = await self._hello
        except _Lost:
            return
        except TimeoutError:
            pipe.close()
            raise self._give_up(self._launcher.not_answering()) from None
        if replace and older(str(hello.get("version"))):
            await self._replace(pipe)
        else:
            self._pipe = pipe
            self._launcher.greeted()

    async def _replace(self, pipe: LinePipe) -> None:
        self._hello = asyncio.get_running_loop().create_future()  # fails when the daemon is gone
        while not self._launcher.take_lock():  # noqa: ASYNC110 - another process holds it
            await asyncio.sleep(RETRY)
        pipe.write(b"@" + encode({"handover": True}))
        await asyncio.wait({self._hello})
        self._hello.exception()

    def _line(self, data: bytes) -> None:
        message = json.loads(data.removeprefix(b"@"))
        if not data.startswith(b"@"):
            if message["id"] in self._waiting:
                event = message.get("event")
                self._waiting[message["id"]].put(event_from_json(event) if event else message)
        elif self._hello is not None and not self._hello.done():
            if "hello" in message:
                self._hello.set_result(message["hello"])
            else:
                self._hello.set_exception(Internal(f"The daemon refused: {message.get('refused')}."))

    def _lost(self) -> None:
        self._pipe = None
        self._launcher.lost()
        if self._waiting and not self._lost_at:
            self._lost_at = time.monotonic()
        if self._hello is not None and not self._hello.done():
            self._hello.set_exception(_Lost())
        for queue in self._waiting.values():
            queue.put({"lost": True})

    async def close(self) -> None:
        for job in list(self._noted):  # nobody waits for these or was told that they continue
            self._forget(job)
        if self._pipe is not None:
            self._pipe.close()

    def register_caller(self, caller: Caller) -> None:
        """Remember the caller for the next daemon. The current one gets it with the caller's next request."""
        self._caller = caller

    # ── requests ──

    async def _messages(
        self, method: str, params: dict[str, object]
    ) -> AsyncGenerator[JobEvent | dict[str, object]]:
        await self.open()
        assert self._pipe is not None  # `open` set it
        self._number += 1
        number, pipe = self._number, self._pipe
        try:
            line = encode({"id": number, "method": method, "params": params})
        except ValueError:  # the daemon could not parse it, and would not answer
            raise InvalidArgument(
                "NaN and infinite numbers cannot be sent.", hint="Nothing was sent."
            ) from None
        if len(line) > LARGEST_MESSAGE:
            raise FileTooLarge(f"This request is too large: {too_large()}.", hint="Send less at once.")
        queue = self._waiting[number] = EventQueue()
        ended = False
        pipe.write(line)
        try:
            while not ended:
                message = await queue.get()
                if isinstance(message, JobEvent):
                    yield message
                    continue
                ended = True
                if "lost" in message:
                    self._check_time()
                    raise _Lost
                self._lost_at = 0.0
                self._launcher.answered()
                if "error" in message:
                    raise errors.from_dict(message["error"])
                yield message
        finally:
            del self._waiting[number]
            if not ended:
                pipe.write(encode({"id": number, "method": "drop"}))

    def _check_time(self) -> None:
        """Give up when daemons keep dying after they have started."""
        if self._lost_at and time.monotonic() - self._lost_at > RECONNECT_TIMEOUT:
            raise self._give_up("it keeps dying")

    async def _document(self, method: str, **params: object) -> dict[str, object]:
        return read.as_object(await self._ask(method, **params))

    async def _ask(self, method: str, **params: object) -> object:
        while True:
            try:
                async with aclosing(self._messages(method, params)) as messages:
                    async for message in messages:
                        if not isinstance(message, JobEvent):
                            return message["result"]
            except _Lost:
                await self._reclaim(read.text(params, "job_id") or read.text(params, "any_id"))

    async def _reclaim(self, job_id: str) -> None:
        """Submit a synchronous job again under its key, so that the new daemon continues it."""
        if job_id in self._submitted:
            await self._ask("submit", **self._submitted[job_id])

    async def submit(
        self, request: Request, caller: Caller, *, background: bool = False, key: str | None = None
    ) -> str:
        # the intake checks this, too, but only after megabytes have been sent
        size_limits.check(request, caller.settings)
        self.register_caller(caller)
        key = key or secrets.token_urlsafe(16)
        params = {
            "background": background,
            "key": key,
            "request": rpc_server.request_to_json(request),
            "caller": rpc_server.caller_to_json(caller),
        }
        if background:
            return str(await self._ask("submit", **params))
        await self.open()  # after this, a daemon may have started the job
        self._submitted[pending_calls.job_id(key)] = params
        try:
            job = str(await self._ask("submit", **params))
        except BaseException:
            self._forget(pending_calls.job_id(key))
            raise
        self._submitted[job] = params
        self._confirmed.add(job)
        return job

    async def wait(self, job_id: str) -> Result:
        try:
            result = await self._document("wait", job_id=job_id)
        finally:  # finished, or nobody waits: no later daemon is asked to continue it
            self._forget(job_id)
        return result_from_json(result)

    async def follow(self, job_id: str, after: int = 0) -> AsyncGenerator[JobEvent]:
        while True:
            try:
                async with aclosing(self._messages("follow", {"job_id": job_id, "after": after})) as messages:
                    async for message in messages:
                        if isinstance(message, JobEvent):
                            after = message.seq
                            yield message
            except _Lost:
                await self._reclaim(job_id)
            else:
                return

    async def accepted(self, job_id: str) -> Accepted:
        return Accepted.from_json(await self._document("accepted", job_id=job_id))

    async def detach(self, job_id: str) -> None:
        await self._ask("detach", job_id=job_id)
        self._forget(job_id)

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        if member is not None:  # not a parameter of `cancel`: an older daemon would stop the whole job
            return Cancellation.from_json(await self._document("cancel_member", any_id=any_id, member=member))
        return Cancellation.from_json(await self._document("cancel", any_id=any_id))

    async def status(self, any_id: str, *, full_history: bool = False) -> JobStatus:
        return JobStatus.from_json(await self._document("status", any_id=any_id, full_history=full_history))

    async def recent(self, limit: int = 10) -> JobList:
        return JobList.from_json(await self._document("recent", limit=limit))

    # ── the console ──

    async def console_open(self, caller: Caller, port: int = 0) -> OpenConsole:
        document = rpc_server.caller_to_json(caller)
        return cast("OpenConsole", await self._document("console_open", caller=document, port=port))

    async def console_hold(self, caller: Caller, port: int, on_restart: Callable[[], None]) -> None:
        """Keep the console open on this port, across daemons. Return when one had to use another port."""
        params: dict[str, object] = {"caller": rpc_server.caller_to_json(caller), "port": port}
        while True:
            try:
                async with aclosing(self._messages("console_hold", params)) as messages:
                    async for _ in messages:
                        return
            except _Lost:
                await self.daemon_status()  # an answer resets the time limit for finding a daemon
                on_restart()

    # ── the daemon itself ──

    async def daemon_status(self) -> DaemonStatus:
        return cast("DaemonStatus", await self._document("daemon_status"))

    async def daemon_stop(self) -> None:
        """Ask the daemon to store everything and exit. Return when it has closed this connection."""
        self._hello = asyncio.get_running_loop().create_future()
        await self._ask("daemon_stop")
        await asyncio.wait({self._hello})
        self._hello.exception()


def _unreachable(reason: str, hint: str = "Run `counsel doctor`.") -> Internal:
    return Internal(f"The daemon cannot be reached: {reason}.", hint=hint)
