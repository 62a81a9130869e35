"""`/v1`: OpenAI's and Anthropic's APIs in front of everything that can be asked.

Each request is a job. A client that disconnects cancels its job, unless it asked for `background` or can reconnect with
its Idempotency-Key. Responses begin with the answer's first word, so that a failure before it has a status of its own;
after a silence they begin without it, with comments that keep the connection open.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast
from urllib.parse import parse_qsl

from counsel.errors import CounselError, InvalidArgument, NotFound
from counsel.http.auth import Receive, Scope, Send
from counsel.http.v1 import count, errors, models, reading, stored, team
from counsel.http.v1.api import LARGEST
from counsel.http.v1.calls import Calls, Completing
from counsel.http.v1.chat import ChatCompletions
from counsel.http.v1.messages import Messages
from counsel.http.v1.request import OWN, HttpRequest, key_prefix
from counsel.http.v1.responses import RESPONSES
from counsel.mcp.identity import ClientIdentity
from counsel.requests import Engine

CHAT = ChatCompletions()
MESSAGES = Messages()


class V1:
    """An ASGI application. `close` it before the engine."""

    def __init__(self, engine: Engine, identity: ClientIdentity) -> None:
        self._calls = Calls(engine, identity)

    async def close(self) -> None:
        """End requests in progress. Their clients get an error with the job, which continues."""
        await self._calls.close()

    @property
    def is_waiting(self) -> bool:
        """Whether a client waits for an answer."""
        return self._calls.is_waiting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        http = HttpRequest(self._calls, scope, receive, send)
        try:
            for pattern, methods in _ROUTES:
                if match := pattern(path):
                    if method not in methods:
                        allow = ", ".join(methods)
                        await http.refuse(
                            InvalidArgument(f"{path[:100]} does not accept {method}."),
                            405,
                            (b"allow", allow.encode()),
                        )
                        return
                    await methods[method](http, *match.groups())
                    return
            await http.refuse(NotFound(f"Invalid URL ({method} {path[:100]})"), 404)
        except CounselError as error:
            await http.refuse(error)


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────


async def _chat(http: HttpRequest) -> None:
    await http.complete(CHAT)


async def _messages(http: HttpRequest) -> None:
    await http.complete(MESSAGES)


async def _respond(http: HttpRequest) -> None:
    await http.complete(RESPONSES)


async def _own(http: HttpRequest) -> None:
    team.refuse_relays(http.calls.caller(http.scope))
    await http.complete(OWN)


async def _server_info(http: HttpRequest) -> None:
    team.refuse_relays(http.calls.caller(http.scope))
    await http.reply(await team.about(await http.caller()))


async def _cancel_own(http: HttpRequest) -> None:
    """Cancel a call by its key: the client may not know the job yet."""
    body = await http.calls.body(http.receive, LARGEST)
    prefix = key_prefix(reading.required(body, "key", str))
    engine = cast(Completing, http.engine)
    for job in await engine.open_calls(prefix):
        await http.engine.cancel(job.id)
    await http.reply({"cancelled": bool(await engine.keys_like(prefix))})


def _query(http: HttpRequest) -> dict[str, str]:
    return dict(parse_qsl(http.scope.get("query_string", b"").decode("latin-1")))


async def _response(http: HttpRequest, name: str) -> None:
    query = _query(http)
    if query.get("stream", "").lower() not in {"true", "1"}:
        await http.reply(await stored.document(http.engine, name))
        return
    if query.get("starting_after", "0") != "0":
        raise errors.BadRequest(
            "'starting_after' is not supported: the events of a stream are not stored. Without it, the stream begins "
            "with the whole text so far.",
            "starting_after",
            "unsupported_parameter",
        )
    await http.follow(*await stored.lookup(http.engine, name))


async def _cancel_response(http: HttpRequest, name: str) -> None:
    await http.engine.cancel((await stored.lookup(http.engine, name))[1].id)
    await http.reply(await stored.document(http.engine, name))


async def _input_items(http: HttpRequest, name: str) -> None:
    await http.reply(await stored.input_items(http.engine, name, _query(http)))


async def _delete_response(http: HttpRequest, name: str) -> None:
    await http.reply(await stored.delete(http.engine, name))


async def _count(http: HttpRequest) -> None:
    body = await http.calls.body(http.receive, LARGEST)
    document = await count.count_tokens(body, http.headers, await http.caller())
    await http.reply(document, 200, (b"x-counsel-estimated", b"input_tokens"))


async def _models(http: HttpRequest) -> None:
    await http.reply(await models.model_list(await http.caller(), http.headers))


async def _model(http: HttpRequest, name: str) -> None:
    await http.reply(await models.model_entry(await http.caller(), http.headers, name))


Handler: TypeAlias = Callable[..., Awaitable[None]]
_ROUTES: list[tuple[Callable[[str], re.Match[str] | None], dict[str, Handler]]] = [
    (re.compile(r"/v1/chat/completions").fullmatch, {"POST": _chat}),
    (re.compile(r"/v1/responses").fullmatch, {"POST": _respond}),
    (re.compile(r"/v1/responses/([^/]{1,100})").fullmatch, {"GET": _response, "DELETE": _delete_response}),
    (re.compile(r"/v1/responses/([^/]{1,100})/cancel").fullmatch, {"POST": _cancel_response}),
    (re.compile(r"/v1/responses/([^/]{1,100})/input_items").fullmatch, {"GET": _input_items}),
    (re.compile(r"/v1/counsel").fullmatch, {"GET": _server_info, "POST": _own}),
    (re.compile(r"/v1/counsel/cancel").fullmatch, {"POST": _cancel_own}),
    (re.compile(r"/v1/messages").fullmatch, {"POST": _messages}),
    (re.compile(r"/v1/messages/count_tokens").fullmatch, {"POST": _count}),
    (re.compile(r"/v1/models").fullmatch, {"GET": _models}),
    (re.compile(r"/v1/models/(.{1,200})").fullmatch, {"GET": _model}),
]
