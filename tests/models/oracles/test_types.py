"""What we send is what the vendors' SDKs call a request: validated, nothing dropped, nothing unknown."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import pytest

from counsel.models.transport import Transport
from counsel.models.wires import WIRES
from counsel.types import Call, Endpoint, Knobs, Model, Provider, Turn
from fake import FakeAPI

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

# What OpenRouter and DeepSeek add to OpenAI's format is in no SDK here.
DIALECTS = {("openrouter", "reasoning"), ("openrouter", "tools"), ("deepseek", "thinking")}


def test_bodies_are_the_sdks_requests(asking: ModuleType) -> None:
    checks = checkers()
    wrong: dict[tuple[str, str], str] = {}
    for asked in asking.questions():
        endpoint = Endpoint(asked.provider, "http://127.0.0.1", "k")
        body = WIRES[asked.provider.wire].prepare(asked.call, asked.model, endpoint).body
        for path, mine, remaining in asking.differences(
            body, checks[asked.provider.wire](without_dialect(body))
        ):
            if (asked.provider.name, path) not in DIALECTS:
                wrong[asked.provider.name, path] = f"{asked.name}: {mine} became {remaining}"
    assert not wrong


async def test_a_paused_turn_that_goes_back_is_the_sdks_request(fake_api: FakeAPI) -> None:
    """What came over the wire, searches and all, is what the SDK lets one send."""
    fake_api.script(
        finish="paused", thinking="hm", text="I search.", sources=[{"url": "https://e.com/", "title": "E"}]
    )
    provider = Provider("anthropic", "Anthropic", "anthropic", "")
    search = Call((Turn("user", "hello"),), knobs=Knobs(web_search=True))
    transport = Transport()
    model = Model("claude", "anthropic", "claude", web_search=True, temperature=None)
    async for _ in transport.stream(search, model, Endpoint(provider, fake_api.url, "k")):
        pass
    await transport.close()
    body = fake_api.last.body
    assert body["messages"][-1]["role"] == "assistant"
    assert checkers()["anthropic"](body) == body


def without_dialect(body: dict[str, Any]) -> dict[str, Any]:
    plain = [tool for tool in body.get("tools", []) if not str(tool.get("type")).startswith("openrouter:")]
    return {**body, "tools": plain} if "tools" in body and "messages" in body else body


def checkers() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from anthropic.types.message_create_params import MessageCreateParamsStreaming
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
        from pydantic import TypeAdapter

    def typed(kind: Any) -> Any:
        adapter = TypeAdapter(kind)
        return lambda body: solid(adapter.validate_python(body))

    return {
        "openai_responses": typed(ResponseCreateParamsStreaming),
        "openai_chat": typed(CompletionCreateParamsStreaming),
        "anthropic": typed(MessageCreateParamsStreaming),
        "gemini": gemini,
    }


def solid(value: Any) -> Any:
    """The SDKs' `Iterable` fields come back as iterators that check as they go, what was received as their models."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, dict):
        return {name: solid(each) for name, each in value.items()}
    if isinstance(value, list) or hasattr(value, "__next__"):
        return [solid(each) for each in value]
    return value


def gemini(body: dict[str, Any]) -> dict[str, Any]:
    from google.genai import types

    kinds = {"contents": types.Content, "tools": types.Tool}
    parts = {"systemInstruction": types.Content, "generationConfig": types.GenerationConfig}

    def checked(kind: Any, value: Any) -> Any:
        read = kind.model_validate(value, extra="forbid")
        return read.model_dump(mode="json", by_alias=True, exclude_unset=True)

    return {
        name: [checked(kinds[name], each) for each in value] if name in kinds else checked(parts[name], value)
        for name, value in body.items()
    }
