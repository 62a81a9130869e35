from __future__ import annotations

import copy
import json
import pickle
import re
from typing import Any

import pytest

from counsel import errors
from counsel.errors import BY_CODE, CounselError, Internal, RateLimited, Refused, Unavailable
from counsel.results import ModelFailure

LEAVES = sorted(BY_CODE.values(), key=lambda kind: kind.__name__)
# DESIGN.md's list: interfaces, docs and clients rely on these words.
CODES = [
    "INVALID_ARGUMENT",
    "PROVIDER_UNAVAILABLE",
    "AGENT_UNAVAILABLE",
    "MODEL_NOT_FOUND",
    "RATE_LIMIT_EXCEEDED",
    "CONTEXT_LENGTH_EXCEEDED",
    "BUDGET_EXCEEDED",
    "AUTHENTICATION_FAILED",
    "TIMEOUT",
    "CANCELLED",
    "FILE_NOT_ALLOWED",
    "FILE_TOO_LARGE",
    "NOT_FOUND",
    "NOT_PERMITTED",
    "CONFLICT",
    "CONFIG_INVALID",
    "SELF_CONSULTATION",
    "UPSTREAM_ERROR",
    "OUT_OF_RESOURCES",
    "CONTENT_FILTERED",
    "EMPTY_ANSWER",
    "SCHEMA_MISMATCH",
    "INTERNAL",
]


def test_the_codes_are_those_of_the_design() -> None:
    assert sorted(BY_CODE) == sorted(CODES)


def test_the_drawn_tree_is_the_real_one() -> None:
    rows = re.findall(r"^[ │├└─]*([A-Z]\w+) {2,}(?:([A-Z_]{5,})\b)?", errors.__doc__ or "", re.MULTILINE)
    leaves = {name: code for name, code in rows if code}
    assert leaves == {kind.__name__: code for code, kind in BY_CODE.items()}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("It broke.", "It broke. Mend it."),
        (
            "Anthropic refused the key: invalid x-api-key",
            "Anthropic refused the key: invalid x-api-key. Mend it.",
        ),
        ("OpenAI asks: really?", "OpenAI asks: really? Mend it."),
        ("It waits …", "It waits … Mend it."),
        ("It said 'no'", "It said 'no'. Mend it."),
    ],
)
def test_a_vendors_words_end_before_the_hint_begins(message: str, expected: str) -> None:
    error = errors.UpstreamError(message, hint="Mend it.")
    assert str(error) == expected
    assert ModelFailure("opus", "initial", error).line().endswith(f"[UPSTREAM_ERROR] {expected}")
    assert str(errors.UpstreamError(message)) == message


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_an_error_survives_the_journal_and_the_socket(kind: Any) -> None:
    error = kind("It broke.", hint="Mend it.", file="a", retry_after=3, partial=None)
    document = json.loads(json.dumps(error.as_dict()))
    assert document == {
        "error": "It broke.",
        "code": kind.code,
        "file": "a",
        "retry_after": 3,
        "hint": "Mend it.",
    }
    back = errors.from_dict(document)
    assert type(back) is kind
    assert back.as_dict() == document
    assert str(back) == "It broke. Mend it."


def test_fields_are_typed_attributes() -> None:
    error = RateLimited("slow", provider="openai", retry_after=2.5, job_id=7)
    assert (error.provider, error.retry_after) == ("openai", 2.5)
    assert error.status is None
    assert error.job_id is None, "another process wrote a number where a string belongs"
    assert not hasattr(error, "nearest"), "another error's field"


def test_a_code_of_a_newer_release_survives() -> None:
    error = errors.from_dict({"error": "It broke.", "code": "NEW_CODE"})
    assert (type(error), error.as_dict()) == (errors.Internal, {"error": "It broke.", "code": "NEW_CODE"})


def test_a_copy_is_as_the_error_was_then() -> None:
    error = errors.UpstreamError("It broke.", hint="Ask again.", partial="so far", status=500)
    full, short = error.copy(), error.copy(partial=False)
    error.fields["job_id"] = "job_1"
    assert full.as_dict() == {
        "error": "It broke.",
        "code": "UPSTREAM_ERROR",
        "partial": "so far",
        "status": 500,
        "hint": "Ask again.",
    }
    assert (short.partial, short.status) == (None, 500)


def test_errors_can_be_copied_and_pickled() -> None:
    error = RateLimited("slow", provider="openai")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (again.message, again.provider, again.code) == ("slow", "openai", "RATE_LIMIT_EXCEEDED")


@pytest.mark.parametrize("document", [{}, {"code": "NEW_CODE", "error": "x"}, {"code": None}])
def test_what_is_not_known_becomes_internal(document: Any) -> None:
    assert type(errors.from_dict(document)) is Internal


def test_auto_may_go_on_only_after_unavailable() -> None:
    assert {kind.__name__ for kind in LEAVES if issubclass(kind, Unavailable)} == {
        "ProviderUnavailable",
        "AgentUnavailable",
        "RateLimited",
    }
    assert not any(issubclass(kind, Refused) and issubclass(kind, Unavailable) for kind in LEAVES)
    assert all(issubclass(kind, CounselError) for kind in LEAVES)


def test_many_long_names_are_no_longer_than_one() -> None:
    error = errors.InvalidArgument("m", files=["x" * 98_000] * 20, tried=[{"error": "y" * 3_000}] * 20)
    assert len(json.dumps(error.fields["files"])) < 10_000
    assert error.fields["tried"] == [{"error": "y" * 3_000}] * 20
    names = ["z" * 300] * 100
    assert errors.InvalidArgument("m", files=names).fields["files"] == names
    assert errors.InvalidArgument("m", files=[]).fields["files"] == []
