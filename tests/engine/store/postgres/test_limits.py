"""Limits of people, groups and providers, counted across servers."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from counsel.engine.store.limits import LimitRow
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.store.records import (
    BudgetLimit,
    Granted,
    RateLimit,
    ReservationOutcome,
    ReservationRequest,
    TooMany,
)
from counsel.engine.team.people.directory import Directory
from counsel.people import Person
from engine.store.postgres.conftest import Open
from support.stored import new_job

NOW = 1_000_000.0
_numbers = count(1)


def new_request(person: str, *rates: RateLimit, **fields: Any) -> ReservationRequest:
    values: dict[str, Any] = {
        "id": f"reservation-{next(_numbers)}",
        "owner": "owner",
        "job": f"job-{person}",
        "provider": "openai",
        "model": "gpt-5",
        "input_usd": 0.0,
        "usd_per_token": 0.1,
        "min_output": 1,
        "fair_output": 1,
        "max_output": 1,
        "limits": (),
        "person": person,
        "rates": rates,
    }
    return ReservationRequest(**(values | fields))


async def people(store: PostgresStore, **groups: list[str]) -> dict[str, Person]:
    persons = {
        name: (await Directory(store.people).add(name, "member", names)).person
        for name, names in groups.items()
    }
    for person in persons.values():
        job = new_job(id=f"job-{person.id}", conversation=f"c-{person.id}")
        await store.submit(job)
        await store.database.rows(
            "UPDATE counsel.jobs SET person = %s WHERE id = %s RETURNING id", person.id, job.id
        )
    return persons


def grant_count(outcomes: list[ReservationOutcome]) -> int:
    return sum(isinstance(outcome, Granted) for outcome in outcomes)


async def test_rows_are_set_replaced_and_removed(open_store: Open) -> None:
    store, other_server = open_store(), open_store()
    ada = (await people(store, ada=[]))["ada"]
    await store.limits.set(LimitRow("person", ada.id, day=1.5, at_once=2))
    await store.limits.set(LimitRow("provider", "openai", month=100.0))
    await store.limits.set(LimitRow("person", ada.id, per_minute=3))
    assert await other_server.limits.listed() == [
        LimitRow("person", ada.id, per_minute=3, shown="ada"),
        LimitRow("provider", "openai", month=100.0, shown="openai"),
    ]
    await store.limits.set(LimitRow("person", ada.id))
    assert [row.kind for row in await other_server.limits.listed()] == ["provider"]


async def test_simultaneous_calls_are_counted_across_servers(open_store: Open) -> None:
    stores = [open_store() for _ in range(3)]
    ada = (await people(stores[0], ada=[]))["ada"]
    rate = RateLimit("at_once", 4, person=ada.id)
    requests = [new_request(ada.id, rate) for _ in range(30)]
    outcomes = await asyncio.gather(
        *(stores[n % 3].reserve([request], NOW) for n, request in enumerate(requests))
    )
    flat = [outcome for (outcome,) in outcomes]
    assert grant_count(flat) == 4
    refusal = next(outcome for outcome in flat if isinstance(outcome, TooMany))
    assert (refusal.rate, refusal.state.count) == (0, 4)
    finished_call = next(r for r, o in zip(requests, flat, strict=True) if isinstance(o, Granted))
    await stores[0].settle(finished_call.id, 0.0, NOW)
    assert (
        grant_count(await stores[1].reserve([new_request(ada.id, rate), new_request(ada.id, rate)], NOW)) == 1
    )


async def test_calls_of_the_last_minute_are_counted_and_it_is_known_when_the_next_fits(
    open_store: Open,
) -> None:
    store, other_server = open_store(), open_store()
    ada = (await people(store, ada=[]))["ada"]
    rate = RateLimit("minute", 2, person=ada.id)
    assert grant_count(await store.reserve([new_request(ada.id, rate)], NOW)) == 1
    assert grant_count(await other_server.reserve([new_request(ada.id, rate)], NOW + 10)) == 1
    (refusal,) = await store.reserve([new_request(ada.id, rate)], NOW + 20)
    assert isinstance(refusal, TooMany)
    assert (refusal.state.count, refusal.state.frees) == (2, NOW + 60)
    assert grant_count(await store.reserve([new_request(ada.id, rate)], NOW + 60)) == 1
    assert (
        grant_count(
            await store.reserve([new_request(ada.id, RateLimit("minute", 0, person=ada.id))], NOW + 999)
        )
        == 0
    )


async def test_a_group_shares_its_limits_and_others_are_not_concerned(open_store: Open) -> None:
    store = open_store()
    persons = await people(store, ada=["ops"], bob=["ops"], eve=["web"])
    ada, bob, eve = persons["ada"].id, persons["bob"].id, persons["eve"].id
    rate, money = RateLimit("at_once", 2, group="ops"), BudgetLimit(0.3, NOW - 1, group="ops")
    assert grant_count(await store.reserve([new_request(ada, rate, limits=(money,))], NOW)) == 1
    assert grant_count(await store.reserve([new_request(bob, rate, limits=(money,))], NOW)) == 1
    assert grant_count(await store.reserve([new_request(bob, rate, limits=(money,))], NOW)) == 0
    assert (
        grant_count(
            await store.reserve([new_request(bob, limits=(money,)), new_request(bob, limits=(money,))], NOW)
        )
        == 1
    )
    assert (
        grant_count(await store.reserve([new_request(eve, RateLimit("at_once", 1, group="web"))], NOW)) == 1
    )
    (state,) = await store.budget_states([BudgetLimit(1.0, NOW - 1, person=bob)])
    assert round(state.reserved, 6) == 0.2


async def test_a_provider_has_limits_of_its_own(open_store: Open) -> None:
    store = open_store()
    ada = (await people(store, ada=[]))["ada"].id
    rate = RateLimit("at_once", 1, provider="openai")
    assert grant_count(await store.reserve([new_request(ada, rate), new_request(ada, rate)], NOW)) == 1
    assert grant_count(await store.reserve([new_request(ada, provider="anthropic")], NOW)) == 1
