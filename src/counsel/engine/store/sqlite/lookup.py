"""Jobs and conversations by the beginning of their ids, read from the file itself.

For commands that must be quick and change nothing, such as shell completion: nothing is created, repaired or locked.
A file that cannot be read raises nothing: `readable` is False, and the results are empty.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from counsel.engine.store.records import Entry
from counsel.engine.store.sqlite import files
from counsel.text import without_surrogates

_JOB = (
    "SELECT j.id, j.title, j.created, j.status, j.conversation FROM jobs j "
    "LEFT JOIN conversations c ON c.id = j.conversation"
)
_CONVERSATION = "SELECT id, title, updated, '', id FROM conversations"
_MOST = 50


class SqliteLookup:
    def __init__(self, path: Path) -> None:
        self.readable = True
        self._connection: sqlite3.Connection | None = None
        if path.exists():
            try:
                target = files.uri(path, "mode=ro")
                self._connection = sqlite3.connect(target, uri=True, timeout=5, isolation_level=None)
            except sqlite3.Error:
                self.readable = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────

    def job(self, job: str) -> Entry | None:
        return self._first(f"{_JOB} WHERE j.id = ?", job)

    def jobs(self, prefix: str, limit: int = _MOST) -> list[Entry]:
        """Newest first."""
        condition, values = _prefix_condition("j.id", prefix)
        return self._entries(f"{_JOB} WHERE {condition} ORDER BY j.created DESC LIMIT ?", *values, limit)

    def newest_job(self, project: str | None = None, *, running: bool = False) -> Entry | None:
        """The newest job of a project, or of all; `running`: only jobs that have not ended."""
        conditions = ["j.status = 'processing'"] if running else []
        conditions += ["c.project = ?"] if project is not None else []
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        values = () if project is None else (without_surrogates(project),)
        return self._first(f"{_JOB} {where} ORDER BY j.created DESC, j.rowid DESC LIMIT 1", *values)

    # ── conversations ────────────────────────────────────────────────────────────────────────────────

    def conversation(self, name: str) -> Entry | None:
        return self._first(f"{_CONVERSATION} WHERE id = ? AND expires > ?", name, time.time())

    def conversations(self, prefix: str, limit: int = _MOST) -> list[Entry]:
        """Most recently used first."""
        condition, values = _prefix_condition("id", prefix)
        sql = f"{_CONVERSATION} WHERE {condition} AND expires > ? ORDER BY updated DESC LIMIT ?"
        return self._entries(sql, *values, time.time(), limit)

    def newest_conversation(self, project: str) -> Entry | None:
        """The project's most recently used one that has an answer or waits for one; not one whose only call failed."""
        sql = (
            f"{_CONVERSATION} WHERE project = ? AND expires > ? AND (messages > 0 OR EXISTS (SELECT 1 FROM jobs "
            "WHERE status = 'processing' AND conversation = conversations.id)) ORDER BY updated DESC LIMIT 1"
        )
        return self._first(sql, without_surrogates(project), time.time())

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def _first(self, sql: str, *values: object) -> Entry | None:
        return next(iter(self._entries(sql, *values)), None)

    def _entries(self, sql: str, *values: object) -> list[Entry]:
        if self._connection is not None:
            with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, which no id contains
                try:
                    return [Entry(*row) for row in self._connection.execute(sql, values)]
                except sqlite3.Error:
                    self.readable = False
        return []


def _prefix_condition(column: str, prefix: str) -> tuple[str, Sequence[str]]:
    """A condition that can use an index."""
    if not prefix:
        return "1", ()
    return f"{column} >= ? AND {column} < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
