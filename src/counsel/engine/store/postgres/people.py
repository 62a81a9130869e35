"""People, their groups and their tokens. Every change wakes all servers, so that it takes effect on all of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from counsel.engine.store.people import CHANGED, PersonRecord, PersonUsage, SignedIn, TokenRecord
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.connections import Row
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending
from counsel.people import Person, Role

_GROUPS = "ARRAY(SELECT group_name FROM counsel.members m WHERE m.person = p.id ORDER BY group_name)"
_PERSON = f"p.id, p.name, p.role, {_GROUPS}"
_VALID = "p.disabled IS NULL AND (t.expires IS NULL OR t.expires > %s)"


class People:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self) -> list[PersonRecord]:
        return await self._records("TRUE ORDER BY p.folded")

    async def usage(self, since: float) -> list[PersonUsage]:
        rows = await self._database.rows(
            "SELECT u.person, COALESCE(p.name, ''), COUNT(*), COUNT(*) FILTER (WHERE u.code != ''), "
            "SUM(u.input)::int8, SUM(u.output)::int8, COALESCE(SUM(u.cost), 0)::float8, "
            "COUNT(*) FILTER (WHERE u.cost IS NULL), MAX(u.at) "
            "FROM counsel.usage u LEFT JOIN counsel.people p ON p.id = u.person WHERE u.at >= %s "
            "GROUP BY u.person, p.name ORDER BY 7 DESC, 3 DESC, 1",
            since,
        )
        return [PersonUsage(*row) for row in rows]

    async def named(self, folded_name: str) -> PersonRecord | None:
        records = await self._records("p.folded = %s", folded_name)
        return records[0] if records else None

    async def _records(self, condition: str, *values: object) -> list[PersonRecord]:
        people = await self._database.rows(
            f"SELECT {_PERSON}, p.created, p.disabled FROM counsel.people p WHERE {condition}", *values
        )
        tokens = await self._database.rows(
            "SELECT person, id, label, created, expires, used FROM counsel.tokens "
            "WHERE person = ANY(%s::text[]) AND (expires IS NULL OR expires > %s) ORDER BY created, id",
            [row[0] for row in people],
            time.time(),
        )
        tokens_by_person: dict[str, list[TokenRecord]] = {}
        for person, *token in tokens:
            tokens_by_person.setdefault(person, []).append(TokenRecord(*token))
        return [
            PersonRecord(_person(row), row[4], row[5], tuple(tokens_by_person.get(row[0], ())))
            for row in people
        ]

    async def signed_in(self, sha: str) -> SignedIn | None:
        row = await self._database.row(
            f"SELECT {_PERSON}, t.id, t.expires FROM counsel.tokens t JOIN counsel.people p ON p.id = t.person "
            f"WHERE t.sha = %s AND {_VALID}",
            sha,
            time.time(),
        )
        return SignedIn(_person(row), row[4], row[5]) if row else None

    async def still_valid(self, tokens: Collection[str]) -> set[str]:
        rows = await self._database.rows(
            "SELECT t.id FROM counsel.tokens t JOIN counsel.people p ON p.id = t.person "
            f"WHERE t.id = ANY(%s::text[]) AND {_VALID}",
            list(tokens),
            time.time(),
        )
        return {row[0] for row in rows}

    def add(self, person: Person, folded_name: str, token: TokenRecord, sha: str) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            count = await db.execute(
                "INSERT INTO counsel.people (id, name, folded, role, created) VALUES (%s, %s, %s, %s, %s) "
                "ON CONFLICT (folded) DO NOTHING",
                person.id,
                person.name,
                folded_name,
                person.role,
                token.created,
            )
            if count:
                await _set_groups(db, person.id, person.groups)
                await _add_token(db, person.id, token, sha)
                db.notify(CHANGED)
            return bool(count)

        return self._database.write(work)

    def change(
        self,
        person: str,
        *,
        role: Role | None = None,
        groups: Sequence[str] | None = None,
        keep_admin: bool = True,
    ) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            if role is not None:
                if role != "admin" and keep_admin and await _is_last_admin(db, person):
                    return False
                await db.execute("UPDATE counsel.people SET role = %s WHERE id = %s", role, person)
            if groups is not None:
                await _set_groups(db, person, groups)
            db.notify(CHANGED)
            return True

        return self._database.write(work)

    def set_disabled(self, person: str, at: float | None, *, keep_admin: bool = True) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            if at is not None and keep_admin and await _is_last_admin(db, person):
                return False
            await db.execute("UPDATE counsel.people SET disabled = %s WHERE id = %s", at, person)
            db.notify(CHANGED)
            return True

        return self._database.write(work)

    def add_token(
        self, person: str, token: TokenRecord, sha: str, *, others_end: float | None
    ) -> Pending[None]:
        async def work(db: Transaction) -> None:
            if others_end is not None:
                await db.execute(
                    "UPDATE counsel.tokens SET expires = LEAST(COALESCE(expires, %s), %s) WHERE person = %s",
                    others_end,
                    others_end,
                    person,
                )
            await _add_token(db, person, token, sha)
            db.notify(CHANGED)

        return self._database.write(work)

    def end_token(self, token: str) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            db.notify(CHANGED)
            return await db.execute("DELETE FROM counsel.tokens WHERE id = %s", token) == 1

        return self._database.write(work)

    def mark_used(self, token: str, at: float) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute("UPDATE counsel.tokens SET used = %s WHERE id = %s", at, token)

        return self._database.write(work, may_wait=True)


def _person(row: Row) -> Person:
    return Person(row[0], row[1], row[2], tuple(row[3]))


async def _set_groups(db: Transaction, person: str, groups: Sequence[str]) -> None:
    await db.execute("DELETE FROM counsel.members WHERE person = %s", person)
    for name in sorted(groups):
        await db.execute(
            "INSERT INTO counsel.groups (name, created) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING",
            name,
            time.time(),
        )
        await db.execute("INSERT INTO counsel.members (person, group_name) VALUES (%s, %s)", person, name)


async def _add_token(db: Transaction, person: str, token: TokenRecord, sha: str) -> None:
    await db.execute(
        "INSERT INTO counsel.tokens (id, person, sha, label, created, expires) VALUES (%s, %s, %s, %s, %s, %s)",
        token.id,
        person,
        sha,
        token.label,
        token.created,
        token.expires,
    )


async def _is_last_admin(db: Transaction, person: str) -> bool:
    """Takes a lock: of two admins who disable each other at the same time, one stays."""
    await db.row("SELECT pg_advisory_xact_lock(hashtextextended('admins', 0))")
    row = await db.row(
        "SELECT count(*) FILTER (WHERE id = %s), count(*) FROM counsel.people WHERE role = 'admin' AND disabled IS NULL",
        person,
    )
    return row is not None and tuple(row) == (1, 1)
