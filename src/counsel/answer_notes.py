"""Notes and the footer of an answer, the same on the command line and for MCP clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from counsel import amounts
from counsel.results import Accepted, AnswerMetadata, Result, Totals

_INCOMPLETE = {
    "length": "Note: the answer was cut off at the model's output limit.",
    "other": "Note: the answer may be incomplete: the provider ended it without saying that it is complete.",
}


def footer(result: Result | Accepted, continue_with: str, name: Callable[[str], str] = str) -> str:
    """One line: who answered, tokens, cost, time, and how to continue. `name` writes the conversation's id."""
    parts = [] if isinstance(result, Accepted) else _metadata(result.metadata)
    if result.continuation.id:
        new = " (a new conversation)" if result.continuation.status == "new" else ""
        parts.append(f"{continue_with} {name(result.continuation.id)}{new}")
    return " · ".join(filter(None, parts))


def _metadata(metadata: AnswerMetadata | Totals) -> list[str]:
    complete = not isinstance(metadata, Totals) or metadata.cost_complete
    price = amounts.cost(metadata.usage, metadata.cost_usd, complete=complete)
    parts = [amounts.tokens(metadata.usage), f"cost {price}" if price == amounts.UNKNOWN else price]
    if price.endswith("+"):
        parts.append("+: at least, some prices are not known")
    if isinstance(metadata, AnswerMetadata):
        parts.insert(0, amounts.model(metadata.provider, metadata.model))
        if metadata.response_time_ms is not None:
            parts.append(f"{metadata.response_time_ms / 1000:.1f} s")
    return parts


def notes(result: Result, *, was_live: bool, names: Mapping[str, str] | None = None) -> list[str]:
    """Notes for the reader on how the answer was made. `was_live`: notices were already shown as they arrived.

    `names`: the interface's names for the settings of a request.
    """
    metadata = result.metadata
    answer = metadata if isinstance(metadata, AnswerMetadata) else None
    lines = _answer_notes(answer, was_live=was_live) if answer else []
    lines += [f"Note: {warning}" for warning in metadata.warnings]
    if answer and answer.finish_reason in _INCOMPLETE:
        lines.append(_INCOMPLETE[answer.finish_reason])
    if result.export:
        lines.append(f"Exported to {result.export}")
    if answer and answer.settings_left_out:
        settings = ", ".join((names or {}).get(name, name) for name in answer.settings_left_out)
        lines.append(f"Note: {answer.model} does not take {settings}: left out.")
    return lines


def _answer_notes(metadata: AnswerMetadata, *, was_live: bool) -> list[str]:
    lines = [f"Note: {failure.model} was passed over: {failure.error}" for failure in metadata.passed_over]
    if not metadata.notices:
        return lines
    if sources := [notice for notice in metadata.notices if notice.kind == "source"]:
        lines.insert(0, "\n".join(["Sources:", *(f"- {_titled(at.text, at.url)}" for at in sources)]))
    if not was_live:
        lines += [f"Note: {notice.text}" for notice in metadata.notices if notice.kind != "source"]
    return lines


def _titled(title: str, url: str) -> str:
    return url if title in {"", url} else f"{title}: {url}"
