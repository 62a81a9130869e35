"""The seed's objects, as the doors hand them out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from counsel.engine.jobs.events import Live
from counsel.engine.jobs.model import Job, Reply
from counsel.engine.store.records import JobDetail, JobRecord, Message
from counsel.types import Json, Usage

ICONS = {
    "processing": "⏳ PROCESSING",
    "completed": "✅ COMPLETED",
    "failed": "❌ FAILED",
    "cancelled": "🛑 CANCELLED",
    "completed_with_errors": "⚠️ COMPLETED_WITH_ERRORS",
}


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def usage(used: Usage) -> Json:
    shown: Json = {"input_tokens": used.input, "output_tokens": used.output, "total_tokens": used.total}
    more = {
        "reasoning_tokens": used.reasoning,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
    }
    if used.estimated:
        shown["estimated"] = True
    return shown | {name: count for name, count in more.items() if count}


def metadata(reply: Reply) -> Json:
    shown: Json = {
        "model": reply.model,
        "provider": reply.provider,
        "usage": usage(reply.usage),
        "cost_usd": reply.usage.cost_usd,
        "response_time_ms": reply.ms,
        "finish_reason": reply.finish_reason,
    }
    more: Json = {
        "answered_by": reply.vendor_model if reply.vendor_model != reply.model else None,
        "settings_left_out": list(reply.left_out),
        "notices": list(reply.notices),
        "session": reply.session,
        "cached": reply.cached,
        "tool_calls": list(reply.tools),
    }
    return shown | {name: value for name, value in more.items() if value}


def totals(replies: list[Reply], failures: Iterable[Mapping[str, Any]] = ()) -> Json:
    """What a job used and cost. `failures`: the fields of those who failed, who are paid, too."""
    lost = [fields for fields in failures if "usage" in fields]
    used = [*(usage(reply.usage) for reply in replies), *(fields["usage"] for fields in lost)]
    costs = [*(reply.usage.cost_usd for reply in replies), *(fields.get("cost_usd") for fields in lost)]
    known = [cost for cost in costs if cost is not None]
    names = ("input_tokens", "output_tokens", "total_tokens")
    estimated: Json = {"estimated": True} if any(each.get("estimated") for each in used) else {}
    return {
        "usage": {name: sum(each[name] for each in used) for name in names} | estimated,
        "cost_usd": round(sum(known), 8) if known else None,
        "cost_complete": len(known) == len(costs),
    }


def status_line(*, status: str, tool: str, conversation: str, done: str, created: float, models: str) -> str:
    started = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{ICONS.get(status, status.upper())} | {tool.upper()} | {conversation} | {done} | Started: {started} | {models}"


def accepted(job: Job, models: Iterable[str]) -> Json:
    """What a background call answers at once."""
    names = list(models)
    many = job.tool == "consensus"
    done = f"0/{len(names)}" if many else "1/1"
    line = status_line(
        status="processing",
        tool=job.tool,
        conversation=job.conversation,
        done=done,
        created=job.created,
        models=",".join(names),
    )
    shown: Json = {
        "content": line,
        "continuation": {"id": job.conversation, "status": "processing"},
        "async_execution": True,
        "job_id": job.id,
    }
    if many:
        shown["metadata"] = {
            "total_models": len(names),
            "successful_models": 0,
            "models_list": ",".join(names),
        }
    return shown


def line_of(row: JobRecord) -> str:
    done = f"{row.completed}/{row.total}" if row.tool == "consensus" else "1/1"
    return status_line(
        status=row.status,
        tool=row.tool,
        conversation=row.conversation,
        done=done,
        created=row.created,
        models=",".join(row.models),
    )


def progress(completed: int, total: int) -> Json:
    return {
        "completed": completed,
        "total": total,
        "percentage": round(100 * completed / total) if total else 0,
    }


def listed(row: JobRecord) -> Json:
    """One line of the list of jobs."""
    ended = row.finished
    shown: Json = {
        "id": row.conversation,
        "job_id": row.id,
        "status": row.status,
        "tool": row.tool,
        "models": list(row.models),
        "progress": progress(row.completed, row.total),
        "elapsed_seconds": round((ended or time.time()) - row.created, 1),
        "started_at": iso(row.created),
    }
    if ended:
        shown["completed_at"] = iso(ended)
    return shown | {name: text for name, text in (("title", row.title), ("summary", row.summary)) if text}


def status(row: JobDetail, models: list[Json], history: list[Message] | None) -> Json:
    """The whole of one job: progress, what each model has said so far, and when done the result."""
    shown = listed(row)
    if row.status == "processing":
        shown["models_status"] = models
        shown["partial"] = "\n\n".join(part["text"] for part in models if part.get("text"))
    elif models:  # it did not complete: who had answered, and what the others had said by then
        shown["models_status"] = models
        if unfinished := "\n\n".join(part["partial"] for part in models if part.get("partial")):
            shown["partial"] = unfinished
    if row.result is not None:
        shown["result"] = row.result
    if row.error is not None:
        shown["error"] = row.error
    if row.summary and row.status != "processing":
        shown["final_summary"] = row.summary
    if history is not None:
        shown["history"] = [message(held) for held in history]
    return shown


def slots(live: Live) -> list[Json]:
    shown = []
    for name, state in live.slots.items():
        part: Json = {
            "slot": name,
            "model": state.model,
            "status": state.status,
            "phase": state.phase,
            "text": state.text(),
        }
        part |= {"waiting_for": state.waits.to_json()} if state.waits else {}
        shown.append(part | ({"error": state.error.as_dict()} if state.error else {}))
    return shown


def message(held: Message) -> Json:
    shown: Json = {"role": held.role, "content": held.asked or held.text, "at": iso(held.at)}
    if held.images:
        shown["images"] = len(held.images)
    return shown | ({"metadata": held.about} if held.about else {})


def cancelled(row: JobRecord) -> Json:
    now = time.time()
    return {
        "status": "cancelled",
        "message": f"Job {row.conversation} cancelled successfully",
        "job_id": row.id,
        "elapsed_seconds": round(now - row.created, 1),
        "cancelled_at": iso(now),
    }


_OVER = {
    "processing": "has been told to stop, but the process that runs it has not answered yet",
    "completed": "has already completed and cannot be cancelled",
    "completed_with_errors": "has already completed and cannot be cancelled",
    "failed": "has already failed and cannot be cancelled",
    "cancelled": "has already been cancelled",
}


def over_already(row: JobRecord) -> Json:
    words = f"Job {row.conversation} {_OVER[row.status]}"
    return {"status": row.status, "message": words, "job_id": row.id}
