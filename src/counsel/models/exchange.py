"""One attempt of one call: sends the request and reads its events until the stream ends or fails."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from counsel import strict_json
from counsel.errors import CounselError, OutOfResources, TimedOut, UpstreamError
from counsel.lazy_dataclass import replace
from counsel.models import answer_limit, prices
from counsel.models.connections import compression, http1, network_errors, response_bodies
from counsel.models.connections.response_bodies import JsonAnswer
from counsel.models.connections.sender import Response, Sender
from counsel.models.connections.sse import EventParser, TooLarge
from counsel.models.deadlines import Deadlines
from counsel.models.optional_fields import RefusedFields
from counsel.models.retries import Retryable
from counsel.models.vendor_errors import ErrorEvent, ErrorReport, as_error, parse_error, stated_status
from counsel.models.wires import ALL_WIRES
from counsel.text import TextBuffer
from counsel.types import (
    Event,
    Finished,
    Model,
    Notice,
    Prepared,
    Reservation,
    StreamReader,
    Text,
    Thinking,
    ToolInput,
    Usage,
    UsageReport,
    Withdrawn,
)

_MANY = 3  # deltas that are parsed together


class _Interrupted(Exception):
    """The stream stopped before its end."""

    def __init__(self, problem: str = "ended before the answer was complete") -> None:
        super().__init__(problem)


class Exchange:
    """One attempt of one call. `open` it, `read` until it has `ended`, `close` it."""

    def __init__(
        self,
        sender: Sender,
        refused_fields: RefusedFields,
        prepared: Prepared,
        deadlines: Deadlines,
        model: Model,
        *,
        request_tokens: int,
        reservation: Reservation | None = None,
        push: Callable[[str], bool] | None = None,
        streams_tools: bool = False,
    ) -> None:
        """`request_tokens`: an estimate. `push`, `streams_tools`: see `Call`."""
        self._sender, self._refused_fields, self._prepared = sender, refused_fields, prepared
        self._deadlines, self._endpoint, self._model = deadlines, deadlines.endpoint, model
        self._request_tokens, self._reservation, self._push = request_tokens, reservation, push
        wire = ALL_WIRES[deadlines.endpoint.provider.wire]
        self._reader: StreamReader = wire.reader(streams_tools=streams_tools)
        self._allowance = answer_limit.Allowance(deadlines.limits.answer)
        self._parser: EventParser | JsonAnswer = EventParser(deadlines.limits.answer + 2**20)
        self._decoder: compression.Decoder  # of the response's body, known when that begins
        self._pieces: Iterator[bytes] = iter(())  # rest of the newest chunk, decompressed
        self._response: Response | None = None
        self._text = TextBuffer()
        self._usage: Usage | None = None  # the newest report
        self._unreported = 0  # size of the text since that report; 4 count as one token
        self._began = False  # the vendor has begun to answer
        self._unread: list[Event] | None = None  # arrived while `read` waited and were not pushed
        self._limit = ""  # the name of the next time limit
        self._failed: Exception | None = None
        self.ended = False  # all events have been read
        self.passed_on = False
        self.reported = False  # the server itself says that the call failed
        self.disconnected = False  # after the request went out, before the response began
        self.stopping = False  # a team's server says that it is being stopped and that the job continues

    async def open(self) -> None:
        limit, until = self._deadlines.first()
        try:
            response = self._response = await self._accepted(until)
        except http1.DeadlineExceeded:
            raise self._deadlines.error(limit) from None
        except http1.ConnectTimeout:
            raise self._no_connection() from None
        except (OSError, MemoryError) as error:
            self.disconnected = isinstance(error, http1.Disconnected)
            raise self._unreachable(error) from None
        kind = response.content_type
        if kind == "text/html":
            raise self._not_a_stream(response)
        if kind == "application/json":
            self._parser = JsonAnswer(self._deadlines.limits.answer + 2**20)
        self._decoder = self._decoder_for(response)
        if self._push is not None and isinstance(response, http1.Response) and self._decoder.is_plain:
            response.push_to(self._received)

    def _no_connection(self) -> Exception:
        failure = self._deadlines.error("connect")
        if self._endpoint.team:  # no retry: someone who is offline should learn it soon
            return network_errors.as_error(
                self._endpoint, TimeoutError(f"no connection within {self._deadlines.limits.connect:g} s")
            )
        return Retryable(failure)

    def _unreachable(self, error: BaseException) -> Exception:
        """The error; retryable unless the proxy wants a password or this machine lacks memory or file descriptors."""
        failure = network_errors.as_error(self._endpoint, error)
        permanent = isinstance(failure, OutOfResources) or failure.status == 407
        return failure if permanent else Retryable(failure)

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
            report = await response_bodies.error_report(response)
            if not self._refused_fields.add(report, prepared, self._endpoint, self._model):
                raise self._reported(report)
            response.close()

    async def read(self) -> list[Event]:
        """The next events; none only at the end."""
        while not self.ended:
            if self._failed is not None:
                raise self._as_error(self._failed)
            if self._allowance.over:
                return self._cut()
            chunk = await self._chunk()
            unread, self._unread = self._unread, None
            if unread is None:
                events = self._parse(chunk)
            elif chunk and self._failed is None and not self._allowance.over:
                events = unread + self._parse(chunk)
            else:
                events = unread
            if len(events) > 1:
                events = _join_text(events)
            if events:
                self._count(events)
                events = self._with_estimate(events)
                return self._with_notice(events) if self._reservation else events
        return []

    def _received(self, data: bytes) -> bool:
        """Take bytes that arrive while `read` waits. False if it must return: at the first text and other events."""
        self._allowance.receive(len(data))
        events = self._parse(data)
        if self._text.length and self._push is not None and not self._allowance.over:
            if len(events) > 1:
                events = _join_text(events)
            while events and type(events[0]) is Text and self._push(events[0].delta):
                self._count([events.pop(0)])
        if events or self._failed is not None or self._allowance.over:
            self._unread = events
            return False
        assert isinstance(self._response, http1.Response)  # `open` chose it
        self._response.extend(self._next_deadline())
        return True

    def _next_deadline(self) -> float:
        self._limit, until = self._deadlines.idle() if self.passed_on else self._deadlines.first()
        return until

    def _with_estimate(self, events: list[Event]) -> list[Event]:
        """The events; before the answer's end, an estimate of the usage if the vendor has not reported it."""
        estimate = self.usage_so_far() if self.ended and self._lacks_output() else None
        return [*events[:-1], UsageReport(estimate), *events[-1:]] if estimate else events

    def _lacks_output(self) -> bool:
        """Whether no usage was reported, or only that of the input: some gateways report it before the text alone."""
        usage = self._usage
        return usage is None or (usage.cost_usd is None and not usage.output and self._unreported > 0)

    def _with_notice(self, events: list[Event]) -> list[Event]:
        """The events, with a notice if the answer ends because its reservation does."""
        reservation = self._reservation
        last = events[-1]
        if not (
            reservation and reservation.lowered and isinstance(last, Finished) and last.reason == "length"
        ):
            return events
        text = f"The answer was limited to {reservation.output_limit:,} tokens by {reservation.lowered}."
        notice = Notice("warning", text, {"output_limit": reservation.output_limit})
        return [*events[:-1], notice, last]

    def _cut(self) -> list[Event]:
        """The answer is too long: keep what has arrived, read no more, and close the connection."""
        label, limit = self._endpoint.provider.label, self._deadlines.limits.answer
        if not self._allowance.text_bytes:
            raise UpstreamError(
                f"{label} sent more than {answer_limit.megabytes(limit)} without any text of an answer.",
                hint="Try again, ask another model, or raise COUNSEL_MAX_ANSWER_BYTES.",
                provider=self._endpoint.provider.name,
            )
        self.ended = True
        return [answer_limit.notice(label, limit), Finished("length", self._model.wire_id)]

    def _count(self, events: list[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is UsageReport:
                self._report(event.usage)  # type: ignore[union-attr] # by its kind
                continue
            self.passed_on = True
            if kind is Text or kind is Thinking or kind is ToolInput:
                delta: str = event.delta  # type: ignore[union-attr]
                self._unreported += 2 * answer_limit.size(delta) - len(delta)
                if kind is Text:
                    self._text.append(delta)
            elif kind is Withdrawn:  # its text follows again
                again: str = event.text  # type: ignore[union-attr]
                self._unreported -= 2 * answer_limit.size(again) - len(again)

    def _report(self, usage: Usage) -> None:
        """The vendor's counts. Those of an event that counts no new output say nothing about the text before it."""
        if usage.output != (self._usage.output if self._usage else 0):
            self._unreported = 0
        if usage.total:  # some gateways report zeros
            self._usage = usage

    def usage_so_far(self) -> Usage | None:
        """What this attempt has used: the newest report, and an estimate of the rest.

        Vendors bill a stream that breaks off, and most of them report usage only in the last event.
        """
        usage = self._usage or (Usage(input=self._request_tokens, estimated=True) if self._began else Usage())
        if self._unreported > 0:
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
        if self._reservation is not None:
            self._reservation.settle(self.usage_so_far())

    async def _chunk(self) -> bytes:
        """Bytes; empty at the end of the stream and when it failed (then `_failed` has the reason)."""
        assert self._response is not None  # open came first
        until = self._next_deadline()
        try:
            while True:
                http1.check(until)  # data may arrive without a pause
                if (piece := next(self._pieces, None)) is not None:
                    await asyncio.sleep(0)  # a compressed chunk has many pieces: let other tasks run
                elif chunk := await self._response.readany(until):
                    self._pieces = self._decoder.feed(chunk)
                    piece = next(self._pieces, None)
                else:
                    return b""
                if piece is not None:
                    self._allowance.receive(len(piece))
                    return piece
        except http1.DeadlineExceeded:
            self._failed = self._deadlines.error(self._limit)
            self._failed.fields |= self._partial()
        except OSError as error:
            self._failed = _Interrupted(f"broke off ({type(error).__name__})")
        except zlib.error:
            self._failed = _Interrupted("is not compressed as its header says")
        return b""

    def _decoder_for(self, response: Response) -> compression.Decoder:
        try:
            return compression.decoder(response.headers.get("content-encoding", ""))
        except compression.Unsupported as encoding:
            raise UpstreamError(
                f"{self._endpoint.provider.label} compressed its answer ({str(encoding)[:40]}), which counsel did not request.",
                hint="If there is a proxy or gateway in between, switch its compression off.",
                provider=self._endpoint.provider.name,
            ) from None

    def _parse(self, chunk: bytes) -> list[Event]:
        """The events before the first that cannot be read."""
        events: list[Event] = []
        name, data = "", ""
        try:
            parsed = self._parser.feed(chunk) if chunk else self._parser.end()
            at = 0
            while at < len(parsed):
                name, data = parsed[at]
                at += 1
                events += self._allowance.take(self._reader.feed(name, data), data)
                self._began = True
                if self._allowance.over:
                    return events
                if len(parsed) - at >= _MANY and name == self._reader.delta_event:
                    at = self._deltas(parsed, at, events)
            if not chunk:
                events += self._reader.finish()
                self.ended = True
        except (
            CounselError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            RecursionError,
        ) as error:
            if name == "error" and not isinstance(error, CounselError):  # words where JSON should be
                error = ErrorEvent({"error": data})
            is_report = isinstance(error, ErrorEvent)
            self._began = self._began or (bool(data) and not is_report)
            if isinstance(error, ErrorEvent) and error.reported_usage:
                events.append(UsageReport(error.reported_usage))
            self._failed = self._failed or (error if chunk or is_report else _Interrupted())
        return events

    def _deltas(self, parsed: list[tuple[str, str]], at: int, events: list[Event]) -> int:
        """Add deltas that arrived together, from `at` on, as one text. Returns the position after them, or `at`."""
        name, end = parsed[at - 1][0], at
        while end < len(parsed) and parsed[end][0] == name:
            end += 1
        deltas = [data for _, data in parsed[at:end]]
        if len(deltas) < _MANY or not self._allowance.has_room(deltas):
            return at
        text = self._reader.text_of(deltas)
        if text is None:
            return at
        self._allowance.take_text(text)
        events.append(Text(text))
        return end

    def _as_error(self, failure: Exception) -> Exception:
        if isinstance(failure, ErrorEvent):
            return self._reported(failure.report)
        if isinstance(self._parser, JsonAnswer) and self._response and not isinstance(failure, TimedOut):
            return self._not_a_stream(self._response)
        if isinstance(failure, _Interrupted):
            report = self._other_report()
            return self._reported(report) if report else self._interrupted(str(failure))
        if isinstance(failure, CounselError):
            return failure
        return self._unreadable(str(failure) if isinstance(failure, TooLarge) else type(failure).__name__)

    def _other_report(self) -> ErrorReport | None:
        """The error of a server that sends no events: JSON or words, although its content type says events."""
        text = self._parser.other if isinstance(self._parser, EventParser) and not self._began else ""
        body: object = {"error": text}
        with suppress(ValueError):
            body = strict_json.loads(text)
        report = parse_error(stated_status(body), body)
        return report if report.message else None

    def _reported(self, report: ErrorReport) -> Exception:
        if report.status == 407 and (proxy := self._endpoint.network.proxy):
            return network_errors.refused_by_proxy(self._endpoint, proxy, 407)
        self.stopping = self._endpoint.team and _is_stopping(report)
        self.reported = not self._endpoint.team or (report.own is not None and not self.stopping)
        error = as_error(report, self._endpoint, self._model, **self._partial())
        return Retryable(error, report.retry_after) if self._is_retryable(report) else error

    def _is_retryable(self, report: ErrorReport) -> bool:
        """A team's server has made its own retries: its failures are final, those on the way to it are not."""
        if self._endpoint.team and report.own is not None:
            return self.stopping
        return report.retryable

    def _interrupted(self, problem: str) -> Retryable:
        label, name = self._endpoint.provider.label, self._endpoint.provider.name
        note = " The text so far is kept." if self._text.length else ""
        return Retryable(
            UpstreamError(
                f"{label}: the stream {problem}.{note}", hint="Try again.", provider=name, **self._partial()
            )
        )

    def _unreadable(self, problem: str) -> UpstreamError:
        return UpstreamError(
            f"{self._endpoint.provider.label} sent an event that cannot be read ({problem}).",
            hint="Check any proxy or gateway in between.",
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

    def _partial(self) -> dict[str, object]:
        return {"partial": self._text.text()} if self._text.length else {}


def _is_stopping(report: ErrorReport) -> bool:
    """A team's server is being stopped; the job continues on another one."""
    return report.own is not None and report.status == 503 and report.own["code"] == "CANCELLED"


def _join_text(events: list[Event]) -> list[Event]:
    """The events, with consecutive texts as one: every event has a cost on its way to the clients."""
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


def _encoded(body: Mapping[str, object]) -> bytes:
    return strict_json.encode(body, "replace")
