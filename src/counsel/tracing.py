"""Traces, off unless COUNSEL_TRACES is set: then `otel.py` sends them where the OTEL_* variables say.

A span's parent is named by a traceparent, not taken from OpenTelemetry's own context: so a job that another server
continues has the same parent, and nothing of OpenTelemetry is imported where traces are off.
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
        """For spans below this one; "" where it is not traced."""

    def set(self, attributes: Mapping[str, Value]) -> None: ...

    def end(self, error: str = "") -> None:
        """Once. `error`: the kind of failure."""


class Tracer(Protocol):
    records_content: bool

    def start(self, name: str, kind: Kind, parent: str, attributes: Mapping[str, Value]) -> Span: ...

    def close(self) -> None:
        """Send what is left. Takes seconds where the receiver does not answer."""


class _NoSpan:
    traceparent = ""

    def set(self, attributes: Mapping[str, Value]) -> None:
        pass

    def end(self, error: str = "") -> None:
        pass


NO_SPAN: Span = _NoSpan()
_tracer: Tracer | None = None


def setup(settings: Settings) -> None:
    """Once per process. Without the packages that traces need, a warning says so and there are none."""
    global _tracer  # noqa: PLW0603 - one per process, as the libraries have it
    if not settings.traces or _tracer is not None:
        return
    try:
        from counsel import otel
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
    """A span below that of the present request. Check `is_on` before making expensive attributes."""
    if _tracer is None:
        return NO_SPAN
    return _tracer.start(name, kind, request_context.current().traceparent, attributes)


def enter(span: Span) -> None:
    """What this task does from now on is below this span."""
    if span.traceparent:
        request_context.enter(replace(request_context.current(), traceparent=span.traceparent))
