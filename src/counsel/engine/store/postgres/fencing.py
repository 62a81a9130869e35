"""Whether a job still belongs to the process that writes for it. Its row stays locked until the commit, so no other
process adopts the job between the check and the write.
"""

from __future__ import annotations

from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.records import Fence, LostJob

MINE = "id = %s AND owner = %s AND attempt = %s AND status = 'processing'"


def values(fence: Fence) -> tuple[str, str, int]:
    """The parameters of `MINE`."""
    return fence.job, fence.owner, fence.attempt


async def holds(fence: Fence, db: Transaction) -> bool:
    sql = f"SELECT 1 FROM counsel.jobs WHERE {MINE} FOR NO KEY UPDATE"
    return await db.row(sql, *values(fence)) is not None


async def check(fence: Fence, db: Transaction) -> None:
    if not await holds(fence, db):
        raise LostJob(fence.job)
