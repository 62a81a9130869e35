"""Jobs, from their submission to their end.

A job belongs to one process (`owner`) and one `attempt`. A write names both, so a process that lost the job can record
nothing more (fencing). The order of a conversation's turns is the order of the jobs' rowids.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

from counsel.engine.store import paging
from counsel.engine.store.model import Origin, Task
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
    JobStopped,
    JobWithoutTurn,
    NewJob,
    Page,
    Submitted,
)
from counsel.engine.store.sqlite import backups, fencing, job_rows
from counsel.engine.store.sqlite.database import Database, Work
from counsel.errors import from_dict
from counsel.results import result_from_json

_COLUMNS = [field.name for field in fields(JobRecord)]
_RECORD = ", ".join(_COLUMNS)
_BACKGROUND, _CANCEL = map(_COLUMNS.index, ("background", "cancel"))
_LISTS = [_COLUMNS.index(name) for name in ("models", "cancelled_members")]
_CREATED = _COLUMNS.index("created")
# Not the whole result: SQLite extracts these few values from a long answer in a fraction of the time that Python needs.
_OUTCOMES = (
    "SELECT id, json_extract(result, '$.metadata.model'), json_extract(result, '$.metadata.provider'), "
    "COALESCE(json_extract(result, '$.metadata.cost_usd'), json_extract(error, '$.cost_usd')), "
    "COALESCE(json_extract(result, '$.metadata.cost_complete'), 1), "
    "COALESCE(json_extract(result, '$.metadata.usage.total_tokens'), json_extract(error, '$.usage.total_tokens')) "
    "FROM jobs WHERE status != 'processing' AND id IN ({})"
)
_WITH_MEMBER = (
    "CASE WHEN EXISTS (SELECT 1 FROM json_each(cancelled_members) WHERE value = ?2) THEN cancelled_members "
    "ELSE json_insert(cancelled_members, '$[#]', ?2) END"
)
# Seconds that the row of a foreground job waits for the job's end, which then writes both. If the process dies before,
# no answer has finished, and the client sends the call again.
_ROW_DELAY = 0.2
# Seconds until the end of a call that nobody can request again is on disk: a power failure loses its usage record.
_UNKEPT_DELAY = 0.5
_SMALL = 32_000  # characters of a turn that is written in a fraction of a millisecond
_MOST_VALUES = 500  # in one statement


class Jobs:
    database: Database

    # ── writes ───────────────────────────────────────────────────────────────────────────────────────

    def submit(self, job: NewJob, *, may_wait: bool = False) -> Pending[Submitted]:
        if not may_wait:
            return self.database.write(job_rows.NewRow(job))
        return self.database.hold(job.id, job_rows.NewRow(job), _ROW_DELAY)

    def adopt(self, job: str, dead_owner: str, owner: str) -> Pending[AdoptedJob | None]:
        def work(db: sqlite3.Connection) -> AdoptedJob | None:
            cursor = db.execute(
                "UPDATE jobs SET owner = ?, attempt = attempt + 1 "
                "WHERE id = ? AND owner = ? AND status = 'processing'",
                (owner, job, dead_owner),
            )
            if cursor.rowcount != 1:
                return None
            row = db.execute(f"SELECT {_RECORD}, task, caller FROM jobs WHERE id = ?", (job,)).fetchone()
            return AdoptedJob(_record(row[:-2]), Task.load(row[-2]), Origin.load(row[-1]))

        return self.database.write(work)

    def detach(self, job: str) -> Pending[None]:
        return self.database.write(_statement("UPDATE jobs SET background = 1 WHERE id = ?", job))

    def release(self, owner: str, *, keep: bool) -> Pending[None]:
        sql = "UPDATE jobs SET owner = '', background = MAX(background, ?) WHERE owner = ? AND status = 'processing'"
        return self.database.write(_statement(sql, keep, owner))

    def request_cancel(self, job: str, member: str | None = None) -> Pending[bool]:
        change = "cancel = 1" if member is None else f"cancelled_members = {_WITH_MEMBER}"

        def work(db: sqlite3.Connection) -> bool:
            cursor = db.execute(
                f"UPDATE jobs SET {change} WHERE id = ?1 AND status = 'processing'",
                (job,) if member is None else (job, member),
            )
            return cursor.rowcount == 1

        return self.database.write(work)

    def progress(self, fence: Fence, completed: int) -> Pending[None]:
        sql = f"UPDATE jobs SET completed = ? WHERE {fencing.MINE}"
        return self.database.soon(_statement(sql, completed, *fencing.values(fence)))

    def mark_attempt(self, fence: Fence) -> Pending[None]:
        sql = f"UPDATE jobs SET stuck = stuck + 1 WHERE {fencing.MINE}"
        return self.database.soon(_statement(sql, *fencing.values(fence)))

    def describe(self, job: str, *, title: str | None = None, summary: str | None = None) -> Pending[None]:
        sql = "UPDATE jobs SET title = COALESCE(?, title), summary = COALESCE(?, summary) WHERE id = ?"
        return self.database.soon(_statement(sql, title, summary, job))

    def finish(
        self, fence: Fence, end: JobEnd, *, foreground: bool = False, alone: bool = False
    ) -> Pending[None]:
        """A small end without others is committed at once, while the event loop waits. Several ends share a commit."""
        if isinstance(end, JobStopped):
            return self.database.write(job_rows.stopped(fence, end))
        row = self.database.take(fence.job)
        work = (
            row.with_end(fence, end) if isinstance(row, job_rows.NewRow) else job_rows.completed(fence, end)
        )
        if not foreground:
            return self.database.write(work)
        write = self.database.quickly if alone and end.turn.size < _SMALL else self.database.lazily
        return write(work) if end.is_kept else write(work, _UNKEPT_DELAY)

    async def delete_job(self, job: str) -> bool:
        from asyncio import to_thread

        def work(db: sqlite3.Connection) -> bool:
            cursor = db.execute("DELETE FROM jobs WHERE id = ? AND status != 'processing'", (job,))
            return cursor.rowcount == 1

        existed = await self.database.write(work)
        await to_thread(backups.forget_job, self.database.path, job)
        return existed

    # ── reads ────────────────────────────────────────────────────────────────────────────────────────

    async def job(self, job: str) -> JobDetail | None:
        await self.database.written(job)
        row = self.database.row(f"SELECT {_RECORD}, result, error FROM jobs WHERE id = ?", job)
        return _detail(row) if row else None

    async def task(self, job: str) -> Task | None:
        row = self.database.row("SELECT task FROM jobs WHERE id = ?", job)
        return Task.load(row[0]) if row else None

    async def job_with_key(self, key: str) -> str | None:
        row = self.database.row("SELECT id FROM jobs WHERE key = ?", key)
        return row[0] if row else None

    async def keys_like(self, prefix: str) -> list[str]:
        rows = self.database.rows("SELECT key FROM jobs WHERE key >= ? AND key < ?", prefix, prefix + "~")
        return [row[0] for row in rows]

    async def existing_jobs(self, jobs: Collection[str]) -> set[str]:
        ids, existing = list(jobs), set[str]()
        for start in range(0, len(ids), _MOST_VALUES):
            batch = ids[start : start + _MOST_VALUES]
            sql = f"SELECT id FROM jobs WHERE id IN ({','.join('?' * len(batch))})"
            existing |= {row[0] for row in self.database.rows(sql, *batch)}
        return existing

    async def recent_jobs(self, limit: int) -> list[JobRecord]:
        return self._records("ORDER BY created DESC, rowid DESC LIMIT ?", limit)

    async def jobs_page(
        self, limit: int, job_filter: JobFilter, cursor: str | None = None
    ) -> Page[JobRecord]:
        where, values = _conditions(job_filter)
        if cursor is not None:
            where.append("(created, rowid) < (?, ?)")
            created, row = paging.parse(cursor, numbered=True)
            values += [float(created), int(row)]
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        rows = await self.database.search(
            f"SELECT {_RECORD}, rowid FROM jobs {condition} ORDER BY created DESC, rowid DESC LIMIT ?",
            *values,
            limit + 1,
        )
        page = rows[:limit]
        next_cursor = paging.cursor(page[-1][_CREATED], page[-1][-1]) if len(rows) > limit else None
        return Page([_record(row[:-1]) for row in page], next_cursor)

    async def outcomes(self, jobs: Collection[str]) -> dict[str, JobOutcome]:
        ids, outcomes = list(jobs), dict[str, JobOutcome]()
        for start in range(0, len(ids), _MOST_VALUES):
            batch = ids[start : start + _MOST_VALUES]
            rows = await self.database.search(_OUTCOMES.format(",".join("?" * len(batch))), *batch)
            for name, model, provider, cost, complete, tokens in rows:
                outcomes[name] = JobOutcome(model, provider, cost, bool(complete), tokens or 0)
        return outcomes

    async def open_jobs(self, conversation: str | None = None) -> list[JobRecord]:
        if conversation is None:
            return self._records("WHERE status = 'processing' ORDER BY created, rowid")
        # not by time: the clocks of two processes may differ
        return self._records("WHERE status = 'processing' AND conversation = ? ORDER BY rowid", conversation)

    async def earlier_jobs(self, job: str) -> list[JobRecord]:
        return self._records(
            "WHERE status = 'processing' AND conversation = (SELECT conversation FROM jobs WHERE id = ?1) "
            "AND rowid < (SELECT rowid FROM jobs WHERE id = ?1) ORDER BY rowid",
            job,
        )

    async def newest_job(self, conversation: str) -> JobDetail | None:
        row = self.database.row(
            f"SELECT {_RECORD}, result, error FROM jobs WHERE conversation = ? "
            "ORDER BY created DESC, rowid DESC LIMIT 1",
            conversation,
        )
        return _detail(row) if row else None

    async def jobs_without_turn(self, conversation: str) -> list[JobWithoutTurn]:
        rows = self.database.rows(
            "SELECT id, status, title, created, models, json_extract(task, '$.images'), "
            "(SELECT json_group_array(json_extract(value, '$.name')) FROM json_each(task, '$.sources')), "
            "json_extract(task, '$.prompt'), error FROM jobs WHERE conversation = ?1 AND status IN ('processing', 'cancelled', 'failed') "
            "AND id NOT IN (SELECT job FROM messages WHERE conversation = ?1 AND job IS NOT NULL) ORDER BY rowid",
            conversation,
        )
        return [_without_turn(row) for row in rows]

    async def standing(self, jobs: Sequence[str]) -> list[JobStanding]:
        placeholders = ",".join("?" * len(jobs))
        sql = f"SELECT id, owner, attempt, status, cancel, cancelled_members FROM jobs WHERE id IN ({placeholders})"
        return [
            JobStanding(*[*row[:4], bool(row[4]), () if row[5] == "[]" else tuple(json.loads(row[5]))])
            for row in self.database.rows(sql, *jobs)
        ]

    async def owners(self) -> set[str]:
        return {
            row[0]
            for row in self.database.rows("SELECT DISTINCT owner FROM jobs WHERE status = 'processing'")
        }

    def _records(self, condition: str, *values: object) -> list[JobRecord]:
        return [
            _record(row) for row in self.database.rows(f"SELECT {_RECORD} FROM jobs {condition}", *values)
        ]


def _record(row: Sequence[object]) -> JobRecord:
    return JobRecord(*_decoded(row))


def _detail(row: Sequence[Any]) -> JobDetail:
    *fields, result, error = row
    outcome = [
        result_from_json(json.loads(result)) if result else None,
        from_dict(json.loads(error)) if error else None,
    ]
    return JobDetail(*_decoded(fields) + outcome)


def _without_turn(row: Sequence[Any]) -> JobWithoutTurn:
    job, status, title, created, *lists, prompt, error = row
    models, images, sources = (tuple(json.loads(values or "[]")) for values in lists)
    files = sources[: len(sources) - len(images)]  # images are the last sources
    failure = from_dict(json.loads(error)) if error else None
    return JobWithoutTurn(job, status, title, created, models, prompt, images, files, failure)


def _decoded(row: Sequence[Any]) -> list[Any]:
    fields = list(row)
    fields[_BACKGROUND] = bool(fields[_BACKGROUND])
    fields[_CANCEL] = bool(fields[_CANCEL])
    for column in _LISTS:
        fields[column] = tuple(json.loads(fields[column]))
    return fields


def _conditions(job_filter: JobFilter) -> tuple[list[str], list[object]]:
    columns = {"status": job_filter.status, "tool": job_filter.tool, "conversation": job_filter.conversation}
    conditions = [f"{name} = ?" for name, value in columns.items() if value is not None]
    values: list[object] = [value for value in columns.values() if value is not None]
    if job_filter.model is not None:
        conditions.append("EXISTS (SELECT 1 FROM json_each(models) WHERE value = ?)")
        values.append(job_filter.model)
    for word in (job_filter.words or "").lower().split():
        conditions.append(
            "instr(lower(coalesce(title, '') || ' ' || coalesce(summary, '') || ' ' || id || ' ' || conversation || models), ?)"
        )
        values.append(word)
    return conditions, values


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────


def _statement(sql: str, *values: object) -> Work[None]:
    def work(db: sqlite3.Connection) -> None:
        db.execute(sql, values)

    return work
