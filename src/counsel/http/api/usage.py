"""`/api/usage`: calls, tokens, cost and times. `/metrics` has the same for Prometheus."""

from __future__ import annotations

import time
from typing import Literal, Protocol, TypeAlias, cast, get_args

from counsel.http.api.endpoint import ApiCall
from counsel.types import Json

By: TypeAlias = Literal["model", "provider", "day", "client"]
GROUPINGS: tuple[By, ...] = get_args(By)
WEEK = 7 * 86400


class UsageRecords(Protocol):
    """An engine with usage records: the real one, not one at the other end of a socket."""

    async def usage(self, since: float, by: By) -> Json: ...


async def usage(call: ApiCall) -> object:
    since = time.time() - call.query["seconds"]
    return await cast(UsageRecords, call.engine).usage(since, call.query["by"])
