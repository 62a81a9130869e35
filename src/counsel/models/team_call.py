"""One call through a team's server.

A call that has a key is made once, however often it is sent: when the connection breaks, the same request follows the
same job at the server, and what was received before is not passed on again. The server therefore does not stop the job
when its client disconnects; a call that is abandoned here is cancelled there by a second request.

A server that has the call may be stopped or die, but the job continues. So counsel reconnects for a minute; a server
that never got the call is given up after the usual attempts.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace

from counsel import strict_json
from counsel.errors import CounselError, UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.models import retries
from counsel.models.connections import http1, response_bodies
from counsel.models.connections.sender import Sender
from counsel.models.deadlines import Deadlines
from counsel.models.exchange import Exchange
from counsel.models.optional_fields import RefusedFields
from counsel.models.retries import Retryable
from counsel.models.transport import limited
from counsel.models.wires import ALL_WIRES
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Finished,
    Limits,
    Model,
    Notice,
    Prepared,
    Reservation,
    Text,
    Thinking,
    Thought,
    ToolInput,
    ToolUse,
    Usage,
    UsageReport,
    VendorBlock,
    Withdrawn,
)

_KEY = "idempotency-key"
_ENDING = Limits(total=5.0, connect=3.0, first_event=5.0, idle=5.0)
_ENDING_ATTEMPTS = 4  # the call itself may still be on its way to the server
_ENDING_PAUSE = 0.25  # seconds
_SILENT_SECONDS = 60.0  # without anything new from the server that has the call
_LONGEST_PAUSE = 5.0  # seconds between two of these attempts


@dataclass(slots=True)
class TeamCalls:
    """The calls of one transport."""

    sender: Sender
    backoff: float
    sleep: Callable[[float], Awaitable[object]]
    endings: set[asyncio.Task[None]]

    async def stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits, *, ends: float
    ) -> AsyncGenerator[Event]:
        reservation = await call.budget.reserve(call, model) if call.budget else None
        if reservation:
            call = limited(call, reservation)
        request = ALL_WIRES[endpoint.provider.wire].prepare(call, model, endpoint)
        attempts = _Attempts(self, call, model, endpoint, request, limits, ends, reservation)
        try:
            async with aclosing(attempts.events()) as events:
                async for event in events:
                    yield event
        finally:
            if reservation:
                reservation.settle(attempts.usage)
            if attempts.may_run and not (call.is_handed_over and call.is_handed_over()):
                self._start_cancelling(request, endpoint)

    def _start_cancelling(self, request: Prepared, endpoint: Endpoint) -> None:
        if _KEY in request.headers:
            task = asyncio.ensure_future(self._cancel(request, endpoint))
            self.endings.add(task)
            task.add_done_callback(self.endings.discard)

    async def _cancel(self, request: Prepared, endpoint: Endpoint) -> None:
        headers = {name: value for name, value in request.headers.items() if name != _KEY}
        body = strict_json.encode({"key": request.headers[_KEY]})
        until = asyncio.get_running_loop().time() + _ENDING.total
        with suppress(OSError, CounselError, http1.DeadlineExceeded):
            for _ in range(_ENDING_ATTEMPTS):
                response = await self.sender.send(
                    f"{request.url}/cancel", headers, _ENDING, endpoint, until=until, body=body
                )
                try:
                    answer = await response_bodies.json_object(response, endpoint, until)
                finally:
                    response.close()
                if answer.get("cancelled") is not False:
                    return
                await asyncio.sleep(_ENDING_PAUSE)


@dataclass(slots=True)
class _Attempts:
    calls: TeamCalls
    call: Call
    model: Model
    endpoint: Endpoint
    request: Prepared
    limits: Limits
    ends: float
    reservation: Reservation | None
    usage: Usage | None = None
    may_run: bool = False  # at the server, as far as we know
    is_taken: bool = False  # a server has the call, as far as we know
    lost_at: float | None = None  # when the connection was lost after that, by the loop's clock
    failures: int = 0  # since then

    async def events(self) -> AsyncGenerator[Event]:
        replay = Replay(may_withdraw=self.call.exact is None)
        for attempt in itertools.count(1):
            if self.call.permit:
                await self.call.permit()
            exchange = self._exchange()
            try:
                await self._open(exchange)
                while not exchange.ended:
                    for event in replay.new_events(await exchange.read()):
                        self._received(event)
                        yield event
            except Retryable as retryable:
                failure = retryable
            except CounselError as error:
                self.may_run = self.may_run and not exchange.reported
                if not (self._server_has_call and error.fields.get("unreachable")):
                    raise
                failure = Retryable(error)
            else:
                self.may_run = False
                return
            finally:
                exchange.close()
            self.usage = self.usage or exchange.usage_so_far()
            self.may_run = self.may_run and not exchange.reported
            wait = self._wait(failure, attempt, replay)
            if wait is None:
                try:
                    raise failure.error
                finally:
                    del failure  # see transport.py
            yield self._notice(attempt, wait, failure.error)
            replay.restart()
            await self.calls.sleep(wait)

    def _received(self, event: Event) -> None:
        self.lost_at, self.failures = None, 0
        if isinstance(event, UsageReport):
            self.usage = event.usage

    @property
    def _server_has_call(self) -> bool:
        return self.may_run and self.is_taken and bool(self.call.key)

    def _wait(self, failure: Retryable, attempt: int, replay: Replay) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        if replay.has_begun and not self.call.key:
            return None
        if not self._server_has_call:
            return retries.wait_before_next(
                failure, attempt, self.call, self.limits, ends=self.ends, backoff=self.calls.backoff
            )
        now = asyncio.get_running_loop().time()
        self.lost_at = self.lost_at or now
        self.failures += 1
        pause = min(self.calls.backoff * 2 ** min(self.failures - 1, 10), _LONGEST_PAUSE)
        wait = max(pause, failure.retry_after or 0.0)
        until = min(self.lost_at + _SILENT_SECONDS, self.ends, self.call.retry_deadline or self.ends)
        return wait if now + wait < until else None

    def _notice(self, attempt: int, wait: float, error: CounselError) -> Notice:
        if not self._server_has_call:
            return retries.notice(attempt, wait, error, self.limits)
        text = (
            f"The connection to the team server was lost, but the server has the call. Reconnecting in {wait:.1f} s: "
            f"{error.message}"
        )
        return Notice("retry", text, {"attempt": attempt + 1, "wait": wait, "reason": error.code})

    async def _open(self, exchange: Exchange) -> None:
        before, self.may_run = self.may_run, True
        try:
            await exchange.open()
            self.is_taken = True
        except Retryable as retryable:
            self.is_taken = self.is_taken or exchange.stopping or exchange.disconnected
            self.may_run = before or self.is_taken or not retryable.error.fields.get("unreachable")
            raise
        except CounselError as error:
            self.may_run = before or not error.fields.get("unreachable")
            raise

    def _exchange(self) -> Exchange:
        deadlines = Deadlines(retries.attempt_limits(self.limits, self.call), self.ends, self.endpoint)
        return Exchange(
            self.calls.sender,
            RefusedFields(),
            self.request,
            deadlines,
            self.model,
            request_tokens=self.call.tokens,
            streams_tools=self.call.streams_tools,
            reservation=_Unsettled(self.reservation) if self.reservation else None,
        )


class _Unsettled:
    """A reservation for all attempts: it is settled after the last one."""

    def __init__(self, reservation: Reservation) -> None:
        self.output_limit, self.lowered = reservation.output_limit, reservation.lowered

    def settle(self, usage: Usage | None) -> None:
        pass


class Replay:
    """The events of a call after a reconnection, without those that were passed on before.

    If a server died, another one asks the vendor again: then the answer is a different one, and the text so far is
    withdrawn.
    """

    def __init__(self, *, may_withdraw: bool) -> None:
        self._may_withdraw = may_withdraw
        self._text = ""
        self._thinking = 0  # characters
        self._parts: list[Event] = []
        self._inputs: dict[str, str] = {}  # by call: the arguments so far
        # What has arrived again since the reconnection:
        self._repeated_inputs: dict[str, str] = {}
        self._repeated_text = ""
        self._repeated_parts: list[Event] = []
        self._thinking_to_skip = 0  # characters
        self._is_catching_up = False

    @property
    def has_begun(self) -> bool:
        return bool(self._text or self._thinking or self._parts or self._inputs)

    def restart(self) -> None:
        self._repeated_text, self._repeated_parts, self._thinking_to_skip = "", [], self._thinking
        self._repeated_inputs = {}
        self._is_catching_up = bool(self._text)

    def new_events(self, events: list[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Text):
                yield from self._on_text(event.delta)
            elif isinstance(event, Thinking):
                yield from self._on_thinking(event.delta)
            elif isinstance(event, ToolInput):
                yield from self._on_input(event)
            elif isinstance(event, ToolUse | Thought | VendorBlock):
                yield from self._on_part(event)
            else:
                if isinstance(event, Finished):
                    self._check_calls()
                    yield from self._end_replay()
                yield event

    def _on_text(self, delta: str) -> Iterator[Event]:
        if not self._is_catching_up:
            self._text += delta
            yield Text(delta)
            return
        self._repeated_text += delta
        if not self._text.startswith(self._repeated_text):
            yield from self._end_replay()

    def _end_replay(self) -> Iterator[Event]:
        if not self._is_catching_up:
            return
        self._is_catching_up = False
        before, self._text = self._text, self._repeated_text
        if not self._repeated_text.startswith(before):
            if not self._may_withdraw:
                raise _restarted()
            yield Withdrawn(before, "The team server was restarted: the answer begins again.")
            before = ""
        if rest := self._repeated_text[len(before) :]:
            yield Text(rest)

    def _on_thinking(self, delta: str) -> Iterator[Event]:
        rest = delta[self._thinking_to_skip :]
        self._thinking_to_skip = max(0, self._thinking_to_skip - len(delta))
        if rest:
            self._thinking += len(rest)
            yield Thinking(rest)

    def _on_input(self, piece: ToolInput) -> Iterator[Event]:
        """After a reconnection, the arguments arrive whole, or in pieces from their beginning."""
        before, arguments = self._inputs.get(piece.id), self._repeated_inputs.get(piece.id, "") + piece.delta
        self._repeated_inputs[piece.id] = arguments
        if before is None or len(arguments) > len(before):
            self._inputs[piece.id] = arguments
            yield replace(piece, delta=arguments[len(before or "") :])

    def _check_calls(self) -> None:
        """A different answer has different calls, and pieces of arguments that were passed on cannot be withdrawn."""
        complete_ids = {part.call.id for part in self._parts if isinstance(part, ToolUse)}
        if not complete_ids.issuperset(self._inputs):
            raise _restarted()

    def _on_part(self, part: Event) -> Iterator[Event]:
        self._repeated_parts.append(part)
        if len(self._repeated_parts) > len(self._parts):
            self._parts.append(part)
            yield part


def _restarted() -> UpstreamError:
    return UpstreamError(
        "The team server was restarted in the middle of the answer.", hint="Send the request again."
    )
