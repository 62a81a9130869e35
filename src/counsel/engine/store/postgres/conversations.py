"""Conversations: turns in order, agents' own sessions, search."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import fields

from counsel import strict_json
from counsel.engine.store import paging
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.scope import Statements
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import (
    AgentSession,
    Conversation,
    Message,
    NewTurn,
    Page,
    SearchHit,
    Sharing,
)
from counsel.results import details_from_json

_COLUMNS = [field.name for field in fields(Conversation)]
_RECORD = ", ".join(f"c.{name}" for name in _COLUMNS)
_PROJECT = "left(project, 200) = left(%s, 200) AND project = %s"  # the first condition uses the index

# A question that failed or was stopped is not lost: its conversation can be opened and the question asked again.
_STOPPED = "EXISTS (SELECT 1 FROM counsel.jobs j WHERE j.conversation = c.id AND j.status IN ('failed', 'cancelled'))"


class Conversations:
    database: Statements

    async def conversation(self, conversation: str) -> Conversation | None:
        row = await self.database.row(
            f"SELECT {_RECORD} FROM counsel.conversations c WHERE id = %s AND expires > %s",
            conversation,
            time.time(),
        )
        return Conversation(*row) if row else None

    async def conversations(self, limit: int, *, offset: int = 0) -> list[Conversation]:
        rows = await self.database.rows(
            f"SELECT {_RECORD} FROM counsel.conversations c WHERE expires > %s AND messages > 0 "
            "ORDER BY updated DESC LIMIT %s OFFSET %s",
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
            f"SELECT {_RECORD}, (SELECT m.text FROM counsel.messages m WHERE m.conversation = c.id "
            "AND strpos(lower(m.text), %s) > 0 ORDER BY m.n DESC LIMIT 1) "
            f"FROM counsel.conversations c WHERE c.expires > %s AND (c.messages > 0 OR {_STOPPED})"
        )
        values: list[object] = [terms[0] if terms else "", time.time()]
        if cursor is not None:
            sql += " AND (c.updated, c.id) < (%s, %s)"
            updated, name = paging.parse(cursor)
            values += [float(updated), name]
        for term in terms:
            sql += (
                " AND (strpos(lower(concat_ws(' ', c.title, c.id)), %s) > 0 OR EXISTS "
                "(SELECT 1 FROM counsel.messages m WHERE m.conversation = c.id AND strpos(lower(m.text), %s) > 0))"
            )
            values += [term, term]
        rows = await self.database.rows(
            sql + " ORDER BY c.updated DESC, c.id DESC LIMIT %s", *values, limit + 1
        )
        hits = [SearchHit(Conversation(*row[:-1]), row[-1]) for row in rows[:limit]]
        last = hits[-1].conversation if len(rows) > limit else None
        return Page(hits, paging.cursor(last.updated, last.id) if last else None)

    async def messages(self, conversation: str) -> list[Message]:
        rows = await self.database.rows(
            "SELECT role, text, asked, images, about, at, job FROM counsel.messages WHERE conversation = %s ORDER BY n",
            conversation,
        )
        return [
            Message(
                role=role,
                text=text,
                prompt=asked,
                images=tuple(images),
                details=details_from_json(role, json.loads(about)),
                at=at,
                job=job,
            )
            for role, text, asked, images, about, at, job in rows
        ]

    async def conversation_size(self, conversation: str) -> int:
        row = await self.database.row(
            "SELECT SUM(length(text)) FROM counsel.messages WHERE conversation = %s", conversation
        )
        return int(row[0] or 0) if row else 0

    async def agent_session(self, conversation: str, agent: str) -> AgentSession | None:
        row = await self.database.row(
            "SELECT session, messages FROM counsel.sessions WHERE conversation = %s AND agent = %s",
            conversation,
            agent,
        )
        return AgentSession(*row) if row else None

    async def newest_tag(self, project: str, session: str | None = None) -> str | None:
        is_own = "strpos(tag, ':') = 0" if session is None else "starts_with(tag, %s)"
        row = await self.database.row(
            f"SELECT tag FROM counsel.conversations WHERE {_PROJECT} AND expires > %s AND tag IS NOT NULL AND {is_own} "
            "ORDER BY updated DESC LIMIT 1",
            project,
            project,
            time.time(),
            *(() if session is None else (f"{session}:",)),
        )
        return row[0] if row else None

    def set_title(self, conversation: str, title: str, *, instead_of: str) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "UPDATE counsel.conversations SET title = %s WHERE id = %s AND title = %s",
                title,
                conversation,
                instead_of,
            )

        return self.database.write(work)

    async def delete_conversation(self, conversation: str) -> bool:
        """The server's backups keep it until they are deleted."""

        async def work(db: Transaction) -> bool:
            await db.execute(
                "DELETE FROM counsel.jobs WHERE conversation = %s AND status != 'processing'", conversation
            )
            return await db.execute("DELETE FROM counsel.conversations WHERE id = %s", conversation) == 1

        return await self.database.write(work)

    async def sharings(self, conversations: Collection[str]) -> dict[str, Sharing]:
        rows = await self.database.rows(
            "SELECT c.id, COALESCE(p.name, c.person), c.shared FROM counsel.conversations c "
            "LEFT JOIN counsel.people p ON p.id = c.person WHERE c.id = ANY(%s::text[]) AND c.shared IS NOT NULL",
            list(conversations),
        )
        return {row[0]: Sharing(row[1], row[2]) for row in rows}

    def share(self, conversation: str, at: float | None) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            # sharing it again keeps the first time
            value = "COALESCE(shared, %s)" if at is not None else "%s"
            sql = f"UPDATE counsel.conversations SET shared = {value}::float8 WHERE id = %s AND expires > %s"
            return await db.execute(sql, at, conversation, time.time()) == 1

        return self.database.write(work)


async def add_turn(db: Transaction, turn: NewTurn) -> int:
    """Append messages at the conversation's current end; return its new length."""
    row = await db.row(
        "SELECT messages FROM counsel.conversations WHERE id = %s FOR NO KEY UPDATE", turn.conversation
    )
    if row is None:  # deleted while the answer was on its way: the answer stays in its job
        return 0
    count = int(row[0])
    now = time.time()
    values: list[object] = []
    for message in turn.messages:
        count += 1
        values += [turn.conversation, count, message.role, message.text, message.prompt, message.images]
        values += [strict_json.dumps(message.details.to_json()), message.job, message.at or now]
    if values:
        rows = ", ".join(["(%s, %s, %s, %s, %s, %s::text[], %s, %s, %s)"] * len(turn.messages))
        await db.execute(
            f"INSERT INTO counsel.messages (conversation, n, role, text, asked, images, about, job, at) VALUES {rows}",
            *values,
        )
    await db.execute(
        "UPDATE counsel.conversations SET messages = %s, updated = %s, expires = %s, provider = %s, model = %s "
        "WHERE id = %s",
        count,
        now,
        turn.expires,
        turn.provider,
        turn.model,
        turn.conversation,
    )
    if turn.session:
        await db.execute(
            "INSERT INTO counsel.sessions (conversation, agent, session, messages) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (conversation, agent) DO UPDATE SET session = excluded.session, messages = excluded.messages",
            turn.conversation,
            *turn.session,
            count,
        )
    return count


async def lock_tag(db: Transaction, project: str, tag: str, person: str = "") -> None:
    """Lock a tag until the commit: of two simultaneous first jobs with it, the second finds the first's
    conversation."""
    owner = f" and {person}" if person else ""
    await db.row("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", f"tag {tag} of {project}{owner}")


async def with_tag(db: Transaction, project: str, tag: str, person: str = "") -> str | None:
    """The person's conversation that a tag names."""
    row = await db.row(
        f"SELECT id FROM counsel.conversations WHERE {_PROJECT} AND tag = %s AND expires > %s AND person = %s "
        "ORDER BY updated DESC LIMIT 1",
        project,
        project,
        tag,
        time.time(),
        person,
    )
    return str(row[0]) if row else None
