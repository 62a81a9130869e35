"""Sessions of a team's console: every server accepts them, and ending one ends it on all servers."""

from __future__ import annotations

from collections.abc import Collection

from counsel.engine.store.people import CHANGED
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending
from counsel.engine.store.sessions import NewSession, SessionRecord, Subject
from counsel.people import OPERATOR, Person

_MOST_SIGN_INS = 10_000  # unfinished ones; the oldest of more are deleted, since anyone can begin one
_GROUPS = "ARRAY(SELECT group_name FROM counsel.members m WHERE m.person = p.id ORDER BY group_name)"
# A session that began with a token ends with it; the `origin` of other sessions is not a token's id.
_VALID = (
    "s.expires > %s AND (s.person = %s OR (p.id IS NOT NULL AND p.disabled IS NULL)) "
    "AND (s.origin NOT LIKE 't\\_%%' OR EXISTS (SELECT 1 FROM counsel.tokens t "
    "WHERE t.id = s.origin AND (t.expires IS NULL OR t.expires > %s)))"
)
_SESSIONS = "counsel.console_sessions s LEFT JOIN counsel.people p ON p.id = s.person"


class Sessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, sha: str, now: float) -> SessionRecord | None:
        row = await self._database.row(
            f"SELECT s.id, s.origin, s.began, s.used, s.expires, p.id, p.name, p.role, {_GROUPS} "
            f"FROM {_SESSIONS} WHERE s.sha = %s AND {_VALID}",
            sha,
            now,
            OPERATOR.id,
            now,
        )
        if row is None:
            return None
        person = None if row[5] is None else Person(row[5], row[6], row[7], tuple(row[8]))
        return SessionRecord(row[0], person, *row[1:5])

    async def still_valid(self, sessions: Collection[str], now: float) -> set[str]:
        rows = await self._database.rows(
            f"SELECT s.id FROM {_SESSIONS} WHERE s.id = ANY(%s::text[]) AND {_VALID}",
            list(sessions),
            now,
            OPERATOR.id,
            now,
        )
        return {row[0] for row in rows}

    def start(self, session: NewSession, *, max_sessions: int) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute("DELETE FROM counsel.console_sessions WHERE expires <= %s", session.began)
            await db.execute(
                "INSERT INTO counsel.console_sessions (id, sha, person, origin, began, used, expires) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s)",
                session.id,
                session.sha,
                session.person,
                session.origin,
                session.began,
                session.began,
                session.expires,
            )
            count = await db.execute(
                "DELETE FROM counsel.console_sessions WHERE id IN (SELECT id FROM counsel.console_sessions "
                "WHERE person = %s ORDER BY used DESC, id OFFSET %s)",
                session.person,
                max_sessions,
            )
            if count:
                db.notify(CHANGED)

        return self._database.write(work)

    def touch(self, session: str, used: float, expires: float) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "UPDATE counsel.console_sessions SET used = %s, expires = %s WHERE id = %s",
                used,
                expires,
                session,
            )

        return self._database.write(work, may_wait=True)

    def end(self, session: str) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            db.notify(CHANGED)
            return await db.execute("DELETE FROM counsel.console_sessions WHERE id = %s", session) == 1

        return self._database.write(work)

    # ── sign-ins with an issuer ──

    def begin_sign_in(self, state: str, now: float, expires: float) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "DELETE FROM counsel.sign_ins WHERE expires <= %s OR state IN "
                "(SELECT state FROM counsel.sign_ins ORDER BY expires DESC OFFSET %s)",
                now,
                _MOST_SIGN_INS,
            )
            await db.execute(
                "INSERT INTO counsel.sign_ins (state, expires) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                state,
                expires,
            )

        return self._database.write(work)

    def take_sign_in(self, state: str, now: float) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            return (
                await db.execute("DELETE FROM counsel.sign_ins WHERE state = %s AND expires > %s", state, now)
                == 1
            )

        return self._database.write(work)

    def identify(self, subject: Subject, now: float) -> Pending[Person | None]:
        async def work(db: Transaction) -> Person | None:
            # sign-ins of one subject one after another: two at once would both add the person
            await db.row(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                f"identity {subject.issuer} {subject.subject}",
            )
            identity = await db.row(
                "SELECT person FROM counsel.identities WHERE issuer = %s AND subject = %s",
                subject.issuer,
                subject.subject,
            )
            person = identity[0] if identity else await _link(db, subject, now)
            return None if person is None else await _active(db, person)

        return self._database.write(work)


async def _link(db: Transaction, subject: Subject, now: float) -> str | None:
    """Link the subject to the person of that name, or to a new one. None: not allowed, disabled, or already linked."""
    if not subject.folded:
        return None
    row = await db.row("SELECT id, disabled, name FROM counsel.people WHERE folded = %s", subject.folded)
    if row is not None and row[2].lower() != subject.folded:
        return None  # the name only resembles this address
    if row is None:
        if subject.new is None:
            return None
        await db.execute(
            "INSERT INTO counsel.people (id, name, folded, role, created) VALUES (%s, %s, %s, %s, %s)",
            subject.new.id,
            subject.new.name,
            subject.folded,
            subject.new.role,
            now,
        )
        row = (subject.new.id, None, subject.new.name)
        db.notify(CHANGED)
    existing_link = await db.row(
        "SELECT 1 FROM counsel.identities WHERE issuer = %s AND person = %s", subject.issuer, row[0]
    )
    if row[1] is not None or existing_link:
        return None
    await db.execute(
        "INSERT INTO counsel.identities (issuer, subject, person, linked) VALUES (%s, %s, %s, %s)",
        subject.issuer,
        subject.subject,
        row[0],
        now,
    )
    return str(row[0])


async def _active(db: Transaction, person: str) -> Person | None:
    row = await db.row(
        f"SELECT p.id, p.name, p.role, {_GROUPS} FROM counsel.people p WHERE p.id = %s AND p.disabled IS NULL",
        person,
    )
    return None if row is None else Person(row[0], row[1], row[2], tuple(row[3]))
