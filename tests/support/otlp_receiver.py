"""A receiver of traces over OTLP/HTTP, on a free loopback port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool
    service: str


class Receiver:
    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []

    def named(self, start: str) -> list[Span]:
        return [span for span in self.spans if span.name.startswith(start)]

    async def take(self, request: web.Request) -> web.Response:
        message = ExportTraceServiceRequest.FromString(await request.read())
        for group in message.resource_spans:
            service = _values(group.resource.attributes)["service.name"]
            for scope in group.scope_spans:
                self.spans += [_span(span, service) for span in scope.spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def _span(span: Any, service: str) -> Span:
    ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
    return Span(span.name, *ids, _values(span.attributes), span.status.code == 2, service)


def _values(attributes: Any) -> dict[str, Any]:
    return {row.key: _value(row.value) for row in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(entry) for entry in value.array_value.values]
    return getattr(value, kind)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/traces", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()
