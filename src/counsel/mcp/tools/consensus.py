from __future__ import annotations

from counsel.mcp.tools import base
from counsel.requests import ConsensusRequest, Member
from counsel.types import Json


def member(entry: str | Member) -> str | Member:
    """The entry; an object with nothing but a model becomes the model's name."""
    return entry if isinstance(entry, str) or len(entry) > 1 else entry["model"]


def request(arguments: Json) -> ConsensusRequest:
    return ConsensusRequest(
        models=tuple(map(member, arguments["models"])),
        choices=tuple(arguments.get("choices", ())),
        **{name: arguments[name] for name in ("judge", "refine", "rounds", "order") if name in arguments},
        enable_cross_feedback=arguments.get("enable_cross_feedback", True),
        cross_feedback_prompt=arguments.get("cross_feedback_prompt"),
        **base.question(arguments),
    )


_ANSWERS = base.several(base.OBJECT)

TOOL = base.Tool(
    name="consensus",
    description="Ask several models; each then reads the others' unnamed answers and refines its own. Can vote.",
    required=("prompt", "models"),
    properties={
        "prompt": base.argument("prompt", "The problem or proposal."),
        "models": base.argument(
            "models",
            'Models: "o3", "@panel" of the user, {"model", "role", "stance"}; ["auto"]: three vendors.',
        ),
        "files": base.FILES,
        "images": base.IMAGES,
        "continuation_id": base.CONTINUE,
        "judge": base.argument(
            "judge", "Non-member that compares the answers: model, auto, none.", default="none"
        ),
        "choices": base.argument("choices", "Each model picks one."),
        "refine": base.argument("refine", "disagreement: needs choices or judge.", default="always"),
        "rounds": base.argument("rounds", "Maximum, including the first.", default=2),
        "order": base.argument("order", "sequential: a round table.", default="parallel"),
        "enable_cross_feedback": base.argument("enable_cross_feedback", "false: never refine.", default=True),
        "cross_feedback_prompt": base.argument("cross_feedback_prompt", "What refinement should look at."),
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
            initial=_ANSWERS,
            refined=_ANSWERS,
            failed=_ANSWERS,
            verdict=base.OBJECT,
        ),
        "vote": base.OBJECT,
        "refinement": base.OBJECT,
        "content": base.STRING,
        "continuation": base.CONTINUATION,
        "metadata": base.fields(usage=base.USAGE, cost_usd=base.COST),
        "job_id": base.STRING,
        "async_execution": base.BOOLEAN,
    },
    annotations={"title": "Ask several models", **base.ASKS},
    run=base.asks(request),
)
