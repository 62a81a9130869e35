from __future__ import annotations

from counsel.mcp.tools import base
from counsel.requests import ChatRequest
from counsel.types import Json


def request(arguments: Json) -> ChatRequest:
    return ChatRequest(model=arguments.get("model", "auto"), **base.question(arguments))


TOOL = base.Tool(
    name="chat",
    description="Ask one AI model or coding agent, with files, images and a conversation that can be continued.",
    required=("prompt",),
    properties={
        "prompt": base.argument("prompt", "Your question with relevant context."),
        "model": base.argument(
            "model",
            'Model, alias or agent: auto, gpt-5, gemini-2.5-flash, opus, codex, provider/model …; "gpt-5, opus": in this order.',
            default="auto",
        ),
        "files": base.FILES,
        "images": base.IMAGES,
        "continuation_id": base.CONTINUE,
        "temperature": base.temperature(0.5),
        "reasoning_effort": base.EFFORT,
        "verbosity": base.argument(
            "verbosity", "Length of the answer, where the model supports it.", default="medium"
        ),
        "use_websearch": base.argument("use_websearch", "Let the model search the web.", default=False),
        "media_resolution": base.argument(
            "media_resolution", "Image detail (Gemini 3).", default="MEDIA_RESOLUTION_HIGH"
        ),
        "max_cost_usd": base.MAX_COST,
        "async": base.BACKGROUND,
        "export": base.EXPORT,
    },
    output={**base.ANSWERED, "async_execution": base.BOOLEAN},
    annotations={"title": "Ask a model", **base.ASKS},
    run=base.asks(request),
)
