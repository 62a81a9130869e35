"""Each failure with the status, the type and the code that a client of the two APIs knows."""

from __future__ import annotations

from typing import Any

import pytest

from counsel import errors
from counsel.engine.store.records import StoreError
from counsel.errors import ContextLengthExceeded, CounselError, RateLimited, UpstreamError, from_dict
from counsel.http.v1 import errors as v1
from counsel.http.v1 import responses
from counsel.http.v1.api import ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.requests import CompletionRequest

ROWS = [
    ("INVALID_ARGUMENT", 400, "invalid_request_error", None, "invalid_request_error"),
    ("CONTEXT_LENGTH_EXCEEDED", 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error"),
    ("CONTENT_FILTERED", 400, "invalid_request_error", "content_filter", "invalid_request_error"),
    ("BUDGET_EXCEEDED", 402, "insufficient_quota", "budget_exceeded", "billing_error"),
    ("FILE_TOO_LARGE", 413, "invalid_request_error", None, "request_too_large"),
    ("FILE_NOT_ALLOWED", 403, "invalid_request_error", None, "permission_error"),
    ("NOT_PERMITTED", 403, "invalid_request_error", "not_permitted", "permission_error"),
    ("NOT_FOUND", 404, "invalid_request_error", None, "not_found_error"),
    ("MODEL_NOT_FOUND", 404, "invalid_request_error", "model_not_found", "not_found_error"),
    ("CONFLICT", 409, "invalid_request_error", "conflict", "invalid_request_error"),
    ("SELF_CONSULTATION", 409, "invalid_request_error", "self_consultation", "invalid_request_error"),
    ("CANCELLED", 499, "server_error", "cancelled", "api_error"),
    ("RATE_LIMIT_EXCEEDED", 429, "requests", "rate_limit_exceeded", "rate_limit_error"),
    ("AUTHENTICATION_FAILED", 403, "permission_error", "provider_authentication_failed", "permission_error"),
    ("PROVIDER_UNAVAILABLE", 503, "server_error", "provider_unavailable", "overloaded_error"),
    ("AGENT_UNAVAILABLE", 503, "server_error", "agent_unavailable", "overloaded_error"),
    ("OUT_OF_RESOURCES", 503, "server_error", "out_of_resources", "overloaded_error"),
    ("TIMEOUT", 504, "server_error", "timeout", "timeout_error"),
    ("UPSTREAM_ERROR", 502, "server_error", None, "api_error"),
    ("EMPTY_ANSWER", 502, "server_error", None, "api_error"),
    ("INTERNAL", 502, "server_error", None, "api_error"),
]  # fmt: skip


def failure(code: str, **fields: object) -> CounselError:
    return from_dict({"error": "It broke.", "code": code, "hint": "Look.", **fields})


@pytest.mark.parametrize(("code", "status", "kind", "api_code", "claudes"), ROWS)
def test_a_failure_in_both_apis(
    code: str, status: int, kind: str, api_code: str | None, claudes: str
) -> None:
    error = failure(code)
    assert v1.status_of(error) == status
    assert v1.openai(error) == {
        "error": {"message": "It broke. Look.", "type": kind, "param": None, "code": api_code}
    }
    document: Any = v1.anthropic(error)
    assert document["error"].pop("message").endswith("It broke. Look.")
    assert document == {"type": "error", "error": {"type": claudes}, "request_id": None}


def test_only_failures_of_this_table_have_rows() -> None:
    assert set(v1._ROWS) <= {row[0] for row in ROWS}
    assert {row[0] for row in ROWS} <= {
        kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CounselError)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "kind", "api_code", "claudes"),
    [
        (401, "invalid_request_error", "invalid_api_key", "authentication_error"),
        (403, "invalid_request_error", None, "permission_error"),
        (404, "invalid_request_error", None, "not_found_error"),
        (405, "invalid_request_error", None, "invalid_request_error"),
        (413, "invalid_request_error", None, "request_too_large"),
    ],
)
def test_a_refusal_of_the_request_itself_goes_by_its_status(
    status: int, kind: str, api_code: str | None, claudes: str
) -> None:
    document: Any = v1.openai(failure("TIMEOUT"), status)
    assert (document["error"]["type"], document["error"]["code"]) == (kind, api_code)
    document = v1.anthropic(failure("TIMEOUT"), status)
    assert document["error"]["type"] == claudes
    assert v1.openai(failure("TIMEOUT"), 500) == v1.openai(failure("TIMEOUT"))


def test_an_account_that_is_used_up_is_not_asked_again() -> None:
    """Waiting does not help, as it does at a rate limit."""
    error = RateLimited("It is used up.", reason="insufficient_quota")
    document: Any = v1.openai(error)["error"]
    assert (v1.status_of(error), document["type"], document["code"]) == (
        429,
        "insufficient_quota",
        "insufficient_quota",
    )
    assert v1.anthropic(error)["error"]["type"] == "billing_error"
    assert v1.headers(error) == [(b"x-should-retry", b"false")]


def test_a_failed_response_has_a_code_that_the_sdk_knows() -> None:
    request = ApiRequest(completion=CompletionRequest(model="m", turns=()))
    for error, code in (
        (RateLimited("", reason="insufficient_quota"), "insufficient_quota"),
        (failure("BUDGET_EXCEEDED"), "insufficient_quota"),
        (RateLimited(""), "rate_limit_exceeded"),
        (failure("CONTEXT_LENGTH_EXCEEDED"), "context_length_exceeded"),
        (failure("CONTENT_FILTERED"), "invalid_prompt"),
        (failure("TIMEOUT"), "server_error"),
    ):
        document: Any = responses.failed_response(request, "job_1", error)
        assert document["error"]["code"] == code


def test_a_database_that_cannot_be_used_is_a_503() -> None:
    assert v1.status_of(StoreError("No database.")) == 503
    document: Any = v1.anthropic(StoreError("No database."))
    assert document["error"]["type"] == "overloaded_error"


def test_a_field_that_is_wrong_is_named_with_its_own_code() -> None:
    document: Any = v1.openai(BadRequest("No.", "messages[0].role", "unknown_role"))
    assert (document["error"]["param"], document["error"]["code"]) == ("messages[0].role", "unknown_role")
    assert v1.status_of(BadRequest("No.")) == 400


@pytest.mark.parametrize(("vendors", "ours"), [(400, 400), (422, 400), (404, 502), (500, 502), (None, 502)])
def test_a_request_that_a_vendor_calls_wrong_is_a_wrong_request_here(vendors: int | None, ours: int) -> None:
    assert v1.status_of(UpstreamError("No.", status=vendors)) == ours


LONG = ContextLengthExceeded("It is long.", hint="Send less.", max_tokens=4_000, provided_tokens=5_000)
QUOTED = ContextLengthExceeded('OpenAI: "This model\'s maximum context length is 9".', max_tokens=4_000)


def test_a_conversation_that_is_too_long_is_known_by_the_vendors_words() -> None:
    """Claude Code then compacts it, LangChain raises `ContextOverflowError`, aider explains it."""
    document: Any = v1.anthropic(LONG)
    assert (
        document["error"]["message"]
        == "prompt is too long: 5000 tokens > 4000 maximum. It is long. Send less."
    )
    document = v1.openai(LONG)
    assert (
        document["error"]["message"]
        == "This model's maximum context length is 4000 tokens. It is long. Send less."
    )
    assert document["error"]["code"] == "context_length_exceeded"
    document = v1.openai(QUOTED)
    assert document["error"]["message"] == str(QUOTED)
    document = v1.anthropic(QUOTED)
    assert document["error"]["message"] == f"prompt is too long. {QUOTED}"


def test_anthropics_errors_name_the_place_in_their_message() -> None:
    document: Any = v1.anthropic(BadRequest("Invalid value: 'robot'.", "messages.0.role"))
    assert document["error"]["message"] == "messages.0.role: Invalid value: 'robot'."
    document = v1.anthropic(BadRequest("max_tokens: Field required", "max_tokens"))
    assert document["error"]["message"] == "max_tokens: Field required"


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/counsel/models", "own"),
        ("/v1/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1/chat/completions", "openai"),
        ("/v1/responses", "openai"),
    ],
)
def test_the_path_says_which_api_it_is(path: str, shape: str) -> None:
    error = failure("NOT_FOUND")
    shapes = {"own": error.as_dict(), "anthropic": v1.anthropic(error, 404), "openai": v1.openai(error, 404)}
    assert v1.of_path(path, error, 404) == shapes[shape]


@pytest.mark.parametrize(
    ("path", "is_claudes"),
    [("/v1/models", True), ("/v1/models/x", True), ("/v1/files", True), ("/v1/chat/completions", False)],
)
def test_a_client_of_anthropics_reads_its_errors_on_every_route(path: str, *, is_claudes: bool) -> None:
    error = failure("NOT_FOUND")
    expected = v1.anthropic(error, 404) if is_claudes else v1.openai(error, 404)
    assert v1.of_path(path, error, 404, {b"anthropic-version": "2023-06-01"}) == expected


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (RateLimited("Wait.", retry_after=7.4), [(b"retry-after", b"8")]),
        (RateLimited("Wait.", retry_after=0.01), [(b"retry-after", b"1")]),
        (RateLimited("Wait."), []),
        (failure("TIMEOUT"), [(b"x-should-retry", b"false")]),
        (failure("PROVIDER_UNAVAILABLE", may_retry=True), [(b"x-should-retry", b"true"), (b"retry-after", b"1")]),
        (failure("TIMEOUT", retry_after=7.0), [(b"x-should-retry", b"false")]),
    ],
)  # fmt: skip
def test_no_sdk_repeats_a_call_that_counsel_has_retried(
    error: CounselError, headers: list[tuple[bytes, bytes]]
) -> None:
    assert v1.headers(error) == headers
