"""Errors in the shape and with the status of each API."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, TypedDict

from counsel.engine.store.records import StoreError
from counsel.errors import ContextLengthExceeded, CounselError, InvalidArgument, RateLimited, UpstreamError
from counsel.strict_json import encode

# By counsel's code: status, OpenAI's type and code, Anthropic's type. 401 is only for counsel's own token: if a
# provider refuses its key, the client's token is still right. No SDK repeats a request after 403.
_ROWS: dict[str, tuple[int, str, str | None, str]] = {
    "INVALID_ARGUMENT": (400, "invalid_request_error", None, "invalid_request_error"),
    "CONTEXT_LENGTH_EXCEEDED": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "invalid_request_error",
    ),
    "CONTENT_FILTERED": (400, "invalid_request_error", "content_filter", "invalid_request_error"),
    "BUDGET_EXCEEDED": (402, "insufficient_quota", "budget_exceeded", "billing_error"),
    "FILE_TOO_LARGE": (413, "invalid_request_error", None, "request_too_large"),
    "FILE_NOT_ALLOWED": (403, "invalid_request_error", None, "permission_error"),
    "NOT_PERMITTED": (403, "invalid_request_error", "not_permitted", "permission_error"),
    "NOT_FOUND": (404, "invalid_request_error", None, "not_found_error"),
    "MODEL_NOT_FOUND": (404, "invalid_request_error", "model_not_found", "not_found_error"),
    "CONFLICT": (409, "invalid_request_error", "conflict", "invalid_request_error"),
    "SELF_CONSULTATION": (409, "invalid_request_error", "self_consultation", "invalid_request_error"),
    "CANCELLED": (499, "server_error", "cancelled", "api_error"),
    "RATE_LIMIT_EXCEEDED": (429, "requests", "rate_limit_exceeded", "rate_limit_error"),
    "AUTHENTICATION_FAILED": (403, "permission_error", "provider_authentication_failed", "permission_error"),
    "PROVIDER_UNAVAILABLE": (503, "server_error", "provider_unavailable", "overloaded_error"),
    "AGENT_UNAVAILABLE": (503, "server_error", "agent_unavailable", "overloaded_error"),
    "OUT_OF_RESOURCES": (503, "server_error", "out_of_resources", "overloaded_error"),
    "TIMEOUT": (504, "server_error", "timeout", "timeout_error"),
}
_USED_UP = (429, "insufficient_quota", "insufficient_quota", "billing_error")  # the account at the vendor
_NO_DATABASE = (503, "server_error", "database_unavailable", "overloaded_error")
_REFUSALS = (400, 422)  # a vendor's: the request is wrong, and would be wrong again
_BAD_REQUESTS = ("previous_response_not_found",)  # a 400 at OpenAI, but a `NotFound` here
_OTHER = (502, "server_error", None, "api_error")
_OPENAI_PATHS = ("/v1/chat/", "/v1/responses")
_LONGEST_HEADER = 4_000  # characters
_BY_STATUS = {
    401: ("invalid_request_error", "invalid_api_key", "authentication_error"),
    403: ("invalid_request_error", None, "permission_error"),
    404: ("invalid_request_error", None, "not_found_error"),
    405: ("invalid_request_error", None, "invalid_request_error"),
    413: ("invalid_request_error", None, "request_too_large"),
}


class _OpenAIError(TypedDict):
    message: str
    type: str
    param: object
    code: object


class OpenAIError(TypedDict):
    error: _OpenAIError


class _AnthropicError(TypedDict):
    type: str
    message: str


class AnthropicError(TypedDict):
    type: Literal["error"]
    error: _AnthropicError
    request_id: None


class BadRequest(InvalidArgument):
    """A field of the body that is missing, unknown or invalid. `param`: where it is."""

    def __init__(self, message: str, param: str | None = None, api_code: str | None = None) -> None:
        super().__init__(message, param=param, api_code=api_code)


def status_of(error: CounselError) -> int:
    return _row(error)[0]


def openai(error: CounselError, status: int | None = None) -> OpenAIError:
    _, kind, code, _ = _row(error, status)
    return {
        "error": {
            "message": _openai_message(error),
            "type": kind,
            "param": error.fields.get("param"),
            "code": error.fields.get("api_code") or code,
        }
    }


def anthropic(error: CounselError, status: int | None = None) -> AnthropicError:
    kind = _row(error, status)[3]
    return {
        "type": "error",
        "error": {"type": kind, "message": _anthropic_message(error)},
        "request_id": None,
    }


# Claude Code, LangChain and LiteLLM (aider) recognize by these words that a conversation is too long, and shorten it.
_OPENAI_TOO_LONG = "This model's maximum context length is"
_ANTHROPIC_TOO_LONG = "prompt is too long"


def _openai_message(error: CounselError) -> str:
    message = _message(error)
    if not isinstance(error, ContextLengthExceeded) or not error.max_tokens or _OPENAI_TOO_LONG in message:
        return message
    return f"{_OPENAI_TOO_LONG} {error.max_tokens} tokens. {message}"


def _anthropic_message(error: CounselError) -> str:
    """Anthropic's errors have no field for the parameter, so the message names it."""
    message, place = _message(error), error.fields.get("param")
    if isinstance(error, ContextLengthExceeded) and _ANTHROPIC_TOO_LONG not in message:
        size, limit = error.provided_tokens, error.max_tokens
        comparison = f": {size} tokens > {limit} maximum" if size and limit else ""
        return f"{_ANTHROPIC_TOO_LONG}{comparison}. {message}"
    return f"{place}: {message}" if isinstance(place, str) and place not in message else message


def _message(error: CounselError) -> str:
    """The message, with the reason of each provider of `auto` or of a chain: these APIs have no field for them."""
    rows = error.tried or ()
    reasons = (f"{row.get('provider')}: {row.get('error')}" for row in rows)
    return " ".join((str(error), *reasons))


def of_path(
    path: str, error: CounselError, status: int | None = None, headers: Collection[bytes] = ()
) -> Mapping[str, object]:
    """The document for refusals before the body is read: the API is known by the path and the headers' names only."""
    if path.startswith("/v1/counsel"):
        return error.as_dict()
    is_claudes = b"anthropic-version" in headers and not path.startswith(_OPENAI_PATHS)
    return (
        anthropic(error, status) if is_claudes or path.startswith("/v1/messages") else openai(error, status)
    )


def event_of_path(path: str, error: CounselError, status: int | None = None) -> bytes:
    """The last event of a stream that is cut off. A laptop needs none: it reconnects and gets the reason."""
    if path.startswith("/v1/counsel"):
        return b""
    name = b"event: error\n" if path.startswith("/v1/messages") else b""
    return name + b"data: " + encode(of_path(path, error, status)) + b"\n\n"


def _row(error: CounselError, status: int | None = None) -> tuple[int, str, str | None, str]:
    if status in _BY_STATUS:
        return status, *_BY_STATUS[status]
    if isinstance(error, StoreError):
        return _NO_DATABASE
    if error.fields.get("reason") == "insufficient_quota":
        return _USED_UP
    if error.fields.get("api_code") in _BAD_REQUESTS:
        return _ROWS["INVALID_ARGUMENT"]
    if isinstance(error, UpstreamError) and error.fields.get("status") in _REFUSALS:
        return _ROWS["INVALID_ARGUMENT"]
    return _ROWS.get(error.code, _OTHER)


def ignored_header(names: Iterable[str]) -> tuple[bytes, bytes]:
    """Some names come from the client, such as a tool's type: characters that a header cannot contain become `?`."""
    text = ", ".join(dict.fromkeys(names))
    safe = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return b"x-counsel-ignored", safe[:_LONGEST_HEADER].encode()


def headers(error: CounselError) -> list[tuple[bytes, bytes]]:
    """Headers about retries. counsel has retried already: an SDK that also does would pay for every attempt again."""
    wait = error.retry_after if isinstance(error, RateLimited) else None
    if wait:
        return [(b"retry-after", b"%d" % math.ceil(wait))]
    if error.fields.get("may_retry"):
        return [(b"x-should-retry", b"true"), (b"retry-after", b"1")]
    is_over_soon = isinstance(error, RateLimited) and _row(error) is not _USED_UP
    return [] if is_over_soon else [(b"x-should-retry", b"false")]
