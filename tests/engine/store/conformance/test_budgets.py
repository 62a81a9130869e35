"""Reservations: what counts against a limit; several processes together cannot overspend."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import (
    BudgetLimit,
    BudgetState,
    Granted,
    NotGranted,
    ReservationRequest,
    StoreError,
)
from engine.store.conformance.conftest import Stores
from support.stored import completed, fence, new_job, reply, usage

NOW = 1_000_000.0
JOB = BudgetLimit(1.0, 0.0, job="job")
DAY = BudgetLimit(1.0, NOW - 100)
_numbers = count(1)


def new_request(*limits: BudgetLimit, **fields: Any) -> ReservationRequest:
    """A request that needs 0.1 to 0.5 dollars: 1 to 5 tokens."""
    base = ReservationRequest(
        id=f"reservation-{next(_numbers)}",
        owner="owner",
        job="job",
        provider="openai",
        model="gpt-5",
        input_usd=0.0,
        usd_per_token=0.1,
        min_output=1,
        fair_output=1,
        max_output=5,
        limits=limits or (JOB,),
    )
    return replace(base, **fields)


async def reserve(store: Store, *requests: ReservationRequest) -> list[float]:
    """The amount reserved for each request; 0: refused."""
    outcomes = await store.reserve(requests, NOW)
    return [round(outcome.usd, 6) if isinstance(outcome, Granted) else 0.0 for outcome in outcomes]


async def states(store: Store, *limits: BudgetLimit) -> list[tuple[float, float]]:
    await store.flush()
    return [
        (round(state.spent, 6), round(state.reserved, 6))
        for state in await store.budget_states(limits or [JOB])
    ]


async def test_reservations_are_made_until_a_limit_is_reached(store: Store) -> None:
    assert await reserve(store, new_request()) == [0.5]
    assert await reserve(store, new_request(max_output=3)) == [0.3]
    assert await reserve(store, new_request()) == [0.2], "as much as is left"
    (refusal,) = await store.reserve([new_request()], NOW)
    assert isinstance(refusal, NotGranted)
    assert (refusal.limit, round(refusal.state.reserved, 6), refusal.needed) == (0, 1.0, 0.1)
    assert await states(store) == [(0.0, 1.0)]


async def test_a_call_takes_its_share_of_what_is_left_or_a_fair_length(store: Store) -> None:
    limit = replace(JOB, share=0.25)
    (grant,) = await store.reserve([new_request(limit, max_output=9)], NOW)
    assert grant == Granted(3, 0.30000000000000004, 0), "the least, and a quarter of 0.9"
    assert await reserve(store, new_request(limit, max_output=9, fair_output=4)) == [0.4]


async def test_requests_of_one_round_share_evenly_and_the_last_ones_are_refused(store: Store) -> None:
    assert await reserve(store, new_request(max_output=9), new_request(max_output=9)) == [0.5, 0.5]
    await store.drop_reservations(owners=["owner"])
    few = [new_request(min_output=4, fair_output=4) for _ in range(3)]
    assert await reserve(store, *few) == [0.5, 0.5, 0.0]


async def test_a_settled_cost_counts_until_its_usage_record_does(store: Store) -> None:
    request = new_request()
    await reserve(store, request)
    await store.settle(request.id, 0.2, NOW)
    assert await states(store) == [(0.2, 0.0)]
    await store.record_usage(usage(cost=0.25, reservations=(request.id,)))
    assert await states(store) == [(0.25, 0.0)]


async def test_a_usage_record_without_a_price_leaves_the_settled_cost(store: Store) -> None:
    settled, unsent = new_request(), new_request()
    await reserve(store, settled, unsent)
    await store.settle(settled.id, 0.2, NOW)
    await store.record_usage(usage(cost=None, reservations=(settled.id, unsent.id)))
    assert await states(store) == [(0.2, 0.0)]


async def test_every_way_to_record_usage_ends_its_reservations(store: Store) -> None:
    new = new_job(id="job")
    await store.submit(new)
    first, second = new_request(max_output=1), new_request(max_output=1)
    await reserve(store, first, second)
    store.remember(fence(new), "key", "0", reply(), usage(cost=0.1, reservations=(first.id,)))
    end = replace(completed(new), usage=(usage(cost=0.1, reservations=(second.id,)),))
    await store.finish(fence(new), end)
    assert await states(store) == [(0.2, 0.0)]


async def test_dropped_reservations_are_free_and_settled_ones_stay(store: Store) -> None:
    settled, mine, dead = (
        new_request(max_output=1),
        new_request(max_output=1),
        new_request(max_output=1, owner="dead"),
    )
    await reserve(store, settled, mine, dead)
    await store.settle(settled.id, 0.05, NOW)
    assert {row.owner for row in await store.open_reservations()} == {"owner", "dead"}
    await store.drop_reservations(owners=["dead"])
    assert await states(store) == [(0.05, 0.1)]
    await store.drop_reservations(ids=[mine.id, settled.id])
    assert await states(store) == [(0.05, 0.0)]
    assert await store.open_reservations() == []


async def test_limits_count_their_own_period_provider_and_job(store: Store) -> None:
    for record in (
        usage(at=NOW - 200, cost=1.0),
        usage(at=NOW, cost=0.5),
        usage(at=NOW, provider="anthropic", cost=0.25),
        usage("other", at=NOW, cost=0.125),
        usage(at=NOW, cost=None),
    ):
        store.record_usage(record)
    limits = [DAY, replace(DAY, provider="openai"), replace(DAY, provider="xai"), replace(JOB, job="other")]
    assert await states(store, *limits) == [(0.875, 0.0), (0.625, 0.0), (0.0, 0.0), (0.125, 0.0)]


async def test_a_limit_may_be_as_large_as_a_number_can_be(store: Store) -> None:
    (grant,) = await store.reserve([new_request(replace(JOB, usd=1.7e308))], NOW)
    assert (grant.tokens, grant.lowered_by) == (5, None)  # type: ignore[union-attr]


async def test_an_open_reservation_counts_in_every_period(store: Store) -> None:
    """Made before midnight, paid after it: the new day must not be promised twice."""
    await reserve(store, new_request())
    assert await states(store, replace(JOB, since=NOW + 50)) == [(0.0, 0.5)]


async def test_all_limits_of_a_request_must_hold(stores: Stores) -> None:
    store = stores.open()
    tight = replace(DAY, usd=0.25)
    (grant,) = await store.reserve([new_request(JOB, tight)], NOW)
    assert (grant.tokens, grant.lowered_by) == (2, 1)  # type: ignore[union-attr]
    (refusal,) = await store.reserve([new_request(JOB, tight)], NOW)
    assert refusal == NotGranted(1, BudgetState(0.0, 0.2), 0.1)


async def test_two_processes_cannot_overspend_together(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    outcomes = await asyncio.gather(
        *(store.reserve([new_request(DAY, max_output=1)], NOW) for _ in range(20) for store in (ours, theirs))
    )
    assert sum(isinstance(outcome, Granted) for (outcome,) in outcomes) == 10
    assert await states(ours, DAY) == [(0.0, 1.0)]
    assert await states(theirs, DAY) == [(0.0, 1.0)]


async def test_a_store_that_no_other_process_shares_refuses_a_shared_limit(store: Store) -> None:
    if store.problem is None:
        assert await reserve(store, new_request(DAY)) == [0.5]
        return
    with pytest.raises(StoreError, match="budget cannot be enforced"):
        await store.reserve([new_request(DAY)], NOW)


async def test_settled_reservations_are_swept_with_the_usage_records(store: Store) -> None:
    old, recent = new_request(max_output=1), new_request(max_output=1)
    await reserve(store, old, recent)
    await store.settle(old.id, 0.1, NOW)
    await store.settle(recent.id, 0.1, time.time())
    await store.sweep()
    assert await states(store) == [(0.1, 0.0)]
