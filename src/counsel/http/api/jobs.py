"""`/api/jobs…`: list, show, follow, cancel and delete jobs. `submit.py` starts them."""

from __future__ import annotations

from typing import Protocol, cast

from counsel.argument_schema import Checker
from counsel.engine.store.records import JobFilter
from counsel.http.api import job_stream
from counsel.http.api.endpoint import ApiCall
from counsel.http.api.event_cursor import Cursor
from counsel.requests import Engine
from counsel.results import JobList

_CANCEL = Checker(
    "cancel",
    {
        "type": "object",
        "properties": {"member": {"type": "string", "minLength": 1}},
        "required": [],
        "additionalProperties": False,
    },
)


class JobArchive(Engine, Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    async def jobs(
        self, limit: int, job_filter: JobFilter, cursor: str | None = None
    ) -> tuple[JobList, str | None]: ...

    async def question(self, job_id: str) -> dict[str, object]: ...

    async def delete(self, job_id: str) -> None: ...

    async def timeline(self, any_id: str) -> dict[str, object]: ...


async def page(call: ApiCall) -> object:
    query = call.query
    job_filter = JobFilter(
        status=query["status"],
        tool=query["tool"],
        model=query["model"],
        conversation=query["conversation"],
        words=query["q"],
    )
    jobs, next_cursor = await cast(JobArchive, call.engine).jobs(query["limit"], job_filter, query["cursor"])
    return {"jobs": jobs.with_outcomes(), "next": next_cursor}


async def show(call: ApiCall) -> object:
    job = await call.engine.status(call.name, full_history=call.query["history"])
    if not call.query["question"]:
        return job.content
    return {**job.content, "question": await cast(JobArchive, call.engine).question(job.job_id)}


async def events(call: ApiCall) -> object:
    """Stream a job's events. A client that reconnects sends `Last-Event-ID`, or `?after=` if it cannot set headers."""
    job = (await call.engine.status(call.name)).job_id
    last = call.request.headers.get("last-event-id") or ""
    cursor = (
        Cursor.parse("Last-Event-ID", last) if last else Cursor.parse("after", call.query["after"] or "0")
    )
    return job_stream.response(call, job, cursor)


async def timeline(call: ApiCall) -> object:
    return await cast(JobArchive, call.engine).timeline(call.name)


async def cancel(call: ApiCall) -> object:
    # The checker drops an empty name. Fall back to the raw body, or the whole job would be stopped.
    member = _CANCEL.check(call.body).get("member", call.body.get("member"))
    return (await call.engine.cancel(call.name, None if member is None else str(member))).content


async def delete(call: ApiCall) -> object:
    await cast(JobArchive, call.engine).delete(call.name)
    return {"deleted": call.name}
