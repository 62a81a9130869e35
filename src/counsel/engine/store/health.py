"""What operators want to know about the database and its queue."""

from __future__ import annotations

from counsel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class QueueState:
    """Unfinished jobs of all servers. A job that waits for an earlier turn of its conversation is not late."""

    open: int = 0
    waiting: int = 0  # not taken by any process yet
    oldest_seconds: float = 0.0  # since the oldest waiting job was submitted
