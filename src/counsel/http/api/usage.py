"""`/api/usage`: calls, tokens, cost and times. `/metrics` serves the same numbers to Prometheus."""

from __future__ import annotations

import time
from typing import Protocol, cast, get_args

from counsel.engine.history.documents import BudgetReport, By, UsageSeries, UsageSummary
from counsel.http.api.endpoint import ApiCall
from counsel.settings import Settings

GROUPINGS: tuple[By, ...] = get_args(By)
SERIES: tuple[By, ...] = ("provider", "model", "project", "client", "tool")
WEEK = 7 * 86400
BUCKETS = 60
MOST_BUCKETS = 500


class UsageRecords(Protocol):
    """An engine with direct access to the usage records, not a client of one over a socket."""

    async def usage(self, since: float, by: By) -> UsageSummary: ...

    async def budget_report(self, settings: Settings) -> list[BudgetReport]: ...

    async def usage_series(self, since: float, until: float, by: By, buckets: int) -> UsageSeries: ...


async def usage(call: ApiCall) -> object:
    since = time.time() - call.query["seconds"]
    records = cast(UsageRecords, call.engine)
    report = await records.usage(since, call.query["by"])
    return {**report, "budgets": await records.budget_report(call.settings)}


async def series(call: ApiCall) -> object:
    until = time.time()
    since = until - max(1, call.query["seconds"])
    buckets = max(1, call.query["buckets"])
    return await cast(UsageRecords, call.engine).usage_series(since, until, call.query["by"], buckets)
