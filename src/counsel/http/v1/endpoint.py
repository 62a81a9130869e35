"""`/v1`: OpenAI's and Anthropic's APIs in front of everything that can be asked.

Each request is a job. A client that disconnects cancels its job, unless it asked for `background` or can reconnect with
its Idempotency-Key. Responses begin with the answer's first word, so that a failure before it has a status of its own;
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
from counsel.http.v1.api import LARGEST, Api, ApiAnswer, ApiRequest
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
    """An engine that has the database itself, not the client of one over a socket."""

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
        self._key_lock = asyncio.Lock()  # idempotency keys are looked up one at a time
        self._active: set[asyncio.Task[object]] = set()
        self._closing = False

    async def close(self) -> None:
        """End requests in progress. Their clients get an error with the job, which continues."""
        self._closing = True
        for task in list(self._active):
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        http = _HttpRequest(self, scope, receive, send)
        try:
            for pattern, methods in _ROUTES:
                if match := pattern(path):
                    if method not in methods:
                        allow = ", ".join(methods)
                        await http.refuse(
                            InvalidArgument(f"{path[:100]} does not accept {method}."),
                            405,
                            (b"allow", allow.encode()),
                        )
                        return
                    await methods[method](http, *match.groups())
                    return
            await http.refuse(NotFound(f"Invalid URL ({method} {path[:100]})"), 404)
        except CounselError as error:
            await http.refuse(error)

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


class _HttpRequest:
    """One HTTP request."""

    def __init__(self, app: V1, scope: Scope, receive: Receive, send: Send) -> None:
        self.app = app
        self.scope = scope
        self.path: str = scope["path"]
        self.headers: dict[bytes, str] = {name: value.decode("latin-1") for name, value in scope["headers"]}
        state = scope.get("state", {})
        self.chunks: Chunks | None = state.get(CONNECTION)
        self.connection: Watchable | None = state.get(WATCHABLE)
        self.receive = receive
        self.send = send

    @property
    def engine(self) -> Engine:
        """The engine, as the sender of the request may use it."""
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
        request = api.parse(body, self.headers)
        conversation = self.headers.get(b"x-counsel-conversation")
        key = _key(self.headers, body)
        completion = replace(
            request.completion,
            stored=request.completion.stored or key is not None or request.background,
            continuation_id=request.completion.continuation_id or conversation,
        )
        request = replace(request, completion=completion)
        if consensus.is_named(request.model):
            request = replace(request, ignored=consensus.ignored(request))
        job, repeats = await self.app.submit(request, key, self.scope)
        keeps_job = request.background or key is not None
        if request.background and not request.stream:
            await self.reply(open_response(request, job, "queued"), 200, *_job_headers(job))
            return

        async def cancel_job() -> None:
            if not keeps_job:
                await self.engine.cancel(job)

        work = (
            self._stream(api, request, job, repeats=repeats)
            if request.stream
            else self._plain(api, request, job)
        )
        await self.app.run_while_connected(work, self.receive, cancel_job, self.connection)

    async def follow(self, request: ApiRequest, detail: JobDetail) -> None:
        """Send a stored response as a stream, from its beginning."""
        work = self._stream(RESPONSES, request, detail.id, repeats=True)
        await self.app.run_while_connected(work, self.receive, _keep_job, self.connection)

    async def _plain(self, api: Api, request: ApiRequest, job: str) -> None:
        try:
            answer = await self._answer(request, job)
        except asyncio.CancelledError:
            if self.app.is_closing:
                error = await self._shutdown_error(request, job)
                await self.reply(api.error(error), 503, *errors.headers(error), *_job_headers(job))
            raise
        except CounselError as error:
            refusal = v1.refusal(request, error)
            if refusal is None:
                await self.reply(
                    api.error(error), errors.status_of(error), *errors.headers(error), *_job_headers(job)
                )
                return
            answer = refusal
        await self.reply(api.plain(request, job, answer), 200, *_job_headers(job, answer))

    async def _answer(self, request: ApiRequest, job: str) -> ApiAnswer:
        result = await self.engine.wait(job)
        if isinstance(result, ConsensusResult):
            return consensus.answer_of(request, result)
        if not isinstance(result, ChatResult):
            raise Internal("The answer has an unexpected form.")
        return v1.answer_of(request, result)

    async def _stream(self, api: Api, request: ApiRequest, job: str, *, repeats: bool) -> None:
        stream = Stream(api, request, job, self.send, _job_headers(job), chunks=self.chunks)
        is_consensus = consensus.is_named(request.model)
        push = None if is_consensus else stream.push
        try:
            engine = cast(Completing, self.engine)
            if repeats and await self._has_ended(job):
                await self._repeat(stream, request, job)
                return
            async with aclosing(cast(Any, engine.follow(job, push=push))) as events:
                async for event in events:
                    if not is_consensus:
                        await stream.add(event)
                    elif line := consensus.progress(event):
                        await stream.note(line)
            await self._finish(stream, request, job)
        except CounselError as error:
            await stream.fail(error)
        except asyncio.CancelledError:
            if self.app.is_closing:
                await self._cut_off(stream, api, request, job)
            raise
        finally:
            stream.close()

    async def _has_ended(self, job: str) -> bool:
        _, detail = await cast(stored.Storing, self.engine).completion(job)
        return not detail.is_open

    async def _repeat(self, stream: Stream, request: ApiRequest, job: str) -> None:
        """Send the answer again: the request's Idempotency-Key has been used, and its job has ended."""
        with suppress(CounselError):
            await stream.replay(await self._answer(request, job))
        await self._finish(stream, request, job)

    async def _cut_off(self, stream: Stream, api: Api, request: ApiRequest, job: str) -> None:
        """End the stream. Another counsel, of any release, reconnects with its key if a stream has no end event."""
        if api is OWN and stream.has_begun:
            await stream.cut()
        else:
            await stream.fail(await self._shutdown_error(request, job), 503)

    async def _shutdown_error(self, request: ApiRequest, job: str) -> CounselError:
        """Says where the job continues, or that it does not, since its messages are not stored. Repeating a request whose
        job continues costs twice, unless it has a key.

        Laptops of every release recognize a server that is being stopped by `CANCELLED` with 503.
        """
        stops = "This server is being stopped"
        if not request.completion.stored and not consensus.is_named(request.model):
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

    async def _finish(self, stream: Stream, request: ApiRequest, job: str) -> None:
        try:
            answer = await self._answer(request, job)
            if consensus.is_named(request.model):
                await stream.write_text(answer.text)
        except CounselError as error:
            refusal = v1.refusal(request, error)
            if refusal is None:
                await stream.fail(error)
                return
            answer = refusal
        await stream.end(answer)


def _job_headers(job: str, answer: ApiAnswer | None = None) -> Headers:
    headers = [
        (b"x-counsel-job", job.encode()),
        (b"request-id", job.encode()),
        (b"x-request-id", job.encode()),
    ]
    if answer is not None and answer.ignored:
        headers.append(errors.ignored_header(answer.ignored))
    return headers


def _key(headers: dict[bytes, str], body: dict[str, object]) -> str | None:
    """The call's key for the engine. The body is part of it, since the engine compares keys, not requests."""
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


async def _keep_job() -> None:
    """The job continues without its follower."""


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────


async def _chat(http: _HttpRequest) -> None:
    await http.complete(CHAT)


async def _messages(http: _HttpRequest) -> None:
    await http.complete(MESSAGES)


async def _respond(http: _HttpRequest) -> None:
    await http.complete(RESPONSES)


async def _own(http: _HttpRequest) -> None:
    team.refuse_relays(http.app.caller(http.scope))
    await http.complete(OWN)


async def _server_info(http: _HttpRequest) -> None:
    team.refuse_relays(http.app.caller(http.scope))
    await http.reply(await team.about(await http.caller()))


async def _cancel_own(http: _HttpRequest) -> None:
    """Cancel a call by its key: the client may not know the job yet."""
    body = await http.app.body(http.receive, LARGEST)
    prefix = _key_prefix(reading.required(body, "key", str))
    engine = cast(Completing, http.engine)
    for job in await engine.open_calls(prefix):
        await http.engine.cancel(job.id)
    await http.reply({"cancelled": bool(await engine.keys_like(prefix))})


def _query(http: _HttpRequest) -> dict[str, str]:
    return dict(parse_qsl(http.scope.get("query_string", b"").decode("latin-1")))


async def _response(http: _HttpRequest, name: str) -> None:
    query = _query(http)
    if query.get("stream", "").lower() not in {"true", "1"}:
        await http.reply(await stored.document(http.engine, name))
        return
    if query.get("starting_after", "0") != "0":
        raise errors.BadRequest(
            "'starting_after' is not supported: the events of a stream are not stored. Without it, the stream begins "
            "with the whole text so far.",
            "starting_after",
            "unsupported_parameter",
        )
    await http.follow(*await stored.lookup(http.engine, name))


async def _cancel_response(http: _HttpRequest, name: str) -> None:
    await http.engine.cancel((await stored.lookup(http.engine, name))[1].id)
    await http.reply(await stored.document(http.engine, name))


async def _input_items(http: _HttpRequest, name: str) -> None:
    await http.reply(await stored.input_items(http.engine, name, _query(http)))


async def _delete_response(http: _HttpRequest, name: str) -> None:
    await http.reply(await stored.delete(http.engine, name))


async def _count(http: _HttpRequest) -> None:
    body = await http.app.body(http.receive, LARGEST)
    document = await count.count_tokens(body, http.headers, await http.caller())
    await http.reply(document, 200, (b"x-counsel-estimated", b"input_tokens"))


async def _models(http: _HttpRequest) -> None:
    await http.reply(await models.model_list(await http.caller(), http.headers))


async def _model(http: _HttpRequest, name: str) -> None:
    await http.reply(await models.model_entry(await http.caller(), http.headers, name))


Handler: TypeAlias = Callable[..., Awaitable[None]]
_ROUTES: list[tuple[Callable[[str], re.Match[str] | None], dict[str, Handler]]] = [
    (re.compile(r"/v1/chat/completions").fullmatch, {"POST": _chat}),
    (re.compile(r"/v1/responses").fullmatch, {"POST": _respond}),
    (re.compile(r"/v1/responses/([^/]{1,100})").fullmatch, {"GET": _response, "DELETE": _delete_response}),
    (re.compile(r"/v1/responses/([^/]{1,100})/cancel").fullmatch, {"POST": _cancel_response}),
    (re.compile(r"/v1/responses/([^/]{1,100})/input_items").fullmatch, {"GET": _input_items}),
    (re.compile(r"/v1/counsel").fullmatch, {"GET": _server_info, "POST": _own}),
    (re.compile(r"/v1/counsel/cancel").fullmatch, {"POST": _cancel_own}),
    (re.compile(r"/v1/messages").fullmatch, {"POST": _messages}),
    (re.compile(r"/v1/messages/count_tokens").fullmatch, {"POST": _count}),
    (re.compile(r"/v1/models").fullmatch, {"GET": _models}),
    (re.compile(r"/v1/models/(.{1,200})").fullmatch, {"GET": _model}),
]
