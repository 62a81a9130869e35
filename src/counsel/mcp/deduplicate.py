"""Results for MCP clients with every text once: what a model reads again costs its user again.

A consensus repeats itself: `content` has the last answers, a refined entry has the first one. And a result is sent
twice, as JSON and as text, of which a client reads one (`client_timeouts.CLIENTS`): the other is shortened where that is
known. The command line and `/api` have the complete results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counsel.mcp.client_timeouts import Reads
from counsel.mcp.render import first_answers_note
from counsel.results import ConsensusResult, JobStatus, ToolResult
from counsel.types import Json

IN_JSON = "The answer is in structuredContent."
_SHORT = 600  # characters: a text up to this length may be in both
_TEXTS = frozenset(
    {
        "content",
        "response",
        "refined_response",
        "initial_response",
        "text",
        "partial",
        "prompt",
        "final_summary",
    }
)


def to_json(result: ToolResult) -> Json:
    """The result as JSON, without what it has twice."""
    if isinstance(result, ConsensusResult):
        return _consensus(result)
    return {"content": _status(result)} if isinstance(result, JobStatus) else result.to_json()


def _status(status: JobStatus) -> dict[str, object]:
    shown = dict(status.content)
    if status.models_status is not None:
        shown.pop("partial", None)  # the same texts as the models'
    if isinstance(status.result, ConsensusResult):
        shown["result"] = _beside_history(status.result) if status.history else _consensus(status.result)
    elif status.result and status.history:
        shown["result"] = _without(status.result.to_json(), "content")
    known = {state.partial for state in status.models_status or () if state.partial}
    return _without_known(shown, known) if known else shown


def _without_known(shown: Json, known: set[str]) -> dict[str, object]:
    """The job without partial texts of its error, or of a consensus' failed members, that its models have."""

    def without(row: Json) -> dict[str, object]:
        return _without(row, "partial") if row.get("partial") in known else dict(row)

    if error := shown.get("error"):
        failed = {"failed": list(map(without, error["failed"]))} if "failed" in error else {}
        return {**shown, "error": {**without(error), **failed}}
    phases = (shown.get("result") or {}).get("phases")
    if not phases:
        return dict(shown)
    phases = {**phases, "failed": list(map(without, phases["failed"]))}
    return {**shown, "result": {**shown["result"], "phases": phases}}


def _consensus(result: ConsensusResult) -> dict[str, object]:
    """The last answer of each model; its first one is left out if it refined it."""
    shown = _without(result.to_json(), "content")
    shown["phases"] = _phases(shown, without_first=_refined(result), refined=("initial_response",))
    if "vote" in shown:
        shown |= _voted(shown)
    note = first_answers_note(result)
    return {**shown, "note": note} if note else shown


def _voted(shown: Json) -> dict[str, object]:
    """Of a vote, each reason once: beside the choice."""
    phases, vote = shown["phases"], shown["vote"]
    return {
        "phases": {
            **phases,
            "initial": [_without(entry, "response") for entry in phases["initial"]],
            "refined": [_without(entry, "refined_response") for entry in phases["refined"]],
        },
        "vote": {**vote, "minority": [_without(entry, "reasons") for entry in vote["minority"]]},
    }


def _beside_history(result: ConsensusResult) -> dict[str, object]:
    """The conversation has the last answers; a consensus' first ones are only here."""
    shown = _without(result.to_json(), "content")
    unrefined = {answer.model for answer in result.initial} - _refined(result)
    shown["phases"] = _phases(shown, unrefined, ("initial_response", "refined_response"))
    return shown


def _refined(result: ConsensusResult) -> set[str]:
    return {answer.model for answer in result.refined if answer.text}


def _phases(shown: Json, without_first: set[str], refined: tuple[str, ...]) -> dict[str, object]:
    phases = shown["phases"]
    return {
        **phases,
        "initial": [
            _without(entry, "response") if entry["model"] in without_first else entry
            for entry in phases["initial"]
        ],
        "refined": [_without(entry, *refined) for entry in phases["refined"]],
        **({"rounds": [_positions(entry) for entry in phases["rounds"]]} if "rounds" in phases else {}),
    }


def _positions(round_: Json) -> dict[str, object]:
    """A round between the first and the last, without its texts."""
    return {**round_, "answers": [_without(entry, "response") for entry in round_["answers"]]}


def _without(entry: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name not in names}


def parts(structured: Json, text: str, reads: Reads) -> tuple[Json, str]:
    """The JSON and the text that are sent. A client that checks the output schema needs the JSON in any case."""
    if len(text) <= _SHORT or reads == "unknown":
        return structured, text
    if reads == "structured":
        return structured, IN_JSON
    return _without_texts(structured), text


def _without_texts(value: object) -> Any:
    """Without the long texts, which the text has."""
    if isinstance(value, dict):
        return {
            name: _without_texts(entry)
            for name, entry in value.items()
            if not (name in _TEXTS and isinstance(entry, str) and len(entry) > _SHORT)
        }
    return [_without_texts(entry) for entry in value] if isinstance(value, list) else value
