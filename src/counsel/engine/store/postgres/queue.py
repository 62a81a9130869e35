"""Which worker may run which job: procrastinate's rows, next to our own (docs/decisions/27-procrastinate.md).

A row is written, taken and deleted in the transactions that store, adopt and end our job, so both always agree.
Finishing or retrying a row requires that it is still the same attempt of the same worker: procrastinate's own functions
match the id alone, and a worker that was suspended ended other workers' jobs (5 of 5 in a measurement).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from counsel.engine.store.postgres.commits import QUEUE_CHANNEL, Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.postgres.presence import DEAD_AFTER
from counsel.engine.store.records import NewJob, QueuedRow, QueueEntry

TASK = "counsel.job"
_ROWS = "counsel_queue.procrastinate_jobs"
_WORKERS = "counsel_queue.procrastinate_workers"
_COLUMNS = "id, status::text, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id"
_MINE = "id = %s AND status = 'doing' AND attempts = %s AND worker_id = %s"
_GIVE_BACK = "status = 'todo', worker_id = NULL, abort_requested = FALSE, attempts = attempts + 1"
_FREE_LOCK = f"NOT EXISTS (SELECT 1 FROM {_ROWS} o WHERE o.lock = %s AND o.status = 'doing' AND o.id != %s)"


# ── in the transactions of our jobs ──────────────────────────────────────────────────────────────────────


async def put(db: Transaction, job: NewJob, conversation: str, entry: QueueEntry) -> tuple[int, bool]:
    """Insert a row for a new job; return its number, and whether this process runs the job at once."""
    lock = None if job.task.stateless else conversation
    ticket, runs_here = await _insert(db, job.id, entry, lock)
    if lock is not None and not runs_here:
        # Otherwise a waiting client's turn would overtake the earlier ones of its conversation.
        await db.execute(
            f"UPDATE {_ROWS} SET priority = %s WHERE lock = %s AND status IN ('todo', 'doing') AND priority < %s",
            entry.priority,
            lock,
            entry.priority,
        )
    return ticket, runs_here


async def _insert(db: Transaction, job: str, entry: QueueEntry, lock: str | None) -> tuple[int, bool]:
    """The entry's worker has the row at once, if there is one and no earlier turn of the conversation is open."""
    row = await db.row(
        f"INSERT INTO {_ROWS} (queue_name, task_name, priority, lock, args, status, worker_id) "
        "SELECT %s, %s, %s, place.lock, %s::jsonb, "
        "(CASE WHEN free THEN 'doing' ELSE 'todo' END)::counsel_queue.procrastinate_job_status, "
        "CASE WHEN free THEN worker END FROM (SELECT lock, worker, worker IS NOT NULL AND (lock IS NULL OR NOT "
        "(EXISTS (SELECT 1 FROM counsel.jobs j WHERE j.conversation = mine.lock AND j.status = 'processing') "
        f"OR EXISTS (SELECT 1 FROM {_ROWS} o WHERE o.lock = mine.lock AND o.status = 'doing'))) AS free "
        "FROM (SELECT %s::text AS lock, %s::bigint AS worker) AS mine) AS place RETURNING id, worker_id IS NOT NULL",
        entry.queue,
        TASK,
        entry.priority,
        json.dumps({"job": job}),
        lock,
        entry.worker,
    )
    assert row is not None
    return int(row[0]), bool(row[1])


async def claim(db: Transaction, ticket: int | None, worker: int | None) -> None:
    """Take the row of a job that was adopted without it, for example by a person who cancels the job."""
    if ticket is None or worker is None:
        return
    row = await db.row(f"SELECT lock FROM {_ROWS} WHERE id = %s FOR UPDATE", ticket)
    if row is not None:
        await db.execute(
            f"UPDATE {_ROWS} SET status = 'doing', worker_id = %s, abort_requested = FALSE, scheduled_at = NULL, "
            f"attempts = attempts + 1 WHERE id = %s AND NOT (status = 'doing' AND worker_id = %s) AND {_FREE_LOCK}",
            worker,
            ticket,
            worker,
            row[0],
            ticket,
        )


async def remove(db: Transaction, job: str) -> None:
    """Delete the row of an ended job; tell the workers if a later turn of its conversation waits."""
    row = await db.row(
        f"WITH gone AS (DELETE FROM {_ROWS} WHERE id = (SELECT ticket FROM counsel.jobs WHERE id = %s) RETURNING lock) "
        f"SELECT EXISTS (SELECT 1 FROM {_ROWS} o JOIN gone ON o.lock = gone.lock WHERE o.status = 'todo')",
        job,
    )
    if row and row[0]:
        await _announce(db)


async def give_back(db: Transaction, tickets: Collection[int | None]) -> None:
    """Offer the rows of released jobs to all workers."""
    numbers = [ticket for ticket in tickets if ticket is not None]
    if numbers:
        await db.execute(
            f"UPDATE {_ROWS} SET {_GIVE_BACK}, scheduled_at = NULL WHERE id = ANY(%s) AND status = 'doing'",
            numbers,
        )
        await _announce(db)


async def _announce(db: Transaction) -> None:
    await db.execute("SELECT pg_notify(%s, %s)", QUEUE_CHANNEL, '{"type": "job_inserted", "job_id": 0}')


# ── for the worker ───────────────────────────────────────────────────────────────────────────────────────


class Queue:
    """Each method is one statement or one transaction, so that nothing is left half done."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.worker: int | None = None  # this process's row in procrastinate's table of workers

    @property
    def on_change(self) -> Callable[[], None]:
        return self._database.listener.on_queue

    @on_change.setter
    def on_change(self, call: Callable[[], None]) -> None:
        self._database.listener.on_queue = call

    async def register(self) -> int:
        row = await self._database.row("SELECT * FROM counsel_queue.procrastinate_register_worker_v1()")
        assert row is not None
        self.worker = int(row[0])
        return self.worker

    async def unregister(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            await self._database.row("SELECT counsel_queue.procrastinate_unregister_worker_v1(%s)", worker)

    async def beat(self) -> bool:
        """False: the worker's row is gone."""
        sql = f"UPDATE {_WORKERS} SET last_heartbeat = clock_timestamp() WHERE id = %s RETURNING id"
        return await self._database.row(sql, self.worker) is not None

    def serve(self, queues: Sequence[str]) -> None:
        self._database.presence.queues = queues  # other processes see it within two seconds

    async def is_served(self, job: str) -> bool:
        row = await self._database.row(
            "WITH queue AS (SELECT COALESCE(q.queue_name, j.fingerprint) AS wanted FROM counsel.jobs j "
            f"LEFT JOIN {_ROWS} q ON q.id = j.ticket WHERE j.id = %s) "
            "SELECT wanted = ANY(%s::text[]) OR EXISTS (SELECT 1 FROM counsel.owners o "
            "WHERE (o.queues IS NULL OR wanted = ANY(o.queues)) "
            "AND o.seen > clock_timestamp() - make_interval(secs => %s)) FROM queue",
            job,
            list(self._database.presence.queues),
            DEAD_AFTER,
        )
        return row is not None and bool(row[0])

    async def fetch(self, queues: Sequence[str]) -> dict[str, Any] | None:
        """The next row, in procrastinate's form."""
        sql = f"SELECT {_COLUMNS} FROM counsel_queue.procrastinate_fetch_job_v2(%s::varchar[], %s)"
        row = await self._database.row(sql, list(queues), self.worker)
        if row is None or row[0] is None:
            return None
        return dict(zip([name.partition("::")[0] for name in _COLUMNS.split(", ")], row, strict=True))

    async def finish(self, row: QueuedRow) -> None:
        """Delete it, unless our job is still open: then its end could not be stored yet, and will delete the row."""
        await self._database.row(
            f"DELETE FROM {_ROWS} WHERE {_MINE} AND NOT EXISTS (SELECT 1 FROM counsel.jobs j "
            f"WHERE j.ticket = {_ROWS}.id AND j.status = 'processing') RETURNING id",
            row.id,
            row.attempts,
            row.worker,
        )

    async def retry(self, row: QueuedRow, seconds: float) -> None:
        """Offer it to all workers after `seconds`."""
        await self._database.row(
            f"UPDATE {_ROWS} SET {_GIVE_BACK}, scheduled_at = clock_timestamp() + make_interval(secs => %s) "
            f"WHERE {_MINE} RETURNING id",
            seconds,
            row.id,
            row.attempts,
            row.worker,
        )

    async def reap(self, dead_after: float) -> int:
        """Offer again what workers without a heartbeat had taken; return how many. Every process does it: a job for it
        could itself get stuck.
        """
        rows = await self._database.rows(
            f"WITH stale AS (SELECT j.id FROM {_ROWS} j LEFT JOIN {_WORKERS} w ON w.id = j.worker_id "
            "WHERE j.status = 'doing' AND (w.id IS NULL OR w.last_heartbeat < clock_timestamp() - make_interval(secs => %s)) "
            "FOR UPDATE OF j SKIP LOCKED), "
            f"back AS (UPDATE {_ROWS} SET {_GIVE_BACK} FROM stale WHERE {_ROWS}.id = stale.id RETURNING {_ROWS}.id) "
            "SELECT pg_notify(%s, json_build_object('type', 'job_inserted', 'job_id', id)::text) FROM back",
            dead_after,
            QUEUE_CHANNEL,
        )
        return len(rows)

    async def give_back_strays(self, owner: str, active: Collection[int]) -> None:
        """Offer again rows that this worker holds unknowingly: the answer to its statement was lost on the way."""
        await self._database.rows(
            f"UPDATE {_ROWS} SET {_GIVE_BACK} WHERE status = 'doing' AND worker_id = %s AND id != ALL(%s) "
            f"AND NOT EXISTS (SELECT 1 FROM counsel.jobs j WHERE j.ticket = {_ROWS}.id AND j.owner = %s "
            "AND j.status = 'processing') RETURNING id",
            self.worker,
            list(active),
            owner,
        )

    async def jobs_of(self, owner: str) -> list[str]:
        sql = "SELECT id FROM counsel.jobs WHERE owner = %s AND status = 'processing'"
        return [row[0] for row in await self._database.rows(sql, owner)]

    async def unattended(self) -> list[tuple[str, str]]:
        """Jobs without a row are of an earlier release, were imported, or lost it by hand. The others are to be ended:
        cancelled, or so old that waiting for their keys makes no sense.
        """
        rows = await self._database.rows(
            "SELECT j.id, j.owner FROM counsel.jobs j WHERE j.status = 'processing' "
            "AND (j.cancel OR j.created < EXTRACT(EPOCH FROM clock_timestamp()) - j.keep_days * 86400.0 "
            f"OR NOT EXISTS (SELECT 1 FROM {_ROWS} q WHERE q.id = j.ticket))"
        )
        return [(row[0], row[1]) for row in rows]

    async def turns_behind(self, jobs: Collection[str]) -> list[tuple[str, str]]:
        rows = await self._database.rows(
            "SELECT DISTINCT ON (w.id) w.id, a.id FROM counsel.jobs w JOIN counsel.jobs a "
            "ON a.conversation = w.conversation AND a.turn < w.turn AND a.status = 'processing' "
            "WHERE w.id = ANY(%s::text[]) AND w.status = 'processing' AND w.owner = '' AND NOT w.background "
            "ORDER BY w.id, a.turn",
            list(jobs),
        )
        return [(row[0], row[1]) for row in rows]

    async def enqueue_missing(self, jobs: Collection[str]) -> None:
        async def work(db: Transaction) -> None:
            rows = await db.rows(
                "SELECT j.id, j.conversation, j.fingerprint FROM counsel.jobs j WHERE j.id = ANY(%s::text[]) "
                f"AND j.status = 'processing' AND NOT EXISTS (SELECT 1 FROM {_ROWS} q WHERE q.id = j.ticket) "
                "ORDER BY j.conversation, j.turn FOR UPDATE",
                list(jobs),
            )
            for job, conversation, fingerprint in rows:
                ticket, _ = await _insert(db, job, QueueEntry(fingerprint, 0), conversation)
                await db.execute("UPDATE counsel.jobs SET ticket = %s WHERE id = %s", ticket, job)

        if jobs:
            await self._database.write(work)

    async def release_job(self, job: str, owner: str) -> None:
        """Release a job that belongs to this process by its row, but does not run here."""

        async def work(db: Transaction) -> None:
            row = await db.row(
                "UPDATE counsel.jobs SET owner = '' WHERE id = %s AND owner = %s AND status = 'processing' "
                "RETURNING ticket",
                job,
                owner,
            )
            if row is not None:
                db.notify(job)
                await give_back(db, [row[0]])

        await self._database.write(work)

    async def defer_periodic(self, name: str, queue: str, moment: int) -> None:
        """One row per moment, however many servers try."""
        await self._database.row(
            "SELECT counsel_queue.procrastinate_defer_periodic_job_v2(%s, %s, NULL, %s, 0, '', %s, %s::jsonb)",
            queue,
            name,
            name,
            moment,
            json.dumps({"timestamp": moment}),
        )

    async def forget_workers(self, seconds: float) -> None:
        await self._database.row(
            "SELECT count(*) FROM counsel_queue.procrastinate_prune_stalled_workers_v1(%s)", seconds
        )
