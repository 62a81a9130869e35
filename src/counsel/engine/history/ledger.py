"""A line of the ledger, from which usage and metrics are counted: one for every call to a model, whatever it was for."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

from counsel.engine.consult.routes import Route
from counsel.engine.jobs.model import Job
from counsel.types import Usage

Entry: TypeAlias = tuple[Any, ...]


def entry(job: Job, route: Route, began: float, usage: Usage, *, code: str = "", tool: str = "") -> Entry:
    """`began` by the monotonic clock; `code` of a failure; `tool` where it was not the job's own call."""
    return (
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
    )
