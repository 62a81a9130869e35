"""The same request twice: as our `Call`, and through pydantic-ai."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from anthropic import AsyncAnthropic
from google import genai
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model as OracleModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.deepseek import DeepSeekProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openrouter import OpenRouterProvider
from pydantic_ai.tools import ToolDefinition

from counsel.models import catalog_rows
from counsel.models.transport import Transport
from counsel.types import (
    EFFORTS,
    Call,
    Endpoint,
    Image,
    Json,
    Model,
    ModelSettings,
    Provider,
    ToolCall,
    ToolResult,
    ToolSpec,
    Turn,
)
from fake import FakeAPI

IMAGE = Image("image/png", b"\x89PNG\r\n\x1a\n-not-really")
SCHEMA: Json = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
TOOL = ToolSpec("look", "Look at something.", SCHEMA)
LOOK_CALL = ToolCall("call_1", "look", {"at": "the sky"})
HISTORY = (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three"))

CASES: dict[str, Call] = {
    "text": Call((Turn("user", "hello"),), system="Be brief."),
    "image": Call((Turn("user", "look", images=(IMAGE,)),)),
    "history": Call(HISTORY, system="Be brief."),
    "web_search": Call((Turn("user", "news?"),), model_settings=ModelSettings(web_search=True)),
    "tools": Call((Turn("user", "colour?"),), tools=(TOOL,)),
    "tool_loop": Call(
        (
            Turn("user", "colour?"),
            Turn("assistant", "Let me see.", tool_calls=(LOOK_CALL,)),
            Turn("tool", tool_results=(ToolResult("call_1", "look", "blue"),)),
        ),
        tools=(TOOL,),
    ),
    "limit": Call((Turn("user", "hello"),), max_output=20_000),
}
SETTINGS: dict[str, ModelSettings] = {
    **{f"effort={effort}": ModelSettings(effort=effort) for effort in EFFORTS},
    "temperature=0": ModelSettings(temperature=0.0),
    "temperature=1": ModelSettings(temperature=1.0),
    "verbosity=low": ModelSettings(verbosity="low"),
    "media_resolution=LOW": ModelSettings(media_resolution="MEDIA_RESOLUTION_LOW"),
}


@dataclass(frozen=True)
class Question:
    name: str
    model: Model
    provider: Provider
    call: Call


def searching(model: Model, provider: Provider) -> tuple[Model, Provider]:
    """Like `Target.searching`: xAI searches over the Responses wire."""
    style = "reasoning" if model.effort_style == "reasoning_effort" else model.effort_style
    return replace(model, effort_style=style), replace(provider, wire=provider.options["web_search_wire"])


def questions() -> Iterator[Question]:
    catalog = catalog_rows.shipped()
    for model in catalog.models.values():
        provider = catalog.providers[model.provider]
        if provider.name == "local":
            continue
        for case, call in CASES.items():
            if (case == "image" and not model.vision) or (call.tools and not model.tools):
                continue
            if case == "web_search" and not model.web_search:
                continue
            way = model, provider
            if case == "web_search" and "web_search_wire" in provider.options:
                way = searching(*way)
            yield Question(f"{model.id}: {case}", *way, call)
        for setting, model_settings in SETTINGS.items():
            call = Call((Turn("user", "hello"),), model_settings=model_settings)
            yield Question(f"{model.id}: {setting}", model, provider, call)


# ── through pydantic-ai ──────────────────────────────────────────────────────────────────────────────


class Oracle:
    def __init__(self, fake: FakeAPI) -> None:
        openai = AsyncOpenAI(base_url=fake.v1, api_key="k", max_retries=0)
        anthropic = AsyncAnthropic(base_url=fake.url, api_key="k", max_retries=0)
        self.openai = OpenAIProvider(openai_client=openai)
        self.deepseek = DeepSeekProvider(openai_client=self.openai.client)
        self.openrouter = OpenRouterProvider(openai_client=self.openai.client)
        self.anthropic = AnthropicProvider(anthropic_client=anthropic)
        # A client of its own: the provider's sends User-Agent twice, which our server refuses. The SDK's address has
        # been `v1` since 3.0; we use v1beta, which also serves the preview models.
        address = genai.types.HttpOptions(base_url=fake.url, api_version="v1beta")
        self.google = GoogleProvider(client=genai.Client(api_key="k", http_options=address))

    def model(self, model: Model, provider: Provider) -> OracleModel:
        name = model.wire_id
        if provider.wire == "anthropic":
            return AnthropicModel(name, provider=self.anthropic)
        if provider.wire == "gemini":
            return GoogleModel(name, provider=self.google)
        if provider.wire == "openai_responses":
            return OpenAIResponsesModel(name, provider=self.openai)
        if provider.name == "openrouter":
            return OpenRouterModel(name, provider=self.openrouter)
        return OpenAIChatModel(name, provider=self.deepseek if provider.name == "deepseek" else self.openai)


def messages(call: Call) -> list[ModelMessage]:
    result: list[ModelMessage] = []
    for turn in call.turns:
        if turn.role == "assistant":
            calls = [ToolCallPart(call.name, call.arguments, call.id) for call in turn.tool_calls]
            result.append(ModelResponse(parts=[TextPart(turn.text), *calls]))
        elif turn.tool_results:
            tool_returns = [ToolReturnPart(call.name, call.text, call.call_id) for call in turn.tool_results]
            result.append(ModelRequest(parts=tool_returns))
        else:
            pictures = [BinaryContent(image.data, media_type=image.media_type) for image in turn.images]
            result.append(
                ModelRequest(parts=[UserPromptPart([turn.text, *pictures] if pictures else turn.text)])
            )
    if call.system:
        last = result[-1]
        assert isinstance(last, ModelRequest)
        last.instructions = call.system
    return result


def parameters(call: Call) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=tool.name, parameters_json_schema=tool.schema, description=tool.description, strict=False
        )
        for tool in call.tools
    ]
    return ModelRequestParameters(
        function_tools=tools,
        native_tools=[WebSearchTool()] if call.model_settings.web_search else [],
        instruction_parts=[InstructionPart(call.system)] if call.system else None,
    )


def settings(call: Call, model: Model, provider: Provider) -> dict[str, Any]:
    """The caller's settings and our defaults as pydantic-ai's own settings: the tests compare forms, not levels."""
    model_settings = call.model_settings
    reply: dict[str, Any] = {}
    if call.max_output:
        reply["max_tokens"] = call.max_output
    elif provider.wire == "anthropic":
        reply["max_tokens"] = model.output
    if model.temperature:
        reply["temperature"] = 0.5 if model_settings.temperature is None else model_settings.temperature
    if model.effort_style != "none":
        reply |= effort_settings(model, provider, model_settings)
    if model.verbosity:
        reply["openai_text_verbosity"] = model_settings.verbosity or "medium"
    if model.media_resolution:
        reply["google_video_resolution"] = model_settings.media_resolution or "MEDIA_RESOLUTION_HIGH"
    if provider.wire == "anthropic":
        reply["anthropic_cache_instructions"] = "1h"
    if provider.wire == "openai_responses":
        reply["openai_store"] = False
    return reply


def effort_settings(model: Model, provider: Provider, model_settings: ModelSettings) -> dict[str, Any]:
    value: Any = model.efforts[model_settings.effort or "medium"]
    if provider.wire == "gemini":
        field = model.effort_style
        return {"google_thinking_config": {field: value, "include_thoughts": True}}
    if model.effort_style == "adaptive":
        return {"anthropic_thinking": {"type": "adaptive"}, "anthropic_effort": value}
    if model.effort_style.startswith("budget"):
        effort = {"minimal": "low", "max": "high"}.get(
            model_settings.effort or "medium", model_settings.effort or "medium"
        )
        beside = {"anthropic_effort": effort} if model.effort_style == "budget_effort" else {}
        return {"anthropic_thinking": {"type": "enabled", "budget_tokens": value}, **beside}
    if provider.name == "openrouter":
        return {"openrouter_reasoning": {"effort": value, "enabled": True}}
    return {"openai_reasoning_effort": value}


# ── both on the wire ─────────────────────────────────────────────────────────────────────────────────


class BothWays:
    """Asks both ways and returns the requests that the fake received."""

    def __init__(self, fake: FakeAPI, transport: Transport) -> None:
        self.fake, self.transport, self.oracle = fake, transport, Oracle(fake)

    async def ours(self, question: Question) -> Any:
        base = self.fake.v1 if question.provider.wire.startswith("openai") else self.fake.url
        endpoint = Endpoint(question.provider, base, "k")
        async for _ in self.transport.stream(question.call, question.model, endpoint):
            pass
        return self.fake.last

    async def refused(self, question: Question) -> Any:
        """What pydantic-ai raises."""
        try:
            await self.theirs(question)
        except ModelAPIError as error:
            return error
        raise AssertionError("it was not refused")

    async def theirs(self, question: Question, fields: dict[str, Any] | None = None) -> Any:
        before = len(self.fake.calls)
        value = settings(question.call, question.model, question.provider) if fields is None else fields
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about fields that it drops; the bodies show them
            async with model_request_stream(
                self.oracle.model(question.model, question.provider),
                messages(question.call),
                model_settings=value,
                model_request_parameters=parameters(question.call),
            ) as stream:
                async for _ in stream:
                    pass
        assert len(self.fake.calls) == before + 1
        if question.provider.wire == "gemini":
            self.fake.last.body["generationConfig"] = _camel(self.fake.last.body.get("generationConfig", {}))
            self.fake.last.body["contents"] = _camel(self.fake.last.body["contents"])
        return self.fake.last


def _camel(value: Any) -> Any:
    """google-genai passes dictionaries on unchanged; Google accepts both spellings."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"_([a-z])", lambda match: match[1].upper(), name): _camel(item)
        for name, item in value.items()
    }


@asynccontextmanager
async def both_ways() -> AsyncIterator[BothWays]:
    async with FakeAPI() as fake:
        transport = Transport()
        both = BothWays(fake, transport)
        try:
            yield both
        finally:
            await transport.close()
            await both.oracle.openai.client.close()
            await both.oracle.anthropic.client.close()
            await both.oracle.google.client.aio.aclose()


# ── what differs ─────────────────────────────────────────────────────────────────────────────────────

ABSENT = "absent"


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, our value, their value. Places in lists are written `[]`; arguments are compared as the JSON they hold."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            yield from differences(ours.get(name, ABSENT), theirs.get(name, ABSENT), f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for our_item, their_item in zip(ours, theirs, strict=True):
            yield from differences(our_item, their_item, f"{path}[]")
    elif path.endswith(".arguments") and isinstance(ours, str) and isinstance(theirs, str):
        if json.loads(ours) != json.loads(theirs):
            yield path, ours, theirs
    elif ours != theirs:
        yield path.removeprefix("."), _shown(ours), _shown(theirs)


def _shown(value: Any) -> str:
    return value if value is ABSENT else json.dumps(value, sort_keys=True)
