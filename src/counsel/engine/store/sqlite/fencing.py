"""Whether a job still belongs to the process that writes for it."""

from __future__ import annotations

import sqlite3

from counsel.engine.store.records import Fence, LostJob

MINE = "id = ? AND owner = ? AND attempt = ? AND status = 'processing'"


def values(fence: Fence) -> tuple[str, str, int]:
    """The parameters of `MINE`."""
    return fence.job, fence.owner, fence.attempt


def holds(fence: Fence, db: sqlite3.Connection) -> bool:
    return bool(db.execute(f"SELECT 1 FROM jobs WHERE {MINE}", values(fence)).fetchone())


def check(fence: Fence, db: sqlite3.Connection) -> None:
    if not holds(fence, db):
        raise LostJob(fence.job)
