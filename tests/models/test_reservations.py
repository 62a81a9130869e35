"""Money that is reserved for each request to a vendor: what is sent, which notices appear, and what is settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from counsel.errors import AuthenticationFailed, BudgetExceeded, UpstreamError
from counsel.models import retries
from counsel.models.transport import Transport
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Limits,
    Model,
    Notice,
    Provider,
    Text,
    Turn,
    Usage,
    UsageReport,
)
from fake import FakeAPI

MODEL = Model("m", "acme", "m", input_price=2.0, output_price=8.0)
HELLO = Call((Turn("user", "hello"),), tokens=40)


@dataclass
class RecordingReservation:
    output_limit: int | None = None
    lowered: str = ""
    settled: list[Usage | None] = field(default_factory=list)

    def settle(self, usage: Usage | None) -> None:
        self.settled.append(usage)


@dataclass
class ReservationSource:
    """Gives these reservations, one for each request; then nothing is left."""

    money: list[RecordingReservation]
    granted: int = 0

    async def reserve(self, call: Call, model: Model) -> RecordingReservation | None:
        assert model is MODEL
        if self.granted == len(self.money):
            raise BudgetExceeded("Nothing is left.")
        self.granted += 1
        return self.money[self.granted - 1]


async def no_wait(seconds: float) -> None:
    pass


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    transport = Transport(sleep=no_wait)
    yield transport
    await transport.close()


async def ask(
    transport: Transport, fake: FakeAPI, *money: RecordingReservation, call: Call = HELLO, attempts: int = 3
) -> list[Event]:
    endpoint = Endpoint(Provider("acme", "Acme", "openai_chat", ""), fake.v1, "k")
    stream = transport.stream(
        replace(call, budget=ReservationSource(list(money))), MODEL, endpoint, Limits(attempts=attempts)
    )
    return [event async for event in stream]


@pytest.mark.parametrize(
    ("reserved", "own_limit", "expected"),
    [(100, None, 100), (100, 30, 30), (30, 100, 30), (None, 30, 30), (None, None, None), (1, 0, 0)],
)
async def test_no_more_output_is_requested_than_was_reserved(
    transport: Transport, fake_api: FakeAPI, reserved: int | None, own_limit: int | None, expected: int | None
) -> None:
    await ask(
        transport, fake_api, RecordingReservation(reserved), call=replace(HELLO, output_limit=own_limit)
    )
    body = fake_api.last.body
    assert body.get("max_tokens", body.get("max_completion_tokens")) == expected


@pytest.mark.parametrize(
    ("finish", "budget", "has_notice"),
    [("length", "the budget of a day", True), ("stop", "the budget of a day", False), ("length", "", False)],
)
async def test_an_answer_that_ends_where_its_reservation_does_says_so(
    transport: Transport, fake_api: FakeAPI, finish: str, budget: str, has_notice: bool
) -> None:
    fake_api.script(finish=finish, text="so far")
    events = await ask(transport, fake_api, RecordingReservation(1200, budget))
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.text for notice in notices] == (
        [f"The answer was limited to 1,200 tokens by {budget}."] if has_notice else []
    )
    assert all(notice.data == {"output_limit": 1200} for notice in notices)
    assert "".join(event.delta for event in events if isinstance(event, Text)) == "so far"


async def test_each_attempt_reserves_and_settles_what_it_used(
    transport: Transport, fake_api: FakeAPI
) -> None:
    fake_api.script(status=503)
    fake_api.script(usage={"input": 10, "output": 5})
    first, second = RecordingReservation(100), RecordingReservation(50)
    await ask(transport, fake_api, first, second)
    assert first.settled == [None]
    (usage,) = second.settled
    assert usage is not None
    assert (usage.input, usage.output, usage.estimated) == (10, 5, False)
    assert usage.cost_usd == pytest.approx((10 * 2.0 + 5 * 8.0) / 1e6)
    assert [request.body["max_tokens"] for request in fake_api.calls] == [100, 50]


async def test_the_reported_usage_includes_failed_attempts(transport: Transport, fake_api: FakeAPI) -> None:
    counts = '{"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}'
    fake_api.script(raw=f'data: {{"choices": [], "usage": {counts}}}\n\n')
    fake_api.script(usage={"input": 10, "output": 5})
    events = await ask(transport, fake_api, RecordingReservation(), RecordingReservation())
    reports = [event.usage for event in events if isinstance(event, UsageReport)]
    assert (reports[-1].input, reports[-1].output) == (20, 5)
    fake_api.script(usage={"input": 10, "output": 5})
    alone = [
        event.usage
        for event in await ask(transport, fake_api, RecordingReservation())
        if isinstance(event, UsageReport)
    ]
    assert (alone[-1].input, alone[-1].cost_usd) == (10, None), "without a cost, which is not reported"


async def test_an_answer_that_breaks_off_settles_an_estimate(transport: Transport, fake_api: FakeAPI) -> None:
    """Vendors bill it. The estimate: the request's tokens, and one token for every four characters of the answer."""
    fake_api.script(text="x" * 402, deltas=2, cut_after=2)
    money = RecordingReservation(100)
    with pytest.raises(UpstreamError):
        await ask(transport, fake_api, money)
    (usage,) = money.settled
    assert usage is not None
    assert (usage.input, usage.output, usage.estimated) == (40, 101, True)
    assert usage.cost_usd == pytest.approx((40 * 2.0 + 101 * 8.0) / 1e6)


async def test_a_request_that_is_refused_at_once_costs_nothing(
    transport: Transport, fake_api: FakeAPI
) -> None:
    fake_api.script(status=401)
    money = RecordingReservation(100)
    with pytest.raises(AuthenticationFailed):
        await ask(transport, fake_api, money)
    assert money.settled == [None]


async def test_without_money_nothing_is_sent(transport: Transport, fake_api: FakeAPI) -> None:
    with pytest.raises(BudgetExceeded):
        await ask(transport, fake_api)
    assert fake_api.calls == []


async def test_a_retry_needs_money_of_its_own(transport: Transport, fake_api: FakeAPI) -> None:
    fake_api.script(status=503)
    with pytest.raises(BudgetExceeded):
        await ask(transport, fake_api, RecordingReservation(100))
    assert len(fake_api.calls) == 1


async def test_a_reader_that_stops_settles_at_once(transport: Transport, fake_api: FakeAPI) -> None:
    fake_api.script(text="x" * 40, deltas=2, hang_after=1)
    money = RecordingReservation(100)
    endpoint = Endpoint(Provider("acme", "Acme", "openai_chat", ""), fake_api.v1, "k")
    stream = transport.stream(replace(HELLO, budget=ReservationSource([money])), MODEL, endpoint)
    with suppress(StopAsyncIteration):
        while not isinstance(await anext(stream), Text):
            pass
    await stream.aclose()
    assert [usage and (usage.input, usage.output) for usage in money.settled] == [(40, 5)]


async def test_every_request_needs_its_permit(transport: Transport, fake_api: FakeAPI) -> None:
    count = 0

    async def permit() -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise BudgetExceeded("Too many calls.")

    fake_api.script(status=503)
    with pytest.raises(BudgetExceeded, match="Too many calls"):
        await ask(
            transport,
            fake_api,
            RecordingReservation(),
            RecordingReservation(),
            call=replace(HELLO, permit=permit),
        )
    assert len(fake_api.calls) == 1


@pytest.mark.parametrize(("seconds_left", "connect"), [(None, 10.0), (60.0, 3.0), (2.0, 2.0), (-5.0, 1.5)])
async def test_a_connection_may_take_as_long_as_the_next_model_can_wait(
    seconds_left: float | None, connect: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    call = replace(HELLO, retry_deadline=None if seconds_left is None else now + seconds_left)
    assert retries.attempt_limits(Limits(connect=10.0), call).connect == pytest.approx(connect)
    assert retries.attempt_limits(Limits(connect=1.0), call).connect == 1.0
