from __future__ import annotations

from counsel.mcp.tool_call import Call
from counsel.mcp.tools import base
from counsel.results import Cancellation
from counsel.types import Json


async def run(call: Call, arguments: Json) -> Cancellation:
    return await call.engine.cancel(arguments["continuation_id"])


TOOL = base.Tool(
    name="cancel_job",
    description="Stop a running job and its calls to models.",
    required=("continuation_id",),
    properties={"continuation_id": base.string("The job's id.", minLength=1)},
    output={"content": base.fields(status=base.STRING, message=base.STRING, job_id=base.STRING)},
    annotations={
        "title": "Cancel a job",
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    run=run,
)
