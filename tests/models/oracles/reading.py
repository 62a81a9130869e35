"""The same stream read twice: by our transport and wire, and by the vendor's SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import anthropic
import openai
from google import genai

from counsel.errors import CounselError
from counsel.models.transport import Transport
from counsel.types import (
    Call,
    Endpoint,
    Finished,
    Limits,
    Model,
    Notice,
    Provider,
    Text,
    Thinking,
    ToolUse,
    Turn,
    UsageReport,
)
from fake import FakeAPI

# wire → the fake's name of the vendor
VENDORS = {
    "openai_responses": "openai-responses",
    "openai_chat": "openai-chat",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


@dataclass
class Read:
    """The content of a stream in terms that all four readers have in common."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    finish: str = ""
    model: str | None = None


class Readers:
    def __init__(self, fake: FakeAPI) -> None:
        self.fake, self.transport = fake, Transport()
        self.openai = openai.AsyncOpenAI(base_url=fake.v1, api_key="k", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(base_url=fake.url, api_key="k", max_retries=0)
        options = genai.types.HttpOptions(base_url=fake.url, api_version="v1beta")
        self.google = genai.Client(api_key="k", http_options=options)

    async def close(self) -> None:
        await self.transport.close()
        await self.openai.close()
        await self.anthropic.close()
        await self.google.aio.aclose()

    async def ours(self, wire: str) -> Read:
        provider = Provider(wire, wire, wire, "")
        endpoint = Endpoint(provider, self.fake.v1 if wire.startswith("openai") else self.fake.url, "k")
        answer, pieces = Read(), []
        async for event in self.transport.stream(
            Call((Turn("user", "hello"),)), Model("m", wire, "m"), endpoint, Limits(attempts=1)
        ):
            if isinstance(event, Text):
                pieces.append(event.delta)
            elif isinstance(event, Thinking):
                answer.thinking += event.delta
            elif isinstance(event, ToolUse):
                answer.calls.append((event.call.name, event.call.arguments))
            elif isinstance(event, Notice) and event.kind == "source":
                answer.sources.append(event.data["url"])
            elif isinstance(event, UsageReport):
                usage = event.usage
                answer.usage = {
                    "input": usage.input,
                    "output": usage.output,
                    "reasoning": usage.reasoning,
                    "cache_read": usage.cache_read,
                    "cache_write": usage.cache_write,
                }
            elif isinstance(event, Finished):
                answer.finish, answer.model = event.reason, event.model
        answer.text = "".join(pieces)
        return answer

    async def theirs(self, wire: str) -> Read:
        reader: Callable[[], Awaitable[Read]] = getattr(self, f"_{wire}")
        return await reader()

    async def _openai_responses(self) -> Read:
        # The SDK's accumulator requires text formats; the final event has the whole answer as the SDK reads it.
        final: Any = None
        thinking = ""
        async with await self.openai.responses.create(model="m", input="hello", stream=True) as stream:
            async for event in stream:
                if event.type == "response.reasoning_summary_part.added" and event.summary_index:
                    thinking += "\n\n"
                if event.type == "response.reasoning_summary_text.delta":
                    thinking += event.delta
                if event.type in {"response.completed", "response.incomplete"}:
                    final = event.response
                if event.type == "response.failed":
                    raise openai.APIError(event.response.error.message, None, body=None)
        parts = [part for item in final.output if item.type == "message" for part in item.content]
        calls = [item for item in final.output if item.type == "function_call"]
        usage = final.usage
        reason = final.incomplete_details.reason if final.incomplete_details else None
        has_refusal = any(part.type == "refusal" for part in parts)
        return Read(
            text="".join(part.text for part in parts if part.type == "output_text"),
            thinking=thinking,
            calls=[(call.name, json.loads(call.arguments)) for call in calls],
            sources=unique(note.url for part in parts for note in getattr(part, "annotations", ())),
            usage={
                "input": usage.input_tokens,
                "output": usage.output_tokens,
                "reasoning": usage.output_tokens_details.reasoning_tokens,
                "cache_read": usage.input_tokens_details.cached_tokens,
                "cache_write": usage.input_tokens_details.cache_write_tokens,
            },
            finish={"max_output_tokens": "length", "content_filter": "filtered"}[reason]
            if reason
            else "tool_calls"
            if calls
            else "filtered"
            if has_refusal
            else "stop",
            model=final.model,
        )

    async def _openai_chat(self) -> Read:
        thinking, sources = "", []
        hello: Any = [{"role": "user", "content": "hello"}]
        async with self.openai.chat.completions.stream(
            model="m", messages=hello, stream_options={"include_usage": True}
        ) as stream:
            async for event in stream:
                if event.type == "chunk" and event.chunk.choices:
                    delta = event.chunk.choices[0].delta
                    thinking += (
                        getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None) or ""
                    )
                    sources += [
                        note["url_citation"]["url"] for note in getattr(delta, "annotations", None) or ()
                    ]
            final = (
                stream.current_completion_snapshot
            )  # get_final_completion raises when the length was reached
        choice, usage = final.choices[0], final.usage
        calls = choice.message.tool_calls or []
        finish = {"content_filter": "filtered"}.get(choice.finish_reason, choice.finish_reason)
        if choice.message.refusal:
            finish = "filtered"
        return Read(
            text=choice.message.content or "",
            thinking=thinking,
            calls=[(call.function.name, json.loads(call.function.arguments)) for call in calls],
            sources=unique(sources),
            usage={
                "input": usage.prompt_tokens,
                "output": usage.completion_tokens,
                "reasoning": usage.completion_tokens_details.reasoning_tokens or 0,
                "cache_read": usage.prompt_tokens_details.cached_tokens or 0,
                "cache_write": usage.prompt_tokens_details.cache_write_tokens or 0,
            }
            if usage
            else {},
            finish=finish,
            model=final.model,
        )

    async def _anthropic(self) -> Read:
        hello: Any = [{"role": "user", "content": "hello"}]
        async with self.anthropic.messages.stream(model="m", max_tokens=9, messages=hello) as stream:
            final = await stream.get_final_message()
        blocks, usage = final.content, final.usage
        texts = [block for block in blocks if block.type == "text"]
        cache_read, cache_write = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        finish = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "filtered"}
        # As in our wire: consecutive blocks are one text; those before and after a search are paragraphs.
        rows = [list(row) for is_text, row in groupby(blocks, lambda block: block.type == "text") if is_text]
        return Read(
            text="\n\n".join("".join(block.text for block in row) for row in rows),
            thinking="".join(block.thinking for block in blocks if block.type == "thinking"),
            calls=[(block.name, dict(block.input)) for block in blocks if block.type == "tool_use"],
            sources=unique(note.url for block in texts for note in block.citations or ()),
            usage={
                "input": usage.input_tokens + cache_read + cache_write,
                "output": usage.output_tokens,
                "reasoning": usage.output_tokens_details.thinking_tokens
                if usage.output_tokens_details
                else 0,
                "cache_read": cache_read,
                "cache_write": cache_write,
            },
            finish=finish[final.stop_reason],
            model=final.model,
        )

    async def _gemini(self) -> Read:
        answer = Read()
        async for chunk in await self.google.aio.models.generate_content_stream(model="m", contents="hello"):
            candidate = (chunk.candidates or [None])[0]
            for part in (candidate.content.parts or []) if candidate and candidate.content else []:
                if part.function_call:
                    answer.calls.append((part.function_call.name, part.function_call.args or {}))
                elif part.thought:
                    answer.thinking += part.text or ""
                else:
                    answer.text += part.text or ""
            if candidate and candidate.grounding_metadata:
                result = candidate.grounding_metadata.grounding_chunks or []
                answer.sources = unique([*answer.sources, *(source.web.uri for source in result)])
            if candidate and candidate.finish_reason:
                names = {"STOP": "stop", "MAX_TOKENS": "length"}
                answer.finish = names.get(candidate.finish_reason.name, "filtered")
            if chunk.usage_metadata:
                usage = chunk.usage_metadata
                thoughts = usage.thoughts_token_count or 0
                answer.usage = {
                    "input": usage.prompt_token_count or 0,
                    "output": (usage.candidates_token_count or 0) + thoughts,
                    "reasoning": thoughts,
                    "cache_read": usage.cached_content_token_count or 0,
                    "cache_write": 0,
                }
            answer.model = chunk.model_version
        if answer.calls and answer.finish == "stop":
            answer.finish = "tool_calls"
        return answer


def unique(urls: Any) -> list[str]:
    return list(dict.fromkeys(urls))


SDK_ERRORS = (openai.APIError, anthropic.APIError, genai.errors.APIError)


async def failed(reading: Any) -> BaseException:
    try:
        await reading
    except (CounselError, *SDK_ERRORS) as error:
        return error
    raise AssertionError("it did not fail")


@asynccontextmanager
async def readers() -> AsyncIterator[Readers]:
    async with FakeAPI() as fake:
        pair = Readers(fake)
        try:
            yield pair
        finally:
            await pair.close()
