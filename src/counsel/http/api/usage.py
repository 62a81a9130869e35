"""`/api/usage`: calls, tokens, cost and times. `/metrics` has the same for Prometheus."""

from __future__ import annotations

import time
from typing import Any, Literal, Protocol, TypeAlias, cast

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from counsel.errors import InvalidArgument
from counsel.http.api.routes import answering, number
from counsel.requests import Engine
from counsel.settings import Settings
from counsel.types import Json

By: TypeAlias = Literal["model", "provider", "day"]
_GROUPINGS: tuple[By, ...] = ("model", "provider", "day")
_WEEK = 7 * 86400


class UsageRecords(Protocol):
    """An engine with usage records: the real one, not one at the other end of a socket."""

    async def usage(self, since: float, by: By) -> Json: ...


def routes(engine: Engine, _settings: Settings) -> list[BaseRoute]:
    records = cast(UsageRecords, engine)

    async def usage(request: Request) -> Any:
        seconds = number(request, "seconds", _WEEK, 100 * 366 * 86400)
        return await records.usage(time.time() - seconds, _by(request))

    return [Route("/api/usage", answering(usage))]


def _by(request: Request) -> By:
    by = request.query_params.get("by", "model")
    if by not in _GROUPINGS:
        raise InvalidArgument(f"by must be one of {', '.join(_GROUPINGS)}.")
    return by
