from __future__ import annotations

from collections.abc import Mapping

from counsel.errors import InvalidArgument
from counsel.mcp.tool_call import Call
from counsel.mcp.tools import base
from counsel.results import JobList, JobStatus
from counsel.types import Json


async def run(call: Call, arguments: Json) -> JobStatus | JobList:
    any_id = arguments.get("continuation_id")
    full_history = arguments.get("full_history", False)
    if any_id is None:
        if full_history:
            raise InvalidArgument("check_status: full_history needs a continuation_id.")
        return await call.engine.recent()
    status = await call.engine.status(any_id, full_history=full_history)
    call.job = status.job_id or any_id
    return status


_JOB: dict[str, Mapping[str, object]] = {
    "id": base.STRING,
    "job_id": base.STRING,
    "status": base.STRING,
    "progress": base.OBJECT,
}

TOOL = base.Tool(
    name="check_status",
    description="Progress and result of a job; without an id the 10 newest jobs.",
    properties={
        "continuation_id": base.string("The job's id.", minLength=1),
        "full_history": base.switch("The whole conversation of this id."),
    },
    output={
        "content": base.fields(
            **_JOB,
            result=base.OBJECT,
            error=base.OBJECT,
            partial=base.STRING,
            models_status=base.several(base.OBJECT),
            history=base.several(base.OBJECT),
            jobs=base.several(base.OBJECT),
        )
    },
    annotations={"title": "Check jobs", "readOnlyHint": True, "openWorldHint": False},
    run=run,
)
