"""One attempt of one call: the request goes out, its events are read until the stream ends or fails."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace

from counsel.errors import CounselError, OutOfResources, TimedOut, UpstreamError
from counsel.models import answer_limit, compression, http1, network_errors, prices, response_bodies
from counsel.models.deadlines import Deadlines
from counsel.models.failures import Complained, Complaint, as_error
from counsel.models.optional_fields import RefusedFields
from counsel.models.response_bodies import JsonAnswer
from counsel.models.retries import Retryable
from counsel.models.sender import Response, Sender
from counsel.models.sse import EventParser, TooLarge
from counsel.models.wires import WIRES
from counsel.text_buffer import TextBuffer
from counsel.types import (
    Event,
    Finished,
    Json,
    Model,
    Prepared,
    StreamReader,
    Text,
    Thinking,
    Usage,
    UsageReport,
)


class _Broken(Exception):
    """The stream stopped where it should not have."""

    def __init__(self, how: str = "ended before the answer did") -> None:
        super().__init__(how)


class Exchange:
    """One try of one call: request out, events in."""

    def __init__(
        self,
        sender: Sender,
        refused_fields: RefusedFields,
        prepared: Prepared,
        deadlines: Deadlines,
        model: Model,
    ) -> None:
        self._sender, self._refused_fields, self._prepared = sender, refused_fields, prepared
        self._deadlines, self._endpoint, self._model = deadlines, deadlines.endpoint, model
        self._reader: StreamReader = WIRES[deadlines.endpoint.provider.wire].reader()
        self._allowance = answer_limit.Allowance(deadlines.limits.answer)
        self._parser: EventParser | JsonAnswer = EventParser(deadlines.limits.answer + 2**20)
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
        limit, until = self._deadlines.first()
        try:
            response = self._response = await self._accepted(until)
        except http1.Late:
            raise self._deadlines.passed(limit) from None
        except http1.ConnectTimeout:
            raise Retryable(self._deadlines.passed("connect")) from None
        except (OSError, MemoryError) as error:
            raise self._unreachable(error) from None
        kind = response.content_type
        if kind == "text/html":
            raise self._not_a_stream(response)
        if kind == "application/json":
            self._parser = JsonAnswer(self._deadlines.limits.answer + 2**20)
        self._opener = self._decoder_for(response)

    def _unreachable(self, error: BaseException) -> Exception:
        """Another try may find what was not there; it finds no proxy's password, and no open file that we hold."""
        failed = network_errors.explained(self._endpoint, error)
        lasting = isinstance(failed, OutOfResources) or failed.fields.get("status") == 407
        return failed if lasting else Retryable(failed)

    async def _accepted(self, until: float) -> Response:
        """The response, after a second request without the optional fields that the vendor refused, if any."""
        prepared, limits, send = self._prepared, self._deadlines.limits, self._sender.send
        while True:
            body = _encoded(self._refused_fields.body(prepared, self._endpoint, self._model))
            response = self._response = await send(
                prepared.url, prepared.headers, limits, self._endpoint, until=until, body=body
            )
            if response.status == 200:
                return response
            complaint = await response_bodies.complaint(response)
            if not self._refused_fields.add(complaint, prepared, self._endpoint, self._model):
                raise self._refused(complaint)
            response.close()

    async def read(self) -> list[Event] | None:
        """The next events, none of them empty; None after the last."""
        while not self._ended:
            if self._failed is not None:
                raise self._as_error(self._failed)
            if self._allowance.over:
                return self._cut()
            events = self._understood(await self._chunk())
            if len(events) > 1:
                events = _join_text(events)
            if events:
                self._count(events)
                return events
        return None

    def _cut(self) -> list[Event]:
        """What arrived is kept; nothing more is read, and the connection is closed."""
        label, limit = self._endpoint.provider.label, self._deadlines.limits.answer
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

    def usage_when_failed(self, sent: int) -> Usage | None:
        """What this attempt used: as reported, the rest estimated. `sent`: roughly the tokens of the request.

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
        limit, until = self._deadlines.idle() if self.passed_on else self._deadlines.first()
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
            self._failed = self._deadlines.passed(limit)
            self._failed.fields |= self._partial()
        except OSError as error:
            self._failed = _Broken(f"broke off ({type(error).__name__})")
        except zlib.error:
            self._failed = _Broken("is not compressed as it says")
        return None

    def _decoder_for(self, response: Response) -> compression.Opener:
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
        if isinstance(self._parser, JsonAnswer) and self._response and not isinstance(failed, TimedOut):
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
        return Retryable(error, complaint.retry_after) if complaint.retryable else error

    def _broken(self, how: str) -> Retryable:
        label, name = self._endpoint.provider.label, self._endpoint.provider.name
        kept = " What came before is kept." if self._text.length else ""
        return Retryable(
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


def _join_text(events: list[Event]) -> list[Event]:
    """Text that arrived in one chunk becomes one event: each event costs its way to the listeners."""
    joined: list[Event] = []
    pieces: list[str] = []
    for event in events:
        if type(event) is Text:
            pieces.append(event.delta)
            continue
        if pieces:
            joined.append(Text("".join(pieces)))
            pieces = []
        joined.append(event)
    if pieces:
        joined.append(Text("".join(pieces)))
    return joined


def _encoded(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
