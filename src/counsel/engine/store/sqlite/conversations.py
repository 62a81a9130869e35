"""Conversations: turns in order, agents' own sessions, search."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import fields

from counsel import strict_json
from counsel.engine.store import paging
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import (
    AgentSession,
    Conversation,
    Fence,
    LostJob,
    Message,
    NewJob,
    NewTurn,
    Page,
    SearchHit,
)
from counsel.engine.store.sqlite import backups, fencing
from counsel.engine.store.sqlite.database import Database
from counsel.results import details_from_json

_COLUMNS = [field.name for field in fields(Conversation)]
_RECORD = ", ".join(f"c.{name}" for name in _COLUMNS)
# A question that failed or was stopped is not lost: its conversation can be opened and the question asked again.
_STOPPED = "EXISTS (SELECT 1 FROM jobs j WHERE j.conversation = c.id AND j.status IN ('failed', 'cancelled'))"


_LENGTH = f"SELECT (SELECT messages FROM conversations WHERE id = ?) FROM jobs WHERE {fencing.MINE}"
_MOST_VALUES = 450  # in one statement


class Conversations:
    database: Database

    async def conversation(self, conversation: str) -> Conversation | None:
        row = self.database.row(
            f"SELECT {_RECORD} FROM conversations c WHERE id = ? AND expires > ?",
            conversation,
            time.time(),
        )
        return Conversation(*row) if row else None

    async def conversations(self, limit: int, *, offset: int = 0) -> list[Conversation]:
        """Without those whose only call failed: they can be continued, but have nothing to show."""
        rows = await self.database.search(
            f"SELECT {_RECORD} FROM conversations c WHERE expires > ? AND messages > 0 "
            "ORDER BY updated DESC LIMIT ? OFFSET ?",
            time.time(),
            limit,
            offset,
        )
        return [Conversation(*row) for row in rows]

    async def search(self, words: str, limit: int) -> list[SearchHit]:
        return (await self.conversations_page(limit, words)).rows

    async def conversations_page(
        self, limit: int, words: str = "", cursor: str | None = None
    ) -> Page[SearchHit]:
        terms = [term.lower() for term in words.split()]
        sql = (
            f"SELECT {_RECORD}, (SELECT m.text FROM messages m WHERE m.conversation = c.id "
            "AND instr(lower(m.text), ?) ORDER BY m.n DESC LIMIT 1) "
            f"FROM conversations c WHERE c.expires > ? AND (c.messages > 0 OR {_STOPPED})"
        )
        values: list[object] = [terms[0] if terms else "", time.time()]
        if cursor is not None:
            sql += " AND (c.updated, c.id) < (?, ?)"
            updated, name = paging.parse(cursor)
            values += [float(updated), name]
        for term in terms:
            sql += (
                " AND (instr(lower(coalesce(c.title, '') || ' ' || c.id), ?) OR EXISTS "
                "(SELECT 1 FROM messages m WHERE m.conversation = c.id AND instr(lower(m.text), ?)))"
            )
            values += [term, term]
        rows = await self.database.search(
            sql + " ORDER BY c.updated DESC, c.id DESC LIMIT ?", *values, limit + 1
        )
        hits = [SearchHit(Conversation(*row[:-1]), row[-1]) for row in rows[:limit]]
        last = hits[-1].conversation if len(rows) > limit else None
        return Page(hits, paging.cursor(last.updated, last.id) if last else None)

    async def messages(self, conversation: str) -> list[Message]:
        rows = self.database.rows(
            "SELECT role, text, asked, images, about, at, job FROM messages WHERE conversation = ? ORDER BY n",
            conversation,
        )
        return [
            Message(
                role=row[0],
                text=row[1],
                prompt=row[2],
                images=tuple(json.loads(row[3])),
                details=details_from_json(row[0], json.loads(row[4])),
                at=row[5],
                job=row[6],
            )
            for row in rows
        ]

    async def conversation_size(self, conversation: str) -> int:
        row = self.database.row("SELECT SUM(LENGTH(text)) FROM messages WHERE conversation = ?", conversation)
        return int(row[0] or 0) if row else 0

    async def agent_session(self, conversation: str, agent: str) -> AgentSession | None:
        row = self.database.row(
            "SELECT session, messages FROM sessions WHERE conversation = ? AND agent = ?", conversation, agent
        )
        return AgentSession(*row) if row else None

    async def newest_tag(self, project: str, session: str | None = None) -> str | None:
        is_own = "instr(tag, ':') = 0" if session is None else "substr(tag, 1, length(?3) + 1) = ?3 || ':'"
        row = self.database.row(
            f"SELECT tag FROM conversations WHERE project = ?1 AND expires > ?2 AND tag IS NOT NULL AND {is_own} "
            "ORDER BY updated DESC LIMIT 1",
            project,
            time.time(),
            *(() if session is None else (session,)),
        )
        return row[0] if row else None

    def set_title(self, conversation: str, title: str, *, instead_of: str) -> Pending[None]:
        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE conversations SET title = ? WHERE id = ? AND title = ?",
                (title, conversation, instead_of),
            )

        return self.database.soon(work)

    async def delete_conversation(self, conversation: str) -> bool:
        from asyncio import to_thread

        def work(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM jobs WHERE conversation = ? AND status != 'processing'", (conversation,))
            return db.execute("DELETE FROM conversations WHERE id = ?", (conversation,)).rowcount == 1

        existed = await self.database.write(work)
        await to_thread(backups.forget, self.database.path, conversation)
        return existed


_BEGIN = (
    "INSERT INTO conversations (id, created, updated, expires, tool, project, client, tag, title, messages, provider, "
    "model) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) "
    "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, expires = excluded.expires"
)


def begin_or_extend(db: sqlite3.Connection, job: NewJob, name: str) -> None:
    if job.may_continue:
        db.execute("DELETE FROM conversations WHERE id = ? AND expires < ?", (name, job.created))
    db.execute(_BEGIN, (*_identity(job, name, job.created, job.expires), 0, None, None))


def begin_with_turn(db: sqlite3.Connection, job: NewJob, turn: NewTurn) -> None:
    """A new conversation with its first turn."""
    now = time.time()
    about = turn.provider, turn.model
    db.execute(_BEGIN, (*_identity(job, turn.conversation, now, turn.expires), len(turn.messages), *about))
    _add(db, turn, 0, now)


def _identity(job: NewJob, name: str, updated: float, expires: float) -> tuple[object, ...]:
    task = job.task
    project = task.project or job.origin.cwd
    return name, job.created, updated, expires, task.tool, project, job.origin.client, task.tag, job.title


def add_turn(db: sqlite3.Connection, turn: NewTurn, fence: Fence) -> int:
    """Append messages at the conversation's current end; return its new length. Raises `LostJob`."""
    row = db.execute(_LENGTH, (turn.conversation, *fencing.values(fence))).fetchone()
    if row is None:
        raise LostJob(fence.job)
    if row[0] is None:  # deleted while the answer was on its way: the answer stays in its job
        return 0
    now = time.time()
    count = _add(db, turn, int(row[0]), now)
    db.execute(
        "UPDATE conversations SET messages = ?, updated = ?, expires = ?, provider = ?, model = ? WHERE id = ?",
        (count, now, turn.expires, turn.provider, turn.model, turn.conversation),
    )
    return count


def _add(db: sqlite3.Connection, turn: NewTurn, count: int, now: float) -> int:
    """Add the turn after `count` messages; return their new number."""
    values: list[object] = []
    for message in turn.messages:
        count += 1
        values += (
            turn.conversation,
            count,
            message.role,
            message.text,
            message.prompt,
            strict_json.dumps(message.images) if message.images else "[]",
            strict_json.dumps(message.details.to_json()),
            message.job,
            message.at or now,
        )
        if len(values) >= _MOST_VALUES:
            _add_messages(db, values)
            values = []
    if values:
        _add_messages(db, values)
    if turn.session:
        db.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?,?,?,?)", (turn.conversation, *turn.session, count)
        )
    return count


def _add_messages(db: sqlite3.Connection, values: list[object]) -> None:
    """One statement for a question and its answer."""
    rows = ",".join(["(?,?,?,?,?,?,?,?,?)"] * (len(values) // 9))
    db.execute(
        f"INSERT INTO messages (conversation, n, role, text, asked, images, about, job, at) VALUES {rows}",
        values,
    )


def with_tag(db: sqlite3.Connection, project: str, tag: str) -> str | None:
    """The conversation that a tag names. Read in the transaction that inserts one, so that no tag names two."""
    row = db.execute(
        "SELECT id FROM conversations WHERE project = ? AND tag = ? AND expires > ? ORDER BY updated DESC LIMIT 1",
        (project, tag, time.time()),
    ).fetchone()
    return str(row[0]) if row else None
