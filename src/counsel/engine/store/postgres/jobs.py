"""Jobs, from their submission to their end.

The order of a conversation's turns is `turn`. It is assigned under the lock on the conversation's row, so a turn
becomes visible only after its predecessors; numbers from a sequence could be committed in another order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

from counsel.engine.store import paging
from counsel.engine.store.model import Origin, Task
from counsel.engine.store.postgres import fencing, queue, submission
from counsel.engine.store.postgres.commits import Transaction, Work
from counsel.engine.store.postgres.connections import Row
from counsel.engine.store.postgres.endings import end_job
from counsel.engine.store.postgres.scope import Statements
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import (
    AdoptedJob,
    Fence,
    JobDetail,
    JobEnd,
    JobFilter,
    JobOutcome,
    JobRecord,
    JobStanding,
    JobWithoutTurn,
    NewJob,
    Page,
    Submitted,
)
from counsel.errors import from_dict
from counsel.results import result_from_json

_COLUMNS = [field.name for field in fields(JobRecord)]
_RECORD = ", ".join(_COLUMNS)
_LISTS = [_COLUMNS.index(name) for name in ("models", "cancelled_members")]
_CREATED = _COLUMNS.index("created")
_WITH_MEMBER = "CASE WHEN %s = ANY(cancelled_members) THEN cancelled_members ELSE array_append(cancelled_members, %s) END"


class Jobs:
    database: Statements

    # ── writes ───────────────────────────────────────────────────────────────────────────────────────

    def submit(self, job: NewJob, *, may_wait: bool = False) -> Pending[Submitted]:
        return self.database.write(submission.insert(job), may_wait=may_wait)

    def adopt(self, job: str, dead_owner: str, owner: str) -> Pending[AdoptedJob | None]:
        async def work(db: Transaction) -> AdoptedJob | None:
            row = await db.row(
                "UPDATE counsel.jobs SET owner = %s, attempt = attempt + 1 "
                f"WHERE id = %s AND owner = %s AND status = 'processing' RETURNING {_RECORD}, task, caller, ticket",
                owner,
                job,
                dead_owner,
            )
            if row is None:
                return None
            db.notify(job)
            await queue.claim(db, row[-1], self.worker())
            return AdoptedJob(_record(row[:-3]), Task.load(row[-3]), Origin.load(row[-2]))

        return self.database.write(work)

    def worker(self) -> int | None:
        """This process's number in the queue; None: it takes no jobs."""
        return None

    def detach(self, job: str) -> Pending[None]:
        return self.database.write(
            _statement(job, "UPDATE counsel.jobs SET background = TRUE WHERE id = %s", job)
        )

    def release(self, owner: str, *, keep: bool) -> Pending[None]:
        async def work(db: Transaction) -> None:
            rows = await db.rows(
                "UPDATE counsel.jobs SET owner = '', background = background OR %s "
                "WHERE owner = %s AND status = 'processing' RETURNING id, ticket",
                keep,
                owner,
            )
            for row in rows:
                db.notify(row[0])
            await queue.give_back(db, [row[1] for row in rows])

        return self.database.write(work)

    def request_cancel(self, job: str, member: str | None = None) -> Pending[bool]:
        change = "cancel = TRUE" if member is None else f"cancelled_members = {_WITH_MEMBER}"

        async def work(db: Transaction) -> bool:
            db.notify(job)
            sql = f"UPDATE counsel.jobs SET {change} WHERE id = %s AND status = 'processing'"
            return await db.execute(sql, *(() if member is None else (member, member)), job) == 1

        return self.database.write(work)

    def progress(self, fence: Fence, completed: int) -> Pending[None]:
        sql = f"UPDATE counsel.jobs SET completed = %s WHERE {fencing.MINE}"
        return self.database.write(_statement(fence.job, sql, completed, *fencing.values(fence)))

    def mark_attempt(self, fence: Fence) -> Pending[None]:
        sql = f"UPDATE counsel.jobs SET stuck = stuck + 1 WHERE {fencing.MINE}"
        return self.database.write(_statement(fence.job, sql, *fencing.values(fence)))

    def describe(self, job: str, *, title: str | None = None, summary: str | None = None) -> Pending[None]:
        sql = "UPDATE counsel.jobs SET title = COALESCE(%s, title), summary = COALESCE(%s, summary) WHERE id = %s"
        return self.database.write(_statement(job, sql, title, summary, job))

    def finish(
        self,
        fence: Fence,
        end: JobEnd,
        *,
        foreground: bool = False,  # noqa: ARG002 - the server commits for all
        alone: bool = False,  # noqa: ARG002
    ) -> Pending[None]:
        return self.database.write(end_job(fence, end))

    async def delete_job(self, job: str) -> bool:
        """The server's backups keep it until they are deleted."""

        async def work(db: Transaction) -> bool:
            db.notify(job)
            sql = "DELETE FROM counsel.jobs WHERE id = %s AND status != 'processing'"
            return await db.execute(sql, job) == 1

        return await self.database.write(work)

    # ── reads ────────────────────────────────────────────────────────────────────────────────────────

    async def job(self, job: str) -> JobDetail | None:
        row = await self.database.row(f"SELECT {_RECORD}, result, error FROM counsel.jobs WHERE id = %s", job)
        return _detail(row) if row else None

    async def task(self, job: str) -> Task | None:
        row = await self.database.row("SELECT task FROM counsel.jobs WHERE id = %s", job)
        return Task.load(row[0]) if row else None

    async def job_with_key(self, key: str) -> str | None:
        row = await self.database.row("SELECT id FROM counsel.jobs WHERE key = %s", key)
        return row[0] if row else None

    async def keys_like(self, prefix: str) -> list[str]:
        sql = "SELECT key FROM counsel.jobs WHERE key >= %s AND key < %s"
        return [row[0] for row in await self.database.rows(sql, prefix, prefix + "~")]

    async def existing_jobs(self, jobs: Collection[str]) -> set[str]:
        rows = await self.database.rows("SELECT id FROM counsel.jobs WHERE id = ANY(%s::text[])", list(jobs))
        return {row[0] for row in rows}

    async def recent_jobs(self, limit: int) -> list[JobRecord]:
        return await self._records("ORDER BY created DESC, number DESC LIMIT %s", limit)

    async def jobs_page(
        self, limit: int, job_filter: JobFilter, cursor: str | None = None
    ) -> Page[JobRecord]:
        where, values = _conditions(job_filter)
        if cursor is not None:
            where.append("(created, number) < (%s, %s)")
            created, number = paging.parse(cursor, numbered=True)
            values += [float(created), int(number)]
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        rows = await self.database.rows(
            f"SELECT {_RECORD}, number FROM counsel.jobs {condition} ORDER BY created DESC, number DESC LIMIT %s",
            *values,
            limit + 1,
        )
        page = rows[:limit]
        next_cursor = paging.cursor(page[-1][_CREATED], page[-1][-1]) if len(rows) > limit else None
        return Page([_record(row[:-1]) for row in page], next_cursor)

    async def outcomes(self, jobs: Collection[str]) -> dict[str, JobOutcome]:
        rows = await self.database.rows(
            "SELECT id, outcome FROM counsel.jobs WHERE status != 'processing' AND id = ANY(%s::text[])",
            list(jobs),
        )
        return {row[0]: JobOutcome(*json.loads(row[1])) for row in rows}

    async def open_jobs(self, conversation: str | None = None) -> list[JobRecord]:
        if conversation is None:
            return await self._records("WHERE status = 'processing' ORDER BY created, number")
        return await self._records(
            "WHERE status = 'processing' AND conversation = %s ORDER BY turn", conversation
        )

    async def earlier_jobs(self, job: str) -> list[JobRecord]:
        return await self._records(
            "WHERE status = 'processing' AND (conversation, turn) < "
            "(SELECT conversation, turn FROM counsel.jobs WHERE id = %s) "
            "AND conversation = (SELECT conversation FROM counsel.jobs WHERE id = %s) ORDER BY turn",
            job,
            job,
        )

    async def newest_job(self, conversation: str) -> JobDetail | None:
        row = await self.database.row(
            f"SELECT {_RECORD}, result, error FROM counsel.jobs WHERE conversation = %s "
            "ORDER BY created DESC, number DESC LIMIT 1",
            conversation,
        )
        return _detail(row) if row else None

    async def jobs_without_turn(self, conversation: str) -> list[JobWithoutTurn]:
        rows = await self.database.rows(
            "SELECT id, status, title, created, models, task, error FROM counsel.jobs j WHERE conversation = %s "
            "AND status IN ('processing', 'cancelled', 'failed') AND NOT EXISTS (SELECT 1 FROM counsel.messages m "
            "WHERE m.conversation = j.conversation AND m.job = j.id) ORDER BY turn",
            conversation,
        )
        return [_without_turn(row) for row in rows]

    async def standing(self, jobs: Sequence[str]) -> list[JobStanding]:
        rows = await self.database.rows(
            "SELECT id, owner, attempt, status, cancel, cancelled_members FROM counsel.jobs WHERE id = ANY(%s::text[])",
            list(jobs),
        )
        return [JobStanding(*[*row[:-1], tuple(row[-1])]) for row in rows]

    async def owners(self) -> set[str]:
        rows = await self.database.rows("SELECT DISTINCT owner FROM counsel.jobs WHERE status = 'processing'")
        return {row[0] for row in rows}

    async def _records(self, condition: str, *values: object) -> list[JobRecord]:
        rows = await self.database.rows(f"SELECT {_RECORD} FROM counsel.jobs {condition}", *values)
        return [_record(row) for row in rows]


def _statement(job: str, sql: str, *values: object) -> Work[None]:
    async def work(db: Transaction) -> None:
        if await db.execute(sql, *values):
            db.notify(job)

    return work


def _record(row: Row) -> JobRecord:
    return JobRecord(*_decoded(row))


def _detail(row: Row) -> JobDetail:
    *record, result, error = row
    end = [
        result_from_json(json.loads(result)) if result else None,
        from_dict(json.loads(error)) if error else None,
    ]
    return JobDetail(*_decoded(record), *end)


def _decoded(row: Sequence[Any]) -> list[Any]:
    values = list(row)
    for column in _LISTS:
        values[column] = tuple(values[column])
    return values


def _without_turn(row: Row) -> JobWithoutTurn:
    job, status, title, created, models, text, error = row
    task = Task.load(text)
    names = [source.name for source in task.sources]
    files = tuple(names[: len(names) - len(task.images)])  # images are the last sources
    end = from_dict(json.loads(error)) if error else None
    return JobWithoutTurn(job, status, title, created, tuple(models), task.prompt, task.images, files, end)


def _conditions(job_filter: JobFilter) -> tuple[list[str], list[object]]:
    columns = {"status": job_filter.status, "tool": job_filter.tool, "conversation": job_filter.conversation}
    conditions = [f"{name} = %s" for name, value in columns.items() if value is not None]
    values: list[object] = [value for value in columns.values() if value is not None]
    if job_filter.model is not None:
        conditions.append("%s = ANY(models)")
        values.append(job_filter.model)
    for word in (job_filter.words or "").lower().split():
        conditions.append(
            "strpos(lower(concat_ws(' ', title, summary, id, conversation, array_to_string(models, ' '))), %s) > 0"
        )
        values.append(word)
    return conditions, values
