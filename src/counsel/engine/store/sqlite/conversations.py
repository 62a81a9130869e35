"""Conversations: turns in order, agents' own sessions, search."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Literal

from counsel.engine.store.sqlite.database import Database, Work
from counsel.lazy_dataclass import dataclass
from counsel.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: Literal["user", "assistant"]
    text: str
    asked: str | None = None  # a user's words without the files' contents
    images: tuple[str, ...] = ()
    about: Json = field(default_factory=dict)
    at: float = 0.0
    job: str | None = None


def add_turn(
    conversation: str,
    messages: Iterable[Message],
    *,
    provider: str | None,
    model: str | None,
    expires: float,
    session: tuple[str, str] | None = None,
) -> Callable[[sqlite3.Connection], int]:
    """Append messages at the end, wherever that is by now; the conversation's new length."""
    held = list(messages)

    def work(db: sqlite3.Connection) -> int:
        row = db.execute("SELECT messages FROM conversations WHERE id = ?", (conversation,)).fetchone()
        if row is None:  # deleted while the answer was on its way: the answer stays in its job
            return 0
        count = int(row[0])
        now = time.time()
        for message in held:
            count += 1
            db.execute(
                "INSERT INTO messages (conversation, n, role, text, asked, images, about, job, at) VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    conversation,
                    count,
                    message.role,
                    message.text,
                    message.asked,
                    json.dumps(message.images),
                    json.dumps(message.about, ensure_ascii=False),
                    message.job,
                    message.at or now,
                ),
            )
        db.execute(
            "UPDATE conversations SET messages = ?, updated = ?, expires = ?, provider = ?, model = ? WHERE id = ?",
            (count, now, expires, provider, model, conversation),
        )
        if session:
            db.execute("INSERT OR REPLACE INTO sessions VALUES (?,?,?,?)", (conversation, *session, count))
        return count

    return work


def delete(conversation: str) -> Work[bool]:
    def work(db: sqlite3.Connection) -> bool:
        db.execute("DELETE FROM jobs WHERE conversation = ? AND status != 'processing'", (conversation,))
        return db.execute("DELETE FROM conversations WHERE id = ?", (conversation,)).rowcount == 1

    return work


def set_title(conversation: str, title: str, *, instead_of: str) -> Work[None]:
    """A better title for the conversation, if it is still called by the question that it began with."""

    def work(db: sqlite3.Connection) -> None:
        db.execute(
            "UPDATE conversations SET title = ? WHERE id = ? AND title = ?", (title, conversation, instead_of)
        )

    return work


# ── reads ────────────────────────────────────────────────────────────────────────────────────────────


def by_id(db: Database, conversation: str) -> sqlite3.Row | None:
    return db.row("SELECT * FROM conversations WHERE id = ? AND expires > ?", conversation, time.time())


def size(db: Database, conversation: str) -> int:
    """Characters of all its turns."""
    row = db.row("SELECT SUM(LENGTH(text)) FROM messages WHERE conversation = ?", conversation)
    return int(row[0] or 0) if row else 0


def messages(db: Database, conversation: str) -> list[Message]:
    rows = db.rows(
        "SELECT role, text, asked, images, about, at, job FROM messages WHERE conversation = ? ORDER BY n",
        conversation,
    )
    return [
        Message(
            role=row[0],
            text=row[1],
            asked=row[2],
            images=tuple(json.loads(row[3])),
            about=json.loads(row[4]),
            at=row[5],
            job=row[6],
        )
        for row in rows
    ]


def session(db: Database, conversation: str, agent: str) -> tuple[str, int] | None:
    row = db.row(
        "SELECT session, messages FROM sessions WHERE conversation = ? AND agent = ?", conversation, agent
    )
    return (row[0], row[1]) if row else None


def newest_tag(db: Database, project: str, session: str | None = None) -> str | None:
    """The tag that was used last: among a session's own, or among those that belong to no session."""
    mine = "instr(tag, ':') = 0" if session is None else "substr(tag, 1, length(?3) + 1) = ?3 || ':'"
    row = db.row(
        f"SELECT tag FROM conversations WHERE project = ?1 AND expires > ?2 AND tag IS NOT NULL AND {mine} "  # noqa: S608
        "ORDER BY updated DESC LIMIT 1",
        project,
        time.time(),
        *(() if session is None else (session,)),
    )
    return row[0] if row else None


def thread(db: sqlite3.Connection, project: str, tag: str) -> str | None:
    """The conversation that a tag names. Asked where conversations are written, so that no tag gets two."""
    row = db.execute(
        "SELECT id FROM conversations WHERE project = ? AND tag = ? AND expires > ? ORDER BY updated DESC LIMIT 1",
        (project, tag, time.time()),
    ).fetchone()
    return str(row[0]) if row else None


async def listed(db: Database, limit: int, *, offset: int = 0) -> list[sqlite3.Row]:
    """Those in which something was said: one whose only call failed can be gone on with, but there is nothing to see."""
    return await db.search(
        "SELECT * FROM conversations WHERE expires > ? AND messages > 0 ORDER BY updated DESC LIMIT ? OFFSET ?",
        time.time(),
        limit,
        offset,
    )


async def search(db: Database, words: str, limit: int) -> list[sqlite3.Row]:
    """Conversations in which every word occurs, with a piece of the newest message that has the first one."""
    parts = words.split()
    sql = "SELECT c.*, (SELECT m.text FROM messages m WHERE m.conversation = c.id AND instr(lower(m.text), ?) ORDER BY m.n DESC LIMIT 1) AS hit FROM conversations c WHERE c.expires > ? AND c.messages > 0"
    values: list[object] = [parts[0].lower() if parts else "", time.time()]
    for part in parts:
        sql += (
            " AND (instr(lower(coalesce(c.title, '') || ' ' || c.id), ?) OR EXISTS "
            "(SELECT 1 FROM messages m WHERE m.conversation = c.id AND instr(lower(m.text), ?)))"
        )
        values += [part.lower(), part.lower()]
    return await db.search(sql + " ORDER BY c.updated DESC LIMIT ?", *values, limit)
