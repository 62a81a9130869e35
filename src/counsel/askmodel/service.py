"""askModel without MCP: one unix socket per session, for programs that host agents (docs/use/askmodel.md).

Lines of JSON, any number of requests at once on one connection (an object without a line's end is taken, too):

    in    {"requestId", "model", "prompt", "sessionTag"?, "timestamp"?, "stream"?, "tools"?}
          {"requestId", "cancel": true}
    out   {"requestId", "partial", "offset"}            while it is being said, when `stream` is true
          {"requestId", "partial": "", "offset", "restarted": {…}}   what was said from there on is void
          {"requestId", "text", "error": null, …}       the answer
          {"requestId", "text": null, "error": "what happened, what to do", "code", …}

A line that cannot be read is answered by an error of its own. Whoever hangs up stops what it asked for. The tags of a
session's socket are that session's own.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Self

from counsel import locks
from counsel.askmodel.json_objects import Objects
from counsel.daemon.connection import peer_uid
from counsel.daemon.connection_limit import PendingConnections, limit_accept_warnings
from counsel.daemon.files import bind
from counsel.daemon.process_limits import most_connections
from counsel.errors import Cancelled, Conflict, CounselError, Internal, InvalidArgument, RateLimited
from counsel.front import run_paths
from counsel.front.bounded_lines import TooLong
from counsel.front.json_messages import Unreadable, encode, parse
from counsel.job_events import Restarted, TextAdded
from counsel.lazy_dataclass import dataclass
from counsel.mcp import tool_call
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import LINES_AT_ONCE, Splitter
from counsel.requests import ChatRequest, Engine
from counsel.types import Json

CLIENT = "askModel service"
MOST_CONNECTIONS = 256
_CHUNK = 1 << 16
MOST_AT_ONCE = 1_000  # requests of one connection
LONGEST_ID = 1_000  # characters of a requestId, which every answer repeats
_PATIENCE = 86_400.0  # seconds: no client limit ends a call here; the engine's own limits do
_SESSION = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "requestId": (str, "a text"),
    "model": (str, "a text"),
    "prompt": (str, "a text"),
    "sessionTag": ((str, type(None)), "a text"),
    "timestamp": ((str, int, float, type(None)), "a text or a number"),
    "stream": (bool, "true or false"),
    "tools": (list, "a list of texts"),
    "cancel": (bool, "true or false"),
}
_NEEDED = ("requestId", "model", "prompt")


def check_session(session: str) -> str:
    if _SESSION(session) and session.strip("."):
        return session
    raise InvalidArgument(
        f"{session[:80]!r} cannot name a session.", hint="Use 1 to 64 letters, digits, '_', '-' or '.'."
    )


class AskService:
    """One session's socket. `async with AskService(…) as service:` serves at `service.path`."""

    def __init__(self, engine: Engine, identity: ClientIdentity, session: str, home: Path) -> None:
        self.engine = engine
        self.identity = identity
        self.session = check_session(session)
        self.path = run_paths.ask_socket(str(home), session)
        self._lease = _Lease(f"{self.path}.lock")
        self._server: asyncio.Server | None = None
        self._bound: locks.Identity | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.idle: PendingConnections[Connection] = (
            PendingConnections()
        )  # they make room when there are too many
        self._most = most_connections(MOST_CONNECTIONS)

    async def __aenter__(self) -> Self:
        if not self._lease.take():
            raise Conflict(
                f"Session {self.session} has its socket already: {self.path}.",
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
        assert task is not None  # noqa: S101 - asyncio made it
        self._connections.add(task)
        try:
            if peer_uid(writer.get_extra_info("socket")) == os.getuid() and self._has_room(writer):
                await Connection(self, writer).serve(reader)
        except (ConnectionError, asyncio.CancelledError):
            pass  # it is gone, or we are
        finally:
            self._connections.discard(task)
            writer.close()

    def _has_room(self, writer: asyncio.StreamWriter) -> bool:
        """If need be that of the connection which has been idle for longest."""
        if len(self._connections) <= self._most:
            return True
        if oldest := self.idle.oldest():
            self.idle.discard(oldest)
            oldest.give_up()
            return True
        busy = RateLimited(
            f"{self._most} connections are busy.", hint="Close one, or use one for all requests."
        )
        writer.write(encode(_failed(None, busy)))
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
        self._flights: dict[str, _ActiveRequest] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        lines: deque[bytes] = deque()
        objects, split = Objects(), Splitter(lines.append, self._refuse)
        self._service.idle.add(self)
        try:
            while data := await reader.read(_CHUNK):
                split.feed(objects.feed(data))
                while lines:
                    await self._handle(lines)
        finally:
            split.drop()
            await self._hang_up()
            self._service.idle.discard(self)

    async def _handle(self, lines: deque[bytes]) -> None:
        """Some lines; then others have their turn, and this one's answers must have been read."""
        for _ in range(min(LINES_AT_ONCE, len(lines))):
            self._line(lines.popleft())
        await self._writer.drain()
        await asyncio.sleep(0)

    def give_up(self) -> None:
        """A newer connection needs the room of this one, which waits for nothing."""
        busy = RateLimited("This connection was idle, and another needed its room.", hint="Connect again.")
        if self._writer.transport.get_write_buffer_size():  # it does not read
            self._writer.transport.abort()
        else:
            self._send(_failed(None, busy))
            self._writer.close()

    async def _hang_up(self) -> None:
        """Nobody waits any more: what was asked is stopped upstream."""
        tasks = [active.task for active in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refuse(self, line: TooLong) -> None:
        self._send(_failed(None, InvalidArgument(line.message)))

    def _line(self, data: bytes) -> None:
        identity: str | None = None
        try:
            message = _object(data)
            identity = self._free(message)
            _check(message)
            if message.get("cancel"):
                self._cancel(message["requestId"])
            elif identity is None:
                raise InvalidArgument("This requestId is being answered already; choose another.")
            else:
                self._begin(identity, message)
        except CounselError as error:
            self._send(_failed(identity, error))

    def _free(self, message: Json) -> str | None:
        """The name to answer by; None when it has none, or one whose answer this error would be taken for."""
        given = message.get("requestId")
        fits = isinstance(given, str) and len(given) <= LONGEST_ID
        return given if fits and given not in self._flights else None

    def _begin(self, identity: str, message: Json) -> None:
        if len(self._flights) >= MOST_AT_ONCE:
            raise RateLimited(
                f"{MOST_AT_ONCE:,} requests of this connection are being answered.",
                hint="Wait for an answer.",
            )
        self._service.idle.discard(self)
        call = tool_call.Call(
            engine=self._service.engine, caller=self._service.identity.caller(CLIENT), patience=_PATIENCE
        )
        active = self._flights[identity] = _ActiveRequest(call)
        if message.get("stream"):
            call.on_job = lambda job: self._follow(identity, active, job)
        active.task = asyncio.ensure_future(self._answer(identity, active, _request(self._service, message)))

    def _cancel(self, identity: str) -> None:
        if active := self._flights.get(identity):
            active.call.leaving = "cancelled"
            active.task.cancel()

    async def _answer(self, identity: str, active: _ActiveRequest, request: ChatRequest) -> None:
        try:
            shown = _answered(identity, await tool_call.run(active.call, request, background=False))
        except CounselError as error:
            shown = _failed(identity, error)
        except asyncio.CancelledError:
            await self._stop_following(active)
            if active.call.leaving != "cancelled":
                raise
            shown = _failed(identity, Cancelled("The request was cancelled."))
        except Exception as error:  # noqa: BLE001 - one request's defect must not end the others
            shown = _failed(identity, Internal(f"counsel failed inside ({type(error).__name__})."))
        finally:
            self._flights.pop(identity, None)
            if not self._flights:
                self._service.idle.add(self)
        if active.partials is not None:
            with suppress(CounselError, ConnectionError):
                await active.partials
        self._send(shown)
        with suppress(ConnectionError):
            await self._writer.drain()

    # ── live text ──

    def _follow(self, identity: str, active: _ActiveRequest, job: str) -> None:
        active.partials = asyncio.ensure_future(self._tell(identity, job))

    async def _tell(self, identity: str, job: str) -> None:
        """Slower than the model when the reader is: nothing is dropped, and only this request waits."""
        async for event in self._service.engine.follow(job):
            if isinstance(event, TextAdded | Restarted):
                self._send({"requestId": identity, **_piece(event)})
                await self._writer.drain()

    @staticmethod
    async def _stop_following(active: _ActiveRequest) -> None:
        if active.partials is not None:
            active.partials.cancel()
            with suppress(asyncio.CancelledError, CounselError, ConnectionError):
                await active.partials
            active.partials = None

    def _send(self, message: Json) -> None:
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
    return {
        name: value
        for name, value in message.items()
        if name in _NEEDED or name not in _TYPES or (value is not None and value != "")
    }


def _check(message: Json) -> None:
    required = ("requestId",) if message.get("cancel") else _NEEDED
    for name in required:
        if not message.get(name):
            raise InvalidArgument(f"{name} is missing.", hint="Needed: requestId, model, prompt.")
    for name, value in message.items():
        if name not in _TYPES:
            raise InvalidArgument(f"{name[:80]!r} is not known.", hint=f"Known: {', '.join(_TYPES)}.")
        kinds, words = _TYPES[name]
        if not isinstance(value, kinds) or not _texts(value):
            raise InvalidArgument(f"{name} must be {words}.")
    if len(message["requestId"]) > LONGEST_ID:
        raise InvalidArgument(f"requestId may have at most {LONGEST_ID:,} characters.")


def _texts(value: Any) -> bool:
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


def _request(service: AskService, message: Json) -> ChatRequest:
    return ChatRequest(
        tool="askModel",
        model=message["model"],
        prompt=message["prompt"],
        session_tag=message.get("sessionTag"),
        session=service.session,
        tools=tuple(message.get("tools", ())),
    )


def _piece(event: TextAdded | Restarted) -> Json:
    """A reader that knows pieces and places only is right, too: an empty piece, and what stood behind is gone."""
    if isinstance(event, TextAdded):
        return {"partial": event.text, "offset": event.offset}
    about = {name: value for name, value in event.data.items() if name not in {"offset", "phase"}}
    return {"partial": "", "offset": event.offset, "restarted": about}


def _answered(identity: str, result: Json) -> Json:
    continuation = result["continuation"]
    return {
        "requestId": identity,
        "text": result["content"],
        "error": None,
        "sessionTag": continuation.get("tag"),
        "continuationId": continuation["id"],
        "jobId": result.get("job_id"),
        "metadata": result.get("metadata", {}),
    }


def _failed(identity: str | None, error: CounselError) -> Json:
    return {
        "requestId": identity,
        "text": None,
        "error": str(error),
        "code": error.code,
        "details": error.fields,
    }


# ── who serves a session ─────────────────────────────────────────────────────────────────────────────


class _Lease:
    """A lock that proves that a session is served; the kernel lets go of it whatever happens to us."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> bool:
        self._file = locks.take(self._path)
        return self._file is not None

    def _holds(self) -> bool:
        """Whether the lock's path still names our lock: else the folder was replaced, and its files are another's."""
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
    """Remove sockets whose service was killed."""
    for lock in folder.glob("ask-*.sock.lock"):
        lease = _Lease(str(lock))
        if lease.take():
            lease.remove(str(lock.with_suffix("")))
            lease.release()
