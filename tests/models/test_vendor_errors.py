"""Errors of the vendors, and what users read about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from counsel.errors import CounselError
from counsel.models import catalog_rows, vendor_errors
from counsel.models.vendor_errors import ErrorReport, parse_error
from counsel.types import Endpoint, Model

DEEP: Any = "deep"
for _ in range(5_000):
    DEEP = [DEEP]


def error_body(name: str, words: str = "") -> dict[str, Any]:
    return {"error": {"type": name, "message": words}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, None, "auth"),
        (402, {}, "quota"),
        (404, {}, "not_found"),
        (404, [], "not_found"),
        (404, "<html>", "wrong_address"),
        (404, error_body("not_found_error"), "not_found"),
        (413, {}, "context"),
        (429, {}, "rate_limit"),
        (400, {}, "refused"),
        (400, error_body("invalid_api_key"), "auth"),
        (400, error_body("", "Incorrect API key provided"), "auth"),
        (429, error_body("rate_limit_error", "Your credit balance is too low"), "quota"),
        (
            429,
            error_body("rate_limit_error", "we are overloaded"),
            "rate_limit",
        ),  # the name is more specific than the message
        (429, error_body("", "we are overloaded"), "rate_limit"),
        (401, error_body("api_error"), "auth"),  # Ollama Cloud
        (418, error_body("api_error"), "refused"),
        (499, {}, "refused"),
        (500, {}, "server"),
        (500, error_body("server_error", "overloaded"), "overloaded"),
        (500, error_body("overloaded_error"), "overloaded"),
        (500, error_body("", "maximum context length is 10 tokens, it resulted in 20"), "context"),
        (500, error_body("invalid_api_key"), "server"),
        (503, {}, "overloaded"),
        (None, {}, "server"),
        (
            None,
            error_body("api_error", "we are overloaded"),
            "overloaded",
        ),  # inside a stream there is no status
        (None, error_body("api_error"), "server"),
        (None, error_body("invalid_request_error"), "refused"),
        (None, error_body("rate_limit_error"), "rate_limit"),
    ],
)
def test_the_kind_of_every_error(status: int | None, body: Any, kind: str) -> None:
    assert parse_error(status, body).kind == kind


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "m", "detail": "d"}}, "m"),
        ({"error": {"detail": "d"}, "detail": "e"}, "d"),
        ({"error": {"code": 1}, "detail": "e"}, "e"),
        ({"message": "m"}, "m"),
        ({"error": "plain"}, "plain"),
        ({"code": "c", "error": 5, "message": "m"}, "m"),
        ([{"error": {"message": "first"}}, {"error": {"message": "second"}}], "first"),
        ({"error": {"message": "m", "metadata": {"raw": "from behind"}}}, "m (from behind)"),
        (
            {"error": {"message": "m", "metadata": {"raw": '{"error": {"message": "from behind"}}'}}},
            "m (from behind)",
        ),
        ({"error": {"message": "m", "metadata": {"raw": '[{"error": {"message": "b"}}]'}}}, "m (b)"),
        ({"error": {"message": "m", "metadata": {"raw": '{"error": "b"}'}}}, 'm ({"error": "b"})'),
        ({"error": {"message": "m", "metadata": {"raw": 5}}}, "m"),
        ({"error": {"message": "m", "metadata": "x"}}, "m"),
        ("text", "text"),
        (["a", "b"], "a; b"),
        ({"error": ["a", "b"]}, "a; b"),
        ({"error": [{"message": "m"}]}, "m"),
        ({"success": False, "errors": [{"code": 7009, "message": "m"}], "messages": []}, "m"),  # Cloudflare
        ({"detail": [{"loc": ["body"], "msg": "m", "input": {"a": "b"}}]}, "m"),  # FastAPI
        ({"error": {"message": {"text": "m", "n": 1}}}, "m"),
        ({"error": {"message": None, "detail": "d"}}, "d"),
        ({"error": {"error": {"message": "m", "type": "t"}}}, "m"),
        ({"error": DEEP}, ""),
        ("<html>", ""),
        ([], ""),
        (None, ""),
    ],
)
def test_the_message_of_every_format_is_found(body: Any, words: str) -> None:
    assert parse_error(400, body).message == words


def test_numbers_and_the_field_are_read() -> None:
    report = parse_error(
        400, {"error": {"message": "prompt is too long: 200 tokens > 100", "param": "input"}}
    )
    assert report == ErrorReport(
        "context", "prompt is too long: 200 tokens > 100", 400, None, 100, 200, "input"
    )
    assert parse_error(400, {"error": {"message": "prompt is too long"}}).max_tokens is None
    assert parse_error(400, {"error": "x"}).field == ""
    assert parse_error(400, {"error": {"param": None}}).field == ""


def google(*details: Any) -> dict[str, Any]:
    return {"error": {"status": "RESOURCE_EXHAUSTED", "message": "quota", "details": list(details)}}


@pytest.mark.parametrize(
    ("status", "details", "kind", "wait"),
    [
        (429, [{"retryDelay": "7s"}], "rate_limit", 7.0),
        (429, [{"retryDelay": "0.25s"}], "rate_limit", 0.25),
        (429, [{"retryDelay": {"seconds": "7", "nanos": 500_000_000}}], "rate_limit", 7.5),
        (429, [{"retryDelay": {"seconds": None}}], "rate_limit", 0.0),
        (429, [{"violations": [{"quotaId": "RequestsPerDay"}]}, {"retryDelay": "7s"}], "quota", 7.0),
        (429, [{"violations": [{"quotaValue": "0"}]}], "quota", None),
        (429, [{"violations": [{"quotaId": "RequestsPerMinute"}]}], "rate_limit", None),
        (None, [{"violations": [{"quotaId": "RequestsPerDay"}]}], "quota", None),
        (400, [{"violations": [{"quotaId": "RequestsPerDay"}]}], "rate_limit", None),
        (429, ["nonsense", {"violations": "nonsense"}], "rate_limit", None),
    ],
)
def test_google_says_which_limit_it_was(
    status: Any, details: list[Any], kind: str, wait: float | None
) -> None:
    report = parse_error(status, google(*details))
    assert (report.kind, report.retry_after) == (kind, wait)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e9"}, vendor_errors.LONGEST_WAIT),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], wait: float | None) -> None:
    assert parse_error(429, {}, headers).retry_after == wait


@pytest.mark.parametrize("zone", ["GMT", ""])
def test_a_date_to_wait_for(zone: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True).removesuffix("GMT") + zone
    wait = parse_error(429, {}, {"retry-after": date}).retry_after
    assert wait is not None
    assert 30 < wait <= 100


def test_keys_are_removed_and_long_messages_are_cut() -> None:
    assert vendor_errors.scrubbed("bad my-secret, and sk-abcdefgh", "my-secret") == "bad [key], and [key]"
    assert vendor_errors.scrubbed("bad my-secret", None) == "bad my-secret"
    assert vendor_errors.scrubbed("x" * 400, None) == "x" * 400
    assert vendor_errors.scrubbed("x" * 401, None) == "x" * 400 + "…"


MODEL = Model("gpt-5", "openai", "gpt-5-wire", context=1_000)
ENDPOINT = Endpoint(catalog_rows.shipped().providers["openai"], "https://api.example/v1", "the-key")


def error(kind: Any, words: str = "no", **fields: Any) -> CounselError:
    return vendor_errors.as_error(ErrorReport(kind, words, **fields), ENDPOINT, MODEL, partial="so far")


@pytest.mark.parametrize(
    ("kind", "fields", "code", "begins", "hint", "expected_fields"),
    [
        ("auth", {"status": 401}, "AUTHENTICATION_FAILED", "OpenAI refused the key: no", "Check OPENAI_API_KEY. Keys: https://", {"provider": "openai", "status": 401}),
        ("not_found", {"status": 404}, "MODEL_NOT_FOUND", "OpenAI has no model gpt-5-wire: no", "`counsel models`", {"provider": "openai", "model": "gpt-5"}),
        ("rate_limit", {"retry_after": 7.4}, "RATE_LIMIT_EXCEEDED", "OpenAI rate limit exceeded: no", "Try again in 7 s", {"provider": "openai", "retry_after": 7.4}),
        ("rate_limit", {"retry_after": 0.3}, "RATE_LIMIT_EXCEEDED", "OpenAI rate limit exceeded: no", "Try again in 1 s", {"retry_after": 0.3}),
        ("rate_limit", {}, "RATE_LIMIT_EXCEEDED", "OpenAI rate limit exceeded: no", "Try again later", {"provider": "openai"}),
        ("quota", {}, "RATE_LIMIT_EXCEEDED", "OpenAI: the account's quota or credit is used up: no", "Check the plan", {"provider": "openai", "reason": "insufficient_quota"}),
        ("context", {"max_tokens": 5, "provided_tokens": 9}, "CONTEXT_LENGTH_EXCEEDED", "The request is too long for gpt-5: no", "Send fewer", {"provider": "openai", "max_tokens": 5, "provided_tokens": 9}),
        ("context", {}, "CONTEXT_LENGTH_EXCEEDED", "The request is too long for gpt-5: no", "Send fewer", {"max_tokens": 1_000}),
        ("overloaded", {"status": 503}, "PROVIDER_UNAVAILABLE", "OpenAI is overloaded or down (503): no", "Try again in a moment", {"provider": "openai", "status": 503}),
        ("overloaded", {}, "PROVIDER_UNAVAILABLE", "OpenAI is overloaded or down (in the stream): no", "Try again in a moment", {"provider": "openai"}),
        ("server", {"status": 500}, "UPSTREAM_ERROR", "OpenAI failed (500): no", "Try again, or", {"provider": "openai", "status": 500}),
        ("refused", {"status": 400}, "UPSTREAM_ERROR", "OpenAI refused the request (400): no", "`counsel models`", {"provider": "openai", "status": 400}),
        ("refused", {}, "UPSTREAM_ERROR", "OpenAI refused the request (in the stream): no", "`counsel models`", {}),
        ("refused", {"status": 302}, "UPSTREAM_ERROR", "OpenAI answered with status 302 instead of 200: no", "Check OPENAI_BASE_URL (https://api.example/v1)", {"status": 302}),
        ("wrong_address", {"status": 404}, "UPSTREAM_ERROR", "OpenAI has no API at https://api.example/v1 (404).", "Check OPENAI_BASE_URL.", {"status": 404}),
    ],
)  # fmt: skip
def test_each_kind_is_an_error_with_its_hint_and_fields(
    kind: str, fields: dict[str, Any], code: str, begins: str, hint: str, expected_fields: dict[str, Any]
) -> None:
    failure = error(kind, **fields)
    document = failure.as_dict()
    assert document["code"] == code
    assert document["error"].startswith(begins)
    assert document["hint"].startswith(hint)
    assert document["partial"] == "so far"
    assert expected_fields.items() <= document.items()


def test_a_vendor_without_a_message_is_not_quoted() -> None:
    assert error("auth", "  ").as_dict()["error"] == "OpenAI refused the key."
    assert (
        error("server", "the-key is wrong").as_dict()["error"]
        == "OpenAI failed (in the stream): [key] is wrong"
    )


def test_only_what_may_pass_is_tried_again() -> None:
    kinds = (
        "auth",
        "not_found",
        "rate_limit",
        "quota",
        "context",
        "overloaded",
        "server",
        "refused",
        "wrong_address",
    )
    retryable = [kind for kind in kinds if ErrorReport(kind, "").retryable]  # type: ignore[arg-type]
    assert retryable == ["rate_limit", "overloaded", "server"]


@pytest.mark.parametrize(
    "body",
    [
        {"code": 1113, "msg": "the words"},
        {"base_resp": {"status_code": 1000, "status_msg": "the words"}},
        {"error_code": 17, "error_msg": "the words"},
        {"errMsg": "the words"},
        {"errorCode": "x", "errorMessage": "the words"},
        {"__type": "ValidationException", "Message": "the words"},
        {"type": "about:blank", "title": "the words", "status": 400},
        {"error": "invalid_token", "error_description": "the words"},
    ],
)
def test_words_are_found_wherever_a_server_writes_them(body: dict[str, Any]) -> None:
    assert parse_error(400, body).message == "the words"
