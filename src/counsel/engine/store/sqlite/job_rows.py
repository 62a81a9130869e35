"""What is written when a job begins and when it ends."""

from __future__ import annotations

import sqlite3
import time

from counsel import strict_json
from counsel.engine.store.records import Fence, JobCompleted, JobStopped, NewJob, Submitted
from counsel.engine.store.sqlite import conversations, fencing, replies, usage
from counsel.engine.store.sqlite.commits import Work
from counsel.errors import UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.requests import Status

_ROW = (
    "INSERT INTO jobs (id, key, tool, conversation, background, created, owner, attempt, fingerprint, caller, task, "
    "models, total, title, keep_days, status, finished, result, completed) "
    "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING"
)
_OPEN = ("processing", None, None, 0)


@dataclass(frozen=True, slots=True)
class NewRow:
    """The work that inserts a job and its conversation; with `with_end`, the job's end, too."""

    job: NewJob
    by_tag: bool = True

    def __call__(self, db: sqlite3.Connection) -> Submitted:
        job, task = self.job, self.job.task
        name = job.conversation
        if self.by_tag and task.tag:
            name = conversations.with_tag(db, task.project, task.tag) or name
        if not self._insert(db, name):
            return Submitted(is_new=False, conversation=job.conversation)
        if not task.stateless:
            conversations.begin_or_extend(db, job, name)
        return Submitted(is_new=True, conversation=name)

    def with_end(self, fence: Fence, end: JobCompleted) -> Work[None]:
        """Insert the job with its end: half of the statements, and no index is changed twice."""

        def work(db: sqlite3.Connection) -> None:
            count = 0 if self.job.task.stateless else len(end.turn.messages)
            result = strict_json.dumps(end.result(count).to_row())
            if not self._insert(db, end.turn.conversation, end.status, time.time(), result, end.completed):
                completed(fence, end)(db)  # the database was rebuilt, with the jobs that run
                return
            if not self.job.task.stateless:
                conversations.begin_with_turn(db, self.job, end.turn)
            usage.insert(db, end.usage)

        return work

    def _insert(self, db: sqlite3.Connection, conversation: str, *end: object) -> bool:
        """`end`: status, time, result and number of answers of a job that has ended."""
        job, task = self.job, self.job.task
        values = (
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
            task.dump(),
            strict_json.dumps(task.models),
            len(task.models),
            job.title,
            job.keep_days,
            *(end or _OPEN),
        )
        return db.execute(_ROW, values).rowcount == 1


def reinstate(job: NewJob) -> Work[None]:
    """Put a running job back into a database that was rebuilt without it, or with an older state of it."""
    insert = NewRow(job, by_tag=False)

    def work(db: sqlite3.Connection) -> None:
        if not insert(db).is_new:
            db.execute(
                "UPDATE jobs SET status = 'processing', finished = NULL, error = NULL, owner = ?, attempt = ? "
                "WHERE id = ? AND result IS NULL",
                (job.owner, job.attempt, job.id),
            )

    return work


def completed(fence: Fence, end: JobCompleted) -> Work[None]:
    def work(db: sqlite3.Connection) -> None:
        count = conversations.add_turn(db, end.turn, fence)
        result = strict_json.dumps(end.result(count).to_row())
        _end(db, fence.job, end.status, result=result, completed=end.completed)
        if end.usage:
            usage.insert(db, end.usage)
        if end.has_events:
            replies.drop_text(db, fence.job)

    return work


def stopped(fence: Fence, end: JobStopped) -> Work[None]:
    """The text of unfinished calls stays in the events, unless the error has it."""

    def work(db: sqlite3.Connection) -> None:
        fencing.check(fence, db)
        if turn := end.turn(replies.replies_by_key(db, fence.job)):
            conversations.add_turn(db, turn, fence)
        _end(db, fence.job, end.status, error=strict_json.dumps(end.error.as_dict()))
        if end.error.partial or (isinstance(end.error, UpstreamError) and end.error.failed):
            replies.drop_text(db, fence.job)

    return work


def _end(
    db: sqlite3.Connection,
    job: str,
    status: Status,
    *,
    result: str | None = None,
    error: str | None = None,
    completed: int | None = None,
) -> None:
    db.execute(
        "UPDATE jobs SET status = ?, finished = ?, result = ?, error = ?, completed = COALESCE(?, completed) WHERE id = ?",
        (status, time.time(), result, error, completed, job),
    )
