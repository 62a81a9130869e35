"""Jobs, their memoised calls and their events. Each function returns a write for `Database.write`, or reads.

A job belongs to one process (`owner`) and one `attempt`: whoever writes for it proves both, so that a process
that lost the job can record nothing more (fencing).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from counsel.engine.consult import packing
from counsel.engine.jobs.model import Job, Reply, caller_dump
from counsel.engine.store.sqlite import conversations
from counsel.engine.store.sqlite.database import Database, Work
from counsel.job_events import JobEvent, Wait, event_from
from counsel.lazy_dataclass import dataclass
from counsel.requests import Status
from counsel.types import Json

_MINE = "id = ? AND owner = ? AND attempt = ? AND status = 'processing'"


class LostJob(Exception):
    """Another process owns the job now, or it has ended: stop, write nothing."""


@dataclass(frozen=True, slots=True)
class Fence:
    job: str
    owner: str
    attempt: int

    def holds(self, db: sqlite3.Connection) -> bool:
        return bool(db.execute(f"SELECT 1 FROM jobs WHERE {_MINE}", self.values).fetchone())  # noqa: S608

    def check(self, db: sqlite3.Connection) -> None:
        if not self.holds(db):
            raise LostJob(self.job)

    @property
    def values(self) -> tuple[str, str, int]:
        return self.job, self.owner, self.attempt


def insert(
    job: Job, owner: str, fingerprint: str, *, expires: float, keep_days: int, title: str
) -> Work[bool]:
    """Write a new job down; False when the same call has been written down before.

    A job with a tag joins the conversation that the tag names, whoever began it a moment ago.
    """
    task = job.task

    def work(db: sqlite3.Connection) -> bool:
        if db.execute("SELECT 1 FROM jobs WHERE id = ?", (job.id,)).fetchone():
            return False
        if task.tag and (kept := conversations.thread(db, task.project, task.tag)):
            job.conversation = kept
        db.execute("DELETE FROM conversations WHERE id = ? AND expires < ?", (job.conversation, job.created))
        db.execute(
            "INSERT INTO conversations (id, created, updated, expires, tool, project, client, tag, title) "
            "VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, expires = excluded.expires",
            (
                job.conversation,
                job.created,
                job.created,
                expires,
                task.tool,
                task.project or str(job.caller.cwd),
                job.caller.client,
                task.tag,
                title,
            ),
        )
        db.execute(
            "INSERT INTO jobs (id, key, tool, conversation, status, background, created, owner, attempt, "
            "fingerprint, caller, task, models, total, title, keep_days) "
            "VALUES (?,?,?,?,'processing',?,?,?,?,?,?,?,?,?,?,?)",
            (
                job.id,
                job.key,
                task.tool,
                job.conversation,
                job.background,
                job.created,
                owner,
                job.attempt,
                fingerprint,
                caller_dump(job.caller),
                task.dump(),
                json.dumps(task.models),
                len(task.models),
                title,
                keep_days,
            ),
        )
        return True

    return work


def store_blobs(blobs: Iterable[tuple[str, str, bytes]]) -> Work[None]:
    rows = [(sha, media_type, data, time.time()) for sha, media_type, data in blobs]

    def work(db: sqlite3.Connection) -> None:
        db.executemany("INSERT OR REPLACE INTO blobs (sha, media_type, data, at) VALUES (?,?,?,?)", rows)

    return work


def adopt(job_id: str, dead_owner: str, owner: str) -> Work[bool]:
    def work(db: sqlite3.Connection) -> bool:
        done = db.execute(
            "UPDATE jobs SET owner = ?, attempt = attempt + 1 "
            "WHERE id = ? AND owner = ? AND status = 'processing'",
            (owner, job_id, dead_owner),
        )
        return done.rowcount == 1

    return work


def detach(job_id: str) -> Work[None]:
    """From now on the job is a background job: it goes on without its caller, also in another engine."""

    def work(db: sqlite3.Connection) -> None:
        db.execute("UPDATE jobs SET background = 1 WHERE id = ?", (job_id,))

    return work


def let_go(owner: str, *, keep: bool) -> Work[None]:
    """This process ends in order: its jobs are nobody's, and the next engine need not find out that it is gone.

    `keep`: those that a caller waits for go on as well, whether or not it comes back for them.
    """

    def work(db: sqlite3.Connection) -> None:
        db.execute(
            "UPDATE jobs SET owner = '', background = MAX(background, ?) WHERE owner = ? AND status = 'processing'",
            (keep, owner),
        )

    return work


def remember(fence: Fence, key: str, slot: str, reply: Reply, entry: tuple[Any, ...]) -> Work[None]:
    """Memoise a finished call, put it into the ledger, and drop the partial text that it replaces.

    An answer is kept even when the job was lost meanwhile: it was paid for, and whoever has the job now need not ask
    for it again. The first one under a key stays.
    """
    dumped = reply.dump()

    def work(db: sqlite3.Connection) -> None:
        db.execute(
            "INSERT OR IGNORE INTO calls SELECT ?1,?2,?3,?4 WHERE EXISTS (SELECT 1 FROM jobs WHERE id = ?1)",
            (fence.job, key, time.time(), dumped),
        )
        db.execute("INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", entry)
        if fence.holds(db):
            db.execute("DELETE FROM events WHERE job = ? AND slot = ? AND kind = 'text'", (fence.job, slot))
            db.execute("UPDATE jobs SET stuck = 0 WHERE id = ?", (fence.job,))

    return work


def trying(fence: Fence) -> Work[None]:
    """A call of this attempt goes out; `remember` takes the mark back when one has finished."""

    def work(db: sqlite3.Connection) -> None:
        db.execute(f"UPDATE jobs SET stuck = stuck + 1 WHERE {_MINE}", fence.values)  # noqa: S608

    return work


def record(entry: tuple[Any, ...]) -> Work[None]:
    """A call that no job remembers: it failed, or was about a job."""

    def work(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", entry)

    return work


def append(fence: Fence, events: Iterable[JobEvent]) -> Work[None]:
    """Nothing when the job was lost: its events are the new owner's to write."""
    rows = [
        (fence.job, event.seq, event.at, event.kind, event.slot, json.dumps(event.data, ensure_ascii=False))
        for event in events
    ]

    def work(db: sqlite3.Connection) -> None:
        if fence.holds(db):
            db.executemany("INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?)", rows)

    return work


def progress(fence: Fence, completed: int) -> Work[None]:
    def work(db: sqlite3.Connection) -> None:
        db.execute(f"UPDATE jobs SET completed = ? WHERE {_MINE}", (completed, *fence.values))  # noqa: S608

    return work


def finish(
    fence: Fence,
    status: Status,
    *,
    result: Json | None = None,
    error: Json | None = None,
    completed: int | None = None,
    ledger: Sequence[tuple[Any, ...]] = (),
    followed: bool = True,
    also: Callable[[sqlite3.Connection], Json | None] | None = None,
) -> Work[None]:
    """End a job. `also` writes what belongs to the same moment (the conversation's turn) and may complete the result.

    A job without a result keeps the text of the calls that had not finished, unless its error has it.
    """

    def work(db: sqlite3.Connection) -> None:
        fence.check(db)
        more = (also(db) if also else None) or {}
        held = {**result, **more} if result is not None else None
        db.execute(
            "UPDATE jobs SET status = ?, finished = ?, result = ?, error = ?, completed = COALESCE(?, completed) WHERE id = ?",
            (
                status,
                time.time(),
                packing.dump(held) if held is not None else None,
                json.dumps(error, ensure_ascii=False) if error is not None else None,
                completed,
                fence.job,
            ),
        )
        if ledger:
            db.executemany("INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", ledger)
        told = held is not None or bool(error and (error.get("partial") or error.get("failed")))
        if followed and told:
            db.execute("DELETE FROM events WHERE job = ? AND kind = 'text'", (fence.job,))

    return work


def request_cancel(job_id: str) -> Work[bool]:
    def work(db: sqlite3.Connection) -> bool:
        done = db.execute("UPDATE jobs SET cancel = 1 WHERE id = ? AND status = 'processing'", (job_id,))
        return done.rowcount == 1

    return work


def describe(job_id: str, *, title: str | None = None, summary: str | None = None) -> Work[None]:
    def work(db: sqlite3.Connection) -> None:
        db.execute(
            "UPDATE jobs SET title = COALESCE(?, title), summary = COALESCE(?, summary) WHERE id = ?",
            (title, summary, job_id),
        )

    return work


def reinstate(job: Job, owner: str, insert: Work[bool]) -> Work[None]:
    """Put a job that runs here into a journal that was made anew without it, or with an older state of it."""

    def work(db: sqlite3.Connection) -> None:
        if not insert(db):
            db.execute(
                "UPDATE jobs SET status = 'processing', finished = NULL, error = NULL, owner = ?, attempt = ? "
                "WHERE id = ? AND result IS NULL",
                (owner, job.attempt, job.id),
            )

    return work


# ── reads ────────────────────────────────────────────────────────────────────────────────────────────


def by_id(db: Database, job_id: str) -> sqlite3.Row | None:
    return db.row("SELECT * FROM jobs WHERE id = ?", job_id)


def ids(db: Database) -> set[str]:
    return {row[0] for row in db.rows("SELECT id FROM jobs")}


def id_of_key(db: Database, key: str) -> str | None:
    row = db.row("SELECT id FROM jobs WHERE key = ?", key)
    return row[0] if row else None


def newest_of(db: Database, conversation: str) -> sqlite3.Row | None:
    return db.row(
        "SELECT * FROM jobs WHERE conversation = ? ORDER BY created DESC, rowid DESC LIMIT 1", conversation
    )


def running_of(db: Database, conversation: str) -> list[sqlite3.Row]:
    """In the order in which they were written down: two processes' clocks may tell another one."""
    return db.rows(
        "SELECT * FROM jobs WHERE status = 'processing' AND conversation = ? ORDER BY rowid",
        conversation,
    )


def without_turn(db: Database, conversation: str) -> list[sqlite3.Row]:
    """Jobs that ended, and of which the conversation has nothing."""
    return db.rows(
        "SELECT id, status, title FROM jobs WHERE conversation = ? AND status IN ('cancelled', 'failed') AND id NOT IN "
        "(SELECT job FROM messages WHERE conversation = ? AND job IS NOT NULL) ORDER BY rowid",
        conversation,
        conversation,
    )


def earlier(db: Database, job: Job) -> list[sqlite3.Row]:
    """Unfinished jobs of its conversation that were written down before it, whoever owns them."""
    return db.rows(
        "SELECT * FROM jobs WHERE status = 'processing' AND conversation = ? "
        "AND rowid < (SELECT rowid FROM jobs WHERE id = ?) ORDER BY rowid",
        job.conversation,
        job.id,
    )


def standing(db: Database, job_ids: Sequence[str]) -> list[sqlite3.Row]:
    """How the journal sees these jobs now: whose they are, and whether somebody wants them stopped."""
    marks = ",".join("?" * len(job_ids))
    return db.rows(f"SELECT id, owner, attempt, status, cancel FROM jobs WHERE id IN ({marks})", *job_ids)  # noqa: S608


def owners(db: Database) -> set[str]:
    return {row[0] for row in db.rows("SELECT DISTINCT owner FROM jobs WHERE status = 'processing'")}


_LISTED = (
    "id, tool, conversation, status, background, created, finished, owner, fingerprint, models, total, completed, "
    "title, summary"
)


def newest(db: Database, limit: int) -> list[sqlite3.Row]:
    return db.rows(f"SELECT {_LISTED} FROM jobs ORDER BY created DESC, rowid DESC LIMIT ?", limit)  # noqa: S608


def unfinished(db: Database) -> list[sqlite3.Row]:
    return db.rows("SELECT * FROM jobs WHERE status = 'processing' ORDER BY created, rowid")


def reply(db: Database, job_id: str, key: str) -> Reply | None:
    row = db.row("SELECT reply FROM calls WHERE job = ? AND key = ?", job_id, key)
    return Reply.load(row[0]) if row else None


def replies(db: Database, job_id: str) -> Mapping[str, Reply]:
    """By key, in its order: of one model, `initial:…` comes before `refined:…`."""
    return replies_in(db.reader, job_id)


def replies_in(db: sqlite3.Connection, job_id: str) -> dict[str, Reply]:
    rows = db.execute("SELECT key, reply FROM calls WHERE job = ? ORDER BY key", (job_id,))
    return {row[0]: Reply.load(row[1]) for row in rows}


def last_waiting(db: Database, job_id: str) -> Wait | None:
    """What a job, or a model of it, waits for by its events: nothing has happened since it was told."""
    row = db.row(
        "SELECT data FROM events told WHERE job = ? AND kind = 'waiting' AND NOT EXISTS (SELECT 1 FROM events "
        "WHERE job = told.job AND seq > told.seq AND slot = told.slot) ORDER BY seq LIMIT 1",
        job_id,
    )
    return Wait.from_json(json.loads(row[0])) if row else None


def events(db: Database, job_id: str, after: int) -> list[JobEvent]:
    rows = db.rows(
        "SELECT seq, at, kind, slot, data FROM events WHERE job = ? AND seq > ? ORDER BY seq", job_id, after
    )
    return [event_from(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]


def spoken(db: Database, job_id: str) -> list[str]:
    """Slots whose text stands in the journal: they had begun, and had not finished."""
    rows = db.rows("SELECT DISTINCT slot FROM events WHERE job = ? AND kind = 'text' ORDER BY slot", job_id)
    return [row[0] for row in rows]


def last_seq(db: Database, job_id: str) -> int:
    row = db.row("SELECT MAX(seq) FROM events WHERE job = ?", job_id)
    return int(row[0] or 0) if row else 0


def has_answers(db: Database, job_id: str) -> bool:
    """Whether a call of this job has finished: something was paid for."""
    return db.row("SELECT 1 FROM calls WHERE job = ? LIMIT 1", job_id) is not None


def blobs(db: Database, shas: Iterable[str]) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    for sha in shas:
        if row := db.row("SELECT media_type, data FROM blobs WHERE sha = ?", sha):
            found[sha] = (row[0], row[1])
    return found
