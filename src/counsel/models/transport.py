"""HTTP to the model vendors: the one place of connections, time limits, retries and cancelling.

`Transport.stream` is an async generator. Closing it, or cancelling the task that reads it, closes the connection
to the vendor at once: nothing goes on upstream.
"""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from counsel import strict_json
from counsel.errors import CounselError, OutOfResources, RateLimited, TimedOut, UpstreamError
from counsel.models import answer_limit, compression, http1, network_errors, prices
from counsel.models.deadlines import Clock
from counsel.models.failures import Complained, Complaint, as_error, understand
from counsel.models.paused_turns import resumed
from counsel.models.sender import Response, Sender
from counsel.models.sse import EventParser, TooLarge
from counsel.models.whole_body import WholeBody
from counsel.models.wires import WIRES
from counsel.text_buffer import TextBuffer
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Finished,
    Json,
    Limits,
    Model,
    Notice,
    Prepared,
    StreamReader,
    Text,
    Thinking,
    Usage,
    UsageReport,
)

USUAL = Limits()
IN_A_HURRY = 5.0  # seconds; the longest wait for a try when another model can answer
BACKOFF = 0.5  # seconds before the second try; doubled for each further one
_MOST_ERROR_BYTES = 64 * 1024
_MOST_LISTING_BYTES = 8 * 1024 * 1024  # OpenRouter's list of models has 0.6 MB
_MOST_REFUSALS = 1024  # of optional fields, remembered
_ERROR_SECONDS = 2.0  # for the rest of an error's body: the status says enough


class Transport:
    """One pool of connections for all calls of a process. `close` it at the end."""

    def __init__(
        self, *, backoff: float = BACKOFF, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._backoff = backoff
        self._sleep = sleep
        self.sender = Sender()
        self.refused_fields: set[tuple[str, str | None, str, str]] = set()  # address, key, model, field

    def stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits = USUAL
    ) -> AsyncGenerator[Event]:
        """One answer. Only a vendor that uses tools of its own pauses in the middle of one."""
        ends = asyncio.get_running_loop().time() + limits.total
        if not call.knobs.web_search:
            return self._stream(call, model, endpoint, limits, ends)
        return resumed(lambda asked: self._stream(asked, model, endpoint, limits, ends), call)

    async def _stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits, ends: float
    ) -> AsyncGenerator[Event]:
        prepared = WIRES[endpoint.provider.wire].prepare(call, model, endpoint)
        for notice in _changes(prepared, model):
            yield notice
        loop = asyncio.get_running_loop()
        spent = Usage(cost_usd=0.0)  # by tries that failed
        for attempt in range(1, limits.attempts + 1):
            exchange = _Exchange(self, prepared, Clock(limits, ends, endpoint), model)
            try:
                await exchange.open()
                while (events := await exchange.read()) is not None:
                    for event in events:
                        yield UsageReport(spent + event.usage) if type(event) is UsageReport else event
            except _Transient as transient:
                failed, final = transient, False
            except CounselError as error:
                failed, final = _Transient(error), True
            else:
                return
            finally:
                exchange.close()
            if used := exchange.unpaid(call.tokens):
                spent += used
                yield UsageReport(spent)
            wait = self._wait(attempt, failed.retry_after)
            too_long = loop.time() + wait >= ends or (call.hurry and wait > IN_A_HURRY)
            if final or exchange.passed_on or attempt == limits.attempts or too_long:
                try:
                    raise failed.error
                finally:
                    del (
                        failed
                    )  # an error that its own frame names stays, with the prompt, until it is collected
            yield _announcement(attempt, wait, failed.error, limits)
            await self._sleep(wait)

    async def get_json(self, endpoint: Endpoint, path: str, limits: Limits = USUAL) -> Json:
        """One GET below the provider's base URL: a listing of models, or the proof that a key is taken."""
        url = _below(endpoint.base_url, path)
        clock = Clock(limits, asyncio.get_running_loop().time() + limits.total, endpoint)
        nobody = Model(id=path, provider=endpoint.provider.name, wire_id=path)
        headers = WIRES[endpoint.provider.wire].headers(endpoint)
        try:
            response = await self.sender.send(url, headers, limits, endpoint, until=clock.ends)
            with closing(response):
                if response.status != 200:
                    raise as_error(await _complaint(response), endpoint, nobody)
                return await _json_body(response, endpoint, clock.ends)
        except http1.Late:
            raise clock.passed("total") from None
        except OSError as error:
            raise network_errors.explained(endpoint, error) from None

    async def close(self) -> None:
        await self.sender.close()

    def _wait(self, attempt: int, retry_after: float | None) -> float:
        """As long as the vendor says, but never shorter than we would wait by ourselves: some say 0, or a past date."""
        ours = self._backoff * (1 << (attempt - 1)) * random.uniform(0.75, 1.25)  # noqa: S311 (jitter, no secret)
        return max(ours, retry_after or 0.0)


class _Transient(Exception):
    """A failure that another try may not have. `error` is what the caller gets when no try is left."""

    def __init__(self, error: CounselError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


class _Broken(Exception):
    """The stream stopped where it should not have."""

    def __init__(self, how: str = "ended before the answer did") -> None:
        super().__init__(how)


class _Exchange:
    """One try of one call: request out, events in."""

    def __init__(self, transport: Transport, prepared: Prepared, clock: Clock, model: Model) -> None:
        self._transport, self._prepared = transport, prepared
        self._clock, self._endpoint, self._model = clock, clock.endpoint, model
        self._reader: StreamReader = WIRES[clock.endpoint.provider.wire].reader()
        self._allowance = answer_limit.Allowance(clock.limits.answer)
        self._parser: EventParser | WholeBody = EventParser(clock.limits.answer + 2**20)
        self._opener = compression.opener("")
        self._pieces: Iterator[bytes] = iter(())  # of the newest chunk
        self._response: Response | None = None
        self._text = TextBuffer()
        self._usage: Usage | None = None  # as it was last reported
        self._unreported = 0  # what came since then: four for a token
        self._began = False  # the vendor works on it
        self._failed: Exception | None = None
        self._ended = self._closed_early = False
        self.passed_on = False

    async def open(self) -> None:
        limit, until = self._clock.first()
        try:
            response = self._response = await self._accepted(until)
        except http1.Late:
            raise self._clock.passed(limit) from None
        except http1.ConnectTimeout:
            raise _Transient(self._clock.passed("connect")) from None
        except (OSError, MemoryError) as error:
            raise self._unreachable(error) from None
        kind = response.content_type
        if kind == "text/html":
            raise self._not_a_stream(response)
        if kind == "application/json":
            self._parser = WholeBody(self._clock.limits.answer + 2**20)
        self._opener = self._opened(response)

    def _unreachable(self, error: BaseException) -> Exception:
        """Another try may find what was not there; it finds no proxy's password, and no open file that we hold."""
        failed = network_errors.explained(self._endpoint, error)
        lasting = isinstance(failed, OutOfResources) or failed.fields.get("status") == 407
        return failed if lasting else _Transient(failed)

    async def _accepted(self, until: float) -> Response:
        """Asked once more without an optional field that the vendor refuses."""
        prepared, limits, send = self._prepared, self._clock.limits, self._transport.sender.send
        while True:
            response = self._response = await send(
                prepared.url, prepared.headers, limits, self._endpoint, until=until, body=self._body()
            )
            if response.status == 200:
                return response
            complaint = await _complaint(response)
            if not self._leave_out(complaint):
                raise self._refused(complaint)
            response.close()

    def _body(self) -> bytes:
        body = self._prepared.body
        for field in self._prepared.optional:
            if self._refusal(field) in self._transport.refused_fields:
                body = _without(body, field.split("."))
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")

    def _leave_out(self, complaint: Complaint) -> bool:
        said = f"{complaint.field} {complaint.words}"
        refused = {self._refusal(field) for field in self._prepared.optional if field in said}
        new = refused - self._transport.refused_fields if complaint.kind == "refused" else set()
        if len(self._transport.refused_fields) >= _MOST_REFUSALS:
            self._transport.refused_fields.clear()
        self._transport.refused_fields |= new
        return bool(new)

    def _refusal(self, field: str) -> tuple[str, str | None, str, str]:
        return self._endpoint.base_url, self._endpoint.key, self._model.wire_id, field

    async def read(self) -> list[Event] | None:
        """The next events, none of them empty; None after the last."""
        while not self._ended:
            if self._failed is not None:
                raise self._as_error(self._failed)
            if self._allowance.over:
                return self._cut()
            events = self._understood(await self._chunk())
            if len(events) > 1:
                events = _together(events)
            if events:
                self._count(events)
                return events
        return None

    def _cut(self) -> list[Event]:
        """What arrived is kept; nothing more is read, and the connection is closed."""
        label, limit = self._endpoint.provider.label, self._clock.limits.answer
        if not self._allowance.said:
            raise UpstreamError(
                f"{label} sent more than {answer_limit.megabytes(limit)} and no word of an answer.",
                hint="Ask again, ask another model, or raise COUNSEL_MAX_ANSWER_BYTES.",
                provider=self._endpoint.provider.name,
            )
        self._ended = self._closed_early = True
        return [answer_limit.notice(label, limit), Finished("length", self._model.wire_id)]

    def _count(self, events: list[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is UsageReport:
                self._usage, self._unreported = event.usage, 0  # type: ignore[union-attr] # by its kind
                continue
            self.passed_on = True
            if kind is Text or kind is Thinking:
                delta: str = event.delta  # type: ignore[union-attr]
                self._unreported += 2 * answer_limit.size(delta) - len(delta)
                if kind is Text:
                    self._text.append(delta)

    def unpaid(self, sent: int) -> Usage | None:
        """What this try used, if it failed: as reported, the rest estimated. `sent`: tokens of the request, about.

        Vendors bill a stream that breaks off, and most of them report its usage with its last event.
        """
        usage = self._usage or (Usage(input=sent, estimated=True) if self._began else Usage())
        if self._unreported:
            usage = replace(
                usage, output=usage.output - (-self._unreported // 4), estimated=True, cost_usd=None
            )
        if not usage.total:
            return None
        return (
            usage if usage.cost_usd is not None else replace(usage, cost_usd=prices.cost(self._model, usage))
        )

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    async def _chunk(self) -> bytes | None:
        """Bytes, empty at the end of the stream; None when it broke but all had been said."""
        assert self._response is not None  # noqa: S101 (open came first)
        limit, until = self._clock.idle() if self.passed_on else self._clock.first()
        try:
            while True:
                http1.check(until)  # against data that is always there
                if (piece := next(self._pieces, None)) is not None:
                    await asyncio.sleep(0)  # a compressed chunk has many: others have their turn
                elif chunk := await self._response.readany(until):
                    self._pieces = self._opener.feed(chunk)
                    piece = next(self._pieces, None)
                else:
                    return b""
                if piece is not None:
                    self._allowance.receive(len(piece))
                    return piece
        except http1.Late:
            self._failed = self._clock.passed(limit)
            self._failed.fields |= self._partial()
        except OSError as error:
            self._failed = _Broken(f"broke off ({type(error).__name__})")
        except zlib.error:
            self._failed = _Broken("is not compressed as it says")
        return None

    def _opened(self, response: Response) -> compression.Opener:
        try:
            return compression.opener(response.headers.get("content-encoding", ""))
        except compression.Unsupported as encoding:
            raise UpstreamError(
                f"{self._endpoint.provider.label} compressed its answer ({str(encoding)[:40]}), which was not asked for.",
                hint="If it is behind a proxy or a compatible server, switch compression off there.",
                provider=self._endpoint.provider.name,
            ) from None

    def _understood(self, chunk: bytes | None) -> list[Event]:
        """Events up to the first that cannot be read: what came before it is the caller's."""
        events: list[Event] = []
        try:
            found = self._parser.feed(chunk) if chunk else self._parser.end()
            self._began = self._began or bool(found)
            for name, data in found:
                events += self._allowance.take(self._reader.feed(name, data), data)
                if self._allowance.over:
                    return events
            if not chunk:
                events += self._reader.finish()
                self._ended = True
        except (
            CounselError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            RecursionError,
        ) as error:
            self._failed = self._failed or (error if chunk or isinstance(error, Complained) else _Broken())
        return events

    def _as_error(self, failed: Exception) -> Exception:
        if isinstance(failed, Complained):
            return self._refused(failed.complaint)
        if isinstance(self._parser, WholeBody) and self._response and not isinstance(failed, TimedOut):
            return self._not_a_stream(self._response)
        if isinstance(failed, _Broken):
            return self._broken(str(failed))
        if isinstance(failed, CounselError):
            return failed
        return self._nonsense(str(failed) if isinstance(failed, TooLarge) else type(failed).__name__)

    def _refused(self, complaint: Complaint) -> Exception:
        if complaint.status == 407 and (proxy := self._endpoint.network.proxy):
            return network_errors.refused_by_proxy(self._endpoint, proxy, 407)
        error = as_error(complaint, self._endpoint, self._model, **self._partial())
        return _Transient(error, complaint.retry_after) if complaint.retryable else error

    def _broken(self, how: str) -> _Transient:
        label, name = self._endpoint.provider.label, self._endpoint.provider.name
        kept = " What came before is kept." if self._text.length else ""
        return _Transient(
            UpstreamError(
                f"The stream from {label} {how}.{kept}", hint="Try again.", provider=name, **self._partial()
            )
        )

    def _nonsense(self, what: str) -> UpstreamError:
        return UpstreamError(
            f"{self._endpoint.provider.label} sent an event that cannot be read ({what}).",
            hint="If it is behind a proxy or a compatible server, check that one.",
            provider=self._endpoint.provider.name,
            **self._partial(),
        )

    def _not_a_stream(self, response: Response) -> Exception:
        provider = self._endpoint.provider
        return UpstreamError(
            f"{provider.label} answered with {response.content_type} instead of a stream.",
            hint=f"Check {provider.base_url_env or 'the base URL'} ({self._endpoint.base_url}).",
            provider=provider.name,
            status=response.status,
        )

    def _partial(self) -> Json:
        return {"partial": self._text.text()} if self._text.length else {}


def _together(events: list[Event]) -> list[Event]:
    """Pieces of text that came at once are told at once: every event costs its way to the listeners."""
    found: list[Event] = []
    pieces: list[str] = []
    for event in events:
        if type(event) is Text:
            pieces.append(event.delta)
            continue
        if pieces:
            found.append(Text("".join(pieces)))
            pieces = []
        found.append(event)
    if pieces:
        found.append(Text("".join(pieces)))
    return found


def _changes(prepared: Prepared, model: Model) -> list[Notice]:
    """What of the caller's settings is not sent as it was asked for."""
    left_out = [
        Notice("left_out", f"{model.id} does not take {name}: it was left out.", {"setting": name})
        for name in prepared.left_out
    ]
    adapted = [
        Notice("adapted", change.why, {"setting": change.setting, "asked": change.asked, "sent": change.sent})
        for change in prepared.adapted
    ]
    return [*left_out, *adapted]


def _without(body: Json, path: list[str]) -> Json:
    """A copy without one field; an object that becomes empty goes with it."""
    name, rest = path[0], path[1:]
    held = body.get(name)
    kept = _without(held, rest) if rest and isinstance(held, dict) else None
    return {key: value for key, value in body.items() if key != name} | ({name: kept} if kept else {})


def _below(base: str, path: str) -> str:
    """The path after the base URL; a version that a person wrote into both is said once."""
    base, version = base.rstrip("/"), "/" + path.split("/")[1]
    return base + (path.removeprefix(version) if base.endswith(version) else path)


async def _body(response: Response, most: int, held: bytearray, until: float) -> None:
    """Read a body, which may have no end, into `held`: one byte more than `most` if there is more."""
    opener = compression.opener(response.headers.get("content-encoding", ""))
    try:
        while len(held) <= most and (chunk := await response.readany(until)):
            for piece in opener.feed(chunk):
                held += piece[: most + 1 - len(held)]
                if len(held) > most:
                    break
            await asyncio.sleep(0)
    except zlib.error:
        raise ValueError("it is not compressed as it says") from None


async def _complaint(response: Response) -> Complaint:
    held = bytearray()
    until = asyncio.get_running_loop().time() + _ERROR_SECONDS
    with suppress(OSError, ValueError, http1.Late):
        await _body(response, _MOST_ERROR_BYTES, held, until)
    body: Any = None
    with suppress(ValueError):
        body = strict_json.loads(bytes(held))
    return understand(response.status, body, response.headers)


async def _json_body(response: Response, endpoint: Endpoint, until: float) -> Json:
    label, url = endpoint.provider.label, endpoint.base_url
    hint = f"Check {endpoint.provider.base_url_env or 'the base URL'} ({url})."
    what = "something that is not JSON"
    try:
        held = bytearray()
        await _body(response, _MOST_LISTING_BYTES, held, until)
        if len(held) > _MOST_LISTING_BYTES:
            what = f"more than {answer_limit.megabytes(_MOST_LISTING_BYTES)}"
            held.clear()
        body = strict_json.loads(bytes(held))
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise UpstreamError(f"{label} answered with {what}.", hint=hint, provider=endpoint.provider.name)
    return body


def _announcement(attempt: int, wait: float, error: CounselError, limits: Limits) -> Notice:
    why = "rate limit" if isinstance(error, RateLimited) else error.code
    return Notice(
        "retry",
        f"Try {attempt + 1} of {limits.attempts} in {wait:.1f} s: {error.message}",
        {"attempt": attempt + 1, "wait": wait, "reason": why},
    )
