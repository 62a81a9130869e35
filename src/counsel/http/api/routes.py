"""The routes below `/api`. All of them require the token.

A module defines `def routes(engine, settings) -> list[Route]` and is listed here. Its handlers return JSON or raise a
`CounselError`; `answering` makes responses of both, `body` reads the request's body.
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

# Modules with a function `routes(engine, settings)`.
MODULES: tuple[str, ...] = (
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
    listed = [route for module in MODULES for route in import_module(module).routes(engine, settings)]
    return [*listed, Route("/api/{rest:path}", answering(_not_found), methods=_METHODS)]


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Makes a response of a handler's JSON, its own response, or its failure with the matching status."""

    async def endpoint(request: Request) -> Response:
        try:
            _check_query(request)
            result = await handler(request)
        except CounselError as error:
            return _json(error.as_dict(), STATUS.get(error.code, 500))
        except ClientDisconnect:
            return _json(InvalidArgument("The request's body did not arrive.").as_dict(), 400)
        return result if isinstance(result, Response) else _json(result)

    return endpoint


async def failed(_: Request, error: Exception) -> Response:
    """A bug, reported like every other failure; the log has the traceback."""
    return _json(Internal(f"Internal error ({type(error).__name__}).").as_dict(), 500)


def _json(value: object, status: int = 200) -> Response:
    """Not Starlette's: a file's name may contain bytes that are not text."""
    return Response(encode_line(value), status, headers=FRESH, media_type="application/json")


async def body(request: Request) -> dict[str, object]:
    """The JSON object that was sent; reading stops at the size limit."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > LARGEST_BODY:
            raise FileTooLarge(f"The request's body is larger than {LARGEST_BODY:,} bytes.")
    try:
        value = parse(raw or b"{}")
    except Unreadable as error:
        raise InvalidArgument(f"The request's body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidArgument("The request's body must be a JSON object.")
    return value


FRESH = {"cache-control": "no-store"}
LARGEST_BODY = 1024 * 1024
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


async def not_found(request: Request, _: Exception) -> Response:
    """The answer to an unknown path, also outside `/api`."""
    return await answering(_not_found)(request)


async def _not_found(request: Request) -> object:
    raise NotFound(
        f"There is no {request.method} {request.url.path[:100]}.", hint="docs/use/http.md lists the routes."
    )


# ── parameters ────────────────────────────────────────────────────────────

MOST_PARAMETERS = 100
LISTS = frozenset({"agent", "scope"})  # parameters that may be given several times
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch
_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search
_SWITCH = {"1": True, "true": True, "0": False, "false": False, "": False}


def _check_query(request: Request) -> None:
    """For all routes: no control characters, and no single parameter more than once."""
    parameters = request.query_params.multi_items()
    if len(parameters) > MOST_PARAMETERS:
        raise InvalidArgument(f"A request may have at most {MOST_PARAMETERS} parameters.")
    names = [name for name, _ in parameters]
    for name, value in [*parameters, ("the path", request.url.path), *request.path_params.items()]:
        if _CONTROL(f"{name}{value}"):
            raise InvalidArgument(f"{quoted(name)!r} contains a control character.")
        if name not in LISTS and names.count(name) > 1:
            raise InvalidArgument(f"{quoted(name)!r} is given more than once.")


def number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number from the query."""
    text = request.query_params.get(name)
    return default if text is None else whole(name, text, most)


def whole(name: str, text: str, most: int) -> int:
    """ASCII digits only: no sign, no leading zero."""
    if not _NUMBER(text) or int(text) > most:
        raise InvalidArgument(f"{name} must be a whole number from 0 to {most:,}, not {quoted(text)!r}.")
    return int(text)


def switch(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "")
    if text not in _SWITCH:
        raise InvalidArgument(f"{name} must be 1, true, 0 or false, not {quoted(text)!r}.")
    return _SWITCH[text]
