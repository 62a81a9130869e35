"""The models that `auto` or a chain tries in turn: which one follows a failure, and the error if all of them fail."""

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

MOST_MISMATCHES = (
    2  # models that miss the schema, each after two paid answers; then the schema is the likely problem
)


class AutoChain:
    """The candidates that remain, and the failures of the others."""

    def __init__(self, candidates: Sequence[Route], skipped: Sequence[PassedOver] = ()) -> None:
        """`skipped`: the names in a chain that could not be asked at all."""
        self._left = list(candidates)
        self._skipped = list(skipped)
        self._failures: list[tuple[Route, CounselError]] = []
        alternatives = len(self._left) > 1
        self.retry_deadline = (
            asyncio.get_running_loop().time() + retries.AUTO_RETRY_SECONDS if alternatives else None
        )

    def next(self) -> Route | None:
        return self._left[0] if self._left else None

    def record_failure(self, route: Route, error: CounselError) -> None:
        """Remove the model, and its provider's other models if they would fail for the same reason."""
        self._failures.append((route, error))
        is_provider_wide = provider_failed(error)
        if error.fields.get("team"):  # its server failed, not the provider
            self._left = [candidate for candidate in self._left if candidate.wire != "counsel"]
        self._left = [
            candidate
            for candidate in self._left
            if candidate.name != route.name
            and not (is_provider_wide and candidate.provider == route.provider)
        ]
        if sum(isinstance(failure, SchemaMismatch) for _, failure in self._failures) >= MOST_MISMATCHES:
            self._left = []

    def passed_over(self) -> list[PassedOver]:
        return self._skipped + [
            PassedOver(route.name, error.code, error.message, results.usage_of(error))
            for route, error in self._failures
        ]

    def error(self) -> CounselError:
        """The error for the caller: that of the only provider, or one that names all of them."""
        last = self._failures[-1][1]
        attempts = self._tried()
        if len(attempts) == 1:
            return last
        kinds = {type(error) for _, error in self._failures}
        kind = type(last) if len(kinds) == 1 and not self._skipped else ProviderUnavailable
        is_refused = not self._skipped and all(isinstance(error, NoAnswer) for _, error in self._failures)
        waits = [error.retry_after for _, error in self._failures if isinstance(error, RateLimited)]
        delays = [wait for wait in waits if wait]
        return kind(
            f"No model answered; {len(attempts)} providers were tried.",
            hint=last.hint if is_refused else "`counsel doctor --online` tests every key and address.",
            tried=attempts,
            partial=last.partial,  # earlier ones were discarded when the next model was asked
            retry_after=min(delays) if delays and kind is RateLimited else None,
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
        usages = [usage for _, error in self._failures if (usage := results.usage_of(error))]
        if not usages:
            return {}
        total = sum(usages[1:], start=usages[0])
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
    """Whether all models of the provider would fail: its key is rejected, its account is empty, or it is unreachable.

    A vendor that responds, with a status or some text, may have trouble with one model only.
    """
    if isinstance(error, AuthenticationFailed):
        return True
    if isinstance(error, RateLimited):
        return error.fields.get("reason") == "insufficient_quota"
    if isinstance(error, ProviderUnavailable):
        return (error.status is None and not error.partial) or error.status == 407
    return isinstance(error, TimedOut) and error.limit == "connect"


def another_may_answer(error: CounselError) -> bool:
    """Whether to ask the next model after this error.

    The account may lack the model, the vendor may be down, the model may not accept images, its context may be full, or
    it may refuse or return nothing. These errors lead to the next model even in the middle of an answer; after any
    other failure the partial answer is kept.
    """
    if isinstance(error, Unavailable | AuthenticationFailed | Refused | NoAnswer):
        return True
    if error.partial:
        return False
    return (error.status or 0) >= 500 or (isinstance(error, TimedOut) and error.limit == "connect")
