"""The fake vendor server: one aiohttp application with four vendors' formats."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, Self

from aiohttp import web

from . import anthropic, gemini, openai_chat, openai_responses
from .answer import ParsedRequest, answer, failure
from .behaviour import BEFORE_HEADERS, Behaviour, Rule, behaviour, from_marker
from .records import Filter, Log, Received
from .streaming import MALFORMED, ConnectionCut, Steps, Stream, malformed, plain_response

VENDORS: dict[str, ModuleType] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
# Only the end of a path matters: any base URL works.
PATHS = (
    (re.compile(r"/chat/completions$"), "openai-chat"),
    (re.compile(r"/responses$"), "openai-responses"),
    (re.compile(r"/messages$"), "anthropic"),
    (re.compile(r":(stream)?[gG]enerateContent$"), "gemini"),
)
TOKENS = re.compile(r"/messages/count_tokens$|:countTokens$")
MODELS = re.compile(r"/models(/[^:]+)?$")
DEFAULT_MODELS = ("gpt-5.1", "claude-opus-4-5-20251101", "gemini-2.5-flash", "grok-4-0709")


class FakeAPI:
    """`async with FakeAPI() as fake:` then point a base URL at `fake.url`."""

    def __init__(self, default: Behaviour | None = None) -> None:
        self.default = default or Behaviour()
        self.models: list[str] = list(DEFAULT_MODELS)
        self.keys: set[str] | None = None  # if set, any other key gets 401
        self.rules: list[Rule] = []
        self.log = Log()
        self._gates: dict[str, asyncio.Event] = {}
        self._protocols: set[Any] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0

    # ── start and stop ──

    async def start(self, port: int = 0) -> Self:
        app = web.Application(client_max_size=512 * 1024 * 1024)
        app.router.add_route("*", "/_fake/{verb}", self._control)
        app.router.add_route("*", "/{path:.*}", self._serve)
        # The handler is cancelled when the client disconnects: that is how we notice.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        if self._runner is None:
            return
        server = self._runner.server
        for connection in list(server.connections if server else ()):
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
        self._runner = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # ── base URLs, as in the vendors' variables ──

    @property
    def url(self) -> str:
        """Without a version: ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def v1(self) -> str:
        """With /v1: OPENAI_BASE_URL and compatible providers."""
        return f"{self.url}/v1"

    # ── scripting ──

    def script(
        self,
        *behaviours: Behaviour,
        times: int | None = 1,
        vendor: str | None = None,
        model: str | None = None,
        path: str | None = None,
        contains: str | None = None,
        **fields: Any,
    ) -> None:
        """Queue behaviours (or one, from keywords) for the next matching requests; `times=None`: without end."""
        for entry in behaviours or (behaviour(**fields),):
            self.rules.append(Rule(entry, times, vendor, model, path, contains))

    def open_gate(self, name: str) -> None:
        self.gate(name).set()

    def close_gate(self, name: str) -> None:
        self.gate(name).clear()

    def reset(self) -> None:
        self.rules.clear()
        self.log.requests.clear()
        self.log.most_open = 0
        self._gates.clear()
        self.default = Behaviour()
        self.keys = None

    # ── received requests ──

    @property
    def requests(self) -> list[Received]:
        return self.log.requests

    @property
    def calls(self) -> list[Received]:
        return self.log.calls

    @property
    def last(self) -> Received:
        return self.log.calls[-1]

    @property
    def open_connections(self) -> int:
        """Open TCP connections that have sent a request."""
        self._protocols = {protocol for protocol in self._protocols if protocol.transport is not None}
        return len(self._protocols)

    async def wait_for(
        self,
        fits: Callable[[Received], bool] | None = None,
        *,
        count: int = 1,
        timeout: float = 60.0,  # noqa: ASYNC109 (its TimeoutError lists what was received)
        **filter_: Any,
    ) -> list[Received]:
        """Wait for `count` requests that match a predicate, or vendor/model/path/contains/state/deltas."""
        return await self.log.wait_for(fits or Filter(**filter_), count, timeout)

    # ── serving ──

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self._protocols.add(request.protocol)
        record = await _receive(request, len(self.log.requests) + 1)
        vendor = next((name for ending, name in PATHS if ending.search(request.path)), None)
        if vendor is None or request.method != "POST":
            return self._other_endpoint(request, record)
        question: ParsedRequest = VENDORS[vendor].parse(record.body, request.path)
        record.vendor, record.model, record.stream = vendor, question.model, question.stream
        record.text, record.images = question.text, question.images
        self.log.add(record)
        try:
            response = await self._answer(request, record, question)
        except ConnectionCut:
            record.finished = True
            if request.transport is not None:
                request.transport.abort()
            raise
        except (asyncio.CancelledError, ConnectionResetError):
            record.disconnected = True
            raise
        else:
            record.finished = True
            return response
        finally:
            record.ended_at = asyncio.get_running_loop().time()
            self.log.changed()

    async def _answer(
        self, request: web.Request, record: Received, question: ParsedRequest
    ) -> web.StreamResponse:
        behaviour = self._choose(record, question)
        vendor = VENDORS[question.vendor]
        steps = Steps(self, behaviour, record)
        if behaviour.latency:
            await asyncio.sleep(behaviour.latency)
        await steps.at(BEFORE_HEADERS)
        if behaviour.body is not None:
            record.status = behaviour.status or 200
            return web.json_response(behaviour.body, status=record.status)
        if (behaviour.error or behaviour.status) and behaviour.error_after is None:
            return self._fail(record, question, behaviour)
        if behaviour.malformed in MALFORMED:
            return malformed(record, behaviour.malformed)
        reply = answer(question, behaviour, record.number)
        if question.stream and (question.vendor != "gemini" or request.query.get("alt") == "sse"):
            broken = failure(question, behaviour, _key(record.headers, record.query))
            return await Stream(request, record, behaviour, steps).send(
                vendor, reply, vendor.error_frames(broken)
            )
        await steps.at(0)
        return await plain_response(request, record, vendor, reply, array=question.stream)

    def _choose(self, record: Received, question: ParsedRequest) -> Behaviour:
        if self.keys is not None and _key(record.headers, record.query) not in self.keys:
            return Behaviour(error="auth")
        if from_prompt := from_marker(question.text):
            return from_prompt
        for rule in self.rules:
            if rule.fits(question.vendor, question.model, record.path, question.text):
                if rule.times is not None:
                    rule.times -= 1
                return rule.behaviour
        return self.default

    def _fail(self, record: Received, question: ParsedRequest, behaviour: Behaviour) -> web.Response:
        vendor = VENDORS[question.vendor]
        error = failure(question, behaviour, _key(record.headers, record.query))
        record.status = vendor.status(error) if question.vendor == "gemini" else error.status
        headers = {} if behaviour.retry_after is None else {"retry-after": str(behaviour.retry_after)}
        return web.json_response(vendor.error(error), status=record.status, headers=headers)

    def _other_endpoint(self, request: web.Request, record: Received) -> web.Response:
        """Listings and token counts; 404 for anything else."""
        kind = "other"
        content: dict[str, Any] | None = None
        if TOKENS.search(request.path):
            tokens = len(json.dumps(record.body)) // 4
            kind, content = "tokens", {"input_tokens": tokens, "totalTokens": tokens}
        elif request.method in {"GET", "HEAD"} and MODELS.search(request.path):
            kind, content = "models", self._listing(request, record)
        elif request.path.endswith("/key"):  # OpenRouter's list of models needs no key; this endpoint does
            kind, content = "models", {"data": {"label": "fake"}}
        record.vendor, record.finished = kind, True
        record.status = 200 if content is not None else 404
        record.ended_at = asyncio.get_running_loop().time()
        self.log.add(record)
        if self.keys is not None and _key(record.headers, record.query) not in self.keys:
            record.status, content = 401, {"error": {"message": "invalid key", "type": "auth"}}
        return web.json_response(content or {"error": {"message": "not found"}}, status=record.status)

    def _listing(self, request: web.Request, record: Received) -> dict[str, Any]:
        if "v1beta" in request.path:
            return {
                "models": [
                    {"name": f"models/{name}", "displayName": name, "inputTokenLimit": 1_048_576}
                    for name in self.models
                ]
            }
        kind = {"type": "model"} if "anthropic-version" in record.headers else {"object": "model"}
        models = [{"id": name, **kind, "created": 0, "owned_by": "fake"} for name in self.models]
        return {"object": "list", "data": models, "has_more": False}

    def gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    # ── control from another process ──

    async def _control(self, request: web.Request) -> web.Response:
        fields: dict[str, Any] = await request.json() if request.can_read_body else dict(request.query)
        verbs: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "script": self._control_script,
            "gate": self._control_gate,
            "wait": self._control_wait,
            "reset": self._control_reset,
            "set": self._control_set,
            "state": self._control_state,
            "requests": self._control_requests,
        }
        try:
            return web.json_response(await verbs[request.match_info["verb"]](fields))
        except (KeyError, TypeError, ValueError) as error:
            return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=400)
        except TimeoutError as error:
            return web.json_response({"error": str(error)}, status=408)

    async def _control_script(self, fields: dict[str, Any]) -> Any:
        self.script(**fields)
        return {"rules": len(self.rules)}

    async def _control_gate(self, fields: dict[str, Any]) -> Any:
        self.open_gate(fields["name"])
        return {}

    async def _control_wait(self, fields: dict[str, Any]) -> Any:
        return [request.as_json() for request in await self.wait_for(**fields)]

    async def _control_reset(self, _: dict[str, Any]) -> Any:
        self.reset()
        return {}

    async def _control_set(self, fields: dict[str, Any]) -> Any:
        self.models = list(fields.get("models", self.models))
        self.keys = set(fields["keys"]) if fields.get("keys") is not None else self.keys
        if "default" in fields:
            self.default = behaviour(**fields["default"])
        return {}

    async def _control_state(self, _: dict[str, Any]) -> Any:
        return {
            "open_connections": self.open_connections,
            "open_calls": self.log.open_calls,
            "most_open": self.log.most_open,
            "calls": len(self.calls),
        }

    async def _control_requests(self, _: dict[str, Any]) -> Any:
        return [request.as_json() for request in self.requests]


async def _receive(request: web.Request, number: int) -> Received:
    raw = await request.read()
    try:
        body = json.loads(raw) if raw else {}
    except ValueError:
        body = raw.decode(errors="replace")
    return Received(
        number=number,
        method=request.method,
        path=request.path,
        query=dict(request.query),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=body,
    )


def _key(headers: dict[str, str], query: dict[str, str]) -> str:
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer or query.get("key", "")
