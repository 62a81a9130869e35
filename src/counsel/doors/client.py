"""The daemon's engine for programs: `await connect()` gives an `Engine` that survives the daemon's death.

Every method can be asked again: a submitted call has a key, and waiting or following takes up where it was. So when
the daemon dies, or a newer release replaces it, the client reaches the next one and asks again.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

from counsel import __version__, errors, shortage, sizes
from counsel.caller import Caller
from counsel.doors import desk
from counsel.doors.lines import LinePipe, encode
from counsel.doors.link import RETRY, Link, older
from counsel.errors import Internal
from counsel.requests import JobEvent, Request
from counsel.types import Json

PATIENCE = 20.0  # seconds for a daemon to start
_TRIES = 5  # daemons that may die under one question


async def connect(caller: Caller | None = None) -> RemoteEngine:
    """The daemon of this caller's COUNSEL_HOME; it is started if none runs."""
    engine = RemoteEngine(os.environ if caller is None else caller.env, caller)
    await engine.open()
    return engine


async def find(env: Mapping[str, str] | None = None) -> RemoteEngine | None:
    """The daemon if one runs."""
    engine = RemoteEngine(os.environ if env is None else env)
    return engine if await engine.open(start=False) else None


class _Lost(Exception):
    pass


class RemoteEngine:
    def __init__(self, env: Mapping[str, str], caller: Caller | None = None) -> None:
        self._link = Link(env)
        self._caller = caller  # each daemon meets it: a job can only go on with its caller's keys
        self._pipe: LinePipe | None = None
        self._hello: asyncio.Future[Json] | None = None
        self._waiting: dict[int, asyncio.Queue[Json]] = {}
        self._submitted: dict[
            str, Json
        ] = {}  # jobs that we wait for: the next daemon is asked to go on with them
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

    async def _reach(self, *, start: bool) -> Any:
        link = self._link
        if not start:
            return link.existing()
        try:
            async with asyncio.timeout(PATIENCE):
                while (connection := link.attempt()) is None:  # noqa: ASYNC110 - another process starts it
                    await asyncio.sleep(RETRY)
        except (TimeoutError, OSError) as error:
            link.release()
            if lack := shortage.failure(error, "The daemon cannot be reached", starting=True):
                raise lack from error
            raise Internal(
                f"The daemon cannot be reached: {error or 'it does not answer'}.", hint=f"See {link.words}."
            ) from error
        return connection

    async def _greet(self, connection: Any, *, replace: bool) -> None:
        """Say hello. An older release hands over and ends; the next turn finds or starts ours."""
        pipe = LinePipe(self._line, self._lost)
        self._hello = asyncio.get_running_loop().create_future()
        await asyncio.get_running_loop().create_unix_connection(lambda: pipe, sock=connection)
        caller = desk.caller_to_json(self._caller) if self._caller else None
        pipe.write(b"@" + encode({"hello": {"role": "engine", "version": __version__, "caller": caller}}))
        try:
            async with asyncio.timeout(PATIENCE):
                hello = await self._hello
        except _Lost:
            return
        except TimeoutError:
            pipe.close()
            raise Internal(f"The daemon cannot be reached: {self._link.silent()}.") from None
        if replace and older(str(hello.get("version"))):
            await self._replace(pipe)
        else:
            self._pipe = pipe

    async def _replace(self, pipe: LinePipe) -> None:
        self._hello = asyncio.get_running_loop().create_future()  # it fails when the daemon has gone
        while not self._link.take_lock():  # noqa: ASYNC110 - another process holds it
            await asyncio.sleep(RETRY)
        pipe.write(b"@" + encode({"handover": True}))
        await asyncio.wait({self._hello})
        self._hello.exception()

    def _line(self, data: bytes) -> None:
        message = json.loads(data.removeprefix(b"@"))
        if not data.startswith(b"@"):
            if message["id"] in self._waiting:
                self._waiting[message["id"]].put_nowait(message)
        elif self._hello is not None and not self._hello.done():
            if "hello" in message:
                self._hello.set_result(message["hello"])
            else:
                self._hello.set_exception(Internal(f"The daemon refused: {message.get('refused')}."))

    def _lost(self) -> None:
        self._pipe = None
        if self._hello is not None and not self._hello.done():
            self._hello.set_exception(_Lost())
        for queue in self._waiting.values():
            queue.put_nowait({"lost": True})

    async def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()

    def meet(self, caller: Caller) -> None:
        """The next daemon meets this caller first; the present one when it submits."""
        self._caller = caller

    # ── questions ──

    async def _messages(self, method: str, params: Json) -> AsyncIterator[Json]:
        await self.open()
        assert self._pipe is not None  # noqa: S101 - `open` made it
        self._number += 1
        number, pipe = self._number, self._pipe
        queue = self._waiting[number] = asyncio.Queue()
        ended = False
        pipe.write(encode({"id": number, "method": method, "params": params}))
        try:
            while not ended:
                message = await queue.get()
                ended = "event" not in message
                if "lost" in message:
                    raise _Lost
                if "error" in message:
                    raise errors.from_dict(message["error"])
                yield message
        finally:
            del self._waiting[number]
            if not ended:
                pipe.write(encode({"id": number, "method": "drop"}))

    async def _ask(self, method: str, **params: Any) -> Any:
        for _ in range(_TRIES):
            try:
                async for message in self._messages(method, params):
                    return message["result"]
            except _Lost:
                await self._reclaim(params.get("job_id") or params.get("any_id"))
        raise _gone()

    async def _reclaim(self, job_id: str | None) -> None:
        """A synchronous job goes on in the next daemon when its caller comes back with its key."""
        if job_id in self._submitted:
            await self._ask("submit", **self._submitted[job_id])

    async def submit(
        self, request: Request, caller: Caller, *, background: bool = False, key: str | None = None
    ) -> str:
        sizes.check(
            request, caller.settings
        )  # the daemon would refuse it, too, after all of it had come there
        self.meet(caller)
        key = key or secrets.token_urlsafe(16)
        shown = {"request": desk.request_to_json(request), "caller": desk.caller_to_json(caller)}
        params = {"background": background, "key": key, **shown}
        job = str(await self._ask("submit", **params))
        if not background:
            self._submitted[job] = params
        return job

    async def wait(self, job_id: str) -> Json:
        try:
            result: Json = await self._ask("wait", job_id=job_id)
        finally:  # it has ended, or nobody waits for it: no later daemon is asked to go on with it
            self._submitted.pop(job_id, None)
        return result

    async def follow(self, job_id: str, after: int = 0) -> AsyncIterator[JobEvent]:
        for _ in range(_TRIES):
            try:
                async for message in self._messages("follow", {"job_id": job_id, "after": after}):
                    if "event" in message:
                        event = JobEvent(**message["event"])
                        after = event.seq
                        yield event
            except _Lost:
                await self._reclaim(job_id)
            else:
                return
        raise _gone()

    async def accepted(self, job_id: str) -> Json:
        result: Json = await self._ask("accepted", job_id=job_id)
        return result

    async def detach(self, job_id: str) -> None:
        await self._ask("detach", job_id=job_id)
        self._submitted.pop(job_id, None)

    async def cancel(self, any_id: str) -> Json:
        result: Json = await self._ask("cancel", any_id=any_id)
        return result

    async def status(self, any_id: str, *, full_history: bool = False) -> Json:
        result: Json = await self._ask("status", any_id=any_id, full_history=full_history)
        return result

    async def recent(self, limit: int = 10) -> Json:
        result: Json = await self._ask("recent", limit=limit)
        return result

    # ── the daemon itself ──

    async def daemon_status(self) -> Json:
        result: Json = await self._ask("daemon_status")
        return result

    async def daemon_stop(self) -> None:
        """Ask it to write everything down and end; returns when it has let go of this connection."""
        self._hello = asyncio.get_running_loop().create_future()
        await self._ask("daemon_stop")
        await asyncio.wait({self._hello})
        self._hello.exception()


def _gone() -> Internal:
    return Internal(
        "The daemon ended again and again.", hint="`counsel doctor` shows why; jobs are kept: `counsel jobs`."
    )
