"""`/v1`: OpenAI's and Anthropic's APIs in front of everything that can be asked.

Each request is a job. A client that disconnects cancels its job, unless it asked for `background` or can come back with
its Idempotency-Key. Responses begin with the first word of the answer, so that a failure before it has a status of its own;
after a silence they begin without it, with comments that keep the connection open.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl

from counsel.caller import Caller
from counsel.engine.store.records import JobDetail, JobRecord
from counsel.errors import (
    Cancelled,
    Conflict,
    CounselError,
    FileTooLarge,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfResources,
)
from counsel.front.json_messages import Unreadable, parse
from counsel.http.auth import Receive, Scope, Send
from counsel.http.chunks import CONNECTION, WATCHABLE, Chunks, Watchable
from counsel.http.envelope import Bodies, RefusedRequest
from counsel.http.person import caller_of, engine_of, identity_of
from counsel.http.v1 import api as v1
from counsel.http.v1 import consensus, count, errors, models, reading, stored, team
from counsel.http.v1.api import LARGEST, Api, Asked, Ended
from counsel.http.v1.chat import ChatCompletions
from counsel.http.v1.messages import Messages
from counsel.http.v1.own import Own
from counsel.http.v1.responses import RESPONSES, open_response
from counsel.http.v1.stream import Stream
from counsel.job_events import JobEvent
from counsel.lazy_dataclass import replace
from counsel.mcp.identity import ClientIdentity
from counsel.requests import CompletionRequest, Engine, Request
from counsel.results import ChatResult, ConsensusResult
from counsel.strict_json import encode

CLIENT = "v1"  # the caller's name in jobs and usage records
LONGEST_KEY = 255
Headers: TypeAlias = list[tuple[bytes, bytes]]
CHAT = ChatCompletions()
MESSAGES = Messages()
OWN = Own()
_JSON = (b"content-type", b"application/json")
_FRESH = (b"cache-control", b"no-store")


class Completing(Protocol):
    """An engine with the database: the real one, not one at the other end of a socket."""

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
    ) -> AsyncIterator[JobEvent]: ...


class V1:
    """An ASGI application. `close` it before the engine."""

    def __init__(self, engine: Engine, identity: ClientIdentity) -> None:
        self._engine = engine
        self._identity = identity
        self._bodies = Bodies()
        self._keyed = asyncio.Lock()  # one idempotency key at a time is looked up
        self._active: set[asyncio.Task[object]] = set()
        self._closing = False

    async def close(self) -> None:
        """Ends requests that would not end by themselves. Their clients get an error with the job, which continues."""
        self._closing = True
        for task in list(self._active):
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        request = _Request(self, scope, receive, send)
        try:
            for pattern, methods in _ROUTES:
                if match := pattern(path):
                    if method not in methods:
                        allowed = ", ".join(methods)
                        await request.refuse(
                            InvalidArgument(f"{path[:100]} does not accept {method}."),
                            405,
                            (b"allow", allowed.encode()),
                        )
                        return
                    await methods[method](request, *match.groups())
                    return
            await request.refuse(NotFound(f"Invalid URL ({method} {path[:100]})"), 404)
        except CounselError as error:
            await request.refuse(error)

    def caller(self, scope: Scope) -> Caller:
        return identity_of(self._identity, scope).caller(CLIENT)

    def engine(self, scope: Scope) -> Engine:
        return engine_of(self._engine, scope)

    async def body(self, receive: Receive, limit: int) -> dict[str, object]:
        try:
            raw = await self._bodies.raw(receive, limit)
        except RefusedRequest as refused:
            if refused.status == 413:
                raise FileTooLarge(f"The request is larger than {limit // 2**20} MiB.") from None
            if refused.status == 503:
                raise OutOfResources(f"{refused}.") from None
            raise errors.BadRequest("The request's body did not arrive.") from None
        try:
            value = parse(raw)
        except Unreadable as error:
            raise errors.BadRequest(f"We could not parse the JSON body of your request: {error}.") from None
        if not isinstance(value, dict):
            raise errors.BadRequest("The request's body must be a JSON object.")
        return value

    async def submit(self, asked: Asked, key: str | None, scope: Scope) -> tuple[str, bool]:
        """The job, and whether it is that of an earlier request with the same key."""
        background = asked.background or key is not None
        engine = cast(Completing, self.engine(scope))
        caller = self.caller(scope)
        is_consensus = consensus.is_named(asked.model)
        request = consensus.request_of(asked, caller.settings) if is_consensus else asked.request
        if key is None:
            return await engine.submit(request, caller, background=background), False
        async with self._keyed:
            others = await engine.keys_like(key[: key.rindex("-") + 1])
            if others and key not in others:
                raise Conflict(
                    "Idempotency-Key was used for another request.", hint="Use a new key for each request."
                )
            repeats = key in others and isinstance(request, CompletionRequest)
            job = await engine.submit(request, caller, background=background, key=key)
            return job, repeats

    async def attended(
        self,
        work: Coroutine[object, object, None],
        receive: Receive,
        stopped: Callable[[], Awaitable[None]],
        watched: Watchable | None = None,
    ) -> None:
        """Do the work while the client is there. `stopped` is called when it has disconnected."""
        task = asyncio.current_task()
        assert task is not None
        lost = _Lost(task)
        watching = None if watched else asyncio.ensure_future(_disconnected(receive))
        self._active.add(task)
        try:
            if watching:
                watching.add_done_callback(lost)
            elif watched and not watched.watch(lost):
                lost()
            await work
        except asyncio.CancelledError:
            if not (lost.is_gone or self._closing):
                raise
            task.uncancel()
            if not self._closing:
                await stopped()
        finally:
            self._active.discard(task)
            if watching:
                watching.remove_done_callback(lost)
                watching.cancel()
            elif watched:
                watched.unwatch(lost)

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_team(self) -> bool:
        return bool(self._identity.settings.database)

    @property
    def is_waiting(self) -> bool:
        """A client waits for an answer."""
        return bool(self._active)


class _Lost:
    """Cancels a request's task when its client has disconnected."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self.is_gone = False

    def __call__(self, *_: object) -> None:
        self.is_gone = True
        self._task.cancel()


class _Request:
    """One HTTP request."""

    def __init__(self, app: V1, scope: Scope, receive: Receive, send: Send) -> None:
        self.app = app
        self.scope = scope
        self.path: str = scope["path"]
        self.headers: dict[bytes, str] = {name: value.decode("latin-1") for name, value in scope["headers"]}
        state = scope.get("state", {})
        self.chunks: Chunks | None = state.get(CONNECTION)
        self.watched: Watchable | None = state.get(WATCHABLE)
        self.receive = receive
        self.send = send

    @property
    def engine(self) -> Engine:
        """As the sender of the request sees it."""
        return self.app.engine(self.scope)

    async def caller(self) -> Caller:
        return await caller_of(self.engine, self.app.caller(self.scope))

    async def reply(self, document: object, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        body = encode(document)
        length = (b"content-length", b"%d" % len(body))
        await self.send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [_JSON, _FRESH, length, *headers],
            }
        )
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(
        self, error: CounselError, status: int | None = None, *headers: tuple[bytes, bytes]
    ) -> None:
        code = status or errors.status_of(error)
        document = errors.of_path(self.path, error, status, self.headers)
        await self.reply(document, code, *errors.headers(error), *headers)

    async def complete(self, api: Api) -> None:
        body = await self.app.body(self.receive, api.largest)
        if api is RESPONSES:
            body = await stored.with_items(self.engine, body)
        asked = api.parse(body, self.headers)
        conversation = self.headers.get(b"x-counsel-conversation")
        key = _key(self.headers, body)
        request = replace(
            asked.request,
            stored=asked.request.stored or key is not None or asked.background,
            continuation_id=asked.request.continuation_id or conversation,
        )
        asked = replace(asked, request=request)
        if consensus.is_named(asked.model):
            asked = replace(asked, ignored=consensus.ignored(asked))
        job, repeats = await self.app.submit(asked, key, self.scope)
        stays = asked.background or key is not None
        if asked.background and not asked.stream:
            await self.reply(open_response(asked, job, "queued"), 200, *_about(job))
            return

        async def stopped() -> None:
            if not stays:
                await self.engine.cancel(job)

        answering = (
            self._stream(api, asked, job, repeats=repeats) if asked.stream else self._plain(api, asked, job)
        )
        await self.app.attended(answering, self.receive, stopped, self.watched)

    async def follow(self, asked: Asked, detail: JobDetail) -> None:
        """A stored response as a stream, from its beginning."""
        answering = self._stream(RESPONSES, asked, detail.id, repeats=True)
        await self.app.attended(answering, self.receive, _stays, self.watched)

    async def _plain(self, api: Api, asked: Asked, job: str) -> None:
        try:
            answer = await self._ended(asked, job)
        except asyncio.CancelledError:
            if self.app.is_closing:
                error = await self._stopping(asked, job)
                await self.reply(api.error(error), 503, *errors.headers(error), *_about(job))
            raise
        except CounselError as error:
            refusal = v1.refused(asked, error)
            if refusal is None:
                await self.reply(
                    api.error(error), errors.status_of(error), *errors.headers(error), *_about(job)
                )
                return
            answer = refusal
        await self.reply(api.plain(asked, job, answer), 200, *_about(job, answer))

    async def _ended(self, asked: Asked, job: str) -> Ended:
        result = await self.engine.wait(job)
        if isinstance(result, ConsensusResult):
            return consensus.ended(asked, result)
        if not isinstance(result, ChatResult):
            raise Internal("The answer has an unexpected form.")
        return v1.ended(asked, result)

    async def _stream(self, api: Api, asked: Asked, job: str, *, repeats: bool) -> None:
        stream = Stream(api, asked, job, self.send, _about(job), chunks=self.chunks)
        is_consensus = consensus.is_named(asked.model)
        push = None if is_consensus else stream.push
        try:
            engine = cast(Completing, self.engine)
            if repeats and await self._has_ended(job):
                await self._repeat(stream, asked, job)
                return
            async with aclosing(cast(Any, engine.follow(job, push=push))) as events:
                async for event in events:
                    if not is_consensus:
                        await stream.add(event)
                    elif line := consensus.progress(event):
                        await stream.note(line)
            await self._finish(stream, asked, job)
        except CounselError as error:
            await stream.fail(error)
        except asyncio.CancelledError:
            if self.app.is_closing:
                await self._cut(stream, api, asked, job)
            raise
        finally:
            stream.close()

    async def _has_ended(self, job: str) -> bool:
        _, detail = await cast(stored.Storing, self.engine).completion(job)
        return not detail.is_open

    async def _repeat(self, stream: Stream, asked: Asked, job: str) -> None:
        """The answer to a request with an Idempotency-Key that was answered before."""
        with suppress(CounselError):
            await stream.replay(await self._ended(asked, job))
        await self._finish(stream, asked, job)

    async def _cut(self, stream: Stream, api: Api, asked: Asked, job: str) -> None:
        """Another counsel comes back with its key, of whatever release it is, when a stream ends before its end."""
        if api is OWN and stream.has_begun:
            await stream.cut()
        else:
            await stream.fail(await self._stopping(asked, job), 503)

    async def _stopping(self, asked: Asked, job: str) -> CounselError:
        """Where the job continues, or that it does not: its messages are not stored. Whoever repeats a request whose
        job continues pays twice, unless it has a key.

        `CANCELLED` with 503 is what laptops of every release take for a server that is being stopped.
        """
        stops = "This server is being stopped"
        if not asked.request.stored and not consensus.is_named(asked.model):
            await self.engine.cancel(job)
            return Cancelled(f"{stops}, and this call with it.", hint="Send it again.", may_retry=True)
        where = "on another server" if self.app.is_team else "when counsel runs again"
        has_key = b"idempotency-key" in self.headers
        hint = "Send the request again with the same Idempotency-Key: nothing is asked twice."
        return Cancelled(
            f"{stops}. Job {job} continues {where}.",
            hint=hint
            if has_key
            else f"GET /api/jobs/{job} has its answer. Sent again, it would be paid for twice.",
            job_id=job,
            may_retry=has_key,
        )

    async def _finish(self, stream: Stream, asked: Asked, job: str) -> None:
        try:
            answer = await self._ended(asked, job)
            if consensus.is_named(asked.model):
                await stream.whole(answer.text)
        except CounselError as error:
            refusal = v1.refused(asked, error)
            if refusal is None:
                await stream.fail(error)
                return
            answer = refusal
        await stream.end(answer)


def _about(job: str, answer: Ended | None = None) -> Headers:
    headers = [
        (b"x-counsel-job", job.encode()),
        (b"request-id", job.encode()),
        (b"x-request-id", job.encode()),
    ]
    if answer is not None and answer.ignored:
        headers.append(errors.ignored_header(answer.ignored))
    return headers


def _key(headers: dict[bytes, str], body: dict[str, object]) -> str | None:
    """A call's key for the engine. The body is part of it: the engine compares keys, not requests."""
    header = headers.get(b"idempotency-key")
    if header is None:
        return None
    if not header.strip() or len(header) > LONGEST_KEY:
        raise errors.BadRequest(f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.")
    return f"{_key_prefix(header)}{_digest(encode(dict(sorted(body.items()))))}"


def _key_prefix(header: str) -> str:
    return f"v1-{_digest(header.encode())}-"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


async def _stays() -> None:
    """The job continues without its follower."""


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────


async def _chat(request: _Request) -> None:
    await request.complete(CHAT)


async def _messages(request: _Request) -> None:
    await request.complete(MESSAGES)


async def _respond(request: _Request) -> None:
    await request.complete(RESPONSES)


async def _own(request: _Request) -> None:
    team.refuse_relays(request.app.caller(request.scope))
    await request.complete(OWN)


async def _about_server(request: _Request) -> None:
    team.refuse_relays(request.app.caller(request.scope))
    await request.reply(await team.about(await request.caller()))


async def _cancel_own(request: _Request) -> None:
    """By the call's key: its client may not know the job yet."""
    body = await request.app.body(request.receive, LARGEST)
    prefix = _key_prefix(reading.required(body, "key", str))
    engine = cast(Completing, request.engine)
    for job in await engine.open_calls(prefix):
        await request.engine.cancel(job.id)
    await request.reply({"cancelled": bool(await engine.keys_like(prefix))})


def _query(request: _Request) -> dict[str, str]:
    return dict(parse_qsl(request.scope.get("query_string", b"").decode("latin-1")))


async def _response(request: _Request, name: str) -> None:
    query = _query(request)
    if query.get("stream", "").lower() not in {"true", "1"}:
        await request.reply(await stored.document(request.engine, name))
        return
    if query.get("starting_after", "0") != "0":
        raise errors.BadRequest(
            "'starting_after' is not supported: the events of a stream are not stored. Without it, the stream begins "
            "with the whole text so far.",
            "starting_after",
            "unsupported_parameter",
        )
    await request.follow(*await stored.lookup(request.engine, name))


async def _cancel_response(request: _Request, name: str) -> None:
    await request.engine.cancel((await stored.lookup(request.engine, name))[1].id)
    await request.reply(await stored.document(request.engine, name))


async def _input_items(request: _Request, name: str) -> None:
    await request.reply(await stored.input_items(request.engine, name, _query(request)))


async def _delete_response(request: _Request, name: str) -> None:
    await request.reply(await stored.deleted(request.engine, name))


async def _count(request: _Request) -> None:
    body = await request.app.body(request.receive, LARGEST)
    counted = await count.counted(body, request.headers, await request.caller())
    await request.reply(counted, 200, (b"x-counsel-estimated", b"input_tokens"))


async def _models(request: _Request) -> None:
    await request.reply(await models.listed(await request.caller(), request.headers))


async def _model(request: _Request, name: str) -> None:
    await request.reply(await models.shown(await request.caller(), request.headers, name))


Handler: TypeAlias = Callable[..., Awaitable[None]]
_ROUTES: list[tuple[Callable[[str], re.Match[str] | None], dict[str, Handler]]] = [
    (re.compile(r"/v1/chat/completions").fullmatch, {"POST": _chat}),
    (re.compile(r"/v1/responses").fullmatch, {"POST": _respond}),
    (re.compile(r"/v1/responses/([^/]{1,100})").fullmatch, {"GET": _response, "DELETE": _delete_response}),
    (re.compile(r"/v1/responses/([^/]{1,100})/cancel").fullmatch, {"POST": _cancel_response}),
    (re.compile(r"/v1/responses/([^/]{1,100})/input_items").fullmatch, {"GET": _input_items}),
    (re.compile(r"/v1/counsel").fullmatch, {"GET": _about_server, "POST": _own}),
    (re.compile(r"/v1/counsel/cancel").fullmatch, {"POST": _cancel_own}),
    (re.compile(r"/v1/messages").fullmatch, {"POST": _messages}),
    (re.compile(r"/v1/messages/count_tokens").fullmatch, {"POST": _count}),
    (re.compile(r"/v1/models").fullmatch, {"GET": _models}),
    (re.compile(r"/v1/models/(.{1,200})").fullmatch, {"GET": _model}),
]
