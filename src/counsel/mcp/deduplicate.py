"""Results for MCP clients with every text once: what a model reads again costs its user again.

A consensus repeats itself: `content` holds the last answers, a refined entry holds the first one. And a result is sent
twice, as JSON and as text, of which a client reads one (`limits.CLIENTS`): the other is left short where that is known.
The command line and `/api` have the complete results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from counsel.mcp.client_timeouts import Reads
from counsel.types import Json

IN_JSON = "The answer is in structuredContent."
_SHORT = 600  # characters: a text up to this length may stand in both
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


def lean(value: object) -> Any:
    """Without what the JSON says twice."""
    if isinstance(value, list):
        return [lean(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "phases" in value:
        return _consensus(value)
    leaner = {name: lean(entry) for name, entry in value.items()}
    if isinstance(value.get("models_status"), list):
        leaner.pop("partial", None)  # the same texts as the models'
    if value.get("history") and isinstance(value.get("result"), dict):
        leaner["result"] = _beside_history(value["result"])
    return leaner


def _consensus(result: Json) -> dict[str, object]:
    """The last answer of each model; its first one is left out when it refined it."""
    phases = result["phases"]
    refined = phases.get("refined") or []
    again = {entry.get("model") for entry in refined if entry.get("refined_response")}
    initial = [
        _without(entry, "response") if entry.get("model") in again else entry
        for entry in phases.get("initial") or []
    ]
    leaner = {**result, "phases": {**phases, "initial": initial}}
    if "refined" in phases:
        leaner["phases"]["refined"] = [_without(entry, "initial_response") for entry in refined]
    leaner.pop("content", None)
    name = result.get("job_id") or (result.get("continuation") or {}).get("id")
    if again and name:
        leaner["note"] = (
            f'First answers of models that refined theirs: check_status with continuation_id "{name}", '
            "full_history true."
        )
    return leaner


def _beside_history(result: Json) -> dict[str, object]:
    """The conversation has the last answers; a consensus' first ones are only here."""
    if "phases" not in result:
        return _without(result, "content")
    phases = result["phases"]
    again = {entry.get("model") for entry in phases.get("refined") or [] if entry.get("refined_response")}
    initial = [
        entry if entry.get("model") in again else _without(entry, "response")
        for entry in phases.get("initial") or []
    ]
    refined = [
        _without(entry, "initial_response", "refined_response") for entry in phases.get("refined") or []
    ]
    return _without({**result, "phases": {**phases, "initial": initial, "refined": refined}}, "content")


def _without(entry: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: held for name, held in entry.items() if name not in names}


def parts(structured: Json, text: Callable[[Json], str], reads: Reads) -> tuple[Json, str]:
    """The JSON and the text that are sent. A client that checks the output schema needs the JSON in any case."""
    words = text(structured)
    if len(words) <= _SHORT or reads == "unknown":
        return structured, words
    if reads == "structured":
        return structured, IN_JSON
    return _wordless(structured), words


def _wordless(value: object) -> Any:
    """Without the long texts, which stand in the text."""
    if isinstance(value, dict):
        return {
            name: _wordless(entry)
            for name, entry in value.items()
            if not (name in _TEXTS and isinstance(entry, str) and len(entry) > _SHORT)
        }
    return [_wordless(entry) for entry in value] if isinstance(value, list) else value
