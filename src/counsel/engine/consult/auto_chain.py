"""The models that `auto` or a chain tries one after another: who comes next after a failure, and the error if everyone fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from counsel.engine import results
from counsel.engine.consult.routes import Route
from counsel.errors import (
    AuthenticationFailed,
    CounselError,
    ErrorDict,
    NoAnswer,
    ProviderUnavailable,
    RateLimited,
    Refused,
    SchemaMismatch,
    TimedOut,
    Unavailable,
)
from counsel.models import retries
from counsel.results import PassedOver, usage_to_json
from counsel.types import Usage

MOST_MISMATCHES = 2  # models that were each paid for two answers: then the schema is the problem


class AutoChain:
    """The candidates that are left, and what went wrong with the others."""

    def __init__(self, candidates: Sequence[Route], skipped: Sequence[PassedOver] = ()) -> None:
        """`skipped`: names of a chain that could not be asked at all."""
        self._left = list(candidates)
        self._skipped = list(skipped)
        self._failures: list[tuple[Route, CounselError]] = []
        alternatives = len(self._left) > 1
        self.hurry = asyncio.get_running_loop().time() + retries.AUTO_RETRY_SECONDS if alternatives else None

    def next(self) -> Route | None:
        return self._left[0] if self._left else None

    def failed(self, route: Route, error: CounselError) -> None:
        """Take the model off the list, and its provider's other models if they would fail for the same reason."""
        self._failures.append((route, error))
        whole = provider_failed(error)
        if error.fields.get("team"):  # its server failed, not the provider
            self._left = [other for other in self._left if other.wire != "counsel"]
        self._left = [
            other
            for other in self._left
            if other.name != route.name and not (whole and other.provider == route.provider)
        ]
        if sum(isinstance(failed, SchemaMismatch) for _, failed in self._failures) >= MOST_MISMATCHES:
            self._left = []

    def passed_over(self) -> list[PassedOver]:
        return self._skipped + [
            PassedOver(route.name, error.code, error.message, results.spent(error))
            for route, error in self._failures
        ]

    def error(self) -> CounselError:
        """The error for the caller: a single provider's own, or one that names them all."""
        last = self._failures[-1][1]
        tried = self._tried()
        if len(tried) == 1:
            return last
        kinds = {type(error) for _, error in self._failures}
        kind = type(last) if len(kinds) == 1 and not self._skipped else ProviderUnavailable
        is_refused = not self._skipped and all(isinstance(error, NoAnswer) for _, error in self._failures)
        waits = [error.retry_after for _, error in self._failures if isinstance(error, RateLimited)]
        known = [wait for wait in waits if wait]
        return kind(
            f"No model answered; {len(tried)} providers were tried.",
            hint=last.hint if is_refused else "`counsel doctor --online` tests every key and address.",
            tried=tried,
            partial=last.partial,  # those before it were discarded when the next model was asked
            retry_after=min(known) if known and kind is RateLimited else None,
            **self._spent(),
        )

    def _tried(self) -> list[ErrorDict]:
        """One entry for each provider: the models that were asked, and the last one's failure."""
        by_provider: dict[str, ErrorDict] = {}
        for route, error in self._failures:
            models = [*by_provider.get(route.provider, {}).get("models", []), route.name]
            by_provider[route.provider] = {
                "provider": route.provider,
                "models": models,
                "code": error.code,
                "error": error.message,
                "hint": error.hint or "",
            }
        return [*map(_not_asked, self._skipped), *by_provider.values()]

    def _spent(self) -> ErrorDict:
        spent = [used for _, error in self._failures if (used := results.spent(error))]
        if not spent:
            return {}
        total = sum(spent[1:], start=spent[0])
        return _as_fields(total)


def _not_asked(skipped: PassedOver) -> ErrorDict:
    return {
        "provider": skipped.model,
        "models": [skipped.model],
        "code": skipped.code,
        "error": skipped.error,
        "hint": "",
    }


def _as_fields(usage: Usage) -> ErrorDict:
    return {"usage": usage_to_json(usage), "cost_usd": usage.cost_usd}


def provider_failed(error: CounselError) -> bool:
    """Whether all models of the provider would fail: the key is rejected, the account is empty, no connection.

    A vendor that answers, with a status or with a part of a text, may have trouble with one model only.
    """
    if isinstance(error, AuthenticationFailed):
        return True
    if isinstance(error, RateLimited):
        return error.fields.get("reason") == "insufficient_quota"
    if isinstance(error, ProviderUnavailable):
        return (error.status is None and not error.partial) or error.status == 407
    return isinstance(error, TimedOut) and error.limit == "connect"


def another_may_answer(error: CounselError) -> bool:
    """An account may lack a model that the vendor has; a vendor may be down; a conversation's model may see no images, or
    its context may be full; what one model refuses or leaves empty, another may answer. These errors move on to the next
    model even in the middle of an answer; after any other failure the partial answer is kept.
    """
    if isinstance(error, Unavailable | AuthenticationFailed | Refused | NoAnswer):
        return True
    if error.partial:
        return False
    return (error.status or 0) >= 500 or (isinstance(error, TimedOut) and error.limit == "connect")
