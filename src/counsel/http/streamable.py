"""MCP's streamable HTTP around the same dispatcher: one POST per message, an answer in JSON or as a stream of events.

JSON is half the work of a stream, so it is what a client gets unless something is to be said before the answer: progress
that it asked for, or a sign of life after a while. Both eras live at one address: the `MCP-Protocol-Version` header
says which. Before 2026-07-28 a session id holds a client's requests together; since then every request is whole.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import field
from typing import Any

from counsel.front import protocol
from counsel.front.json_messages import LARGEST_MESSAGE, Unreadable, parse
from counsel.front.protocol import META_VERSION, RpcError, check_message, is_request, reply_id
from counsel.http.auth import Receive, Scope, Send
from counsel.lazy_dataclass import dataclass
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.session import Session
from counsel.requests import Engine
from counsel.strict_json import encode
from counsel.types import Json

LARGEST_BODY = LARGEST_MESSAGE
MOST_BODIES = 256 * 1024 * 1024  # bytes of bodies that are being received at once
SIGN_OF_LIFE = 15.0  # seconds of silence before a waiting client gets a comment
SESSION_IDLE = 3_600.0
CANCELS_WITHIN = (
    1.0  # seconds in which a request that was heard first may be followed by the call's cancellation
)
LEFT_FOR = 60.0  # seconds in which a client that hung up may be heard of again
MOST_SESSIONS = 1_000

_STATUS = {
    protocol.PARSE_ERROR: 400,
    protocol.INVALID_REQUEST: 400,
    protocol.INVALID_PARAMS: 400,
    protocol.HEADER_MISMATCH: 400,
    protocol.UNSUPPORTED_VERSION: 400,
    protocol.MISSING_CAPABILITY: 400,
    protocol.METHOD_NOT_FOUND: 404,
}
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(protocol.TASK_METHODS, "taskId"),
}
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")

_Notify = Callable[[Json], None]
_Carry = Callable[[_Notify], Awaitable[Any]]
_Leave = Callable[[asyncio.Future[Any]], Awaitable[None]]


class _Refused(Exception):
    """An answer in the words of HTTP."""

    def __init__(self, status: int, message: str, code: int = protocol.INVALID_REQUEST) -> None:
        super().__init__(message)
        self.status = status
        self.error = RpcError(code, message)


@dataclass(slots=True)
class Held:
    session: Session
    used: float = field(default_factory=time.monotonic)
    heard: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set by each request; whoever waits clears it


class Streamable:
    """The ASGI application at `/mcp`."""

    def __init__(self, engine: Engine, identity: ClientIdentity) -> None:
        self._engine = engine
        self._visitor = identity
        self._sessions: dict[str, Held] = {}
        self._stateless_now: set[Session] = set()
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1").strip() for name, value in scope["headers"]}
        try:
            if scope["method"] == "POST":
                await self._post(scope, headers, receive, send)
            elif scope["method"] == "DELETE":
                await self._delete(headers, send)
            else:  # we start no conversation of our own, so there is no stream to GET
                await _reply(send, 405, b"", (b"allow", b"POST, DELETE"))
        except _Refused as refused:
            await _json(send, refused.error.response(None), refused.status)

    async def close(self) -> None:
        """The server ends: jobs are left to the journal, not cancelled."""
        for session in [*self._stateless_now, *(held.session for held in self._sessions.values())]:
            await session.close("handover")

    # ── one message ──

    async def _post(self, scope: Scope, headers: dict[bytes, str], receive: Receive, send: Send) -> None:
        if not headers.get(b"content-type", "").lower().startswith("application/json"):
            raise _Refused(415, "Content-Type must be application/json")
        accepts = headers.get(b"accept", "*/*").lower()
        takes_stream = "text/event-stream" in accepts or "*/*" in accepts
        if not takes_stream and "application/json" not in accepts:
            raise _Refused(406, "Accept must name application/json and text/event-stream")
        message = await self._bodies.message(headers, receive)
        exchange = Exchange(receive, send, takes_stream=takes_stream)
        version = headers.get(b"mcp-protocol-version")
        if (version is not None and version not in protocol.HANDSHAKE) or _has_envelope(message):
            await self._stateless(message, scope["headers"], headers, exchange)
        else:
            await self._handshake(message, headers, exchange)

    async def _stateless(
        self, message: Any, raw: Iterable[tuple[bytes, bytes]], headers: dict[bytes, str], exchange: Exchange
    ) -> None:
        try:
            _check_one(message)
            if not is_request(message):  # 2026-07-28 has none that matter here: closing the stream cancels
                protocol.check_version(headers.get(b"mcp-protocol-version", ""))
                await _reply(exchange.send, 202)
                return
            _check_envelope(message)
            _check_headers(message, raw, headers)
            _check_removed(message)
        except RpcError as error:
            await _json(exchange.send, error.response(reply_id(message)), _STATUS.get(error.code, 200))
            return
        session = Session(self._engine, self._visitor, "http")
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
        held = self._find(headers)
        session = held.session
        if isinstance(message, list):
            await self._batch(session, message, exchange)
            return
        try:
            _check_one(message)
        except RpcError as error:
            await _json(exchange.send, error.response(reply_id(message)), 400)
            return
        if is_request(message):
            await exchange.run(
                lambda notify: session.respond(message, notify),
                leave=lambda work: _leave(held, message["id"], work),
            )
        else:
            _take(session, message)
            await _reply(exchange.send, 202)

    async def _open(self, message: Json, exchange: Exchange) -> None:
        session = Session(self._engine, self._visitor, "http")
        response = await session.respond(message, lambda _: None)
        if response is None or "error" in response:
            await _json(exchange.send, response, 400)
            return
        self._sweep()
        name = secrets.token_hex(16)
        self._sessions[name] = Held(session)
        await _json(exchange.send, response, 200, (b"mcp-session-id", name.encode()))

    def _find(self, headers: dict[bytes, str]) -> Held:
        name = headers.get(b"mcp-session-id")
        if name is None:
            raise _Refused(400, "Mcp-Session-Id is missing: begin with initialize")
        held = self._sessions.get(name)
        if held is None:
            raise _Refused(404, "Session not found: begin again with initialize")
        held.used = time.monotonic()
        held.heard.set()
        return held

    def _sweep(self) -> None:
        """Forget sessions that nobody has used for long, and the oldest when there are too many."""
        now = time.monotonic()
        idle = sorted(
            (held.used, name) for name, held in self._sessions.items() if not held.session.active_requests
        )
        surplus = len(self._sessions) - MOST_SESSIONS + 1
        for at, (used, name) in enumerate(idle):
            if now - used > SESSION_IDLE or at < surplus:
                del self._sessions[name]

    async def _delete(self, headers: dict[bytes, str], send: Send) -> None:
        held = self._find(headers)
        del self._sessions[headers[b"mcp-session-id"]]
        await held.session.close("gone")
        await _reply(send, 200)

    async def _batch(self, session: Session, messages: list[Any], exchange: Exchange) -> None:
        try:
            protocol.check_batch(messages, session.protocol_state.version)
        except RpcError as error:
            raise _Refused(400, error.message) from None

        async def carry(notify: _Notify) -> list[Json] | None:
            found = await asyncio.gather(*(_of_batch(session, message, notify) for message in messages))
            return [response for response in found if response is not None] or None

        await exchange.run(carry)


async def _of_batch(session: Session, message: Any, notify: _Notify) -> Json | None:
    try:
        check_message(message)
    except RpcError as error:
        return error.response(reply_id(message))
    if is_request(message):
        return await session.respond(message, notify)
    _take(session, message)
    return None


def _take(session: Session, message: Json) -> None:
    if "method" in message:
        session.notified(message)
    else:
        session.answered(message)


# ── what a message must be ───────────────────────────────────────────────────────────────────────────


class Bodies:
    """Bodies on their way in: each has its bound, and all together have one."""

    def __init__(self) -> None:
        self._bytes = 0

    async def message(self, headers: dict[bytes, str], receive: Receive) -> Any:
        declared = headers.get(b"content-length", "0")
        if len(declared) > len(str(LARGEST_BODY)) or int(declared) > LARGEST_BODY:  # h11: digits only
            raise _too_large()
        body = bytearray()
        try:
            while await self._more(body, receive):
                pass
            return parse(body)
        except Unreadable as error:
            unreadable = protocol.unreadable(error)
            raise _Refused(400, unreadable.message, unreadable.code) from None
        finally:
            self._bytes -= len(body)

    async def _more(self, body: bytearray, receive: Receive) -> bool:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "The body did not arrive")
        part = message.get("body", b"")
        if len(body) + len(part) > LARGEST_BODY:
            raise _too_large()
        if self._bytes + len(part) > MOST_BODIES:
            raise _Refused(503, "Too much is being received at once: try again in a moment", protocol.BUSY)
        body += part
        self._bytes += len(part)
        return bool(message.get("more_body"))


def _too_large() -> _Refused:
    return _Refused(413, f"The body is larger than {LARGEST_BODY // 2**20} MiB")


def _check_one(message: Any) -> None:
    if isinstance(message, list):
        raise RpcError(protocol.INVALID_REQUEST, "The body must be one JSON-RPC message")
    check_message(message)


def _has_envelope(message: Any) -> bool:
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and META_VERSION in meta


def _check_envelope(message: Json) -> None:
    meta = (message.get("params") or {}).get("_meta")
    wanted = (META_VERSION, protocol.META_CAPABILITIES)
    missing = [key for key in wanted if not isinstance(meta, dict) or key not in meta]
    if missing:
        raise RpcError(protocol.INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")


def _check_removed(message: Json) -> None:
    """`initialize` on a stateless request: not a version that we could not speak, but a method that is no more."""
    if message["method"] == "initialize":
        protocol.check_version(message["params"]["_meta"][META_VERSION])
        raise RpcError(protocol.METHOD_NOT_FOUND, "Method not found", "initialize")


def _check_headers(message: Json, raw: Iterable[tuple[bytes, bytes]], headers: dict[bytes, str]) -> None:
    """What intermediaries route by must be what the body says."""
    names = [name for name, _ in raw if name in _ROUTING]
    for name in _ROUTING:
        if names.count(name) > 1:
            raise _mismatch(name, "appears more than once")
    params = message["params"]
    if headers.get(b"mcp-protocol-version") != params["_meta"][META_VERSION]:
        raise _mismatch(b"mcp-protocol-version", "is not the envelope's protocol version")
    if headers.get(b"mcp-method") != message["method"]:
        raise _mismatch(b"mcp-method", "is not the body's method")
    key = _NAMED.get(message["method"])
    if key and params.get(key) is not None and _decoded(headers.get(b"mcp-name")) != params[key]:
        raise _mismatch(b"mcp-name", f"is not the body's {key}")


def _mismatch(header: bytes, what: str) -> RpcError:
    return RpcError(protocol.HEADER_MISMATCH, f"The header {header.decode()} {what}")


def _decoded(value: str | None) -> str | None:
    """A header's value; `=?base64?…?=` holds what a header cannot."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    packed = value[len("=?base64?") : -len("?=")]
    try:
        plain = base64.b64decode(packed, validate=True)
        return plain.decode() if base64.b64encode(plain).decode() == packed else None
    except (binascii.Error, UnicodeDecodeError):
        return None


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────


class Exchange:
    """One request and its answer: JSON when that is all there is to say, a stream of events otherwise."""

    def __init__(self, receive: Receive, send: Send, *, takes_stream: bool) -> None:
        self.send = send
        self._receive = receive
        self._takes_stream = takes_stream
        self._streaming = False
        self._notes: dict[Any, Json] = {}  # by token: a client that reads slowly gets the newest of each
        self._news = asyncio.Event()

    async def run(self, carry: _Carry, *, by_code: bool = False, leave: _Leave | None = None) -> None:
        """`leave`: what is done with the work when the client has hung up. Otherwise it is cancelled."""
        work = asyncio.ensure_future(carry(self._notify))
        gone = asyncio.ensure_future(_disconnected(self._receive))
        for task in (work, gone):
            task.add_done_callback(lambda _: self._news.set())
        try:
            while not work.done() and not gone.done():
                await self._listen()
            if work.done():
                await self._finish(work.result(), by_code=by_code)
            elif leave is not None:
                await leave(work)
        finally:
            for task in (work, gone):  # whoever asked has gone: so has the reason to go on
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _notify(self, message: Json) -> None:
        if self._takes_stream:
            self._notes[message["params"]["progressToken"]] = message
            self._news.set()

    async def _listen(self) -> None:
        try:
            async with asyncio.timeout(SIGN_OF_LIFE):
                await self._news.wait()
        except TimeoutError:
            if self._takes_stream:
                await self._write(b": still here\n\n")
            return
        self._news.clear()
        await self._tell()

    async def _tell(self) -> None:
        notes, self._notes = self._notes, {}
        for note in notes.values():
            await self._write(_event(note))

    async def _finish(self, response: Any, *, by_code: bool) -> None:
        if self._streaming:
            await self._tell()
            last = b"" if response is None else _event(response)
            await self.send({"type": "http.response.body", "body": last})
        elif response is None:  # cancelled: there is nothing to say
            await _reply(self.send, 202)
        else:
            code: int = response.get("error", {}).get("code", 0) if by_code else 0
            await _json(self.send, response, _STATUS.get(code, 200))

    async def _write(self, data: bytes) -> None:
        if not self._streaming:
            self._streaming = True
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-cache, no-transform"),
                (b"x-accel-buffering", b"no"),
            ]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": data, "more_body": True})


async def _leave(held: Held, request_id: Any, work: asyncio.Future[Any]) -> None:
    """The client hung up before its answer. By the handshake's revisions that is no cancellation.

    A client that is heard of again waited no longer for this one call: its job goes on, unless what is heard is that it
    cancels the call. One that is not has gone, and so has the reason to go on.
    """
    held.heard.clear()
    heard = asyncio.ensure_future(held.heard.wait())
    try:
        await asyncio.wait({work, heard}, timeout=LEFT_FOR, return_when=asyncio.FIRST_COMPLETED)
        if heard.done() and not work.done():
            await asyncio.wait({work}, timeout=CANCELS_WITHIN)
            held.session.leave(request_id)
    finally:
        heard.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _dumped(message: Any) -> bytes:
    return encode(message)


def _event(message: Any) -> bytes:
    return b"event: message\ndata: " + _dumped(message) + b"\n\n"


async def _json(send: Send, message: Any, status: int, *more: tuple[bytes, bytes]) -> None:
    await _reply(send, status, _dumped(message), (b"content-type", b"application/json"), *more)


async def _reply(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})
