"""OpenAI Responses."""

from __future__ import annotations

import json
from typing import Any

from .answer import Answer, Failure, Frame, ParsedRequest
from .openai_chat import ERRORS, error, halves, read_content

__all__ = ["error", "error_frames", "frames", "parse", "plain"]

INCOMPLETE = {"length": "max_output_tokens", "filtered": "content_filter"}


def parse(body: dict[str, Any], path: str) -> ParsedRequest:
    text, rounds, images = "", 0, 0
    value = body.get("input", [])
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    after_call = False
    for item in items:
        if item.get("role") == "user":
            fields, pictures = read_content(item.get("content"))
            text, rounds, images = fields or text, 0, images + pictures
        rounds += item.get("type") == "function_call_output" and after_call
        after_call = item.get("type") in {"function_call", "custom_tool_call"}
    return ParsedRequest(
        "openai-responses", str(body.get("model", "")), bool(body.get("stream")), text, rounds, images
    )


def plain(answer: Answer) -> dict[str, Any]:
    return _response(answer, "completed", _items(answer))


def frames(answer: Answer) -> list[Frame]:
    response = _response(answer, "in_progress", [])
    events = [("response.created", {"response": response}), ("response.in_progress", {"response": response})]
    items = _items(answer)
    for index, item in enumerate(items):
        events += _item_events(answer, index, item)
    status = "incomplete" if answer.finish in INCOMPLETE else "completed"
    events.append((f"response.{status}", {"response": _response(answer, status, items)}))
    return [
        Frame({"type": kind, "sequence_number": number, **data}, event=kind, delta=kind.endswith(".delta"))
        for number, (kind, data) in enumerate(events)
    ]


def error_frames(failure: Failure) -> list[Frame]:
    kind, code, template = ERRORS[failure.kind]
    message = failure.message or template.format(key=failure.key, model=failure.model)
    response = {
        "id": "resp_fake",
        "object": "response",
        "status": "failed",
        "model": failure.model,
        "output": [],
        "error": {"code": code or kind, "message": message},
    }
    return [
        Frame({"type": "response.failed", "sequence_number": 99, "response": response}, "response.failed")
    ]


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": "".join(answer.thinking)}]
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{answer.id}",
                "summary": summary,
                "encrypted_content": "opaque==",
            }
        )
    if answer.sources:
        action = {"type": "search", "query": "fake"}
        items.append(
            {"type": "web_search_call", "id": f"ws_{answer.id}", "status": "completed", "action": action}
        )
    if answer.text:
        part = {
            "type": "output_text",
            "text": answer.whole,
            "annotations": [_annotation(source) for source in answer.sources],
            "logprobs": [],
        }
        items.append(
            {
                "type": "message",
                "id": f"msg_{answer.id}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    items += [_call(call) for call in answer.calls]
    return items


def _item_events(answer: Answer, index: int, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    where = {"output_index": index}
    inside = {**where, "item_id": item["id"]}
    middle = {
        "reasoning": lambda: _thinking_events(answer, inside),
        "message": lambda: _text_events(answer, inside, item),
        "function_call": lambda: _call_events(inside, item),
        "web_search_call": lambda: [("response.web_search_call.completed", inside)],
    }[item["type"]]()
    return [
        ("response.output_item.added", {**where, "item": _opened(item)}),
        *middle,
        ("response.output_item.done", {**where, "item": item}),
    ]


def _opened(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, dict[str, Any]] = {
        "reasoning": {"summary": []},
        "message": {"content": []},
        "function_call": {"arguments": ""},
    }
    status = {} if item["type"] == "reasoning" else {"status": "in_progress"}
    return {**item, **empty.get(item["type"], {}), **status}


def _thinking_events(answer: Answer, inside: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    position = {**inside, "summary_index": 0}
    text = "".join(answer.thinking)
    return [
        ("response.reasoning_summary_part.added", {**position, "part": {"type": "summary_text", "text": ""}}),
        *(
            ("response.reasoning_summary_text.delta", {**position, "delta": piece})
            for piece in answer.thinking
        ),
        ("response.reasoning_summary_text.done", {**position, "text": text}),
        (
            "response.reasoning_summary_part.done",
            {**position, "part": {"type": "summary_text", "text": text}},
        ),
    ]


def _text_events(
    answer: Answer, inside: dict[str, Any], item: dict[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    position = {**inside, "content_index": 0}
    part = item["content"][0]
    empty_part = {**part, "text": "", "annotations": []}
    annotations = [
        ("response.output_text.annotation.added", {**position, "annotation_index": index, "annotation": note})
        for index, note in enumerate(part["annotations"])
    ]
    return [
        ("response.content_part.added", {**position, "part": empty_part}),
        *(
            ("response.output_text.delta", {**position, "delta": piece, "logprobs": []})
            for piece in answer.text
        ),
        *annotations,
        ("response.output_text.done", {**position, "text": answer.whole, "logprobs": []}),
        ("response.content_part.done", {**position, "part": part}),
    ]


def _call_events(inside: dict[str, Any], item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    arguments = item["arguments"]
    return [
        *(
            ("response.function_call_arguments.delta", {**inside, "delta": piece})
            for piece in halves(arguments)
        ),
        ("response.function_call_arguments.done", {**inside, "name": item["name"], "arguments": arguments}),
    ]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call['id']}",
        "call_id": call["id"],
        "name": call["name"],
        "arguments": json.dumps(call["arguments"]),
        "status": "completed",
        **({"namespace": call["namespace"]} if "namespace" in call else {}),
    }


def _annotation(source: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url": source["url"],
        "title": source.get("title", ""),
        "start_index": 0,
        "end_index": 0,
    }


def _response(answer: Answer, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    reason = INCOMPLETE.get(answer.finish) if status == "incomplete" else None
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": answer.model,
        "output": items,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None if status == "in_progress" else _usage(answer),
    }


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage["input"],
        "input_tokens_details": {
            "cached_tokens": usage["cache_read"],
            "cache_write_tokens": usage["cache_write"],
        },
        "output_tokens": usage["output"],
        "output_tokens_details": {"reasoning_tokens": usage["reasoning"]},
        "total_tokens": usage["input"] + usage["output"],
    }
