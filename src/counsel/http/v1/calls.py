"""Calls of /v1 while their clients are connected: bodies are read, jobs submitted, jobs of absent clients cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Protocol, cast

from counsel.caller import Caller
from counsel.engine.store.records import JobRecord
from counsel.errors import Conflict, FileTooLarge, OutOfResources
from counsel.front.json_messages import Unreadable, parse
from counsel.http.auth import Receive, Scope
from counsel.http.chunks import Watchable
from counsel.http.envelope import Bodies, RefusedRequest
from counsel.http.person import engine_of, identity_of
from counsel.http.v1 import consensus, errors
from counsel.http.v1.api import ApiRequest
from counsel.job_events import JobEvent
from counsel.mcp.identity import ClientIdentity
from counsel.requests import CompletionRequest, Engine, Request

CLIENT = "v1"  # the caller's name in jobs and usage records


class Completing(Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    async def submit(
        self,
        request: Request | CompletionRequest,
        caller: Caller,
        *,
        background: bool = False,
        key: str | None = None,
    ) -> str: ...

    async def keys_like(self, prefix: str) -> list[str]: ...

    async def open_calls(self, prefix: str) -> list[JobRecord]: ...

    def follow(
        self, job_id: str, after: int = 0, push: Callable[[JobEvent], bool] | None = None
    ) -> AsyncGenerator[JobEvent]: ...


class Calls:
    """The requests in progress."""

    def __init__(self, engine: Engine, identity: ClientIdentity) -> None:
        self._engine = engine
        self._identity = identity
        self._bodies = Bodies()
        self._key_lock = asyncio.Lock()  # idempotency keys are looked up one at a time
        self._active: set[asyncio.Task[object]] = set()
        self._closing = False

    async def close(self) -> None:
        """End requests in progress. Their clients get an error with the job, which continues."""
        self._closing = True
        for task in list(self._active):
            task.cancel()

    def caller(self, scope: Scope) -> Caller:
        return identity_of(self._identity, scope).caller(CLIENT)

    def engine(self, scope: Scope) -> Engine:
        return engine_of(self._engine, scope)

    async def body(self, receive: Receive, limit: int) -> dict[str, object]:
        try:
            raw = await self._bodies.raw(receive, limit)
        except RefusedRequest as refusal:
            if refusal.status == 413:
                raise FileTooLarge(f"The request is larger than {limit // 2**20} MiB.") from None
            if refusal.status == 503:
                raise OutOfResources(f"{refusal}.") from None
            raise errors.BadRequest("The request's body did not arrive.") from None
        try:
            value = parse(raw)
        except Unreadable as error:
            raise errors.BadRequest(f"We could not parse the JSON body of your request: {error}.") from None
        if not isinstance(value, dict):
            raise errors.BadRequest("The request's body must be a JSON object.")
        return value

    async def submit(self, request: ApiRequest, key: str | None, scope: Scope) -> tuple[str, bool]:
        """Return the job, and whether it belongs to an earlier request with the same key."""
        background = request.background or key is not None
        engine = cast(Completing, self.engine(scope))
        caller = self.caller(scope)
        is_consensus = consensus.is_named(request.model)
        job_request = consensus.request_of(request, caller.settings) if is_consensus else request.completion
        if key is None:
            return await engine.submit(job_request, caller, background=background), False
        async with self._key_lock:
            keys = await engine.keys_like(key[: key.rindex("-") + 1])
            if keys and key not in keys:
                raise Conflict(
                    "Idempotency-Key was used for another request.", hint="Use a new key for each request."
                )
            repeats = key in keys and isinstance(job_request, CompletionRequest)
            job = await engine.submit(job_request, caller, background=background, key=key)
            return job, repeats

    async def run_while_connected(
        self,
        work: Coroutine[object, object, None],
        receive: Receive,
        on_disconnect: Callable[[], Awaitable[None]],
        connection: Watchable | None = None,
    ) -> None:
        """Do the work while the client is connected. `on_disconnect` is called if it disconnects."""
        task = asyncio.current_task()
        assert task is not None
        canceller = _Canceller(task)
        disconnect = None if connection else asyncio.ensure_future(_wait_for_disconnect(receive))
        self._active.add(task)
        try:
            if disconnect:
                disconnect.add_done_callback(canceller)
            elif connection and not connection.watch(canceller):
                canceller()
            await work
        except asyncio.CancelledError:
            if not (canceller.is_disconnected or self._closing):
                raise
            task.uncancel()
            if not self._closing:
                await on_disconnect()
        finally:
            self._active.discard(task)
            if disconnect:
                disconnect.remove_done_callback(canceller)
                disconnect.cancel()
            elif connection:
                connection.unwatch(canceller)

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_team(self) -> bool:
        return bool(self._identity.settings.database)

    @property
    def is_waiting(self) -> bool:
        """Whether a client waits for an answer."""
        return bool(self._active)


class _Canceller:
    """Cancels a request's task when its client has disconnected."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self.is_disconnected = False

    def __call__(self, *_: object) -> None:
        self.is_disconnected = True
        self._task.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
