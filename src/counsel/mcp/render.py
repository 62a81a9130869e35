"""Structured results in words, for clients and people that read text. A table of one function per kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counsel import answer_notes
from counsel.job_events import Restarted
from counsel.results import Accepted, result_from_json
from counsel.types import Json


def failure(error: dict[str, object]) -> str:
    """`CODE: what happened. What to do next.`"""
    parts = [f"{error.get('code', 'INTERNAL')}: {error.get('error', 'unknown failure')}", error.get("hint")]
    said = " ".join(str(part) for part in parts if part)
    partial = error.get("partial")
    return f"{said}\n\nWhat had arrived of the answer:\n\n{partial}" if partial else said


def chat(result: Json) -> str:
    return _paragraphs(result.get("content"), result.get("note"), *_notes(result), _footer(result))


def consensus(result: Json) -> str:
    if "content" in result:  # the engine's own words, or a background call's first answer
        return chat(result)
    phases = result["phases"]
    head = [
        _counts(result),
        *(_failed(entry) for entry in phases.get("failed", [])),
        *_notes(result),
        result.get("final_summary"),
    ]
    return _paragraphs(
        *head, *(_section(entry) for entry in _last(phases)), result.get("note"), _footer(result)
    )


def _last(phases: Json) -> list[dict[str, object]]:
    """Each model's last answer: the refined one, else its first."""
    initial, refined = phases.get("initial") or [], phases.get("refined") or []
    again = {entry.get("model"): entry for entry in refined if _text_of(entry)}
    return [again.pop(entry.get("model"), entry) for entry in initial] + list(again.values())


def restarted(event: Restarted) -> str:
    """In one line: whose text is discarded, why, and who answers now."""
    model = event.model
    if event.reason == "interrupted":
        return f"Asking {model} again; its partial answer is discarded. {event.error}"
    if event.reason == "retried":
        part = "the end of its answer" if event.offset else "its partial answer"
        return f"{model} starts again; {part} is discarded. {event.error}"
    return (
        f"{model} failed; its partial answer is discarded. Asking {event.next}. {event.code}: {event.error}"
    )


def status(result: Json) -> str:
    content = result["content"]
    if "jobs" in content:
        return "\n".join(_job_line(job) for job in content["jobs"]) or "No jobs yet."
    parts = [_job_line(content), content.get("summary") or content.get("final_summary")]
    parts += [_message(entry) for entry in _history(content)]
    parts += [_section(entry) for entry in _first_answers(content) if _history(content)]
    if not _history(content):
        states = content.get("models_status", [])
        parts.append(waiting(content))
        parts += [_failed(entry) for entry in states if entry.get("error")]
        parts += [part for entry in states for part in sections(entry)]
        parts.append(_outcome(content))
    return _paragraphs(*parts)


def whole(result: Json) -> str:
    """A finished job's text as its call would have given it; of another its status."""
    return _outcome(result["content"]) or status(result)


def waiting(job: Json) -> str | None:
    """What an unfinished job waits for."""
    found = job.get("waiting_for")
    return f"waits for {found['text']}" if found else None


def sections(entry: dict[str, object]) -> list[str]:
    """What one model of a job said: its answer, and marked as such the beginning of one that did not finish."""
    shown = []
    if _text_of(entry):
        answered = {**entry, "status": "success"} if "partial" in entry or _ended(entry) else entry
        shown.append(_section(answered))
    if entry.get("partial"):
        model = entry.get("label") or entry.get("model")
        shown.append(f"## {model} (partial: {entry.get('status')})\n\n{entry['partial']}")
    elif not shown and _ended(entry):
        shown.append(
            f"## {entry.get('label') or entry.get('model')} ({entry.get('status')} before it answered)"
        )
    return shown


def _ended(entry: Mapping[str, object]) -> bool:
    return entry.get("status") in {"cancelled", "interrupted"}


def cancelled(result: Json) -> str:
    content = result["content"]
    return str(content.get("message") or content.get("status", ""))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────


def _paragraphs(*parts: object) -> str:
    return "\n\n".join(str(part) for part in parts if part)


def _outcome(content: dict[str, object]) -> str | None:
    if failed := content.get("error"):
        return failure(failed) if isinstance(failed, dict) else str(failed)
    result = content.get("result")
    return consensus(result) if isinstance(result, dict) else None


def _first_answers(content: dict[str, object]) -> Iterable[dict[str, object]]:
    """Of the models of a consensus that refined theirs: the conversation has only the last ones."""
    result = content.get("result")
    phases = result.get("phases") if isinstance(result, dict) else None
    if not isinstance(phases, dict):
        return
    again = {entry.get("model") for entry in phases.get("refined") or [] if entry.get("status") == "success"}
    for entry in phases.get("initial") or []:
        if entry.get("model") in again and entry.get("response"):
            yield {**entry, "status": "first answer"}


def _history(content: dict[str, object]) -> Sequence[dict[str, object]]:
    found = content.get("history") or []
    return found if isinstance(found, list) else []


def _message(entry: Json) -> str:
    model = (entry.get("metadata") or {}).get("model")
    return f"[{entry.get('role')}{f', {model}' if model else ''}]\n{entry.get('content', '')}"


def _counts(result: Mapping[str, object]) -> str:
    asked, good = result.get("models_consulted"), result.get("successful_initial_responses")
    refined, failed = result.get("refined_responses"), result.get("failed_responses")
    state = str(result.get("status", "")).replace("_", " ")
    return f"{state}: {asked} asked, {good} answered, {refined} refined, {failed} failed."


def _failed(entry: dict[str, object]) -> str:
    reason = entry.get("error", "failed")
    if isinstance(reason, dict):
        reason = failure(reason)
    elif entry.get("code"):
        reason = f"{entry['code']}: {reason}"
    return f"✗ {entry.get('label') or entry.get('model')}: {reason}"


def _text_of(entry: Mapping[str, object]) -> str:
    names = ("refined_response", "response", "initial_response", "text")
    return next((str(entry[name]) for name in names if entry.get(name)), "")


def _section(entry: dict[str, object]) -> str:
    state = entry.get("status", "success")
    mark = "" if state in {"success", "completed"} else f" ({state})"
    return f"## {entry.get('label') or entry.get('model')}{mark}\n\n{_text_of(entry)}"


def _job_line(job: Json) -> str:
    progress = job.get("progress") or {}
    parts: Iterable[Any] = (
        job.get("id"),
        job.get("status"),
        job.get("tool"),
        f"{progress['completed']}/{progress['total']}" if progress else None,
        f"{job['elapsed_seconds']} s" if "elapsed_seconds" in job else None,
        job.get("title"),
        waiting(job) if "models_status" not in job else None,
    )
    return " | ".join(str(part) for part in parts if part)


def _notes(result: dict[str, object]) -> Iterable[str]:
    return () if "async_execution" in result else answer_notes.notes(result_from_json(result), was_live=False)


def _footer(result: dict[str, object]) -> str:
    accepted = "async_execution" in result
    shown = answer_notes.footer(
        Accepted.from_json(result) if accepted else result_from_json(result), "continuation_id:"
    )
    return f"— {shown}" if shown else ""
