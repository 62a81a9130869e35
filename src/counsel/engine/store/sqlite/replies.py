"""The results of a job's calls: finished replies, events, and the images that they send."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence

from counsel import strict_json
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import Blob, Fence, UsageRecord
from counsel.engine.store.sqlite import fencing
from counsel.engine.store.sqlite import usage as usage_
from counsel.engine.store.sqlite.database import Database
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent, Wait

_POLL = 0.05  # seconds between two checks for a new commit


class Replies:
    database: Database

    def remember(self, fence: Fence, key: str, slot: str, reply: Reply, usage: UsageRecord) -> Pending[None]:
        reply_json = reply.dump()

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT OR IGNORE INTO calls SELECT ?1,?2,?3,?4 WHERE EXISTS (SELECT 1 FROM jobs WHERE id = ?1)",
                (fence.job, key, time.time(), reply_json),
            )
            usage_.insert(db, [usage])
            if fencing.holds(fence, db):
                db.execute(
                    "DELETE FROM events WHERE job = ? AND slot = ? AND kind = 'text'", (fence.job, slot)
                )
                db.execute("UPDATE jobs SET stuck = 0 WHERE id = ?", (fence.job,))

        return self.database.soon(work)

    async def reply(self, job: str, key: str) -> Reply | None:
        row = self.database.row("SELECT reply FROM calls WHERE job = ? AND key = ?", job, key)
        return Reply.load(row[0]) if row else None

    async def replies(self, job: str) -> dict[str, Reply]:
        return replies_by_key(self.database.reader, job)

    async def has_replies(self, job: str) -> bool:
        return self.database.row("SELECT 1 FROM calls WHERE job = ? LIMIT 1", job) is not None

    # ── events ───────────────────────────────────────────────────────────────────────────────────────

    def append(self, fence: Fence, events: Iterable[JobEvent]) -> Pending[None]:
        rows = [
            (
                fence.job,
                event.seq,
                event.at,
                event.kind,
                event.slot,
                strict_json.dumps(event.data),
            )
            for event in events
        ]

        def work(db: sqlite3.Connection) -> None:
            if fencing.holds(fence, db):
                db.executemany("INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?)", rows)

        return self.database.soon(work)

    async def events(self, job: str, after: int) -> list[JobEvent]:
        rows = self.database.rows(
            "SELECT seq, at, kind, slot, data FROM events WHERE job = ? AND seq > ? ORDER BY seq", job, after
        )
        return [event_from(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]

    async def last_seq(self, job: str) -> int:
        row = self.database.row("SELECT MAX(seq) FROM events WHERE job = ?", job)
        return int(row[0] or 0) if row else 0

    async def slots_with_text(self, job: str) -> list[str]:
        rows = self.database.rows(
            "SELECT DISTINCT slot FROM events WHERE job = ? AND kind = 'text' ORDER BY slot", job
        )
        return [row[0] for row in rows]

    async def waiting(self, job: str) -> Wait | None:
        """The first `waiting` event that no other event of its slot follows."""
        row = self.database.row(
            "SELECT data FROM events e WHERE job = ? AND kind = 'waiting' AND NOT EXISTS (SELECT 1 FROM events "
            "WHERE job = e.job AND seq > e.seq AND slot = e.slot) ORDER BY seq LIMIT 1",
            job,
        )
        return Wait.from_json(json.loads(row[0])) if row else None

    def mark(self, job: str) -> int:  # noqa: ARG002 - any change may be the job's
        """One pragma (2 µs) tells whether any connection, of any process, has committed."""
        return self.database.version()

    async def wait_for_change(self, job: str, mark: int, seconds: float) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.mark(job) == mark and (rest := deadline - loop.time()) > 0:  # noqa: ASYNC110 - SQLite has no NOTIFY
            await asyncio.sleep(min(_POLL, rest))

    # ── images ───────────────────────────────────────────────────────────────────────────────────────

    def put_blobs(self, blobs: Sequence[Blob]) -> Pending[None]:
        rows = [(blob.sha, blob.media_type, blob.data, time.time()) for blob in blobs]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO blobs (sha, media_type, data, at) VALUES (?,?,?,?)", rows)

        return self.database.write(work)

    async def blobs(self, shas: Iterable[str]) -> dict[str, Blob]:
        blobs: dict[str, Blob] = {}
        for sha in shas:
            if row := self.database.row("SELECT media_type, data FROM blobs WHERE sha = ?", sha):
                blobs[sha] = Blob(sha, row[0], row[1])
        return blobs


def replies_by_key(db: sqlite3.Connection, job: str) -> dict[str, Reply]:
    rows = db.execute("SELECT key, reply FROM calls WHERE job = ? ORDER BY key", (job,))
    return {row[0]: Reply.load(row[1]) for row in rows}


def drop_text(db: sqlite3.Connection, job: str) -> None:
    """Delete partial text that the result contains."""
    db.execute("DELETE FROM events WHERE job = ? AND kind = 'text'", (job,))
