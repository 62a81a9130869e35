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
_WAYS: tuple[By, ...] = ("model", "provider", "day")
_WEEK = 7 * 86400


class Ledger(Protocol):
    """An engine that keeps the books: the real one, not one at the other end of a socket."""

    async def usage(self, since: float, by: By) -> Json: ...


def routes(engine: Engine, _settings: Settings) -> list[BaseRoute]:
    ledger = cast(Ledger, engine)

    async def usage(request: Request) -> Any:
        seconds = number(request, "seconds", _WEEK, 100 * 366 * 86400)
        return await ledger.usage(time.time() - seconds, _by(request))

    return [Route("/api/usage", answering(usage))]


def _by(request: Request) -> By:
    given = request.query_params.get("by", "model")
    if given not in _WAYS:
        raise InvalidArgument(f"by must be one of {', '.join(_WAYS)}.")
    return given
