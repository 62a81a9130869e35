"""MCP sessions of the handshake revisions: in memory, and for several servers also in the database.

A load balancer may send each request of a session to another server. So the database stores what `initialize`
negotiated, and a server that does not know a session restores it from there. A request that runs on another server is
found by the key of its job, which names the session and the request.
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
RETURN_WITHIN = 60.0  # seconds in which a client that disconnected may send another request
CANCEL_WITHIN = 1.0  # seconds after that request in which the client may still cancel the earlier call
FIND_WITHIN = 2.0  # seconds in which the job of a cancelled request must be stored
_POLL = 0.1  # seconds between two lookups of that job


class HasCalls(Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    async def open_calls(self, prefix: str) -> list[JobRecord]: ...


@dataclass(slots=True)
class HttpSession:
    name: str
    owner: str  # the person whose session it is; "" without a team
    session: Session
    used_at: float = field(default_factory=time.monotonic)
    # Each request sets it, and the task that waits for it clears it.
    request_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    cancelling: set[object] = field(default_factory=set)  # requests whose jobs are being cancelled elsewhere


class Sessions:
    def __init__(self, database: McpSessions | None) -> None:
        self._database = database
        self._sessions: dict[str, HttpSession] = {}
        self._cancelling: set[asyncio.Task[None]] = set()

    def all(self) -> list[Session]:
        return [entry.session for entry in self._sessions.values()]

    async def open(self, session: Session, owner: str) -> str:
        """Add a session whose `initialize` was answered; return its id."""
        self._sweep()
        name = secrets.token_hex(16)
        self._sessions[name] = HttpSession(name, owner, session)
        if self._database is not None:
            await self._database.open(name, owner, _state_json(session))
        return name

    async def find(self, name: str | None, owner: str, new: Callable[[], Session]) -> HttpSession:
        """Return the session with this id. `new` creates the object for one that another server opened."""
        if name is None:
            raise RefusedRequest(400, "Mcp-Session-Id is missing: send initialize first")
        entry = self._sessions.get(name)
        if self._database is not None:
            state = await self._database.use(name, owner)
            if state is None:
                if entry is not None and entry.owner == owner:  # another server ended the session
                    del self._sessions[name]
                entry = None
            elif entry is None:
                self._sweep()
                entry = self._sessions.setdefault(name, HttpSession(name, owner, _restored(new(), state)))
        if entry is None or entry.owner != owner:
            raise RefusedRequest(404, "Session not found: send initialize again")
        entry.used_at = time.monotonic()
        entry.request_arrived.set()
        return entry

    async def close(self, entry: HttpSession) -> None:
        self._sessions.pop(entry.name, None)
        await entry.session.close("gone")
        if self._database is not None:
            await self._database.close(entry.name)
            for job in await self._jobs_elsewhere(entry):
                if not job.background:
                    await entry.session.engine.cancel(job.id)

    def _sweep(self) -> None:
        """Delete sessions that have not been used for long, and the oldest ones when there are too many."""
        now = time.monotonic()
        idle = sorted(
            (entry.used_at, name)
            for name, entry in self._sessions.items()
            if not entry.session.active_requests
        )
        surplus = len(self._sessions) - MOST_SESSIONS + 1
        for index, (last_use, name) in enumerate(idle):
            if now - last_use > SESSION_IDLE or index < surplus:
                del self._sessions[name]

    # ── requests that another server handles ──

    def key(self, entry: HttpSession, request: object) -> NewKey | None:
        """A key by which another server finds the request's job. Unique, since a client may reuse an id."""
        if self._database is None:
            return None
        return NewKey(f"{_prefix(entry, request)}{secrets.token_hex(16)}")

    async def _jobs_elsewhere(self, entry: HttpSession, request: object = None) -> list[JobRecord]:
        if self._database is None:
            return []
        return await cast(HasCalls, entry.session.engine).open_calls(_prefix(entry, request))

    def cancel_elsewhere(self, entry: HttpSession, params: Mapping[str, object]) -> None:
        """Handle `notifications/cancelled` for a request that another server may be running. The first one counts."""
        request = params.get("requestId")
        if self._database is None or not is_id(request) or request in entry.session.active_requests:
            return
        if request in entry.cancelling:
            return
        entry.cancelling.add(request)
        task = asyncio.create_task(self._cancel(entry, request, params.get("reason")))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _cancel(self, entry: HttpSession, request: object, reason: object) -> None:
        """Cancel the job, and look for it several times: the other server may be about to store it."""
        until = time.monotonic() + FIND_WITHIN
        try:
            jobs = await self._jobs_elsewhere(entry, request)
            while not jobs and time.monotonic() < until:
                await asyncio.sleep(_POLL)
                jobs = await self._jobs_elsewhere(entry, request)
            for job in jobs:
                if job.background:  # its client has left it already
                    continue
                is_late = client_timeouts.is_timeout(reason)
                if is_late or await entry.session.is_overdue(time.time() - job.created):
                    await entry.session.engine.detach(job.id)
                else:
                    await entry.session.engine.cancel(job.id)
        except CounselError as error:
            log.warning("a call on another server could not be cancelled: %s", error.message)
        finally:
            entry.cancelling.discard(request)

    async def await_return(self, entry: HttpSession, request: Id, work: asyncio.Future[object]) -> None:
        """Handle a client that disconnected before its answer. In the handshake revisions that is not a cancellation.

        If the client sends another request, it has given up only this call: the job continues, unless that request
        cancels it. If it sends none, the client is gone, and the call is cancelled.
        """
        entry.request_arrived.clear()
        uses = await self._uses(entry)
        arrival: asyncio.Future[object] = asyncio.ensure_future(entry.request_arrived.wait())
        try:
            await asyncio.wait({work, arrival}, timeout=RETURN_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and (arrival.done() or await self._uses(entry) > uses):
                await asyncio.wait({work}, timeout=CANCEL_WITHIN)
                entry.session.abandon(request)
        finally:
            arrival.cancel()

    async def _uses(self, entry: HttpSession) -> int:
        return await self._database.uses(entry.name) if self._database is not None else 0


def _prefix(entry: HttpSession, request: object = None) -> str:
    session = f"mcp-{_digest(entry.name)}-"
    return session if request is None else f"{session}{_digest(json.dumps(request))}-"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _state_json(session: Session) -> str:
    state = session.protocol_state
    return json.dumps({"version": state.version, "client": state.client, "capabilities": state.capabilities})


def _restored(session: Session, state_json: str) -> Session:
    agreement = json.loads(state_json)
    state = session.protocol_state
    state.era, state.version = "handshake", agreement["version"]
    state.client, state.capabilities = agreement["client"], agreement["capabilities"]
    return session
