"""Gemini generateContent and streamGenerateContent."""

from __future__ import annotations

import re
from typing import Any

from .answer import Answer, Failure, Frame, ParsedRequest

FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "filtered": "SAFETY"}


def parse(body: dict[str, Any], path: str) -> ParsedRequest:
    match = re.search(r"/(?:models|tunedModels)/([^/:]+):(\w+)", path)
    model, verb = (match[1], match[2]) if match else ("", "")
    text, rounds, images = "", 0, 0
    for content in body.get("contents", []):
        if content.get("role", "user") not in {"user", "function"}:
            continue
        parts = content.get("parts", [])
        images += sum("inlineData" in part or "inline_data" in part for part in parts)
        texts = [part["text"] for part in parts if "text" in part]
        if any("functionResponse" in part for part in parts):
            rounds += 1
        elif texts:
            text, rounds = texts[-1], 0
    return ParsedRequest("gemini", model, verb == "streamGenerateContent", text, rounds, images)


def plain(answer: Answer) -> dict[str, Any]:
    parts = [*_thoughts(answer), *([{"text": answer.whole}] if answer.text else []), *_calls(answer)]
    return _chunk(answer, parts, last=True)


def frames(answer: Answer) -> list[Frame]:
    pieces = [*_thoughts(answer), *({"text": piece} for piece in answer.text), *_calls(answer)]
    chunks = [Frame(_chunk(answer, [part]), delta=True) for part in pieces[:-1]]
    chunks.append(Frame(_chunk(answer, pieces[-1:] or [{"text": ""}], last=True), delta=True))
    return chunks


def _thoughts(answer: Answer) -> list[dict[str, Any]]:
    return [{"text": piece, "thought": True} for piece in answer.thinking]


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "functionCall": {"id": call["id"], "name": call["name"], "args": call["arguments"]},
            **({"thoughtSignature": "ZmFrZQ=="} if index == 0 else {}),
        }
        for index, call in enumerate(answer.calls)
    ]


def _chunk(answer: Answer, parts: list[dict[str, Any]], *, last: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = FINISH[answer.finish]
    if last and answer.sources:
        candidate["groundingMetadata"] = {
            "webSearchQueries": ["fake"],
            "groundingChunks": [
                {"web": {"uri": source["url"], "title": source.get("title", "")}} for source in answer.sources
            ],
        }
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(answer),
        "modelVersion": answer.model,
        "responseId": answer.id,
    }


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    document = {
        "promptTokenCount": usage["input"],
        "candidatesTokenCount": usage["output"] - usage["reasoning"],
        "totalTokenCount": usage["input"] + usage["output"],
    }
    if usage["reasoning"]:
        document["thoughtsTokenCount"] = usage["reasoning"]
    if usage["cache_read"]:
        document["cachedContentTokenCount"] = usage["cache_read"]
    return document


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────

# kind → gRPC status, message template, HTTP status if it differs
ERRORS: dict[str, tuple[str, str, int | None]] = {
    "bad_request": ("INVALID_ARGUMENT", "Invalid value at 'generation_config'.", None),
    "context": (
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        None,
    ),
    "auth": ("INVALID_ARGUMENT", "API key not valid. Please pass a valid API key. ({key})", 400),
    "forbidden": ("PERMISSION_DENIED", "The caller does not have permission", None),
    "not_found": (
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta, or is not supported for generateContent.",
        None,
    ),
    "rate_limit": ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", None),
    "quota": (
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
        None,
    ),
    "server": ("INTERNAL", "An internal error has occurred.", None),
    "unavailable": ("UNAVAILABLE", "The model is overloaded. Please try again later.", None),
    "overloaded": ("UNAVAILABLE", "The model is overloaded. Please try again later.", 503),
}


def status(failure: Failure) -> int:
    """Google answers a bad key with 400 and overload with 503."""
    return ERRORS[failure.kind][2] or failure.status


def error(failure: Failure) -> dict[str, Any]:
    kind, template, _ = ERRORS[failure.kind]
    message = failure.message or template.format(key=failure.key, model=failure.model)
    about: dict[str, Any] = {"code": status(failure), "message": message, "status": kind}
    details: list[dict[str, Any]] = []
    if failure.kind == "auth":
        details.append(
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            }
        )
    if isinstance(failure.retry_after, (int, float)):
        details.append(
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{failure.retry_after}s"}
        )
    return {"error": {**about, "details": details} if details else about}


def error_frames(failure: Failure) -> list[Frame]:
    return [Frame(error(failure))]
