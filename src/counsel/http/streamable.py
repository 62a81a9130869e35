"""MCP over streamable HTTP, with the same dispatcher: one POST per message, answered with JSON or a stream of events.

JSON takes half the work of a stream, so the response is JSON unless something precedes the answer: progress that the
client asked for, or a keep-alive comment. Both kinds of protocol share one path; the header `MCP-Protocol-Version`
tells them apart. Before version 2026-07-28, a session id connects a client's requests; since then every request is
complete in itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from counsel.front import protocol
from counsel.front.protocol import RpcError, check_message, is_request, reply_id
from counsel.http.auth import TOKEN_ENDED, Receive, Scope, Send
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
from counsel.http.mcp_sessions import HttpSession, Sessions
from counsel.http.person import engine_of, identity_of, owner_of, person_of
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.session import Id, Session
from counsel.requests import Engine
from counsel.types import Json


class Streamable:
    """The ASGI application at `/mcp`."""

    def __init__(self, engine: Engine, identity: ClientIdentity) -> None:
        self._engine = engine
        self._identity = identity
        self._sessions = Sessions(getattr(engine, "mcp_sessions", None))
        self._stateless_sessions: set[Session] = set()
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1").strip() for name, value in scope["headers"]}
        try:
            if scope["method"] == "POST":
                await self._post(scope, headers, receive, send)
            elif scope["method"] == "DELETE":
                await self._delete(scope, headers, send)
            else:  # the server sends nothing on its own, so there is no stream to GET
                await reply(send, 405, b"", (b"allow", b"POST, DELETE"))
        except RefusedRequest as refusal:
            await reply_json(send, refusal.error.response(None), refusal.status)

    async def close(self) -> None:
        """Close all sessions before the server exits: jobs stay in the database and are not cancelled."""
        await asyncio.gather(*(session.hand_over() for session in self._all()))

    @property
    def is_waiting(self) -> bool:
        """Whether a client waits for a tool's result."""
        return any(session.is_waiting for session in self._all())

    def _all(self) -> list[Session]:
        return [*self._stateless_sessions, *self._sessions.all()]

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
            await self._stateless(message, scope, headers, exchange)
        else:
            await self._handshake(message, scope, headers, exchange)

    async def _stateless(
        self, message: Any, scope: Scope, headers: dict[bytes, str], exchange: Exchange
    ) -> None:
        try:
            check_single(message)
            # Notifications of 2026-07-28 have no effect here: a client cancels by closing the stream.
            if not is_request(message):
                protocol.check_version(headers.get(b"mcp-protocol-version", ""))
                await reply(exchange.send, 202)
                return
            check_envelope(message)
            check_headers(message, scope["headers"], headers)
            check_removed(message)
        except RpcError as error:
            await reply_json(exchange.send, error.response(reply_id(message)), STATUS[error.code])
            return
        session = self._new_session(scope)
        self._stateless_sessions.add(session)
        try:
            await exchange.run(lambda notify: session.respond(message, notify), by_code=True)
        finally:
            self._stateless_sessions.discard(session)

    # ── sessions ──

    async def _handshake(
        self, message: Any, scope: Scope, headers: dict[bytes, str], exchange: Exchange
    ) -> None:
        if isinstance(message, dict) and message.get("method") == "initialize" and "id" in message:
            await self._open(message, scope, exchange)
            return
        entry = await self._find(scope, headers)
        session = entry.session
        if isinstance(message, list):
            await self._batch(entry, message, exchange)
            return
        try:
            check_single(message)
        except RpcError as error:
            await reply_json(exchange.send, error.response(reply_id(message)), 400)
            return
        if is_request(message):
            await exchange.run(
                lambda notify: session.respond(message, notify, key=self._sessions.key(entry, message["id"])),
                on_disconnect=lambda work: self._disconnected(scope, entry, message["id"], work),
            )
        else:
            self._receive(entry, message)
            await reply(exchange.send, 202)

    async def _disconnected(
        self, scope: Scope, entry: HttpSession, request: Id, work: asyncio.Future[object]
    ) -> None:
        """Wait for the client, unless its token has ended: then it cannot return, and its call is cancelled now."""
        has_ended = scope.get(TOKEN_ENDED)
        if not (has_ended and has_ended()):
            await self._sessions.await_return(entry, request, work)

    async def _open(self, message: dict[str, object], scope: Scope, exchange: Exchange) -> None:
        session = self._new_session(scope)
        response = await session.respond(message, lambda _: None)
        if response is None or "error" in response:
            await reply_json(exchange.send, response, 400)
            return
        name = await self._sessions.open(session, owner_of(scope))
        await reply_json(exchange.send, response, 200, (b"mcp-session-id", name.encode()))

    async def _find(self, scope: Scope, headers: dict[bytes, str]) -> HttpSession:
        name = headers.get(b"mcp-session-id")
        entry = await self._sessions.find(name, owner_of(scope), lambda: self._new_session(scope))
        if person_of(scope) is not None:  # the person's role and groups may have changed since `initialize`
            entry.session.engine = engine_of(self._engine, scope)
            entry.session.identity = identity_of(self._identity, scope)
        return entry

    def _new_session(self, scope: Scope) -> Session:
        return Session(engine_of(self._engine, scope), identity_of(self._identity, scope), "http")

    async def _delete(self, scope: Scope, headers: dict[bytes, str], send: Send) -> None:
        await self._sessions.close(await self._find(scope, headers))
        await reply(send, 200)

    async def _batch(self, entry: HttpSession, messages: Sequence[object], exchange: Exchange) -> None:
        try:
            protocol.check_batch(messages, entry.session.protocol_state.version)
        except RpcError as error:
            raise RefusedRequest(400, error.message) from None

        async def respond(notify: Notify) -> list[Json] | None:
            responses = await asyncio.gather(
                *(self._respond_to_item(entry, message, notify) for message in messages)
            )
            return [response for response in responses if response is not None] or None

        await exchange.run(respond)

    async def _respond_to_item(
        self, entry: HttpSession, message: Any, notify: Notify
    ) -> dict[str, object] | None:
        try:
            check_message(message)
        except RpcError as error:
            return error.response(reply_id(message))
        if is_request(message):
            key = self._sessions.key(entry, message["id"])
            return await entry.session.respond(message, notify, key=key)
        self._receive(entry, message)
        return None

    def _receive(self, entry: HttpSession, message: Json) -> None:
        if "method" not in message:
            entry.session.on_response(message)
            return
        if message["method"] == "notifications/cancelled":
            self._sessions.cancel_elsewhere(entry, message.get("params") or {})
        entry.session.on_notification(message)
