"""A consensus' result as text, and as it is written down: nothing twice, so that long answers do not fill disk and memory."""

from __future__ import annotations

import json
from collections.abc import Mapping

from counsel import strict_json
from counsel.types import Json

_PHASES = {"initial": "first round", "refined": "refinement"}


def words(answers: Mapping[str, str], failed: list[Json], consulted: int) -> str:
    """The result as a text: who failed stands first."""
    parts = [
        f"⚠ {entry['model']} failed in the {_PHASES[entry['phase']]}: [{entry['code']}] "
        + " ".join(part for part in (entry["error"], entry.get("hint")) if part)
        for entry in failed
    ]
    if len(answers) == 1 and consulted > 1:
        parts.append("Only one model answered: this is its opinion, not a consensus.")
    parts += [f"## {model}\n\n{text}" for model, text in answers.items()]
    return "\n\n".join(parts)


def dump(result: Json) -> str:
    return strict_json.dumps(_packed(result) if "phases" in result else result)


def load(text: str) -> Json:
    result: Json = json.loads(text)
    return _unpacked(result) if "phases" in result else result


def _packed(result: Json) -> Json:
    phases = result["phases"]
    refined = [
        {name: entry[name] for name in entry if name != "initial_response"} for entry in phases["refined"]
    ]
    leaner = {**result, "phases": {**phases, "refined": refined}}
    leaner.pop("content", None)
    return leaner


def _unpacked(result: Json) -> Json:
    phases = result["phases"]
    first = {entry["model"]: entry["response"] for entry in phases["initial"]}
    second = {entry["model"]: entry["refined_response"] for entry in phases["refined"]}
    for entry in phases["refined"]:
        entry["initial_response"] = first[entry["model"]]
    last = {model: second.get(model) or text for model, text in first.items()}
    return {**result, "content": words(last, phases["failed"], result["models_consulted"])}
