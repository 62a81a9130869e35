"""Send traces with OpenTelemetry's SDK over OTLP/HTTP, as the OTEL_* variables say. Only `tracing` imports this."""

from __future__ import annotations

import os
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from counsel import __version__
from counsel.tracing import Kind, Value, span_names

_KINDS = {"server": SpanKind.SERVER, "internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_FORMAT = TraceContextTextMapPropagator()


class OtelTracer:
    def __init__(self) -> None:
        setting = os.environ.get(span_names.CONTENT_VARIABLE, "").strip().lower()
        self.records_content = setting in span_names.CONTENT_VALUES
        defaults = Resource.create({"service.name": "counsel", "service.version": __version__})
        resource = defaults.merge(OTELResourceDetector().detect())  # values of OTEL_* variables win
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("counsel", __version__)

    def start(self, name: str, kind: Kind, parent: str, attributes: Mapping[str, Value]) -> OtelSpan:
        context = (
            _FORMAT.extract({"traceparent": parent})
            if parent
            else trace.set_span_in_context(trace.INVALID_SPAN)
        )
        return OtelSpan(self._tracer.start_span(name, context, _KINDS[kind], attributes))

    def close(self) -> None:
        self._provider.shutdown()


class OtelSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        _FORMAT.inject(carrier, trace.set_span_in_context(self._span))
        return carrier.get("traceparent", "")

    def set(self, attributes: Mapping[str, Value]) -> None:
        self._span.set_attributes(attributes)

    def end(self, error: str = "") -> None:
        if error:
            self._span.set_attribute(span_names.ERROR, error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
