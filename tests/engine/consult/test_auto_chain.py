"""Which model is asked next after a failure, and the error when all have failed."""

from __future__ import annotations

from typing import Any

import pytest

from counsel.engine import results
from counsel.engine.consult.auto_chain import AutoChain, another_may_answer, provider_failed
from counsel.engine.consult.routes import Route
from counsel.errors import (
    AuthenticationFailed,
    ContentFiltered,
    CounselError,
    InvalidArgument,
    ModelNotFound,
    ProviderUnavailable,
    RateLimited,
    SchemaMismatch,
    TimedOut,
    UpstreamError,
)
from counsel.results import PassedOver
from counsel.types import Usage


def route(provider: str, name: str, wire: str = "openai_chat") -> Route:
    no_answer: Any = None
    return Route(name, provider, no_answer, no_answer, wire=wire)


GPT, MINI, CLAUDE, GEMINI = (
    route("openai", "gpt-5"), route("openai", "gpt-5-mini"), route("anthropic", "sonnet"), route("google", "gemini")
)  # fmt: skip


def routes_left(chain: AutoChain) -> list[str]:
    return [route_.name for route_ in chain._left]


@pytest.mark.parametrize(
    ("error", "remaining"),
    [
        (UpstreamError("It broke."), ["gpt-5-mini", "sonnet"]),
        (AuthenticationFailed("No."), ["sonnet"]),
        (RateLimited("Wait."), ["gpt-5-mini", "sonnet"]),
        (RateLimited("Empty.", reason="insufficient_quota"), ["sonnet"]),
        (ProviderUnavailable("No connection."), ["sonnet"]),
        (ProviderUnavailable("Broken off.", partial="so"), ["gpt-5-mini", "sonnet"]),
        (ProviderUnavailable("Busy.", status=503), ["gpt-5-mini", "sonnet"]),
        (ProviderUnavailable("The proxy.", status=407), ["sonnet"]),
        (TimedOut("Slow.", limit="connect"), ["sonnet"]),
        (TimedOut("Slow.", limit="idle"), ["gpt-5-mini", "sonnet"]),
    ],
)
async def test_a_providers_other_models_are_not_asked_if_they_would_fail_too(
    error: CounselError, remaining: list[str]
) -> None:
    chain = AutoChain([GPT, MINI, CLAUDE])
    assert chain.next() is GPT
    chain.record_failure(GPT, error)
    assert routes_left(chain) == remaining
    assert provider_failed(error) == (remaining == ["sonnet"])


async def test_a_teams_server_that_fails_rules_out_all_its_models() -> None:
    team = [route("openai", "gpt-5", "counsel"), route("anthropic", "sonnet", "counsel")]
    chain = AutoChain([*team, GEMINI])
    chain.record_failure(team[0], UpstreamError("It broke.", team="counsel.example"))
    assert routes_left(chain) == ["gemini"]
    chain = AutoChain([*team, GEMINI])
    chain.record_failure(team[0], UpstreamError("It broke."))
    assert routes_left(chain) == ["sonnet", "gemini"]


async def test_two_models_that_miss_the_schema_are_enough() -> None:
    chain = AutoChain([GPT, CLAUDE, GEMINI])
    chain.record_failure(GPT, SchemaMismatch("It is not."))
    assert routes_left(chain) == ["sonnet", "gemini"]
    chain.record_failure(CLAUDE, SchemaMismatch("It is not."))
    assert chain.next() is None


async def test_retries_end_early_only_where_another_model_can_answer() -> None:
    assert AutoChain([GPT]).retry_deadline is None
    assert AutoChain([GPT, CLAUDE]).retry_deadline is not None


async def test_one_providers_failure_is_its_own() -> None:
    chain = AutoChain([GPT, MINI])
    last = UpstreamError("It broke again.")
    chain.record_failure(GPT, UpstreamError("It broke."))
    chain.record_failure(MINI, last)
    assert chain.error() is last


async def test_failures_of_several_name_each_with_its_models_and_what_they_cost() -> None:
    chain = AutoChain([GPT, MINI, CLAUDE])
    first = UpstreamError("It broke.")
    results.charge(first, Usage(input=10, output=5, cost_usd=0.5))
    second = UpstreamError("It broke, too.", hint="Look.")
    results.charge(second, Usage(input=1, output=2, cost_usd=0.25))
    chain.record_failure(GPT, first)
    chain.record_failure(MINI, second)
    chain.record_failure(CLAUDE, AuthenticationFailed("No."))
    error = chain.error()
    assert isinstance(error, ProviderUnavailable)
    assert error.message == "No model answered; 2 providers were tried."
    assert error.hint == "`counsel doctor --online` tests every key and address."
    assert error.tried == [
        {"provider": "openai", "models": ["gpt-5", "gpt-5-mini"], "code": "UPSTREAM_ERROR",
         "error": "It broke, too.", "hint": "Look."},
        {"provider": "anthropic", "models": ["sonnet"], "code": "AUTHENTICATION_FAILED", "error": "No.", "hint": ""},
    ]  # fmt: skip
    assert error.usage is not None
    assert (error.usage["input_tokens"], error.usage["output_tokens"], error.cost_usd) == (11, 7, 0.75)
    passed_over = chain.passed_over()
    assert [(entry.model, entry.code, entry.error) for entry in passed_over] == [
        ("gpt-5", "UPSTREAM_ERROR", "It broke."),
        ("gpt-5-mini", "UPSTREAM_ERROR", "It broke, too."),
        ("sonnet", "AUTHENTICATION_FAILED", "No."),
    ]
    assert passed_over[0].spent is not None
    assert passed_over[0].spent.cost_usd == 0.5
    assert passed_over[2].spent is None


async def test_if_all_refuse_the_text_and_advice_of_the_last_are_kept() -> None:
    chain = AutoChain([GPT, CLAUDE])
    chain.record_failure(GPT, ContentFiltered("It refused.", hint="Rephrase.", partial="First"))
    chain.record_failure(CLAUDE, ContentFiltered("It refused, too.", hint="Rephrase it.", partial="You need"))
    error = chain.error()
    assert isinstance(error, ContentFiltered)
    assert (error.partial, error.hint) == ("You need", "Rephrase it.")
    mixed = AutoChain([GPT, CLAUDE])
    mixed.record_failure(GPT, RateLimited("Wait."))
    mixed.record_failure(CLAUDE, ContentFiltered("It refused.", hint="Rephrase."))
    assert "counsel doctor" in str(mixed.error().hint)


async def test_if_all_fail_alike_the_error_is_of_that_kind_with_the_shortest_wait() -> None:
    chain = AutoChain([GPT, CLAUDE, GEMINI])
    for candidate, wait in ((GPT, 30.0), (CLAUDE, None), (GEMINI, 7.0)):
        chain.record_failure(candidate, RateLimited("Wait.", retry_after=wait))
    error = chain.error()
    assert isinstance(error, RateLimited)
    assert error.retry_after == 7.0
    assert (error.usage, error.cost_usd) == (None, None)


async def test_a_wait_for_one_of_several_failures_is_not_a_wait_for_all() -> None:
    chain = AutoChain([GPT, CLAUDE])
    chain.record_failure(GPT, UpstreamError("It broke."))
    chain.record_failure(CLAUDE, RateLimited("Wait.", retry_after=7.0))
    assert isinstance(chain.error(), ProviderUnavailable)
    assert "retry_after" not in chain.error().fields
    unknown = AutoChain([GPT, CLAUDE])
    for candidate in (GPT, CLAUDE):
        unknown.record_failure(candidate, RateLimited("Wait."))
    assert "retry_after" not in unknown.error().fields


async def test_names_of_a_chain_that_could_not_be_asked_come_first() -> None:
    skipped = PassedOver("opus", "MODEL_NOT_FOUND", "There is none.")
    chain = AutoChain([GPT], [skipped])
    chain.record_failure(GPT, RateLimited("Wait."))
    error = chain.error()
    assert isinstance(error, ProviderUnavailable)
    assert error.tried is not None
    assert error.tried[0] == {
        "provider": "opus", "models": ["opus"], "code": "MODEL_NOT_FOUND", "error": "There is none.", "hint": ""
    }  # fmt: skip
    assert [entry.model for entry in chain.passed_over()] == ["opus", "gpt-5"]


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (ProviderUnavailable("Busy.", partial="so"), True),
        (AuthenticationFailed("No."), True),
        (ModelNotFound("There is none."), True),
        (InvalidArgument("It sees no images."), True),
        (SchemaMismatch("It is not."), True),
        (UpstreamError("It broke.", status=500), True),
        (UpstreamError("It broke.", status=500, partial="so"), False),
        (UpstreamError("It broke.", status=499), False),
        (UpstreamError("It broke."), False),
        (TimedOut("Slow.", limit="connect"), True),
        (TimedOut("Slow.", limit="idle"), False),
    ],
)
def test_after_which_failures_another_model_may_answer(error: CounselError, may: bool) -> None:
    assert another_may_answer(error) == may
