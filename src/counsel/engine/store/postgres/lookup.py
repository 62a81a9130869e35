"""Jobs and conversations by the beginning of their ids, for commands that must be quick, such as shell completion.

As in `sqlite/lookup.py`, a database that cannot be read raises nothing: `readable` is False, and the results are empty.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from counsel.engine.store.postgres import connections, scope
from counsel.engine.store.records import Entry

_SECONDS = 3  # for a connection: the shell waits
_JOB = (
    "SELECT j.id, j.title, j.created, j.status, j.conversation FROM counsel.jobs j "
    "LEFT JOIN counsel.conversations c ON c.id = j.conversation"
)
_CONVERSATION = "SELECT c.id, c.title, c.updated, '', c.id FROM counsel.conversations c"
_MOST = 50


class PostgresLookup:
    def __init__(self, url: str) -> None:
        self.readable = True
        self._scope = scope.of_person("")  # a command belongs to nobody in the team: it sees no person's jobs
        self._connection: psycopg.Connection[Any] | None = None
        try:
            info = connections.conninfo(url)
            self._connection = psycopg.connect(info, autocommit=True, connect_timeout=_SECONDS)
        except psycopg.Error:
            self.readable = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────

    def job(self, job: str) -> Entry | None:
        return self._first(f"{_JOB} WHERE j.id = %s", job)

    def jobs(self, prefix: str, limit: int = _MOST) -> list[Entry]:
        """Newest first."""
        condition, values = _prefix_condition("j.id", prefix)
        return self._entries(f"{_JOB} WHERE {condition} ORDER BY j.created DESC LIMIT %s", *values, limit)

    def newest_job(self, project: str | None = None, *, running: bool = False) -> Entry | None:
        """The newest job of a project, or of all; `running`: only jobs that have not ended."""
        conditions = ["j.status = 'processing'"] if running else []
        conditions += ["c.project = %s"] if project is not None else []
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        values = () if project is None else (project,)
        return self._first(f"{_JOB} {where} ORDER BY j.created DESC, j.number DESC LIMIT 1", *values)

    # ── conversations ────────────────────────────────────────────────────────────────────────────────

    def conversation(self, name: str) -> Entry | None:
        return self._first(f"{_CONVERSATION} WHERE c.id = %s AND c.expires > %s", name, time.time())

    def conversations(self, prefix: str, limit: int = _MOST) -> list[Entry]:
        """Most recently used first."""
        condition, values = _prefix_condition("c.id", prefix)
        sql = f"{_CONVERSATION} WHERE {condition} AND c.expires > %s ORDER BY c.updated DESC LIMIT %s"
        return self._entries(sql, *values, time.time(), limit)

    def newest_conversation(self, project: str) -> Entry | None:
        """The project's most recently used one that has an answer or waits for one; not one whose only call failed."""
        sql = (
            f"{_CONVERSATION} WHERE c.project = %s AND c.expires > %s AND (c.messages > 0 OR EXISTS (SELECT 1 FROM "
            "counsel.jobs j WHERE j.status = 'processing' AND j.conversation = c.id)) ORDER BY c.updated DESC LIMIT 1"
        )
        return self._first(sql, project, time.time())

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def _first(self, sql: str, *values: object) -> Entry | None:
        return next(iter(self._entries(sql, *values)), None)

    def _entries(self, sql: str, *values: object) -> list[Entry]:
        if self._connection is not None:
            try:
                statement = self._scope.statement(sql).encode()
                rows = self._connection.execute(statement, connections.bound(values)).fetchall()
                return [Entry(*row) for row in rows]
            except psycopg.Error:
                self.readable = False
        return []


def _prefix_condition(column: str, prefix: str) -> tuple[str, Sequence[str]]:
    """A condition that can use an index: ids are compared by their bytes (`COLLATE "C"`)."""
    if not prefix:
        return "TRUE", ()
    return f"{column} >= %s AND {column} < %s", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
