"""LangChain with both of its packages: plain, streamed, a tool, structured output, an error.

Prints what it sees as JSON.
"""
# mypy: ignore-errors

import json
import os
import sys
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

URL, TOKEN = os.environ["COUNSEL_URL"], os.environ["COUNSEL_TOKEN"]


class look(BaseModel):  # noqa: N801 (the tool's name)
    """Looks."""

    n: int


class Count(BaseModel):
    n: int


def seen_by(model: Any) -> dict[str, Any]:
    pieces = [(chunk.text, chunk.usage_metadata) for chunk in model.stream("hello")]
    question = HumanMessage("look")
    with_tools = model.bind_tools([look])
    request = with_tools.invoke([question])
    (call,) = request.tool_calls
    result = ToolMessage(f"fur {call['args']['n']}", tool_call_id=call["id"])
    return {
        "plain": model.invoke("hello").text,
        "streamed": "".join(text for text, _ in pieces),
        "usage": any(usage and usage["output_tokens"] > 0 for _, usage in pieces),
        "tools": with_tools.invoke([question, request, result]).text,
        "object": model.with_structured_output(Count, method="json_schema").invoke("object").model_dump(),
        "error": failure(model),
    }


def failure(model: Any) -> str:
    try:
        model.invoke("fail")
    except Exception as error:  # noqa: BLE001 (each package has its own)
        return str(getattr(error, "status_code", error))
    return "none"


seen = {}
for name in sys.argv[1:]:
    openai: dict[str, Any] = {"model": name, "base_url": f"{URL}/v1", "api_key": TOKEN, "max_retries": 0}
    seen[name] = {
        "chat": seen_by(ChatOpenAI(**openai, stream_usage=True)),
        "responses": seen_by(ChatOpenAI(**openai, use_responses_api=True)),
        "messages": seen_by(ChatAnthropic(model=name, base_url=URL, api_key=TOKEN, max_retries=0)),
    }
print(json.dumps(seen))  # noqa: T201 (what the test reads)
