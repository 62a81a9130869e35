"""What we send is a valid request for the vendors' SDKs: nothing dropped, nothing unknown."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import pytest

from counsel.models.transport import Transport
from counsel.models.wires import WIRES
from counsel.types import Call, Endpoint, Model, ModelSettings, Provider, Turn
from fake import FakeAPI

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

# What OpenRouter and DeepSeek add to OpenAI's format is in no SDK that we use.
DIALECTS = {("openrouter", "reasoning"), ("openrouter", "tools"), ("deepseek", "thinking")}


def test_bodies_are_the_sdks_requests(asking: ModuleType) -> None:
    checks = checkers()
    wrong: dict[tuple[str, str], str] = {}
    for question in asking.questions():
        endpoint = Endpoint(question.provider, "http://127.0.0.1", "k")
        body = WIRES[question.provider.wire].prepare(question.call, question.model, endpoint).body
        for path, mine, remaining in asking.differences(
            body, checks[question.provider.wire](without_dialect(body))
        ):
            if (question.provider.name, path) not in DIALECTS:
                wrong[question.provider.name, path] = f"{question.name}: {mine} became {remaining}"
    assert not wrong


async def test_a_paused_turn_that_goes_back_is_the_sdks_request(fake_api: FakeAPI) -> None:
    """The SDK accepts the received turn, with its searches, as part of a request."""
    fake_api.script(
        finish="paused", thinking="hm", text="I search.", sources=[{"url": "https://e.com/", "title": "E"}]
    )
    provider = Provider("anthropic", "Anthropic", "anthropic", "")
    search = Call((Turn("user", "hello"),), model_settings=ModelSettings(web_search=True))
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
        return lambda body: as_plain_data(adapter.validate_python(body))

    return {
        "openai_responses": typed(ResponseCreateParamsStreaming),
        "openai_chat": typed(CompletionCreateParamsStreaming),
        "anthropic": typed(MessageCreateParamsStreaming),
        "gemini": gemini,
    }


def as_plain_data(value: Any) -> Any:
    """Plain lists and dictionaries: the SDKs return iterators, which validate as they go, and models."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, dict):
        return {name: as_plain_data(item) for name, item in value.items()}
    if isinstance(value, list) or hasattr(value, "__next__"):
        return [as_plain_data(item) for item in value]
    return value


def gemini(body: dict[str, Any]) -> dict[str, Any]:
    from google.genai import types

    kinds = {"contents": types.Content, "tools": types.Tool}
    parts = {"systemInstruction": types.Content, "generationConfig": types.GenerationConfig}

    def checked(kind: Any, value: Any) -> Any:
        content = kind.model_validate(value, extra="forbid")
        return content.model_dump(mode="json", by_alias=True, exclude_unset=True)

    return {
        name: [checked(kinds[name], item) for item in value] if name in kinds else checked(parts[name], value)
        for name, value in body.items()
    }
