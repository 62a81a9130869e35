"""Storing a new job, with the conversation that it starts or continues."""

from __future__ import annotations

import re
from dataclasses import replace

from counsel.engine.store.postgres import conversations, queue
from counsel.engine.store.postgres.commits import Transaction, Work
from counsel.engine.store.records import NewJob, Submitted
from counsel.errors import Conflict, NotFound
from counsel.people import owners_seen_by

# A key of `POST /api/jobs` or `/v1`: what the client sent, then its question, both as hashes.
_IDEMPOTENT = re.compile(r"(.*(?:http|v1)-[0-9a-f]{32}-)[0-9a-f]{32}").fullmatch


def insert(job: NewJob) -> Work[Submitted]:
    async def work(db: Transaction) -> Submitted:
        if job.key and job.task.stateless:  # else the conversation's row is the lock
            await db.row("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", f"job {job.id}")
        if job.key and await _exists(db, job.id):
            return Submitted(is_new=False, conversation=job.conversation)
        if job.key and (match := _IDEMPOTENT(job.key)):
            await _check_key(db, job.key, match[1])
        name = job.conversation
        if job.task.tag:
            person = job.origin.owner
            await conversations.lock_tag(db, job.task.project, job.task.tag, person)
            name = await conversations.with_tag(db, job.task.project, job.task.tag, person) or name
        if not job.task.stateless:
            await _conversation(db, name, job)
        # The same call may have been sent to two servers, and the other one got the lock first.
        if await _exists(db, job.id):
            return Submitted(is_new=False, conversation=job.conversation)
        ticket, is_ours = await queue.put(db, job, name, job.queue) if job.queue else (None, True)
        await _job(db, name, job if is_ours else replace(job, owner="", attempt=0), ticket)
        db.notify(job.id)
        return Submitted(is_new=True, conversation=name, is_ours=is_ours)

    return work


async def _check_key(db: Transaction, key: str, prefix: str) -> None:
    """A client's key is for one question, even if two servers get it with different ones at the same moment."""
    await db.row("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", f"key {prefix}")
    sql = "SELECT 1 FROM counsel.jobs WHERE key >= %s AND key < %s AND key != %s LIMIT 1"
    if await db.row(sql, prefix, f"{prefix}~", key):
        raise Conflict(
            "Idempotency-Key was used for another question.", hint="Use a new key for each question."
        )


async def _exists(db: Transaction, job: str) -> bool:
    return await db.row("SELECT 1 FROM counsel.jobs WHERE id = %s", job) is not None


async def _conversation(db: Transaction, name: str, job: NewJob) -> None:
    """Its row stays locked until the commit: other submissions to it wait, and get a later turn."""
    if await _upsert(db, name, job):
        return
    # It has expired, or it is someone else's, which intake refuses unless it was created a moment ago.
    await db.execute("DELETE FROM counsel.conversations WHERE id = %s AND expires < %s", name, job.created)
    if not await _upsert(db, name, job):
        raise NotFound(f"There is no conversation {name}.")


async def _upsert(db: Transaction, name: str, job: NewJob) -> bool:
    count = await db.execute(
        "INSERT INTO counsel.conversations "
        "(id, created, updated, expires, tool, project, client, tag, title, person) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, expires = excluded.expires "
        "WHERE conversations.person = ANY(%s::text[]) AND conversations.expires >= %s",
        name,
        job.created,
        job.created,
        job.expires,
        job.task.tool,
        job.task.project or job.origin.cwd,
        job.origin.client,
        job.task.tag,
        job.title,
        job.origin.owner,
        owners_seen_by(job.origin.owner),
        job.created,
    )
    return count == 1


async def _job(db: Transaction, conversation: str, job: NewJob, ticket: int | None) -> None:
    """Insert it after every job of the conversation that exists, even if the conversation itself was deleted."""
    task = job.task
    await db.execute(
        "INSERT INTO counsel.jobs (id, key, tool, conversation, turn, status, background, created, owner, attempt, "
        "fingerprint, caller, task, models, images, total, title, keep_days, person, ticket) "
        "SELECT %s, %s, %s, %s, COALESCE(MAX(turn), 0) + 1, 'processing', %s, %s, %s, %s, "
        "%s, %s, %s, %s::text[], %s::text[], %s, %s, %s, %s, %s FROM counsel.jobs WHERE conversation = %s",
        job.id,
        job.key,
        task.tool,
        conversation,
        job.background,
        job.created,
        job.owner,
        job.attempt,
        job.fingerprint,
        job.origin.dump(),
        task.dump(with_messages=not job.owner),  # the worker that takes it from the queue has only this
        task.models,
        task.images,
        len(task.models),
        job.title,
        job.keep_days,
        job.origin.owner,
        ticket,
        conversation,
    )
