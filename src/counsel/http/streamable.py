"""MCP over streamable HTTP, with the same dispatcher: one POST per message, an answer as JSON or as a stream of events.

JSON is half the work of a stream, so a client gets it unless something precedes the answer: progress that it asked for,
or a keep-alive comment. Both eras share one address: the header `MCP-Protocol-Version` tells them apart. Before 2026-07-28
a session id connects a client's requests; since then every request is complete by itself.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from counsel.front import protocol
from counsel.front.protocol import RpcError, check_message, is_request, reply_id
from counsel.http.auth import Receive, Scope, Send
from counsel.http.envelope import (
    Bodies,
    RefusedRequest,
    check_envelope,
    check_headers,
    check_removed,
    check_single,
    has_envelope,
)
from counsel.http.exchange import STATUS, Exchange, Notify, reply, reply_json
from counsel.lazy_dataclass import dataclass
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.session import Session
from counsel.requests import Engine
from counsel.types import Json

SESSION_IDLE = 3_600.0  # seconds
CANCEL_WITHIN = (
    1.0  # seconds in which a request of a client that disconnected may be followed by a cancellation
)
RETURN_WITHIN = 60.0  # seconds in which a client that disconnected may send another request
MOST_SESSIONS = 1_000


@dataclass(slots=True)
class HttpSession:
    session: Session
    used: float = field(default_factory=time.monotonic)
    request_arrived: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set by each request; the waiter clears it


class Streamable:
    """The ASGI application at `/mcp`."""

    def __init__(self, engine: Engine, identity: ClientIdentity) -> None:
        self._engine = engine
        self._identity = identity
        self._sessions: dict[str, HttpSession] = {}
        self._stateless_now: set[Session] = set()
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1").strip() for name, value in scope["headers"]}
        try:
            if scope["method"] == "POST":
                await self._post(scope, headers, receive, send)
            elif scope["method"] == "DELETE":
                await self._delete(headers, send)
            else:  # the server sends nothing unasked, so there is no stream to GET
                await reply(send, 405, b"", (b"allow", b"POST, DELETE"))
        except RefusedRequest as refused:
            await reply_json(send, refused.error.response(None), refused.status)

    async def close(self) -> None:
        """The server exits: jobs stay in the database and are not cancelled."""
        for session in [*self._stateless_now, *(entry.session for entry in self._sessions.values())]:
            await session.close("handover")

    # ── one message ──

    async def _post(self, scope: Scope, headers: dict[bytes, str], receive: Receive, send: Send) -> None:
        if not headers.get(b"content-type", "").lower().startswith("application/json"):
            raise RefusedRequest(415, "Content-Type must be application/json")
        accepts = headers.get(b"accept", "*/*").lower()
        takes_stream = "text/event-stream" in accepts or "*/*" in accepts
        if not takes_stream and "application/json" not in accepts:
            raise RefusedRequest(406, "Accept must name application/json and text/event-stream")
        message = await self._bodies.message(headers, receive)
        exchange = Exchange(receive, send, takes_stream=takes_stream)
        version = headers.get(b"mcp-protocol-version")
        if (version is not None and version not in protocol.HANDSHAKE) or has_envelope(message):
            await self._stateless(message, scope["headers"], headers, exchange)
        else:
            await self._handshake(message, headers, exchange)

    async def _stateless(
        self, message: Any, raw: Iterable[tuple[bytes, bytes]], headers: dict[bytes, str], exchange: Exchange
    ) -> None:
        try:
            check_single(message)
            if not is_request(
                message
            ):  # notifications of 2026-07-28 have no effect here: closing the stream cancels
                protocol.check_version(headers.get(b"mcp-protocol-version", ""))
                await reply(exchange.send, 202)
                return
            check_envelope(message)
            check_headers(message, raw, headers)
            check_removed(message)
        except RpcError as error:
            await reply_json(exchange.send, error.response(reply_id(message)), STATUS[error.code])
            return
        session = Session(self._engine, self._identity, "http")
        self._stateless_now.add(session)
        try:
            await exchange.run(lambda notify: session.respond(message, notify), by_code=True)
        finally:
            self._stateless_now.discard(session)

    # ── sessions ──

    async def _handshake(self, message: Any, headers: dict[bytes, str], exchange: Exchange) -> None:
        if isinstance(message, dict) and message.get("method") == "initialize" and "id" in message:
            await self._open(message, exchange)
            return
        entry = self._find(headers)
        session = entry.session
        if isinstance(message, list):
            await self._batch(session, message, exchange)
            return
        try:
            check_single(message)
        except RpcError as error:
            await reply_json(exchange.send, error.response(reply_id(message)), 400)
            return
        if is_request(message):
            await exchange.run(
                lambda notify: session.respond(message, notify),
                on_disconnect=lambda work: _on_disconnect(entry, message["id"], work),
            )
        else:
            _take(session, message)
            await reply(exchange.send, 202)

    async def _open(self, message: dict[str, object], exchange: Exchange) -> None:
        session = Session(self._engine, self._identity, "http")
        response = await session.respond(message, lambda _: None)
        if response is None or "error" in response:
            await reply_json(exchange.send, response, 400)
            return
        self._sweep()
        name = secrets.token_hex(16)
        self._sessions[name] = HttpSession(session)
        await reply_json(exchange.send, response, 200, (b"mcp-session-id", name.encode()))

    def _find(self, headers: dict[bytes, str]) -> HttpSession:
        name = headers.get(b"mcp-session-id")
        if name is None:
            raise RefusedRequest(400, "Mcp-Session-Id is missing: send initialize first")
        entry = self._sessions.get(name)
        if entry is None:
            raise RefusedRequest(404, "Session not found: send initialize again")
        entry.used = time.monotonic()
        entry.request_arrived.set()
        return entry

    def _sweep(self) -> None:
        """Forget sessions that were not used for long, and the oldest ones when there are too many."""
        now = time.monotonic()
        idle = sorted(
            (entry.used, name) for name, entry in self._sessions.items() if not entry.session.active_requests
        )
        surplus = len(self._sessions) - MOST_SESSIONS + 1
        for index, (used, name) in enumerate(idle):
            if now - used > SESSION_IDLE or index < surplus:
                del self._sessions[name]

    async def _delete(self, headers: dict[bytes, str], send: Send) -> None:
        entry = self._find(headers)
        del self._sessions[headers[b"mcp-session-id"]]
        await entry.session.close("gone")
        await reply(send, 200)

    async def _batch(self, session: Session, messages: Sequence[object], exchange: Exchange) -> None:
        try:
            protocol.check_batch(messages, session.protocol_state.version)
        except RpcError as error:
            raise RefusedRequest(400, error.message) from None

        async def respond(notify: Notify) -> list[Json] | None:
            responses = await asyncio.gather(*(_of_batch(session, message, notify) for message in messages))
            return [response for response in responses if response is not None] or None

        await exchange.run(respond)


async def _of_batch(session: Session, message: Any, notify: Notify) -> dict[str, object] | None:
    try:
        check_message(message)
    except RpcError as error:
        return error.response(reply_id(message))
    if is_request(message):
        return await session.respond(message, notify)
    _take(session, message)
    return None


def _take(session: Session, message: dict[str, object]) -> None:
    if "method" in message:
        session.notified(message)
    else:
        session.answered(message)


async def _on_disconnect(entry: HttpSession, request_id: Any, work: asyncio.Future[Any]) -> None:
    """The client disconnected before its answer. In the handshake revisions that is not a cancellation.

    If the client sends another request, it stopped waiting for this call only: the job continues, unless that request
    cancels it. If it sends none, the client is gone, and the call is cancelled.
    """
    entry.request_arrived.clear()
    arrived = asyncio.ensure_future(entry.request_arrived.wait())
    try:
        await asyncio.wait({work, arrived}, timeout=RETURN_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        if arrived.done() and not work.done():
            await asyncio.wait({work}, timeout=CANCEL_WITHIN)
            entry.session.abandon(request_id)
    finally:
        arrived.cancel()
