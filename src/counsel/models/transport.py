"""Calls to the model vendors: one answer as a stream of events, with retries, and listings of models.

`Transport.stream` is an async generator. Closing it, or cancelling the task that reads it, closes the connection
to the vendor at once: nothing continues upstream.

Connections are in `sender.py`, one attempt in `exchange.py`; `retries.py` decides about the next attempt and
`deadlines.py` has the time limits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING

from counsel.errors import CounselError
from counsel.lazy_dataclass import replace
from counsel.models import retries
from counsel.models.connections import http1, network_errors, response_bodies
from counsel.models.connections.sender import Sender
from counsel.models.deadlines import Deadlines
from counsel.models.exchange import Exchange
from counsel.models.optional_fields import RefusedFields
from counsel.models.paused_turns import resumed
from counsel.models.retries import Retryable
from counsel.models.vendor_errors import as_error
from counsel.models.wires import ALL_WIRES, WIRES
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Exact,
    Limits,
    Model,
    Notice,
    Prepared,
    Reservation,
    Usage,
    UsageReport,
)

if TYPE_CHECKING:
    from counsel.models.team_call import TeamCalls

_DEFAULT_LIMITS = Limits()


def _has_vendor_tools(exact: Exact) -> bool:
    native = exact.native
    tools = native.body.get("tools") if native and native.wire == "anthropic" else None
    return any(tool.get("type") not in {None, "custom"} for tool in tools or ())


class Transport:
    """All calls of a process, over one pool of connections. `close` it at the end."""

    def __init__(
        self,
        *,
        backoff: float = retries.BACKOFF,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._backoff = backoff
        self._sleep = sleep
        self._sender = Sender()
        self._refused_fields = RefusedFields()
        self._endings: set[asyncio.Task[None]] = set()  # of calls that must also end at a team's server

    def stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits = _DEFAULT_LIMITS
    ) -> AsyncGenerator[Event]:
        """One answer. Only vendors that run tools of their own pause in the middle of one."""
        ends = time.monotonic() + limits.total
        if endpoint.team:
            return self._team_calls().stream(call, model, endpoint, limits, ends=ends)
        if not (call.model_settings.web_search or (call.exact and _has_vendor_tools(call.exact))):
            return self._stream(call, model, endpoint, limits, ends)
        return resumed(lambda part: self._stream(part, model, endpoint, limits, ends), call)

    def _team_calls(self) -> TeamCalls:
        from counsel.models.team_call import TeamCalls  # few homes have joined a team

        return TeamCalls(self._sender, self._backoff, self._sleep, self._endings)

    async def _stream(
        self, call: Call, model: Model, endpoint: Endpoint, limits: Limits, ends: float
    ) -> AsyncGenerator[Event]:
        prepared: Prepared | None = None
        spent = Usage(cost_usd=0.0)  # by failed attempts
        for attempt in range(1, limits.attempts + 1):
            prepared, reservation = await _prepared(call, model, endpoint, prepared)
            has_changes = attempt == 1 and (prepared.left_out or prepared.adapted)
            for notice in _changed_settings(prepared, model) if has_changes else ():
                yield notice
            deadlines = Deadlines(retries.attempt_limits(limits, call), ends, endpoint)
            exchange = Exchange(
                self._sender,
                self._refused_fields,
                prepared,
                deadlines,
                model,
                request_tokens=call.tokens,
                push=call.push,
                streams_tools=call.streams_tools,
                reservation=reservation,
            )
            try:
                await exchange.open()
                while not exchange.ended:
                    for event in await exchange.read():
                        is_sum = attempt > 1 and type(event) is UsageReport
                        yield UsageReport(spent + event.usage) if is_sum else event  # type: ignore[union-attr]
            except Retryable as retryable:
                failure, final = retryable, exchange.passed_on
            except CounselError as error:
                failure, final = Retryable(error), True
            else:
                return
            finally:
                exchange.close()
            if used := exchange.usage_so_far():
                spent += used
                yield UsageReport(spent)
            wait = retries.wait_before_next(failure, attempt, call, limits, ends=ends, backoff=self._backoff)
            if final or wait is None:
                try:
                    raise failure.error
                finally:
                    # A frame that refers to its own error keeps both, and the prompt, until garbage collection.
                    del failure
            yield retries.notice(attempt, wait, failure.error, limits)
            await self._sleep(wait)

    async def get_json(
        self, endpoint: Endpoint, path: str, limits: Limits = _DEFAULT_LIMITS, body: bytes | None = None
    ) -> dict[str, object]:
        """One GET below the provider's base URL, to list models or to check a key; with a body, one POST."""
        url = _joined_url(endpoint.base_url, path)
        deadlines = Deadlines(limits, time.monotonic() + limits.total, endpoint)
        no_model = Model(id=path, provider=endpoint.provider.name, wire_id=path)
        headers = ALL_WIRES[endpoint.provider.wire].headers(endpoint)
        try:
            response = await self._sender.send(
                url, headers, limits, endpoint, until=deadlines.ends, body=body
            )
            with closing(response):
                if response.status != 200:
                    raise as_error(await response_bodies.error_report(response), endpoint, no_model)
                return await response_bodies.json_object(response, endpoint, deadlines.ends)
        except http1.DeadlineExceeded:
            raise deadlines.error("total") from None
        except OSError as error:
            raise network_errors.as_error(endpoint, error) from None

    async def close(self) -> None:
        if self._endings:
            await asyncio.wait(self._endings, timeout=2.0)
        await self._sender.close()


async def _prepared(
    call: Call, model: Model, endpoint: Endpoint, earlier: Prepared | None
) -> tuple[Prepared, Reservation | None]:
    """The request, and the money reserved for it if a budget applies: a later attempt may get less."""
    if call.permit:
        await call.permit()
    reservation = await call.budget.reserve(call, model) if call.budget else None
    if reservation:
        call = limited(call, reservation)
    elif earlier:
        return earlier, None
    return WIRES[endpoint.provider.wire].prepare(call, model, endpoint), reservation


def limited(call: Call, reservation: Reservation) -> Call:
    """The call with the lower of two output limits: its own and the reservation's."""
    limits = [limit for limit in (reservation.output_limit, call.output_limit) if limit is not None]
    return replace(call, output_limit=min(limits)) if limits else call


def _changed_settings(request: Prepared, model: Model) -> list[Notice]:
    """Notices about the caller's settings that are not sent as requested."""
    left_out = [
        Notice("left_out", f"{model.id} does not take {name}: it was left out.", {"setting": name})
        for name in request.left_out
    ]
    adapted = [
        Notice("adapted", change.why, {"setting": change.setting, "asked": change.asked, "sent": change.sent})
        for change in request.adapted
    ]
    return [*left_out, *adapted]


def _joined_url(base: str, path: str) -> str:
    """The base URL with this path. A version that both contain is used once."""
    base, version = base.rstrip("/"), "/" + path.split("/")[1]
    return base + (path.removeprefix(version) if base.endswith(version) else path)
