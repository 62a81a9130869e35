"""Refused, blocked and empty answers, which vendors send with HTTP 200, and which counsel reports as failures."""

from __future__ import annotations

from collections.abc import Mapping

from counsel.engine.consult.routes import Route
from counsel.errors import ContentFiltered, CounselError, EmptyAnswer, UpstreamError
from counsel.models.vendor_errors import ASK_ANOTHER, scrubbed
from counsel.text import is_blank
from counsel.types import Finished


def failure(route: Route, end: Finished, text: str, *, may_be_empty: bool = False) -> CounselError | None:
    """The failure, or None for a proper answer. `may_be_empty`: the answer may consist of tool calls alone."""
    if end.reason == "filtered":
        return _filtered(route, end)
    if is_blank(text) and not may_be_empty:
        return _empty(route, end)
    return _broken(route, end) if end.reason == "broken" else None


def _filtered(route: Route, end: Finished) -> ContentFiltered:
    fields = _fields(route, end)
    alternative = _vendor_text(end, "recommended_model")
    hint = (
        f"Ask {alternative}, which the provider recommends for this, or rephrase the question."
        if alternative
        else ASK_ANOTHER
    )
    return ContentFiltered(
        f"{route.name} did not answer: it was refused or blocked{_reason_text(fields)}",
        hint=hint,
        recommended_model=alternative,
        **fields,
    )


def _empty(route: Route, end: Finished) -> EmptyAnswer:
    fields = _fields(route, end)
    if end.reason == "length":
        return EmptyAnswer(
            f"{route.name} reached its output limit before its answer began{_reason_text(fields)}",
            hint="Lower the reasoning effort, ask for less at once, or ask another model.",
            **fields,
        )
    return EmptyAnswer(
        f"{route.name} gave an empty answer{_reason_text(fields)}",
        hint="Ask again, or ask another model.",
        **fields,
    )


def _broken(route: Route, end: Finished) -> UpstreamError:
    fields = _fields(route, end)
    return UpstreamError(
        f"{route.name} broke off its answer{_reason_text(fields)}",
        hint="Ask again, or ask another model.",
        **fields,
    )


def _fields(route: Route, end: Finished) -> dict[str, object]:
    return {
        "provider": route.provider,
        "model": route.name,
        "finish_reason": end.reason,
        "vendor_reason": _vendor_text(end, "reason"),
        "vendor_text": _vendor_text(end, "text"),
    }


def _vendor_text(end: Finished, name: str) -> str | None:
    text = end.vendor.get(name)
    return scrubbed(text, None) if text else None


def _reason_text(fields: Mapping[str, object]) -> str:
    reason, text = fields["vendor_reason"], fields["vendor_text"]
    ending = f": {text}" if text else "."
    return f" ({reason}){ending}" if reason else ending
