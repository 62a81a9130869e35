from __future__ import annotations

from typing import get_args

from counsel.mcp import render
from counsel.mcp.tools import base
from counsel.requests import ChatRequest
from counsel.types import Json, MediaResolution

RESOLUTIONS: tuple[str, ...] = get_args(MediaResolution)


def request(arguments: Json) -> ChatRequest:
    return ChatRequest(model=arguments.get("model", "auto"), **base.question(arguments))


TOOL = base.Tool(
    name="chat",
    description="Ask one AI model or coding agent, with files, images and a conversation that can be continued.",
    required=("prompt",),
    properties={
        "prompt": base.text("Your question with relevant context.", minLength=1),
        "model": base.text(
            "Model, alias or agent: auto, gpt-5, gemini-2.5-flash, grok-4, opus, codex, provider/model …",
            default="auto",
        ),
        "files": base.FILES,
        "images": base.IMAGES,
        "continuation_id": base.CONTINUE,
        "temperature": base.temperature(0.5),
        "reasoning_effort": base.EFFORT,
        "verbosity": base.choice(
            "Length of the answer, where the model knows it.", ("low", "medium", "high"), "medium"
        ),
        "use_websearch": base.switch("Let the model search the web."),
        "media_resolution": base.choice(
            "Image detail (Gemini 3).", RESOLUTIONS, default="MEDIA_RESOLUTION_HIGH"
        ),
        "async": base.BACKGROUND,
        "export": base.EXPORT,
    },
    output={**base.ANSWERED, "async_execution": base.BOOLEAN},
    annotations={"title": "Ask a model", **base.ASKS},
    run=base.asks(request),
    text=render.chat,
)
