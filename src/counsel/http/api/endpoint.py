"""One route of the API: its parameters, its body, its handler and its answers.

A handler gets an `ApiCall`, whose parameters and body are checked, and returns JSON, a `Reply` or a response of its
own, or raises a `CounselError`. All routes are rows of `routes.ROUTES`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from counsel.caller import Caller
from counsel.engine.store.records import StoreError
from counsel.errors import (
    CounselError,
    FileTooLarge,
    Internal,
    InvalidArgument,
    NotFound,
    NotPermitted,
    OutOfResources,
    RateLimited,
)
from counsel.front.json_messages import Unreadable, parse, quoted
from counsel.http import person as sender
from counsel.http.auth import V1, failure
from counsel.http.compression import compressed
from counsel.http.envelope import Bodies, RefusedRequest
from counsel.http.v1 import errors as v1_errors
from counsel.lazy_dataclass import dataclass
from counsel.mcp.identity import ClientIdentity
from counsel.models.embedded_process import EmbeddedModel
from counsel.people import Person
from counsel.requests import Engine
from counsel.settings import Settings
from counsel.strict_json import encode_line

LARGEST_BODY = 1024 * 1024
FRESH = {"cache-control": "no-store"}
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
CLIENT = "http"  # the caller's name in jobs and usage records

# AUTHENTICATION_FAILED (the provider refused its key) is not 401: that would mean that this API's token is wrong.
STATUS = {
    "INVALID_ARGUMENT": 400,
    "BUDGET_EXCEEDED": 402,  # not 429, which clients retry by themselves
    "FILE_NOT_ALLOWED": 403,
    "NOT_PERMITTED": 403,
    "NOT_FOUND": 404,
    "MODEL_NOT_FOUND": 404,
    "CONFLICT": 409,
    "CANCELLED": 409,
    "SELF_CONSULTATION": 409,
    "FILE_TOO_LARGE": 413,
    "CONTEXT_LENGTH_EXCEEDED": 413,
    "CONFIG_INVALID": 422,
    "RATE_LIMIT_EXCEEDED": 429,
    "AUTHENTICATION_FAILED": 502,
    "CONTENT_FILTERED": 502,
    "EMPTY_ANSWER": 502,
    "UPSTREAM_ERROR": 502,
    "PROVIDER_UNAVAILABLE": 503,
    "AGENT_UNAVAILABLE": 503,
    "OUT_OF_RESOURCES": 503,
    "TIMEOUT": 504,
}


# ── rows of the table ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query. Its schema has a `type`: integer, boolean, string or array (of strings)."""

    name: str
    description: str
    schema: Mapping[str, Any]
    default: object = None


@dataclass(frozen=True, slots=True)
class Binary:
    """A body or an answer that is not JSON."""

    media_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Empty:
    """An answer without a body."""


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events: the type of `data` by the event's name. Empty: a job's events."""

    data_types: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Several types, or several named JSON Schemas."""

    shapes: tuple[object, ...] | dict[str, Any]


Shape: TypeAlias = object  # a TypedDict, a dataclass or another type whose JSON Schema `json_schema.py` knows
# On a team's server: open to everyone on the team, to admins only, or refused to all, since it is about the machine
# itself.
TeamUse: TypeAlias = Literal["person", "admin", "refused"]
Handler: TypeAlias = "Callable[[ApiCall], Awaitable[object]]"


@dataclass(frozen=True, slots=True)
class ApiRoute:
    method: str
    path: str
    handler: Handler
    summary: str
    query: tuple[Parameter, ...] = ()
    body: Shape | Binary | None = None
    headers: tuple[Parameter, ...] = ()  # the handler reads them
    answers: Mapping[int, Shape | Events | Binary] = field(default_factory=dict)  # by status
    largest: int = LARGEST_BODY  # bytes of the body
    team: TeamUse = "refused"  # who may use the route on a team's server


# ── one request ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Context:
    """What all requests share."""

    engine: Engine
    identity: ClientIdentity
    embedded: EmbeddedModel
    bodies: Bodies = field(default_factory=Bodies)
    # Idempotency keys are looked up one at a time.
    key_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # At most one task each: resumes the embedded model's interrupted jobs; stops the model with the server.
    resume_tasks: list[asyncio.Future[None]] = field(default_factory=list)
    end_tasks: list[asyncio.Future[None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ApiCall:
    request: Request
    context: Context
    query: Mapping[str, Any]
    body: dict[str, object]

    @property
    def engine(self) -> Engine:
        """The engine, as the sender of the request may use it."""
        return sender.engine_of(self.context.engine, self.request.scope)

    @property
    def person(self) -> Person | None:
        """The member of the team who sent the request; None: the server belongs to one person."""
        return sender.person_of(self.request.scope)

    @property
    def settings(self) -> Settings:
        return self.context.identity.settings

    @property
    def name(self) -> str:
        """The id or name in the path."""
        return str(next(iter(self.request.path_params.values())))

    def caller(self, project: str | None = None) -> Caller:
        """The caller, whose folder is `project` or the one in which the server was started."""
        caller = sender.identity_of(self.context.identity, self.request.scope).caller(CLIENT)
        if project and self.person:
            raise NotPermitted(
                "`project` names a folder of the server's machine, which a team cannot use.",
                hint="Leave it out. Send files with POST /api/files.",
            )
        return replace(caller, cwd=folder(project)) if project else caller


@dataclass(frozen=True, slots=True)
class Reply:
    """JSON with a status of its own."""

    content: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def folder(name: str) -> Path:
    path = Path(name)
    if not path.is_absolute() or not path.is_dir():
        raise InvalidArgument("project must be the absolute path of a folder on this machine.")
    return path


def starlette_route(row: ApiRoute, context: Context) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            _check_team(row, request, context)
            call = ApiCall(request, context, _query(row, request), await _body(row, request, context.bodies))
            result = await row.handler(call)
        except CounselError as error:
            return failed_with(error)
        except ClientDisconnect:
            return failed_with(InvalidArgument("The request's body did not arrive."))
        if isinstance(result, Response):
            return result
        answer = respond(*_parts(result)) if isinstance(result, Reply) else respond(result)
        return compressed(request, answer)

    return Route(row.path, endpoint, methods=[row.method])


def _check_team(row: ApiRoute, request: Request, context: Context) -> None:
    person = sender.person_of(request.scope)
    if person is None or row.team == "person" or (row.team == "admin" and person.is_admin):
        return
    sender.note(context.engine, request.scope, "refused", f"{request.method} {request.url.path[:200]}")
    if row.team == "refused":
        raise NotPermitted(
            f"{row.path} is about the server's own machine, so a team's server does not offer it.",
            hint="Use `counsel` on your own machine. Whoever runs the server changes its settings there.",
        )
    sender.check_admin(request.scope)


def _parts(reply: Reply) -> tuple[object, int, Mapping[str, str]]:
    return reply.content, reply.status, reply.headers


def respond(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode JSON without Starlette's encoder, which fails on file names that are not valid UTF-8."""
    return Response(
        encode_line(value), status, headers={**FRESH, **(headers or {})}, media_type="application/json"
    )


def failed_with(error: CounselError, status: int | None = None) -> Response:
    code = status or (503 if isinstance(error, StoreError) else STATUS.get(error.code, 500))
    wait = error.retry_after if isinstance(error, RateLimited) else None
    return respond(failure(error, code), code, {"retry-after": f"{wait:.0f}"} if wait else None)


# ── answers to requests without a route ──────────────────────────────────────────────────────────────


async def not_found(request: Request, _: Exception | None = None) -> Response:
    """The answer to an unknown path, also outside `/api`."""
    try:
        _check_characters(request)
    except CounselError as error:
        return failed_with(error)
    message = f"There is no {request.method} {request.url.path[:100]}."
    return failed_with(NotFound(message, hint="docs/use/http.md lists the routes."))


async def not_allowed(request: Request, error: Exception) -> Response:
    message = f"{request.url.path[:100]} does not accept {request.method}."
    response = failed_with(InvalidArgument(message, hint="docs/use/http.md lists the routes."), 405)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def failed(request: Request, error: Exception) -> Response:
    """A bug, reported like every other failure; the log contains the traceback."""
    internal = Internal(f"Internal error ({type(error).__name__}).")
    path = request.url.path
    if not path.startswith(V1):
        return failed_with(internal)
    names = [name.lower().encode() for name in request.headers]
    extra_headers = {name.decode(): value.decode() for name, value in v1_errors.headers(internal)}
    document = v1_errors.of_path(path, internal, headers=names)
    return respond(document, v1_errors.status_of(internal), extra_headers)


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────────


async def _body(row: ApiRoute, request: Request, bodies: Bodies) -> dict[str, object]:
    """Read the body's JSON object; reading stops at the size limit."""
    if row.body is None or isinstance(row.body, Binary):
        return {}
    try:
        raw = await bodies.raw(request.receive, row.largest)
    except RefusedRequest as error:
        raise body_error(error, row.largest) from None
    try:
        value = parse(raw or b"{}")
    except Unreadable as error:
        raise InvalidArgument(f"The request's body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidArgument("The request's body must be a JSON object.")
    return value


def body_error(error: RefusedRequest, limit: int) -> CounselError:
    if error.status == 413:
        return FileTooLarge(f"The request's body is larger than {limit:,} bytes.")
    if error.status == 503:
        return OutOfResources(f"{error}.", hint="Try again in a moment.")
    return InvalidArgument("The request's body did not arrive.")


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────

MOST_PARAMETERS = 100
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch
_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search
_SWITCH = {"1": True, "true": True, "0": False, "false": False, "": False}


def number(name: str, default: int, most: int, description: str) -> Parameter:
    return Parameter(name, description, {"type": "integer", "minimum": 0, "maximum": most}, default)


def switch(name: str, description: str) -> Parameter:
    return Parameter(name, description, {"type": "boolean"}, default=False)


def text(name: str, description: str) -> Parameter:
    return Parameter(name, description, {"type": "string"})


def choice(name: str, values: Sequence[str], default: str | None, description: str) -> Parameter:
    return Parameter(name, description, {"type": "string", "enum": list(values)}, default)


def names(name: str, description: str) -> Parameter:
    """`?agent=a,b&agent=c` is a, b and c."""
    return Parameter(name, description, {"type": "array", "items": {"type": "string"}}, ())


PROJECT = text("project", "A project's folder. Default: where the server was started.")


def _query(row: ApiRoute, request: Request) -> dict[str, object]:
    """Parse the query. Raises `InvalidArgument` for unknown, repeated or invalid parameters, and control characters."""
    pairs = _check_characters(request)
    parameters = {parameter.name: parameter for parameter in row.query}
    query_names = [name for name, _ in pairs]
    for name in query_names:
        if name not in parameters:
            suggestions = get_close_matches(name[:60], parameters, 1)
            hint = (
                f"Did you mean {suggestions[0]}?"
                if suggestions
                else f"Parameters: {', '.join(parameters) or 'none'}."
            )
            raise InvalidArgument(f"Unknown parameter {quoted(name)!r}.", hint=hint)
        if query_names.count(name) > 1 and parameters[name].schema["type"] != "array":
            raise InvalidArgument(f"{quoted(name)!r} is given more than once.")
    return {name: _value(parameter, request) for name, parameter in parameters.items()}


def _check_characters(request: Request) -> list[tuple[str, str]]:
    pairs = request.query_params.multi_items()
    if len(pairs) > MOST_PARAMETERS:
        raise InvalidArgument(f"A request may have at most {MOST_PARAMETERS} parameters.")
    for name, value in [*pairs, ("the path", request.url.path), *request.path_params.items()]:
        if _CONTROL(f"{name}{value}"):
            raise InvalidArgument(f"{quoted(name)!r} contains a control character.")
    return pairs


def _value(parameter: Parameter, request: Request) -> object:
    name, schema = parameter.name, parameter.schema
    values = request.query_params.getlist(name)
    if not values:
        return parameter.default
    return _READERS[schema["type"]](name, values, schema)


def whole_number(name: str, value: str, most: int) -> int:
    """ASCII digits only: no sign, no leading zero."""
    if not _NUMBER(value) or int(value) > most:
        raise InvalidArgument(f"{name} must be a whole number from 0 to {most:,}, not {quoted(value)!r}.")
    return int(value)


def _switch(name: str, values: list[str], _: object) -> bool:
    if values[0].lower() not in _SWITCH:
        raise InvalidArgument(f"{name} must be 1, true, 0 or false, not {quoted(values[0])!r}.")
    return _SWITCH[values[0].lower()]


def _text(name: str, values: list[str], schema: Mapping[str, Any]) -> str | None:
    if "enum" in schema and values[0] not in schema["enum"]:
        raise InvalidArgument(
            f"{name} must be one of {', '.join(schema['enum'])}, not {quoted(values[0])!r}."
        )
    return values[0] or None


def _list(_: str, values: list[str], __: object) -> list[str]:
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


_READERS: Final[dict[str, Callable[[str, list[str], Mapping[str, Any]], object]]] = {
    "integer": lambda name, values, schema: whole_number(name, values[0], schema["maximum"]),
    "boolean": _switch,
    "string": _text,
    "array": _list,
}
