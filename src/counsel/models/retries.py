"""Whether a failed attempt is repeated, and after how long."""

from __future__ import annotations

import asyncio
import random

from counsel.errors import CounselError, RateLimited
from counsel.lazy_dataclass import replace
from counsel.types import Call, Limits, Notice

BACKOFF = 0.5  # seconds before the second attempt; doubled for each further one
AUTO_RETRY_SECONDS = 5.0  # seconds that all models of one `auto` may spend on retries, together
CONNECT_IN_A_HURRY = 3.0  # seconds for a connection when another model can answer
LEAST_CONNECT = 1.5  # seconds, after the patience is used up: a lost packet is sent again after one


class Retryable(Exception):
    """A failure that another attempt may not have. `error` is raised when no attempt is left."""

    def __init__(self, error: CounselError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def wait_before_next(
    failure: Retryable, attempt: int, call: Call, limits: Limits, *, ends: float, backoff: float
) -> float | None:
    """Seconds until the next attempt; None when there is none: the last one was made, or the wait is too long.

    `ends`: when the call must be over, by the event loop's clock.
    """
    wait = _delay(attempt, failure.retry_after, backoff)
    begins = asyncio.get_running_loop().time() + wait
    too_late = begins >= min(ends, call.hurry or ends)
    return None if attempt >= limits.attempts or too_late else wait


def in_a_hurry(limits: Limits, call: Call) -> Limits:
    """The limits of one attempt: a connection that hangs must not keep the next model waiting."""
    if call.hurry is None:
        return limits
    left = call.hurry - asyncio.get_running_loop().time()
    most = max(LEAST_CONNECT, min(CONNECT_IN_A_HURRY, left))
    return replace(limits, connect=min(limits.connect, most))


def _delay(attempt: int, retry_after: float | None, backoff: float) -> float:
    """As long as the vendor asks, and never shorter than our own backoff: some vendors send 0, or a past date."""
    ours = backoff * (1 << (attempt - 1)) * random.uniform(0.75, 1.25)  # noqa: S311 (jitter, no secret)
    return max(ours, retry_after or 0.0)


def notice(attempt: int, wait: float, error: CounselError, limits: Limits) -> Notice:
    reason = "rate limit" if isinstance(error, RateLimited) else error.code
    return Notice(
        "retry",
        f"Attempt {attempt + 1} of {limits.attempts} in {wait:.1f} s: {error.message}",
        {"attempt": attempt + 1, "wait": wait, "reason": reason},
    )
