"""The HTTP routes that the rooms add to `counsel serve`, beside `/mcp`. All of them stand behind the token.

A room writes `def routes(engine, settings) -> list[Route]` in a module of its own and adds that module here. Its
handlers give JSON or raise a `CounselError`; `answering` makes responses of both, `body` reads what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from counsel.errors import CounselError, FileTooLarge, Internal, InvalidArgument, NotFound
from counsel.front.json_messages import Unreadable, parse, quoted
from counsel.requests import Engine
from counsel.settings import Settings
from counsel.strict_json import encode_line
from counsel.types import Json

# Modules with a function `routes(engine, settings)`.
ROOMS: tuple[str, ...] = (
    "counsel.http.api.jobs",
    "counsel.http.api.models",
    "counsel.http.api.usage",
    "counsel.http.api.servers",
    "counsel.http.api.skills",
    "counsel.http.api.images",
)
STATUS = {
    "INVALID_ARGUMENT": 400,
    "AUTHENTICATION_FAILED": 401,
    "FILE_NOT_ALLOWED": 403,
    "NOT_FOUND": 404,
    "MODEL_NOT_FOUND": 404,
    "CONFLICT": 409,
    "FILE_TOO_LARGE": 413,
    "CONFIG_INVALID": 422,
    "RATE_LIMIT_EXCEEDED": 429,
    "UPSTREAM_ERROR": 502,
    "PROVIDER_UNAVAILABLE": 503,
    "AGENT_UNAVAILABLE": 503,
    "OUT_OF_RESOURCES": 503,
    "TIMEOUT": 504,
}

Handler = Callable[[Request], Awaitable[Any]]


def routes(engine: Engine, settings: Settings) -> list[BaseRoute]:
    found = [route for room in ROOMS for route in import_module(room).routes(engine, settings)]
    return [*found, Route("/api/{rest:path}", answering(_nowhere), methods=_METHODS)]


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler's JSON, its own response, or its failure with the status that fits."""

    async def endpoint(request: Request) -> Response:
        try:
            _check_query(request)
            shown = await handler(request)
        except CounselError as error:
            return _json(error.as_dict(), STATUS.get(error.code, 500))
        except ClientDisconnect:
            return _json(InvalidArgument("The request's body did not arrive.").as_dict(), 400)
        return shown if isinstance(shown, Response) else _json(shown)

    return endpoint


async def failed(_: Request, error: Exception) -> Response:
    """A defect, in the words of every other failure; the log has the rest."""
    return _json(Internal(f"counsel failed inside ({type(error).__name__}).").as_dict(), 500)


def _json(value: Any, status: int = 200) -> Response:
    """Not Starlette's: a file's name may hold bytes that are no text."""
    return Response(encode_line(value), status, headers=FRESH, media_type="application/json")


async def body(request: Request) -> Json:
    """The JSON object that was sent, no more of it read than it may be long."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > LARGEST_BODY:
            raise FileTooLarge(f"The request's body is larger than {LARGEST_BODY:,} bytes.")
    try:
        given = parse(raw or b"{}")
    except Unreadable as error:
        raise InvalidArgument(f"The request's body is not JSON: {error}.") from None
    if not isinstance(given, dict):
        raise InvalidArgument("The request's body must be a JSON object.")
    return given


FRESH = {"cache-control": "no-store"}
LARGEST_BODY = 1024 * 1024
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


async def nowhere(request: Request, _: Exception) -> Response:
    """What no route knows, beside `/api` as well."""
    return await answering(_nowhere)(request)


async def _nowhere(request: Request) -> Any:
    raise NotFound(
        f"There is no {request.method} {request.url.path[:100]}.",
        hint="docs/use/http.md lists what there is.",
    )


# ── what stands in an address or a header ────────────────────────────────────────────────────────────

MOST_PARAMETERS = 100
LISTS = frozenset({"agent", "scope"})  # parameters that may be given several times
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch
_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search
_SWITCH = {"1": True, "true": True, "0": False, "false": False, "": False}


def _check_query(request: Request) -> None:
    """For all routes: no control characters, nothing given twice that can be given once."""
    given = request.query_params.multi_items()
    if len(given) > MOST_PARAMETERS:
        raise InvalidArgument(f"An address may have at most {MOST_PARAMETERS} parameters.")
    names = [name for name, _ in given]
    for name, value in [*given, ("the path", request.url.path), *request.path_params.items()]:
        if _CONTROL(f"{name}{value}"):
            raise InvalidArgument(f"{quoted(name)!r} holds a control character.")
        if name not in LISTS and names.count(name) > 1:
            raise InvalidArgument(f"{quoted(name)!r} is given more than once.")


def number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number from the query."""
    given = request.query_params.get(name)
    return default if given is None else whole(name, given, most)


def whole(name: str, given: str, most: int) -> int:
    """Digits as everybody writes them: no sign, no leading zero, no other script's."""
    if not _NUMBER(given) or int(given) > most:
        raise InvalidArgument(f"{name} must be a whole number from 0 to {most:,}, not {quoted(given)!r}.")
    return int(given)


def switch(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "")
    if given not in _SWITCH:
        raise InvalidArgument(f"{name} must be 1, true, 0 or false, not {quoted(given)!r}.")
    return _SWITCH[given]
