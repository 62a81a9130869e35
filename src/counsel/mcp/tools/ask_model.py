from __future__ import annotations

from counsel.mcp.tools import base
from counsel.requests import ChatRequest
from counsel.types import Json


def request(arguments: Json) -> ChatRequest:
    return ChatRequest(
        tool="askModel",
        model=arguments["model"],
        prompt=arguments["prompt"],
        session_tag=arguments.get("sessionTag"),
        tools=tuple(arguments.get("tools", ())),
        max_cost_usd=arguments.get("max_cost_usd"),
    )


TOOL = base.Tool(
    name="askModel",
    description="Consult another AI model or agent; the same sessionTag continues the thread.",
    required=("model", "prompt"),
    properties={
        "model": base.argument(
            "model",
            "claude, codex, gemini, cursor, opencode or any model. You cannot consult yourself.",
            minLength=1,
        ),
        "prompt": base.argument("prompt", "The question or topic, with the context that the other needs."),
        "sessionTag": base.argument(
            "session_tag", "Names the thread to continue or begin. Default: the newest of this project."
        ),
        "tools": base.argument(
            "tools", "MCP servers that the consulted model may use, if the user's settings allow."
        ),
        "max_cost_usd": base.MAX_COST,
    },
    output=base.ANSWERED,
    annotations={"title": "Consult a colleague", **base.ASKS},
    run=base.asks(request),
)
