"""Usage records and cached answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counsel.engine.store.protocol import Store
from support.stored import reply, usage


async def test_usage_since_a_moment_is_read_as_it_was_recorded(store: Store) -> None:
    old, failed_call, new = (
        usage(at=100.0),
        usage(at=200.0, code="TIMEOUT", cost=None),
        usage(at=300.0, model="gpt-6"),
    )
    for record in (new, old, failed_call):
        store.record_usage(record)
    await store.flush()
    assert sorted(await store.usage(0), key=lambda record: record.at) == [old, failed_call, new]
    assert sorted(await store.usage(200.0), key=lambda record: record.at) == [failed_call, new]
    assert await store.usage(301.0) == []


async def test_usage_has_the_folder_of_its_job(store: Store) -> None:
    first, second, unknown = usage("a", project="/p"), usage("b", project="/q"), usage("c", project="")
    for record in (first, second, unknown, usage("a", project="/p")):
        await store.record_usage(record)
    assert sorted((record.job, record.project) for record in await store.usage(0)) == [
        ("a", "/p"),
        ("a", "/p"),
        ("b", "/q"),
        ("c", ""),
    ]


async def test_totals_are_the_sums_of_each_model(store: Store) -> None:
    assert await store.usage_totals() == []
    for record in (
        usage(),
        usage(code="TIMEOUT", cost=None, output=0, ms=500),
        usage(code="TIMEOUT", cost=None, output=0, ms=0),
        usage(provider="anthropic", model="sonnet", cost=None),
    ):
        await store.record_usage(record)
    totals = {(total.provider, total.model): total for total in await store.usage_totals()}
    assert totals.keys() == {("openai", "gpt-5"), ("anthropic", "sonnet")}
    gpt = totals["openai", "gpt-5"]
    assert (gpt.calls, gpt.input, gpt.output, gpt.cost, gpt.seconds) == (3, 30, 20, 0.25, 2.0)
    assert gpt.errors == {"TIMEOUT": 2}
    assert (totals["anthropic", "sonnet"].cost, totals["anthropic", "sonnet"].errors) == (0, {})


async def test_a_cached_answer_is_there_until_it_expires(
    store: Store, later: Callable[[float], None]
) -> None:
    assert await store.cached_answer("key") is None
    await store.cache_answer("key", reply(), expires=_in(60))
    assert await store.cached_answer("key") == reply()
    later(61)
    assert await store.cached_answer("key") is None


async def test_a_newer_answer_replaces_a_cached_one(store: Store) -> None:
    await store.cache_answer("key", reply("old"), expires=_in(-1))
    await store.cache_answer("key", reply("new"), expires=_in(60))
    answer = await store.cached_answer("key")
    assert answer is not None
    assert answer.text == "new"


def _in(seconds: float) -> float:
    import time

    return time.time() + seconds


@pytest.mark.parametrize("count", [0, 700])
async def test_many_records_are_all_read(store: Store, count: int) -> None:
    for number in range(count):
        store.record_usage(usage(at=float(number)))
    await store.flush()
    assert len(await store.usage(0)) == count
