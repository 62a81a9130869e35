"""Anthropic Messages."""

from __future__ import annotations

import json
from typing import Any

from .answer import Answer, Failure, Frame, ParsedRequest
from .openai_chat import halves

CLOSING = (
    "Please answer the message above."  # counsel's last block for Claude Code, which acts on the last one
)

FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
    "paused": "pause_turn",
}


def parse(body: dict[str, Any], path: str) -> ParsedRequest:
    text, rounds, images = "", 0, 0
    for message in body.get("messages", []):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        kinds = [part.get("type") for part in parts]
        images += kinds.count("image")
        texts = [part["text"] for part in parts if part.get("type") == "text" and part["text"] != CLOSING]
        if "tool_result" in kinds:
            rounds += 1
        elif texts:
            text, rounds = texts[-1], 0
    return ParsedRequest(
        "anthropic", str(body.get("model", "")), bool(body.get("stream")), text, rounds, images
    )


def plain(answer: Answer) -> dict[str, Any]:
    return {
        **_message(answer),
        "content": _blocks(answer),
        "stop_reason": FINISH[answer.finish],
        "usage": _usage(answer, answer.usage["output"]),
    }


def frames(answer: Answer) -> list[Frame]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**_message(answer), "usage": _usage(answer, 1)}}
    ]
    for index, block in enumerate(_blocks(answer)):
        events += [{**event, "index": index} for event in _block_events(answer, block)]
    delta = {"stop_reason": FINISH[answer.finish], "stop_sequence": None}
    events.append(
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.usage["output"]}}
    )
    events.append({"type": "message_stop"})
    return [
        Frame(event, event=event["type"], delta=event["type"] == "content_block_delta") for event in events
    ]


def _message(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        thinking = "".join(answer.thinking)
        blocks.append({"type": "thinking", "thinking": thinking, "signature": "fake-signature"})
    if answer.sources:
        result = [
            {
                "type": "web_search_result",
                "url": source["url"],
                "title": source.get("title", ""),
                "encrypted_content": "opaque==",
                "page_age": None,
            }
            for source in answer.sources
        ]
        use = {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "fake"},
        }
        blocks += [use, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": result}]
    if answer.text:
        text: dict[str, Any] = {"type": "text", "text": answer.whole}
        if answer.sources:
            text["citations"] = [_citation(source) for source in answer.sources]
        blocks.append(text)
    for call in answer.calls:
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]}
        )
    return blocks


def _block_events(answer: Answer, block: dict[str, Any]) -> list[dict[str, Any]]:
    start = {**block}
    deltas: list[dict[str, Any]] = []
    if block["type"] == "thinking":
        start.update(thinking="", signature="")
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.thinking]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "text":
        start["text"] = ""
        deltas = [{"type": "text_delta", "text": piece} for piece in answer.text]
        if "citations" in start:
            start["citations"] = []
            deltas += [{"type": "citations_delta", "citation": note} for note in block["citations"]]
    elif block["type"] in {"tool_use", "server_tool_use"}:
        start["input"] = {}
        value = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *halves(value))]
    return [
        {"type": "content_block_start", "content_block": start},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {"type": "content_block_stop"},
    ]


def _citation(source: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": source["url"],
        "title": source.get("title", ""),
        "encrypted_index": "opaque==",
        "cited_text": "fake",
    }


def _usage(answer: Answer, output: int) -> dict[str, Any]:
    usage = answer.usage
    cache_write = usage["cache_write"]
    return {
        "input_tokens": usage["input"] - usage["cache_read"] - cache_write,
        "cache_creation_input_tokens": cache_write,
        "cache_read_input_tokens": usage["cache_read"],
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": cache_write},
        "output_tokens": output,
        "service_tier": "standard",
    }


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────

ERRORS = {
    "bad_request": ("invalid_request_error", "messages: at least one message is required"),
    "context": ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "auth": ("authentication_error", "invalid x-api-key: {key}"),
    "forbidden": ("permission_error", "Your API key does not have permission to use the specified resource."),
    "not_found": ("not_found_error", "model: {model}"),
    "rate_limit": (
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute.",
    ),
    "quota": (
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    ),
    "server": ("api_error", "Internal server error"),
    "unavailable": ("api_error", "Service unavailable"),
    "overloaded": ("overloaded_error", "Overloaded"),
}


def error(failure: Failure) -> dict[str, Any]:
    kind, template = ERRORS[failure.kind]
    message = failure.message or template.format(key=failure.key, model=failure.model)
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}


def error_frames(failure: Failure) -> list[Frame]:
    return [Frame(error(failure), event="error")]
