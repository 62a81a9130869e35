"""Whether this process should get work: its database answers and fits this release, the queue moves, and the process
is not stopping.

Anyone may ask, so a reason names neither hosts nor databases; the log does.
"""

from __future__ import annotations

import asyncio
import logging

from counsel.engine.store.health import QueueState
from counsel.engine.store.protocol import Store
from counsel.errors import ConfigInvalid, CounselError
from counsel.lazy_dataclass import dataclass
from counsel.types import Json

log = logging.getLogger("counsel.engine")
CHECK_SECONDS = 3.0  # for the database to answer


@dataclass(frozen=True, slots=True)
class Reason:
    code: str  # database, schema, queue, draining, starting
    text: str

    def to_json(self) -> Json:
        return {"code": self.code, "text": self.text}


DRAINING = Reason("draining", "The server is being stopped: it takes no new jobs.")


async def not_ready(store: Store, limit: int, *, draining: bool = False) -> list[Reason]:
    """Why this process is not ready; empty if it is. `limit`: seconds a job may wait in the queue (0: no limit)."""
    reasons = [DRAINING] if draining else []
    check = asyncio.ensure_future(_reasons(store, limit))
    # Retrieves the exception of a check that nothing awaits, so that asyncio does not report it.
    check.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        finished, _ = await asyncio.wait({check}, timeout=CHECK_SECONDS)
    finally:
        check.cancel()  # not awaited: to cancel, the driver sends another request to the silent server
    if finished:
        return reasons + check.result()
    return [
        *reasons,
        Reason("database", f"The database did not answer within {CHECK_SECONDS:.0f} seconds."),
    ]


async def _reasons(store: Store, limit: int) -> list[Reason]:
    try:
        if store.team is not None:
            await store.team.health.check()
            return late(await store.team.health.queue(), limit)
    except ConfigInvalid as error:
        log.warning("not ready: %s", error.message)
        return [
            Reason(
                "schema", "The database's tables do not match this release: run `counsel database status`."
            )
        ]
    except CounselError as error:
        log.warning("not ready: %s", error.message)
        return [Reason("database", "The database cannot be reached.")]
    if store.problem:
        return [Reason("database", "Nothing can be stored: `counsel doctor` says why.")]
    return []


def late(queue: QueueState, limit: int) -> list[Reason]:
    if not limit or queue.oldest_seconds <= limit:
        return []
    return [Reason("queue", f"A job has waited {queue.oldest_seconds:.0f} seconds; the limit is {limit}.")]
