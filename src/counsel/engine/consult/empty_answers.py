"""Refused, blocked and empty answers: vendors send them with HTTP 200; counsel reports them as failures."""

from __future__ import annotations

from collections.abc import Mapping

from counsel.engine.consult.routes import Route
from counsel.errors import ContentFiltered, CounselError, EmptyAnswer, UpstreamError
from counsel.models.vendor_errors import ASK_ANOTHER, scrubbed
from counsel.text import is_blank
from counsel.types import Finished


def failure(
    route: Route, finished: Finished, text: str, *, may_be_empty: bool = False
) -> CounselError | None:
    """The failure, or None for a proper answer. One that calls tools `may_be_empty`."""
    if finished.reason == "filtered":
        return _filtered(route, finished)
    if is_blank(text) and not may_be_empty:
        return _empty(route, finished)
    return _broken(route, finished) if finished.reason == "broken" else None


def _filtered(route: Route, finished: Finished) -> ContentFiltered:
    fields = _fields(route, finished)
    recommended = _vendor_text(finished, "recommended_model")
    hint = (
        f"Ask {recommended}, which the provider recommends for it, or rephrase the question."
        if recommended
        else ASK_ANOTHER
    )
    return ContentFiltered(
        f"{route.name} did not answer: it was refused or blocked{_why(fields)}",
        hint=hint,
        recommended_model=recommended,
        **fields,
    )


def _empty(route: Route, finished: Finished) -> EmptyAnswer:
    fields = _fields(route, finished)
    if finished.reason == "length":
        return EmptyAnswer(
            f"{route.name} reached its output limit before its answer began{_why(fields)}",
            hint="Ask for less reasoning effort, ask for less at once, or ask another model.",
            **fields,
        )
    return EmptyAnswer(
        f"{route.name} gave an empty answer{_why(fields)}", hint="Ask again, or ask another model.", **fields
    )


def _broken(route: Route, finished: Finished) -> UpstreamError:
    fields = _fields(route, finished)
    return UpstreamError(
        f"{route.name} broke off its answer{_why(fields)}", hint="Ask again, or ask another model.", **fields
    )


def _fields(route: Route, finished: Finished) -> dict[str, object]:
    return {
        "provider": route.provider,
        "model": route.name,
        "finish_reason": finished.reason,
        "vendor_reason": _vendor_text(finished, "reason"),
        "vendor_text": _vendor_text(finished, "text"),
    }


def _vendor_text(finished: Finished, name: str) -> str | None:
    text = finished.vendor.get(name)
    return scrubbed(text, None) if text else None


def _why(fields: Mapping[str, object]) -> str:
    reason, text = fields["vendor_reason"], fields["vendor_text"]
    quoted = f": {text}" if text else "."
    return f" ({reason}){quoted}" if reason else quoted
