"""One HTTP request to /v1: from its body to a job, and from the job's answer to a response or a stream."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing, suppress
from typing import TypeAlias, cast

from counsel.caller import Caller
from counsel.engine.store.records import JobDetail
from counsel.errors import Cancelled, CounselError, Internal
from counsel.http.auth import Receive, Scope, Send
from counsel.http.chunks import CONNECTION, WATCHABLE, Chunks, Watchable
from counsel.http.person import caller_of
from counsel.http.v1 import api as v1
from counsel.http.v1 import consensus, errors, stored
from counsel.http.v1.api import Api, ApiAnswer, ApiRequest
from counsel.http.v1.calls import Calls, Completing
from counsel.http.v1.own import Own
from counsel.http.v1.responses import RESPONSES, open_response
from counsel.http.v1.stream import Stream
from counsel.lazy_dataclass import replace
from counsel.requests import Engine
from counsel.results import ChatResult, ConsensusResult
from counsel.strict_json import encode

LONGEST_KEY = 255
Headers: TypeAlias = list[tuple[bytes, bytes]]
OWN = Own()
_JSON = (b"content-type", b"application/json")
_FRESH = (b"cache-control", b"no-store")


class HttpRequest:
    """One HTTP request."""

    def __init__(self, calls: Calls, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls = calls
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
        return self.calls.engine(self.scope)

    async def caller(self) -> Caller:
        return await caller_of(self.engine, self.calls.caller(self.scope))

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
        body = await self.calls.body(self.receive, api.largest)
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
        job, repeats = await self.calls.submit(request, key, self.scope)
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
        await self.calls.run_while_connected(work, self.receive, cancel_job, self.connection)

    async def follow(self, request: ApiRequest, detail: JobDetail) -> None:
        """Send a stored response as a stream, from its beginning."""
        work = self._stream(RESPONSES, request, detail.id, repeats=True)
        await self.calls.run_while_connected(work, self.receive, _keep_job, self.connection)

    async def _plain(self, api: Api, request: ApiRequest, job: str) -> None:
        try:
            answer = await self._answer(request, job)
        except asyncio.CancelledError:
            if self.calls.is_closing:
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
            async with aclosing(engine.follow(job, push=push)) as events:
                async for event in events:
                    if not is_consensus:
                        await stream.add(event)
                    elif line := consensus.progress(event):
                        await stream.note(line)
            await self._finish(stream, request, job)
        except CounselError as error:
            await stream.fail(error)
        except asyncio.CancelledError:
            if self.calls.is_closing:
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
        """Says where the job continues, or that it does not, since its messages are not stored. Repeating a request
        whose job continues costs twice, unless it has a key.

        Laptops of every release recognize a server that is being stopped by `CANCELLED` with 503.
        """
        stops = "This server is being stopped"
        if not request.completion.stored and not consensus.is_named(request.model):
            await self.engine.cancel(job)
            return Cancelled(f"{stops}, and this call with it.", hint="Send it again.", may_retry=True)
        where = "on another server" if self.calls.is_team else "when counsel runs again"
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
    return f"{key_prefix(header)}{_digest(encode(dict(sorted(body.items()))))}"


def key_prefix(header: str) -> str:
    return f"v1-{_digest(header.encode())}-"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


async def _keep_job() -> None:
    """The job continues without its follower."""
