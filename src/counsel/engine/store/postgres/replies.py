"""The results of a job's calls: finished replies, events, and the images that they send."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from counsel import strict_json
from counsel.engine.store.model import Reply
from counsel.engine.store.postgres import fencing
from counsel.engine.store.postgres import usage as usage_
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.connections import Row
from counsel.engine.store.postgres.scope import Statements
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import Blob, Fence, UsageRecord
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent, Wait

_APPEND = (
    f"WITH mine AS (SELECT id FROM counsel.jobs WHERE {fencing.MINE} FOR NO KEY UPDATE) "
    "INSERT INTO counsel.events (job, seq, at, kind, slot, data) SELECT mine.id, e.* FROM mine, "
    "unnest(%s::int8[], %s::float8[], %s::text[], %s::text[], %s::text[]) AS e (seq, at, kind, slot, data) "
    "ON CONFLICT (job, seq) DO UPDATE SET at = excluded.at, kind = excluded.kind, slot = excluded.slot, "
    "data = excluded.data"
)


class Replies:
    database: Statements

    def remember(self, fence: Fence, key: str, slot: str, reply: Reply, usage: UsageRecord) -> Pending[None]:
        reply_json = reply.dump()

        async def work(db: Transaction) -> None:
            await db.execute(
                "INSERT INTO counsel.calls (job, key, at, reply) SELECT id, %s, %s, %s FROM counsel.jobs "
                "WHERE id = %s FOR KEY SHARE ON CONFLICT DO NOTHING",
                key,
                time.time(),
                reply_json,
                fence.job,
            )
            await usage_.insert(db, [usage])
            if await fencing.holds(fence, db):
                await db.execute(
                    "DELETE FROM counsel.events WHERE job = %s AND slot = %s AND kind = 'text'",
                    fence.job,
                    slot,
                )
                await db.execute("UPDATE counsel.jobs SET stuck = 0 WHERE id = %s AND stuck != 0", fence.job)
            db.notify(fence.job)

        return self.database.write(work)

    async def reply(self, job: str, key: str) -> Reply | None:
        row = await self.database.row("SELECT reply FROM counsel.calls WHERE job = %s AND key = %s", job, key)
        return Reply.load(row[0]) if row else None

    async def replies(self, job: str) -> dict[str, Reply]:
        return await replies_by_key(self.database.rows, job)

    async def has_replies(self, job: str) -> bool:
        return await self.database.row("SELECT 1 FROM counsel.calls WHERE job = %s LIMIT 1", job) is not None

    # ── events ───────────────────────────────────────────────────────────────────────────────────────

    def append(self, fence: Fence, events: Iterable[JobEvent]) -> Pending[None]:
        rows = {
            event.seq: (event.at, event.kind, event.slot, strict_json.dumps(event.data)) for event in events
        }
        columns = [list(column) for column in zip(*rows.values(), strict=True)]

        async def work(db: Transaction) -> None:
            if rows and await db.execute(_APPEND, *fencing.values(fence), list(rows), *columns):
                db.notify(fence.job)

        return self.database.write(work)

    async def events(self, job: str, after: int) -> list[JobEvent]:
        rows = await self.database.rows(
            "SELECT seq, at, kind, slot, data FROM counsel.events WHERE job = %s AND seq > %s ORDER BY seq",
            job,
            after,
        )
        return [event_from(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]

    async def last_seq(self, job: str) -> int:
        row = await self.database.row("SELECT MAX(seq) FROM counsel.events WHERE job = %s", job)
        return int(row[0] or 0) if row else 0

    async def slots_with_text(self, job: str) -> list[str]:
        rows = await self.database.rows(
            "SELECT DISTINCT slot FROM counsel.events WHERE job = %s AND kind = 'text' ORDER BY slot", job
        )
        return [row[0] for row in rows]

    async def waiting(self, job: str) -> Wait | None:
        """The first `waiting` event that no other event of its slot follows."""
        row = await self.database.row(
            "SELECT data FROM counsel.events e WHERE job = %s AND kind = 'waiting' AND NOT EXISTS (SELECT 1 FROM "
            "counsel.events l WHERE l.job = e.job AND l.seq > e.seq AND l.slot = e.slot) ORDER BY seq LIMIT 1",
            job,
        )
        return Wait.from_json(json.loads(row[0])) if row else None

    def mark(self, job: str) -> int:  # noqa: ARG002 - one counter for all jobs
        self.database.listener.start()
        return self.database.changes.mark()

    async def wait_for_change(self, job: str, mark: int, seconds: float) -> None:
        await self.database.changes.wait(job, mark, seconds)

    # ── images ───────────────────────────────────────────────────────────────────────────────────────

    def put_blobs(self, blobs: Sequence[Blob]) -> Pending[None]:
        # the same order of locks everywhere
        rows = sorted((blob.sha, blob.media_type, blob.data) for blob in blobs)

        async def work(db: Transaction) -> None:
            for row in rows:
                await db.execute(
                    "INSERT INTO counsel.blobs (sha, media_type, data, at) VALUES (%s, %s, %s, %s) ON CONFLICT (sha) "
                    "DO UPDATE SET media_type = excluded.media_type, data = excluded.data, at = excluded.at",
                    *row,
                    time.time(),
                )

        return self.database.write(work)

    async def blobs(self, shas: Iterable[str]) -> dict[str, Blob]:
        rows = await self.database.rows(
            "SELECT sha, media_type, data FROM counsel.blobs WHERE sha = ANY(%s::text[])", list(shas)
        )
        return {row[0]: Blob(*row) for row in rows}


async def replies_by_key(rows: Callable[..., Awaitable[list[Row]]], job: str) -> dict[str, Reply]:
    records = await rows("SELECT key, reply FROM counsel.calls WHERE job = %s ORDER BY key", job)
    return {row[0]: Reply.load(row[1]) for row in records}


async def drop_text(db: Transaction, job: str) -> None:
    """Delete partial text that the result contains."""
    await db.execute("DELETE FROM counsel.events WHERE job = %s AND kind = 'text'", job)
