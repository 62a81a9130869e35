"""OpenAI Chat Completions, and the variants of compatible providers."""

from __future__ import annotations

import json
from typing import Any

from .answer import Answer, Failure, Frame, ParsedRequest

FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "filtered": "content_filter"}


def parse(body: dict[str, Any], path: str) -> ParsedRequest:
    text, rounds, images = "", 0, 0
    for message in body.get("messages", []):
        if message.get("role") == "user":
            fields, pictures = read_content(message.get("content"))
            text, rounds, images = fields or text, 0, images + pictures
        elif message.get("role") == "assistant" and message.get("tool_calls"):
            rounds += 1
    options = body.get("stream_options") or {}
    return ParsedRequest(
        "openai-chat",
        str(body.get("model", "")),
        bool(body.get("stream")),
        text,
        rounds,
        images,
        wants_usage=bool(options.get("include_usage")),
    )


def read_content(content: Any) -> tuple[str, int]:
    """The last text and the number of images, for both OpenAI formats."""
    if isinstance(content, str):
        return content, 0
    parts = content or []
    texts = [part.get("text", "") for part in parts if part.get("type") in {"text", "input_text"}]
    images = [part for part in parts if part.get("type") in {"image_url", "input_image"}]
    return (texts[-1] if texts else ""), len(images)


def plain(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.whole or None, "refusal": None}
    if answer.thinking:
        message["reasoning_content"] = "".join(answer.thinking)
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    if answer.sources:
        message["annotations"] = [_annotation(source) for source in answer.sources]
    choice = {"index": 0, "message": message, "finish_reason": FINISH[answer.finish], "logprobs": None}
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": answer.model,
        "choices": [choice],
        "usage": usage(answer),
    }


def frames(answer: Answer) -> list[Frame]:
    def chunk(delta: dict[str, Any], finish: str | None = None, *, is_delta: bool = False) -> Frame:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return Frame({**_head(answer), "choices": [choice]}, delta=is_delta)

    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk(_thinking(piece, answer.reasoning_field), is_delta=True) for piece in answer.thinking]
    chunks += [chunk({"content": piece}, is_delta=True) for piece in answer.text]
    for index, call in enumerate(answer.calls):
        tool_call = _call(call)
        name = {"name": call["name"], "arguments": ""}
        chunks.append(chunk({"tool_calls": [{**tool_call, "index": index, "function": name}]}, is_delta=True))
        for piece in halves(tool_call["function"]["arguments"]):
            chunks.append(
                chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, is_delta=True)
            )
    if answer.sources:
        chunks.append(chunk({"annotations": [_annotation(source) for source in answer.sources]}))
    chunks.append(chunk({}, FINISH[answer.finish]))
    if answer.wants_usage:
        chunks.append(Frame({**_head(answer), "choices": [], "usage": usage(answer)}))
    chunks.append(Frame("[DONE]"))
    return chunks


def usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage["input"],
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "prompt_tokens_details": {
            "cached_tokens": usage["cache_read"],
            "cache_write_tokens": usage["cache_write"],
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": usage["reasoning"], "audio_tokens": 0},
    }


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _head(answer: Answer) -> dict[str, Any]:
    return {
        "id": answer.id,
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": answer.model,
        "system_fingerprint": "fp_fake",
    }


def _thinking(piece: str, dialect: str) -> dict[str, Any]:
    if dialect == "mistral":
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
    return {dialect: piece}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def _annotation(source: dict[str, str]) -> dict[str, Any]:
    about = {
        "url": source["url"],
        "title": source.get("title", ""),
        "start_index": 0,
        "end_index": 0,
    }
    return {"type": "url_citation", "url_citation": about}


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────

CONTEXT = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens. "
    "Please reduce the length of the messages."
)
# kind → type, code, message template
ERRORS: dict[str, tuple[str, str | None, str]] = {
    "bad_request": ("invalid_request_error", "unsupported_value", "Unsupported value: 'temperature'."),
    "context": ("invalid_request_error", "context_length_exceeded", CONTEXT),
    "auth": (
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided: {key}. You can find your API key at https://platform.openai.com/account/api-keys.",
    ),
    "forbidden": ("invalid_request_error", None, "Your project does not have access to model `{model}`."),
    "not_found": (
        "invalid_request_error",
        "model_not_found",
        "The model `{model}` does not exist or you do not have access to it.",
    ),
    "rate_limit": ("requests", "rate_limit_exceeded", "Rate limit reached for {model} on requests per min."),
    "quota": (
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "server": (
        "server_error",
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    "unavailable": ("server_error", None, "The engine is currently overloaded, please try again later."),
    "overloaded": ("server_error", None, "The engine is currently overloaded, please try again later."),
}


def error(failure: Failure) -> dict[str, Any]:
    kind, code, template = ERRORS[failure.kind]
    message = failure.message or template.format(key=failure.key, model=failure.model)
    if failure.shape == "xai":
        return {"code": code or kind, "error": message}
    if failure.shape == "mistral":
        return {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    if failure.shape == "openrouter":
        return {"error": {"message": message, "code": failure.status}, "user_id": "user_fake"}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_frames(failure: Failure) -> list[Frame]:
    return [Frame(error(failure))]
