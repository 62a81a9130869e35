"""`POST /api/jobs`: a question to one model or to several, answered at once, later, or as a stream of events."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Protocol, TypeAlias, cast

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from counsel.argument_schema import Checker, Schema
from counsel.caller import Caller
from counsel.engine.consult.review import source
from counsel.engine.context import uploads
from counsel.errors import Conflict, CounselError, InvalidArgument
from counsel.http.api import embedded_model, files, job_stream
from counsel.http.api.endpoint import ApiCall, Parameter, Reply
from counsel.http.api.event_cursor import Cursor
from counsel.http.auth import Receive
from counsel.mcp.tools import chat, consensus
from counsel.models import panels
from counsel.request_rules import RULES
from counsel.requests import ChatRequest, ConsensusRequest, Request, ReviewRequest, chain
from counsel.results import Result
from counsel.strict_json import encode

MODES = ("sync", "background", "stream")
LONGEST_KEY = 255  # characters of an idempotency key
_INTERNAL = frozenset({"tool", "session", "session_tag"})

IDEMPOTENCY = Parameter(
    "Idempotency-Key",
    "The same key with the same body gives the same job, even after a lost connection: nothing is asked twice.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
)
_DESCRIPTIONS: dict[str, Schema] = {
    "system": {**RULES["system"], "description": "A system prompt that replaces counsel's own."},
    "check_models": {
        **RULES["check_models"],
        "default": False,
        "description": "Refuse the question, before any model is asked, if one of the models is unknown or cannot be "
        "asked; the error's field `failed` says which and why. Default: ask the others.",
    },
    "schema": {
        **RULES["schema"],
        "description": "A JSON Schema that the answer must match; the answer is checked.",
    },
}
_EXTRA: dict[str, Schema] = {
    "tools": {**RULES["tools"], "description": "MCP servers of the user's agents that the model may use."},
    "mode": {
        "type": "string",
        "enum": MODES,
        "default": "sync",
        "description": "sync: the answer. background: the job, at once. stream: the job's events, as they happen. "
        "Default: stream if the request accepts text/event-stream, else sync.",
    },
    "project": {
        "type": "string",
        "description": "The folder that the question is about: an absolute path on the server's machine. "
        "Default: where the server was started.",
    },
}


def _schema(kind: type, tool_properties: Mapping[str, Schema], required: tuple[str, ...]) -> Schema:
    """All arguments of the engine, with the same rules as in MCP."""
    names = [row.name for row in fields(kind) if row.name in RULES and row.name not in _INTERNAL]
    schemas = {
        **consensus.TOOL.properties,
        **chat.TOOL.properties,
        **tool_properties,
        **_DESCRIPTIONS,
        **_EXTRA,
    }
    properties = {name: schemas.get(name, RULES[name]) for name in names}
    extra = {name: schema for name, schema in _EXTRA.items() if name not in properties}
    return {
        "type": "object",
        "properties": {**properties, **extra},
        "required": required,
        "additionalProperties": False,
    }


_REVIEW_ARGUMENTS = (
    "temperature",
    "reasoning_effort",
    "verbosity",
    "max_cost_usd",
    "export",
    "check_models",
    "system",
)


def _review_schema() -> Schema:
    schemas = {**consensus.TOOL.properties, **_DESCRIPTIONS}
    properties: dict[str, Schema] = {
        "diff": {
            **RULES["diff"],
            "description": "The change to review, as a unified diff. Secrets in it are not sent.",
        },
        "models": {**schemas["models"], "default": ["auto"]},
        "prompt": {**RULES["prompt"], "description": "What the reviewers should focus on."},
        "about": {
            **RULES["about"],
            "description": "A short description of the change, for readers of the review.",
        },
        **{name: schemas.get(name, RULES[name]) for name in _REVIEW_ARGUMENTS},
        "mode": _EXTRA["mode"],
        "project": _EXTRA["project"],
    }
    return {"type": "object", "properties": properties, "required": ["diff"], "additionalProperties": False}


SCHEMAS: dict[str, Schema] = {
    "AskRequest": _schema(ChatRequest, chat.TOOL.properties, chat.TOOL.required),
    "ConsensusRequest": _schema(ConsensusRequest, consensus.TOOL.properties, consensus.TOOL.required),
    "ReviewRequest": _review_schema(),
}
_CHECKERS: dict[type, Checker] = {
    ChatRequest: Checker("chat", SCHEMAS["AskRequest"]),
    ConsensusRequest: Checker("consensus", SCHEMAS["ConsensusRequest"]),
    ReviewRequest: Checker("review", SCHEMAS["ReviewRequest"]),
}
Arguments: TypeAlias = dict[str, Any]


async def submit(call: ApiCall) -> object:
    kind = _kind(call.body)
    arguments: Arguments = _CHECKERS[kind].check(call.body)
    mode, caller = _mode(arguments, call.request), call.caller(arguments.pop("project", None))
    copies: dict[str, str] = {}
    caller = await _with_uploads(call, caller, arguments, copies)
    key = _key(call.request, call.body)
    request = _request(kind, arguments)
    caller = await embedded_model.for_question(call, caller, _models(request, caller))
    waits = mode == "sync" and key is None
    with files.errors_with_client_paths(copies):
        job = await _submit_job(call, request, caller, background=not waits, key=key)
    if mode == "stream":
        return job_stream.response(call, job, Cursor(), headers=_location(job))
    if mode == "background":
        return await _accepted(call, job)
    return await _answer(call, job, stop_with_client=waits and not caller.settings.keep_abandoned)


def _models(request: Request, caller: Caller) -> tuple[str | None, ...]:
    if isinstance(request, ChatRequest):
        return chain(request.model)
    return tuple(map(panels.name_of, panels.expanded(request.models, caller.settings)))


async def _with_uploads(
    call: ApiCall, caller: Caller, arguments: Arguments, copies: dict[str, str]
) -> Caller:
    """Let the caller send the uploads that it names (by the paths that `POST /api/files` returned)."""
    for field in ("files", "images"):
        if arguments.get(field):
            arguments[field] = await files.local_paths(call.engine, caller, arguments[field], copies)
    names = [
        name for field in ("files", "images") for name in arguments.get(field) or () if isinstance(name, str)
    ]
    paths = tuple(uploads.named(caller.settings.home, names))
    return replace(caller, consented_files=paths) if paths else caller


def _mode(arguments: Arguments, request: HttpRequest) -> str:
    streams = "text/event-stream" in request.headers.get("accept", "")
    return str(arguments.pop("mode", "stream" if streams else "sync"))


def _kind(body: dict[str, object]) -> type[Request]:
    if body.get("diff") is not None:
        return ReviewRequest
    return ConsensusRequest if body.get("models") is not None else ChatRequest


def _request(kind: type[Request], arguments: Arguments) -> Request:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()
    }
    if "models" in values:
        values["models"] = tuple(map(consensus.member, values["models"]))
    if kind is ReviewRequest:
        values["prompt"] = source.question(values.get("about", ""), values.get("prompt"))
    return kind(**values)


def _key(request: HttpRequest, body: dict[str, object]) -> str | None:
    """A call's key for the engine. The body is part of it: the engine compares keys, not questions."""
    header = request.headers.get("idempotency-key")
    if header is None:
        return None
    if not header.strip() or len(header) > LONGEST_KEY:
        raise InvalidArgument(f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.")
    question = {name: value for name, value in sorted(body.items()) if name != "mode"}
    return f"http-{_digest(header.encode())}-{_digest(encode(question))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class HasKeys(Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    async def keys_like(self, prefix: str) -> list[str]: ...


async def _submit_job(
    call: ApiCall, request: Request, caller: Caller, *, background: bool, key: str | None
) -> str:
    if key is None:
        return await call.engine.submit(request, caller, background=background)
    async with call.context.key_lock:
        keys = await cast(HasKeys, call.engine).keys_like(key[: key.rindex("-") + 1])
        if keys and key not in keys:
            raise Conflict(
                "Idempotency-Key was used for another question.", hint="Use a new key for each question."
            )
        return await call.engine.submit(request, caller, background=background, key=key)


def _location(job: str) -> dict[str, str]:
    return {"location": f"/api/jobs/{job}"}


async def _accepted(call: ApiCall, job: str) -> Reply:
    return Reply((await call.engine.status(job)).content, 202, _location(job))


async def _answer(call: ApiCall, job: str, *, stop_with_client: bool) -> Response | Reply:
    """Wait for the result. A client that disconnects stops its job, unless it can reconnect with its key.

    A server that is stopping answers with the job, which continues when a server runs again.
    """
    result = asyncio.ensure_future(call.engine.wait(job))
    disconnect = asyncio.ensure_future(_wait_for_disconnect(call.request.receive))
    shutdown = asyncio.ensure_future(call.request.app.state.closing.wait())
    call.request.app.state.answering.add(result)
    try:
        await asyncio.wait({result, disconnect, shutdown}, return_when=asyncio.FIRST_COMPLETED)
        if result.done():
            return Reply(_result(result, job).to_json(), 200, _location(job))
        if shutdown.done():
            return await _accepted(call, job)
        if stop_with_client:
            await call.engine.cancel(job)
        return Response(status_code=204)  # nobody reads it
    finally:
        call.request.app.state.answering.discard(result)
        for task in (result, disconnect, shutdown):
            task.cancel()
            with suppress(asyncio.CancelledError, CounselError):
                await task


def _result(result: asyncio.Future[Result], job: str) -> Result:
    try:
        return result.result()
    except CounselError as error:
        error.fields.setdefault("job_id", job)  # the job contains the answers from before the failure
        raise


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
