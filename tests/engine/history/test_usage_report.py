"""Durations and costs of calls, from the usage records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.history import prometheus, usage
from counsel.errors import CounselError
from counsel.requests import ChatRequest
from fake import FakeAPI
from support.stored import usage as used


async def ask_and_wait(engine: Engine, sender: Caller, **fields: Any) -> Any:
    job = await engine.submit(ChatRequest(prompt="hello", **fields), sender)
    return await engine.wait(job)


async def test_usage_counts_calls_tokens_cost_errors_and_concurrency(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", gate_after=0, model="gpt-5", times=3)
    tasks = [asyncio.create_task(ask_and_wait(engine, caller(), model="gpt-5")) for _ in range(3)]
    await fake_api.wait_for(count=3)
    fake_api.open_gate("g")
    await asyncio.gather(*tasks)
    fake_api.script(status=401, vendor="anthropic")
    with pytest.raises(CounselError):
        await ask_and_wait(engine, caller(), model="sonnet")
    await engine.store.flush()
    result = await usage.summary(engine.store, time.time() - 60, "provider")
    by_name = {group["provider"]: group for group in result["groups"]}
    assert by_name["openai"]["calls"] == 3
    assert by_name["openai"]["peak_concurrency"] == 3
    assert by_name["openai"]["cost_usd"] > 0
    assert by_name["anthropic"]["errors"] == {"AUTHENTICATION_FAILED": 1}
    assert by_name["anthropic"]["error_rate"] == 1.0
    assert result["total"]["calls"] == 4


async def test_metrics_have_the_format_of_prometheus(engine: Engine, caller: Callable[..., Caller]) -> None:
    await ask_and_wait(engine, caller(), model="gpt-5")
    await engine.store.flush()
    text = await prometheus.text(engine.store, prometheus.Load({("openai", "gpt-5"): 2}, jobs=0))
    assert 'counsel_running_calls{provider="openai",model="gpt-5"} 2' in text
    if engine.store.team is not None:  # each server counts its own calls, of all tests in this process
        assert 'counsel_calls_total{provider="openai",model="gpt-5"} ' in text
        assert 'counsel_call_duration_seconds_count{provider="openai"} ' in text
        return
    assert 'counsel_calls_total{provider="openai",model="gpt-5"} 1' in text
    assert "# TYPE counsel_response_seconds summary" in text
    assert 'counsel_response_seconds_count{provider="openai",model="gpt-5"} 1' in text
    assert 'counsel_response_seconds_sum{provider="openai",model="gpt-5"} ' in text


async def test_running_calls_are_counted_by_provider_and_model(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", times=2)
    tasks = [
        asyncio.create_task(ask_and_wait(engine, caller(), model=model)) for model in ("gpt-5", "gpt-5-mini")
    ]
    await fake_api.wait_for(count=2)
    text = await engine.metrics_text()
    assert 'counsel_running_calls{provider="openai",model="gpt-5"} 1' in text
    assert 'counsel_running_calls{provider="openai",model="gpt-5-mini"} 1' in text
    fake_api.open_gate("g")
    await asyncio.gather(*tasks)
    assert 'counsel_running_calls{provider="openai",model="gpt-5"} 0' in await engine.metrics_text()


async def test_an_empty_ledger_is_read_as_well(engine: Engine) -> None:
    text = await engine.metrics_text()
    assert text.endswith("\n")


async def test_a_series_has_one_value_for_each_part_of_the_period(engine: Engine) -> None:
    for record in (
        used("a", at=1000.0, project="/p", ms=100, cost=0.5),
        used("a", at=1009.9, project="/p", ms=300, cost=None),
        used("b", at=1010.0, project="/q", code="TIMEOUT", cost=None, output=0),
        used("a", at=1019.9, project="/p", ms=50, cost=0.25),
        used("a", at=999.0, project="/p"),
        used("a", at=1020.0, project="/p"),
    ):
        await engine.store.record_usage(record)
    series: Any = await engine.usage_series(1000.0, 1020.0, "project", 2)
    assert {name: value for name, value in series.items() if name != "groups"} == {
        "since": 1000.0,
        "until": 1020.0,
        "step": 10.0,
        "by": "project",
    }
    first, second = series["groups"]
    assert first == {
        "name": "/p",
        "calls": [2, 1],
        "errors": [0, 0],
        "cost_usd": [0.5, 0.25],
        "input_tokens": [20, 10],
        "output_tokens": [40, 20],
        "latency_ms": [100, 50],
    }
    assert (second["name"], second["calls"], second["errors"], second["latency_ms"]) == (
        "/q",
        [0, 1],
        [0, 1],
        [None, None],
    )


async def test_a_series_has_few_groups_however_many_there_are(engine: Engine) -> None:
    for number in range(60):
        engine.store.record_usage(used(f"job{number}", at=10.0, project=f"/{number}"))
    await engine.store.flush()
    series: Any = await engine.usage_series(0.0, 20.0, "project", 1)
    assert len(series["groups"]) == 51
    assert (series["groups"][-1]["name"], series["groups"][-1]["calls"]) == (None, [10])


@pytest.fixture
def in_the_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Five hours ahead."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "EAST-5")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_the_east")
async def test_days_are_those_of_this_zone_only_where_people_read_them(engine: Engine) -> None:
    engine.store.record_usage(used("a", at=20 * 3600.0))
    await engine.store.flush()
    for local, day in ((False, "1970-01-01"), (True, "1970-01-02")):
        report = await engine.archive.usage(0.0, "day", local=local)
        assert [group["day"] for group in report["groups"]] == [day]
    assert await engine.archive.usage(0.0, "day") == await engine.archive.usage(0.0, "day", local=False)


def test_sums_of_calls() -> None:
    calls = [
        used("a", at=10.0, ms=1000, cost=0.5),
        used("a", at=10.5, ms=3000, cost=None),
        used("b", at=20.0, ms=9000, code="TIMEOUT", cost=None, output=0),
        used("b", at=30.0, ms=2000, cost=0.25, input=0, output=0),
        used("b", at=31.0, ms=500, code="TIMEOUT", cost=0.125),
    ]
    total: Any = usage._sum(calls)
    assert (total["calls"], total["errors"], total["error_rate"]) == (5, {"TIMEOUT": 2}, 0.4)
    assert total["cost_usd"] == 0.875
    assert (total["calls_without_price"], total["calls_without_usage"]) == (1, 1)
    assert total["response_ms"] == {"p50": 2000, "p95": 3000, "max": 3000}
    assert total["peak_concurrency"] == 2
    for name, field in (("input_tokens", "input"), ("output_tokens", "output"), ("reasoning_tokens", "reasoning"),
                        ("cache_read_tokens", "cache_read"), ("cache_write_tokens", "cache_write")):  # fmt: skip
        assert total[name] == sum(getattr(call, field) for call in calls)
    nothing: Any = usage._sum([])
    assert (nothing["calls"], nothing["error_rate"], nothing["cost_usd"], nothing["peak_concurrency"]) == (
        0,
        0.0,
        0,
        0,
    )
    assert nothing["response_ms"] == {"p50": None, "p95": None, "max": None}


@pytest.mark.parametrize(
    ("times", "share", "value"),
    [([], 0.5, None), ([7], 0.5, 7), ([7], 0.95, 7), ([1, 2], 0.5, 1), ([1, 2, 3], 0.5, 2), ([1, 2, 3, 4], 0.95, 4),
     (list(range(1, 101)), 0.95, 95), (list(range(1, 101)), 0.5, 50)],
)  # fmt: skip
def test_quantiles_are_values_that_occurred(times: list[int], share: float, value: int | None) -> None:
    assert usage._quantile(times, share) == value
