"""Traces. They are off unless COUNSEL_TRACES is set; then `tracing/otel.py` sends them where the OTEL_* variables say.

A span's parent comes from a traceparent, not from OpenTelemetry's own context: so a job that another server continues
keeps its parent, and OpenTelemetry is not imported if traces are off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from counsel import request_context
from counsel.lazy_dataclass import replace
from counsel.settings import Settings

log = logging.getLogger("counsel.tracing")
Kind: TypeAlias = Literal["server", "internal", "client"]
Value: TypeAlias = str | bool | int | float | Sequence[str]


class Span(Protocol):
    @property
    def traceparent(self) -> str:
        """The parent of spans below this one; "" if it is not traced."""

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def end(self, error: str = "") -> None:
        """End the span; called once. `error`: the kind of failure."""


class Tracer(Protocol):
    records_content: bool

    def start(self, name: str, kind: Kind, parent: str, attributes: Mapping[str, Value]) -> Span: ...

    def close(self) -> None:
        """Send the remaining spans. Takes seconds if the receiver does not answer."""


class _NoSpan:
    traceparent = ""

    def set(self, attributes: Mapping[str, Value]) -> None:
        pass

    def end(self, error: str = "") -> None:
        pass


NO_SPAN: Span = _NoSpan()
_tracer: Tracer | None = None


def setup(settings: Settings) -> None:
    """Start tracing, once per process. If the packages that it needs are missing, log a warning instead."""
    global _tracer  # noqa: PLW0603 - one per process, as the libraries have it
    if not settings.traces or _tracer is not None:
        return
    try:
        from counsel.tracing import otel
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        log.warning(
            "COUNSEL_TRACES is set, but OpenTelemetry is not installed: run `pip install 'counsel[otel]'`"
        )
        return
    _tracer = otel.OtelTracer()


def close() -> None:
    global _tracer  # noqa: PLW0603 - one per process
    if _tracer is not None:
        _tracer.close()
        _tracer = None


def is_on() -> bool:
    return _tracer is not None


def records_content() -> bool:
    return _tracer is not None and _tracer.records_content


def start(name: str, kind: Kind, attributes: Mapping[str, Value]) -> Span:
    """Start a span below that of the current request. Check `is_on` before computing expensive attributes."""
    if _tracer is None:
        return NO_SPAN
    return _tracer.start(name, kind, request_context.current().traceparent, attributes)


def enter(span: Span) -> None:
    """Make this span the parent of everything that the task does from now on."""
    if span.traceparent:
        request_context.enter(replace(request_context.current(), traceparent=span.traceparent))
