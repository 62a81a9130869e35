"""Usage records, one for every call to a model, and their sums for `counsel usage`."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from counsel import amounts
from counsel.engine import results
from counsel.engine.history.call_metrics import METRICS
from counsel.engine.history.documents import (
    By,
    UsageGroup,
    UsageSeries,
    UsageSeriesGroup,
    UsageSum,
    UsageSummary,
)
from counsel.engine.store.records import UsageRecord
from counsel.types import Usage

if TYPE_CHECKING:  # importing `routes` takes four times as long as the rest of `counsel usage`
    from counsel.engine.consult.routes import Route
    from counsel.engine.jobs.model import Job
    from counsel.engine.store.protocol import Store

_GROUPS: dict[By, Callable[[UsageRecord], str]] = {
    "model": lambda call: amounts.model(call.provider, call.model),
    "provider": lambda call: call.provider,
    "client": lambda call: call.client,
    "project": lambda call: call.project,
    "tool": lambda call: call.tool,
    "day": lambda call: datetime.fromtimestamp(call.at, UTC).strftime("%Y-%m-%d"),
}


def _local_day(call: UsageRecord) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(call.at))


def record(
    job: Job,
    route: Route,
    began: float,
    usage: Usage,
    *,
    code: str = "",
    tool: str = "",
    reservations: tuple[str, ...] = (),
) -> UsageRecord:
    """The record of a call. `began` is by the monotonic clock; `code` is a failure's; `tool` if it is not the job's."""
    call = UsageRecord(
        time.time(),
        job.id,
        tool or job.tool,
        route.provider,
        route.name,
        job.caller.client,
        round((time.monotonic() - began) * 1000),
        code,
        usage.input,
        usage.output,
        usage.reasoning,
        usage.cache_read,
        usage.cache_write,
        usage.cost_usd,
        job.task.project or str(job.caller.cwd),
        reservations,
    )
    METRICS.called(call, job.caller.person.name if job.caller.person else None)
    return call


async def summary(store: Store, since: float, by: By, *, local: bool = False) -> UsageSummary:
    """Calls, failures, tokens, cost and response times since then, by group. `local`: days in this machine's zone."""
    calls = await store.usage(since)
    group = _local_day if by == "day" and local else _GROUPS[by]
    groups: dict[str, list[UsageRecord]] = {}
    for call in calls:
        groups.setdefault(group(call), []).append(call)
    return {
        "since": results.iso(since),
        "by": by,
        "groups": [cast("UsageGroup", {by: name, **_sum(groups[name])}) for name in sorted(groups)],
        "total": _sum(calls),
    }


MOST_GROUPS = 50  # groups in a series; the others are one group without a name


async def series(store: Store, since: float, until: float, by: By, buckets: int) -> UsageSeries:
    """`summary` over time: for each group, one value for each step of the period. Times are seconds since 1970."""
    calls = [call for call in await store.usage(since) if call.at < until]
    step = (until - since) / buckets
    by_group: dict[str, list[UsageRecord]] = {}
    for call in calls:
        by_group.setdefault(_GROUPS[by](call), []).append(call)
    largest = sorted(by_group, key=lambda name: (-len(by_group[name]), name))
    rest = [call for name in largest[MOST_GROUPS:] for call in by_group[name]]
    groups = [_over_time(name, by_group[name], since, step, buckets) for name in largest[:MOST_GROUPS]]
    if rest:
        groups.append(_over_time(None, rest, since, step, buckets))
    return {"since": since, "until": until, "step": step, "by": by, "groups": groups}


def _over_time(
    name: str | None, calls: Sequence[UsageRecord], since: float, step: float, buckets: int
) -> UsageSeriesGroup:
    parts: list[list[UsageRecord]] = [[] for _ in range(buckets)]
    for call in calls:
        parts[min(buckets - 1, max(0, int((call.at - since) / step)))].append(call)
    return {
        "name": name,
        "calls": [len(part) for part in parts],
        "errors": [sum(bool(call.code) for call in part) for part in parts],
        "cost_usd": [round(sum(call.cost or 0.0 for call in part), 6) for part in parts],
        "input_tokens": [sum(call.input for call in part) for part in parts],
        "output_tokens": [sum(call.output for call in part) for part in parts],
        "latency_ms": [_quantile(sorted(call.ms for call in part if not call.code), 0.5) for part in parts],
    }


def _sum(calls: Sequence[UsageRecord]) -> UsageSum:
    errors = Counter(call.code for call in calls if call.code)
    costs = [call.cost for call in calls if call.cost is not None]
    successes = [call for call in calls if not call.code]
    times = sorted(call.ms for call in successes)
    return {
        "calls": len(calls),
        "errors": dict(errors),
        "error_rate": round(errors.total() / len(calls), 4) if calls else 0.0,
        "input_tokens": sum(call.input for call in calls),
        "output_tokens": sum(call.output for call in calls),
        "reasoning_tokens": sum(call.reasoning for call in calls),
        "cache_read_tokens": sum(call.cache_read for call in calls),
        "cache_write_tokens": sum(call.cache_write for call in calls),
        "cost_usd": round(sum(costs), 6),
        "calls_without_price": sum(call.cost is None for call in successes),
        "calls_without_usage": sum(not call.input and not call.output for call in successes),
        "response_ms": {
            "p50": _quantile(times, 0.5),
            "p95": _quantile(times, 0.95),
            "max": times[-1] if times else None,
        },
        "peak_concurrency": _peak(calls),
    }


def _peak(calls: Sequence[UsageRecord]) -> int:
    """The largest number of calls in progress at the same time."""
    steps = sorted([(call.at - call.ms / 1000, 1) for call in calls] + [(call.at, -1) for call in calls])
    return max(itertools.accumulate(step for _, step in steps), default=0)


def _quantile(values: list[int], share: float) -> int | None:
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else None
