"""Removes repeated texts from results for MCP clients: a text that a model reads twice is paid for twice.

A consensus repeats texts: `content` contains the last answers, and each refined entry contains the model's first
answer. Every result is sent twice, as JSON and as text, and a client reads one of the two. If counsel knows which
(`client_timeouts.CLIENTS`), it shortens the other. The command line and `/api` show complete results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counsel.mcp.client_timeouts import Reads
from counsel.mcp.render import first_answers_note
from counsel.results import ConsensusResult, JobStatus, ToolResult
from counsel.types import Json

IN_JSON = "The answer is in structuredContent."
_SHORT = 600  # characters: a text up to this length may be in both parts
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
    """The result as JSON, without repetitions."""
    if isinstance(result, ConsensusResult):
        return _consensus(result)
    return {"content": _status(result)} if isinstance(result, JobStatus) else result.to_json()


def _status(status: JobStatus) -> dict[str, object]:
    content = dict(status.content)
    if status.models_status is not None:
        content.pop("partial", None)  # the same texts as the models'
    if isinstance(status.result, ConsensusResult):
        content["result"] = _beside_history(status.result) if status.history else _consensus(status.result)
    elif status.result and status.history:
        content["result"] = _without(status.result.to_json(), "content")
    partials = {state.partial for state in status.models_status or () if state.partial}
    return _without_partials(content, partials) if partials else content


def _without_partials(content: Json, partials: set[str]) -> dict[str, object]:
    """The job without partial texts, of its error and of failed members, that `models_status` already contains."""

    def without(row: Json) -> dict[str, object]:
        return _without(row, "partial") if row.get("partial") in partials else dict(row)

    if error := content.get("error"):
        members = {"failed": list(map(without, error["failed"]))} if "failed" in error else {}
        return {**content, "error": {**without(error), **members}}
    phases = (content.get("result") or {}).get("phases")
    if not phases:
        return dict(content)
    phases = {**phases, "failed": list(map(without, phases["failed"]))}
    return {**content, "result": {**content["result"], "phases": phases}}


def _consensus(result: ConsensusResult) -> dict[str, object]:
    """The consensus without the first answers of models that refined theirs."""
    document = _without(result.to_json(), "content")
    document["phases"] = _phases(document, _refining_models(result), ("initial_response",))
    if "vote" in document:
        document |= _vote(document)
    note = first_answers_note(result)
    return {**document, "note": note} if note else document


def _vote(document: Json) -> dict[str, object]:
    """The fields of a vote, with each reason only next to its choice."""
    phases, vote = document["phases"], document["vote"]
    return {
        "phases": {
            **phases,
            "initial": [_without(entry, "response") for entry in phases["initial"]],
            "refined": [_without(entry, "refined_response") for entry in phases["refined"]],
        },
        "vote": {**vote, "minority": [_without(entry, "reasons") for entry in vote["minority"]]},
    }


def _beside_history(result: ConsensusResult) -> dict[str, object]:
    """The consensus without last answers, which the history contains, but with first answers, which it does not."""
    document = _without(result.to_json(), "content")
    unchanged_models = {answer.model for answer in result.initial} - _refining_models(result)
    document["phases"] = _phases(document, unchanged_models, ("initial_response", "refined_response"))
    return document


def _refining_models(result: ConsensusResult) -> set[str]:
    return {answer.model for answer in result.refined if answer.text}


def _phases(document: Json, models: set[str], refined_fields: tuple[str, ...]) -> dict[str, object]:
    """The phases without the first answers of `models`, and without `refined_fields` of the refined answers."""
    phases = document["phases"]
    return {
        **phases,
        "initial": [
            _without(entry, "response") if entry["model"] in models else entry for entry in phases["initial"]
        ],
        "refined": [_without(entry, *refined_fields) for entry in phases["refined"]],
        **({"rounds": [_positions(entry) for entry in phases["rounds"]]} if "rounds" in phases else {}),
    }


def _positions(round_: Json) -> dict[str, object]:
    """A round between the first and the last, without the answers' texts."""
    return {**round_, "answers": [_without(entry, "response") for entry in round_["answers"]]}


def _without(entry: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name not in names}


def parts(document: Json, text: str, reads: Reads) -> tuple[Json, str]:
    """The JSON and the text to send. There is always JSON: some clients check it against the output schema."""
    if len(text) <= _SHORT or reads == "unknown":
        return document, text
    if reads == "structured":
        return document, IN_JSON
    return _without_texts(document), text


def _without_texts(value: object) -> Any:
    """The JSON without long texts, for a client that reads the text part."""
    if isinstance(value, dict):
        return {
            name: _without_texts(entry)
            for name, entry in value.items()
            if not (name in _TEXTS and isinstance(entry, str) and len(entry) > _SHORT)
        }
    return [_without_texts(entry) for entry in value] if isinstance(value, list) else value
