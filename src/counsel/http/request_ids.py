"""An id for each request, which the client and all log lines about the request share, and the request's span.

`x-request-id` is accepted if it is short and plain, and returned. With `json` logs each request is one line, with its
path but without its query, headers and body.
"""

from __future__ import annotations

import logging
import time

from counsel import request_context, tracing
from counsel.http.auth import SIGNED_IN, App, Message, Receive, Scope, Send
from counsel.request_context import RequestContext
from counsel.tracing import span_names as names

log = logging.getLogger("counsel.access")
HEADER = b"x-request-id"
PROBES = frozenset({"/health", "/ready", "/metrics"})  # neither logged nor traced: several a minute


class RequestIds:
    def __init__(self, app: App, *, logged: bool = False) -> None:
        self._app = app
        self._logged = logged

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _read_headers(scope)
        name = request_context.request_id(headers.get(HEADER, ""))
        parent = request_context.traceparent(headers.get(b"traceparent", ""))
        request_context.enter(RequestContext(name, parent))
        exchange = _Exchange(scope, send, name)
        try:
            await self._app(scope, receive, exchange.send)
        finally:
            exchange.end(logged=self._logged)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, name: str) -> None:
        self._scope, self._send = scope, send
        self._header = (HEADER, name.encode())
        self._start = time.monotonic()
        self._status = 0
        self._is_probe = scope["path"] in PROBES
        self._span = tracing.NO_SPAN
        if tracing.is_on() and not self._is_probe:
            attributes = {
                names.HTTP_METHOD: scope["method"],
                names.URL_PATH: scope["path"],
                names.REQUEST: name,
            }
            self._span = tracing.start(f"{scope['method']} {_route(scope['path'])}", "server", attributes)
            tracing.enter(self._span)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = message.get("headers", [])
            if all(key.lower() != HEADER for key, _ in headers):  # `/v1` has its own
                message["headers"] = [*headers, self._header]
        await self._send(message)

    def end(self, *, logged: bool) -> None:
        if self._span is not tracing.NO_SPAN:
            self._span.set({names.HTTP_STATUS: self._status})
            self._span.end(str(self._status) if self._status >= 500 or not self._status else "")
        if logged and not self._is_probe:
            signed_in = self._scope.get(SIGNED_IN)
            log.info(
                "%s %s",
                self._scope["method"],
                self._scope["path"][:200],
                extra={
                    "fields": {
                        "status": self._status,
                        "ms": round((time.monotonic() - self._start) * 1000),
                        "client": (self._scope.get("client") or ("",))[0],
                        **({"person": signed_in.person.id} if signed_in else {}),
                    }
                },
            )


def _read_headers(scope: Scope) -> dict[bytes, str]:
    names_read = (HEADER, b"traceparent")
    return {key: value.decode("latin-1") for key, value in scope["headers"] if key in names_read}


def _route(path: str) -> str:
    """The beginning of a path, without ids: spans should have few names."""
    first = path.split("/")[1:3]
    return "/" + "/".join(first) if first[:1] in (["api"], ["v1"]) else f"/{first[0] if first else ''}"
