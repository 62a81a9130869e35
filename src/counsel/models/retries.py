"""Whether a failed attempt is repeated, and after how long."""

from __future__ import annotations

import asyncio
import random

from counsel.errors import CounselError, RateLimited
from counsel.lazy_dataclass import replace
from counsel.types import Call, Limits, Notice

BACKOFF = 0.5  # seconds before the second attempt; doubled for each further one
AUTO_RETRY_SECONDS = 5.0  # seconds that all models of one `auto` may spend on retries, together
CONNECT_WITH_ALTERNATIVES = 3.0  # seconds for a connection when another model can answer
LEAST_CONNECT = 1.5  # seconds, even if no time is left: a lost packet is sent again after one second


class Retryable(Exception):
    """A failure that another attempt may avoid. `error` is raised when no attempt is left."""

    def __init__(self, error: CounselError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def wait_before_next(
    failure: Retryable, attempt: int, call: Call, limits: Limits, *, ends: float, backoff: float
) -> float | None:
    """Seconds until the next attempt; None if there is none, because this was the last one or the wait is too long.

    `ends`: the call's deadline, by the event loop's clock.
    """
    wait = _delay(attempt, failure.retry_after, backoff)
    start = asyncio.get_running_loop().time() + wait
    too_late = start >= min(ends, call.retry_deadline or ends)
    return None if attempt >= limits.attempts or too_late else wait


def attempt_limits(limits: Limits, call: Call) -> Limits:
    """The limits of one attempt: a connection that hangs must not keep the next model waiting."""
    if call.retry_deadline is None:
        return limits
    remaining = call.retry_deadline - asyncio.get_running_loop().time()
    longest = max(LEAST_CONNECT, min(CONNECT_WITH_ALTERNATIVES, remaining))
    return replace(limits, connect=min(limits.connect, longest))


def _delay(attempt: int, retry_after: float | None, backoff: float) -> float:
    """The vendor's delay, but at least our own backoff: some vendors send 0, or a past date."""
    own_delay = backoff * (1 << (attempt - 1)) * random.uniform(0.75, 1.25)  # noqa: S311 (jitter, no secret)
    return max(own_delay, retry_after or 0.0)


def notice(attempt: int, wait: float, error: CounselError, limits: Limits) -> Notice:
    reason = "rate limit" if isinstance(error, RateLimited) else error.code
    return Notice(
        "retry",
        f"Attempt {attempt + 1} of {limits.attempts} in {wait:.1f} s: {error.message}",
        {"attempt": attempt + 1, "wait": wait, "reason": reason},
    )
