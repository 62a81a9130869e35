"""MCP sessions of the handshake revisions: in memory, and for several servers in the database, too.

A load balancer may send each request of a session to another server. So the database has what `initialize` has agreed
on; a server that does not know a session makes it from there. A request that runs on another server is found by the key
of its job, which names the session and the request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol, cast

from counsel.engine.store.protocol import McpSessions
from counsel.engine.store.records import JobRecord
from counsel.errors import CounselError
from counsel.front.protocol import is_id
from counsel.http.envelope import RefusedRequest
from counsel.lazy_dataclass import dataclass
from counsel.mcp import client_timeouts
from counsel.mcp.session import Id, Session
from counsel.requests import NewKey

log = logging.getLogger("counsel.http")
SESSION_IDLE = 3_600.0  # seconds
MOST_SESSIONS = 1_000
CANCEL_WITHIN = (
    1.0  # seconds in which a request of a client that disconnected may be followed by a cancellation
)
FIND_WITHIN = 2.0  # seconds in which the job of a cancelled request is stored
_LOOK = 0.1  # seconds between two looks for it
RETURN_WITHIN = 60.0  # seconds in which a client that disconnected may send another request


class HasCalls(Protocol):
    """An engine with the database: the real one, not one at the other end of a socket."""

    async def open_calls(self, prefix: str) -> list[JobRecord]: ...


@dataclass(slots=True)
class HttpSession:
    name: str
    owner: str  # the person whose session it is; "" without a team
    session: Session
    used: float = field(default_factory=time.monotonic)
    request_arrived: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set by each request; the waiter clears it


class Sessions:
    def __init__(self, shared: McpSessions | None) -> None:
        self._shared = shared
        self._known: dict[str, HttpSession] = {}
        self._cancelling: set[asyncio.Task[None]] = set()

    def all(self) -> list[Session]:
        return [entry.session for entry in self._known.values()]

    async def open(self, session: Session, owner: str) -> str:
        """Its id, for a session whose `initialize` was answered."""
        self._sweep()
        name = secrets.token_hex(16)
        self._known[name] = HttpSession(name, owner, session)
        if self._shared is not None:
            await self._shared.open(name, owner, _dumped(session))
        return name

    async def find(self, name: str | None, owner: str, new: Callable[[], Session]) -> HttpSession:
        """The session of this id. `new` makes one for a session that another server has opened."""
        if name is None:
            raise RefusedRequest(400, "Mcp-Session-Id is missing: send initialize first")
        entry = self._known.get(name)
        if self._shared is not None:
            state = await self._shared.use(name, owner)
            if state is None:
                if entry is not None and entry.owner == owner:  # ended at another server
                    del self._known[name]
                entry = None
            elif entry is None:
                self._sweep()
                entry = self._known.setdefault(name, HttpSession(name, owner, _restored(new(), state)))
        if entry is None or entry.owner != owner:
            raise RefusedRequest(404, "Session not found: send initialize again")
        entry.used = time.monotonic()
        entry.request_arrived.set()
        return entry

    async def close(self, entry: HttpSession) -> None:
        self._known.pop(entry.name, None)
        await entry.session.close("gone")
        if self._shared is not None:
            await self._shared.close(entry.name)
            for job in await self._elsewhere(entry):
                if not job.background:
                    await entry.session.engine.cancel(job.id)

    def _sweep(self) -> None:
        """Forget sessions that were not used for long, and the oldest ones when there are too many."""
        now = time.monotonic()
        idle = sorted(
            (entry.used, name) for name, entry in self._known.items() if not entry.session.active_requests
        )
        surplus = len(self._known) - MOST_SESSIONS + 1
        for index, (used, name) in enumerate(idle):
            if now - used > SESSION_IDLE or index < surplus:
                del self._known[name]

    # ── requests that another server handles ──

    def key(self, entry: HttpSession, request: object) -> NewKey | None:
        """By this key another server finds the job of a request. Unique: a client may use an id again."""
        if self._shared is None:
            return None
        return NewKey(f"{_prefix(entry, request)}{secrets.token_hex(16)}")

    async def _elsewhere(self, entry: HttpSession, request: object = None) -> list[JobRecord]:
        if self._shared is None:
            return []
        return await cast(HasCalls, entry.session.engine).open_calls(_prefix(entry, request))

    def cancelled(self, entry: HttpSession, params: Mapping[str, object]) -> None:
        """`notifications/cancelled` for a request that no connection of this server handles."""
        request = params.get("requestId")
        if self._shared is None or not is_id(request) or request in entry.session.active_requests:
            return
        task = asyncio.create_task(self._cancel(entry, request, params.get("reason")))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _cancel(self, entry: HttpSession, request: object, reason: object) -> None:
        """The other server may be about to store the job: it is looked for a few times."""
        until = time.monotonic() + FIND_WITHIN
        try:
            jobs = await self._elsewhere(entry, request)
            while not jobs and time.monotonic() < until:
                await asyncio.sleep(_LOOK)
                jobs = await self._elsewhere(entry, request)
            for job in jobs:
                is_late = client_timeouts.is_timeout(reason)
                if is_late or await entry.session.is_overdue(time.time() - job.created):
                    await entry.session.engine.detach(job.id)
                else:
                    await entry.session.engine.cancel(job.id)
        except CounselError as error:
            log.warning("a call of another server was not cancelled: %s", error.message)

    async def disconnected(self, entry: HttpSession, request: Id, work: asyncio.Future[object]) -> None:
        """The client disconnected before its answer. In the handshake revisions that is not a cancellation.

        If the client sends another request, it stopped waiting for this call only: the job continues, unless that
        request cancels it. If it sends none, the client is gone, and the call is cancelled.
        """
        entry.request_arrived.clear()
        uses = await self._uses(entry)
        arrived: asyncio.Future[object] = asyncio.ensure_future(entry.request_arrived.wait())
        try:
            await asyncio.wait({work, arrived}, timeout=RETURN_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and (arrived.done() or await self._uses(entry) > uses):
                await asyncio.wait({work}, timeout=CANCEL_WITHIN)
                entry.session.abandon(request)
        finally:
            arrived.cancel()

    async def _uses(self, entry: HttpSession) -> int:
        return await self._shared.uses(entry.name) if self._shared is not None else 0


def _prefix(entry: HttpSession, request: object = None) -> str:
    session = f"mcp-{_digest(entry.name)}-"
    return session if request is None else f"{session}{_digest(json.dumps(request))}-"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _dumped(session: Session) -> str:
    state = session.protocol_state
    return json.dumps({"version": state.version, "client": state.client, "capabilities": state.capabilities})


def _restored(session: Session, dumped: str) -> Session:
    agreed = json.loads(dumped)
    state = session.protocol_state
    state.era, state.version = "handshake", agreed["version"]
    state.client, state.capabilities = agreed["client"], agreed["capabilities"]
    return session
