from __future__ import annotations

from counsel.mcp.tools import base
from counsel.requests import ConsensusRequest, Member
from counsel.types import Json


def member(entry: str | Member) -> str | Member:
    """An object that names a model and nothing else is that name."""
    return entry if isinstance(entry, str) or len(entry) > 1 else entry["model"]


def request(arguments: Json) -> ConsensusRequest:
    return ConsensusRequest(
        models=tuple(map(member, arguments["models"])),
        enable_cross_feedback=arguments.get("enable_cross_feedback", True),
        cross_feedback_prompt=arguments.get("cross_feedback_prompt"),
        **base.question(arguments),
    )


_OR_NULL: dict[str, object] = {"type": ["string", "null"]}

TOOL = base.Tool(
    name="consensus",
    description="Ask several models at once; then each sees the others' answers and refines its own.",
    required=("prompt", "models"),
    properties={
        "prompt": base.argument("prompt", "The problem or proposal."),
        "models": base.argument(
            "models",
            'Models to consult: "o3", "@panel" of the user, ["auto"]: three of different vendors.',
        ),
        "files": base.FILES,
        "images": base.IMAGES,
        "continuation_id": base.CONTINUE,
        "enable_cross_feedback": base.argument(
            "enable_cross_feedback", "Second round, in which models refine.", default=True
        ),
        "cross_feedback_prompt": base.argument(
            "cross_feedback_prompt", "What the second round should look at."
        ),
        "temperature": base.temperature(0.2),
        "reasoning_effort": base.EFFORT,
        "max_cost_usd": base.MAX_COST,
        "async": base.BACKGROUND,
        "export": base.EXPORT,
    },
    output={
        "status": {"type": ["string", "integer"]},  # a failure's is the provider's HTTP status
        "models_consulted": base.INTEGER,
        "successful_initial_responses": base.INTEGER,
        "failed_responses": base.INTEGER,
        "refined_responses": base.INTEGER,
        "phases": base.fields(
            initial=base.several(base.fields(model=base.STRING, response=base.STRING)),
            refined=base.several(base.fields(model=base.STRING, refined_response=_OR_NULL)),
            failed=base.several(base.fields(model=base.STRING, code=base.STRING, error=base.STRING)),
        ),
        "content": base.STRING,
        "continuation": base.CONTINUATION,
        "metadata": base.fields(usage=base.USAGE, cost_usd=base.COST),
        "job_id": base.STRING,
        "async_execution": base.BOOLEAN,
    },
    annotations={"title": "Ask several models", **base.ASKS},
    run=base.asks(request),
)
