"""askModel without MCP: one unix socket per session, for programs that host agents (docs/use/askmodel.md).

Lines of JSON, with any number of concurrent requests on one connection (an object without a newline is accepted, too):

    in    {"requestId", "model", "prompt", "sessionTag"?, "timestamp"?, "stream"?, "tools"?}
          {"requestId", "cancel": true}
    out   {"requestId", "partial", "offset"}            text as it arrives, when `stream` is true
          {"requestId", "partial": "", "offset", "restarted": {…}}   the text from there on is discarded
          {"requestId", "text", "error": null, …}       the answer
          {"requestId", "text": null, "error": "what happened, what to do", "code", …}

A line that cannot be parsed is answered with an error. When a client disconnects, its requests are cancelled. Tags on a
session's socket belong to that session.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Self

from counsel import locks, run_paths
from counsel.argument_schema import Checker, Schema
from counsel.askmodel.json_objects import NewlineInserter
from counsel.daemon.connection import peer_uid
from counsel.daemon.files import bind
from counsel.daemon.process_limits import PendingConnections, limit_accept_warnings, most_connections
from counsel.errors import Cancelled, Conflict, CounselError, Internal, InvalidArgument, RateLimited
from counsel.front.bounded_lines import TooLong
from counsel.front.json_messages import Unreadable, encode, parse
from counsel.job_events import Restarted, TextAdded
from counsel.lazy_dataclass import dataclass
from counsel.mcp import tool_call
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import LINES_AT_ONCE, Splitter
from counsel.request_rules import NAME, RULES, STRING, SWITCH, check_name
from counsel.requests import ChatRequest, Engine
from counsel.results import Accepted, Result
from counsel.types import Json

CLIENT = "askModel service"
MOST_CONNECTIONS = 256
_CHUNK = 1 << 16
MOST_AT_ONCE = 1_000  # requests of one connection
LONGEST_ID = 1_000  # characters of a requestId, which every answer repeats
_TIME_LIMIT = 86_400.0  # seconds: no client limit ends a call here; the engine's own limits do
_FIELDS: dict[str, Schema] = {
    "requestId": NAME,
    "model": NAME,
    "prompt": RULES["prompt"],
    "sessionTag": RULES["session_tag"],
    "timestamp": {"anyOf": [STRING, {"type": "number"}]},
    "stream": SWITCH,
    "tools": RULES["tools"],
    "maxCostUsd": RULES["max_cost_usd"],
    "cancel": SWITCH,
}


class AskService:
    """One session's socket. `async with AskService(…) as service:` serves at `service.path`."""

    def __init__(self, engine: Engine, identity: ClientIdentity, session: str, home: Path) -> None:
        self.engine = engine
        self.identity = identity
        self.session = check_name(session, "a session")
        self.path = run_paths.ask_socket(str(home), session)
        self._lease = _Lease(f"{self.path}.lock")
        self._server: asyncio.Server | None = None
        self._bound: locks.Identity | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.idle: PendingConnections[Connection] = PendingConnections()  # the oldest gives way to new ones
        self._most = most_connections(MOST_CONNECTIONS)

    async def __aenter__(self) -> Self:
        if not self._lease.take():
            raise Conflict(
                f"Session {self.session} already has a socket: {self.path}.",
                hint="Connect to it, or choose another session.",
            )
        sweep(Path(self.path).parent)
        limit_accept_warnings(asyncio.get_running_loop())
        listener, self._bound = bind(self.path)
        self._server = await asyncio.start_unix_server(self._accept, sock=listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        if locks.identity(self.path) == self._bound:
            self._lease.remove(self.path)
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._lease.release()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio runs this in a task
        self._connections.add(task)
        try:
            if peer_uid(writer.get_extra_info("socket")) == os.getuid() and self._admit(writer):
                await Connection(self, writer).serve(reader)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or the service is closing
        finally:
            self._connections.discard(task)
            writer.close()

    def _admit(self, writer: asyncio.StreamWriter) -> bool:
        """Whether there is room for a connection; the one that has been idle for longest is closed if necessary."""
        if len(self._connections) <= self._most:
            return True
        if oldest := self.idle.oldest():
            self.idle.discard(oldest)
            oldest.close_idle()
            return True
        busy = RateLimited(
            f"All {self._most} connections are busy.", hint="Close one, or send all requests over one."
        )
        writer.write(encode(_failure(None, busy)))
        return False


@dataclass(slots=True)
class _ActiveRequest:
    call: tool_call.Call
    task: asyncio.Task[None] = field(init=False)
    partials: asyncio.Task[None] | None = None


class Connection:
    """One program's requests; each is answered by a task of its own."""

    def __init__(self, service: AskService, writer: asyncio.StreamWriter) -> None:
        self._service = service
        self._writer = writer
        self._requests: dict[str, _ActiveRequest] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        lines: deque[bytes] = deque()
        objects, splitter = NewlineInserter(), Splitter(lines.append, self._refuse)
        self._service.idle.add(self)
        try:
            while data := await reader.read(_CHUNK):
                splitter.feed(objects.feed(data))
                while lines:
                    await self._handle(lines)
        finally:
            splitter.drop()
            await self._cancel_all()
            self._service.idle.discard(self)

    async def _handle(self, lines: deque[bytes]) -> None:
        """Handle some lines; then wait until the client has read its answers, and let other connections run."""
        for _ in range(min(LINES_AT_ONCE, len(lines))):
            self._line(lines.popleft())
        await self._writer.drain()
        await asyncio.sleep(0)

    def close_idle(self) -> None:
        """Make room for a newer connection."""
        busy = RateLimited("This connection was idle and was closed for a newer one.", hint="Connect again.")
        if self._writer.transport.get_write_buffer_size():  # the client does not read
            self._writer.transport.abort()
        else:
            self._send(_failure(None, busy))
            self._writer.close()

    async def _cancel_all(self) -> None:
        """Cancel the requests of a client that is gone, at the providers, too."""
        tasks = [active.task for active in self._requests.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refuse(self, line: TooLong) -> None:
        self._send(_failure(None, InvalidArgument(line.message)))

    def _line(self, data: bytes) -> None:
        request_id: str | None = None
        try:
            message = _object(data)
            request_id = self._unused_id(message)
            message = _check(message)
            if message.get("cancel"):
                self._cancel(message["requestId"])
            elif request_id is None:
                raise InvalidArgument("This requestId is in use; choose another.")
            else:
                self._begin(request_id, message)
        except CounselError as error:
            self._send(_failure(request_id, error))

    def _unused_id(self, message: Json) -> str | None:
        """The requestId; None if it is missing or invalid, or in use (an error would look like that request's
        answer)."""
        request_id = message.get("requestId")
        valid = isinstance(request_id, str) and len(request_id) <= LONGEST_ID
        return request_id if valid and request_id not in self._requests else None

    def _begin(self, request_id: str, message: dict[str, object]) -> None:
        if len(self._requests) >= MOST_AT_ONCE:
            raise RateLimited(
                f"{MOST_AT_ONCE:,} requests of this connection are in progress.",
                hint="Wait for an answer.",
            )
        self._service.idle.discard(self)
        call = tool_call.Call(
            engine=self._service.engine, caller=self._service.identity.caller(CLIENT), time_limit=_TIME_LIMIT
        )
        active = self._requests[request_id] = _ActiveRequest(call)
        if message.get("stream"):
            call.on_job = lambda job: self._follow(request_id, active, job)
        active.task = asyncio.ensure_future(
            self._answer(request_id, active, _request(self._service, message))
        )

    def _cancel(self, request_id: str) -> None:
        if active := self._requests.get(request_id):
            active.call.leaving = "cancelled"
            active.task.cancel()

    async def _answer(self, request_id: str, active: _ActiveRequest, request: ChatRequest) -> None:
        try:
            response = _success(request_id, await tool_call.run(active.call, request, background=False))
        except CounselError as error:
            response = _failure(request_id, error)
        except asyncio.CancelledError:
            await self._stop_following(active)
            if active.call.leaving != "cancelled":
                raise
            response = _failure(request_id, Cancelled("The request was cancelled."))
        except Exception as error:  # noqa: BLE001 - a bug in one request must not end the others
            response = _failure(request_id, Internal(f"Internal error ({type(error).__name__})."))
        finally:
            self._requests.pop(request_id, None)
            if not self._requests:
                self._service.idle.add(self)
        if active.partials is not None:
            with suppress(CounselError, ConnectionError):
                await active.partials
        self._send(response)
        with suppress(ConnectionError):
            await self._writer.drain()

    # ── live text ──

    def _follow(self, request_id: str, active: _ActiveRequest, job: str) -> None:
        active.partials = asyncio.ensure_future(self._send_partials(request_id, job))

    async def _send_partials(self, request_id: str, job: str) -> None:
        """Send the job's text as it arrives. A slow reader delays only its own request; nothing is dropped."""
        async for event in self._service.engine.follow(job):
            if isinstance(event, TextAdded | Restarted):
                self._send({"requestId": request_id, **_partial(event)})
                await self._writer.drain()

    @staticmethod
    async def _stop_following(active: _ActiveRequest) -> None:
        if active.partials is not None:
            active.partials.cancel()
            with suppress(asyncio.CancelledError, CounselError, ConnectionError):
                await active.partials
            active.partials = None

    def _send(self, message: dict[str, object]) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message))


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────


def _object(data: bytes) -> Json:
    hint = "Send one object per line, as UTF-8."
    try:
        message = parse(data)
    except Unreadable as error:
        raise InvalidArgument(f"This line is not a JSON object: {error}.", hint=hint) from None
    if not isinstance(message, dict):
        raise InvalidArgument("This line is not a JSON object.", hint=hint)
    return message


def _checker(*required: str) -> Checker:
    return Checker(
        "askModel",
        {"type": "object", "properties": _FIELDS, "required": list(required), "additionalProperties": False},
    )


_QUESTION, _CANCEL = _checker("requestId", "model", "prompt"), _checker("requestId")


def _check(message: Json) -> Json:
    """The message's fields, checked."""
    fields: Json = (_CANCEL if message.get("cancel") else _QUESTION).check(message)
    if len(fields["requestId"]) > LONGEST_ID:
        raise InvalidArgument(f"requestId may have at most {LONGEST_ID:,} characters.")
    return fields


def _request(service: AskService, message: Json) -> ChatRequest:
    return ChatRequest(
        tool="askModel",
        model=message["model"],
        prompt=message["prompt"],
        session_tag=message.get("sessionTag"),
        session=service.session,
        tools=tuple(message.get("tools", ())),
        max_cost_usd=message.get("maxCostUsd"),
    )


def _partial(event: TextAdded | Restarted) -> dict[str, object]:
    """A piece of text. A restart is an empty piece: even for a client that knows only `partial` and `offset`, it
    discards the text after the offset."""
    if isinstance(event, TextAdded):
        return {"partial": event.text, "offset": event.offset}
    about = {name: value for name, value in event.data.items() if name not in {"offset", "phase"}}
    return {"partial": "", "offset": event.offset, "restarted": about}


def _success(request_id: str, result: Result | Accepted) -> dict[str, object]:
    return {
        "requestId": request_id,
        "text": result.content,
        "error": None,
        "sessionTag": result.continuation.tag,
        "continuationId": result.continuation.id,
        "jobId": result.job_id,
        "metadata": result.to_json().get("metadata", {}),
    }


def _failure(request_id: str | None, error: CounselError) -> Json:
    return {
        "requestId": request_id,
        "text": None,
        "error": str(error),
        "code": error.code,
        "details": error.fields,
    }


# ── one service per session ─────────────────────────────────────────────────────────────────────────────


class _Lease:
    """A lock that proves that a session is served. The kernel releases it however this process ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> bool:
        self._file = locks.take(self._path)
        return self._file is not None

    def _holds(self) -> bool:
        """Whether the lock's path still names our lock. If not, the folder was replaced, and its files are not ours."""
        return self._file is not None and locks.is_at(self._file, self._path)

    def remove(self, path: str) -> None:
        with suppress(OSError):
            if self._holds():
                Path(path).unlink(missing_ok=True)

    def release(self) -> None:
        self.remove(self._path)
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sweep(folder: Path) -> None:
    """Remove the sockets of killed services."""
    for lock in folder.glob("ask-*.sock.lock"):
        lease = _Lease(str(lock))
        if lease.take():
            lease.remove(str(lock.with_suffix("")))
            lease.release()
