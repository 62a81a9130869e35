"""What is kept, looked at from outside a running engine: conversations and the ledger."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from counsel.caller import Caller
from counsel.engine import results
from counsel.engine.history import export as exporting
from counsel.engine.history import usage_report
from counsel.engine.history.export_files import where
from counsel.engine.store.sqlite import backups, conversations, jobs
from counsel.engine.store.sqlite.database import Database
from counsel.errors import Conflict, NotFound
from counsel.types import Json


class Archive:
    """Opens the database itself: several processes may."""

    def __init__(self, home: Path) -> None:
        self._database = Database(home / "counsel.db")

    def close(self) -> None:
        self._database.close()

    @property
    def problem(self) -> str | None:
        return self._database.problem

    async def listed(self, limit: int, offset: int = 0) -> Json:
        rows = await conversations.listed(self._database, limit, offset=offset)
        return {"conversations": [_shown(row) for row in rows]}

    async def search(self, words: str, limit: int) -> Json:
        rows = await conversations.search(self._database, words, limit)
        return {"conversations": [{**_shown(row), "found": _around(row["hit"], words)} for row in rows]}

    def show(self, name: str) -> Json:
        row = self._row(name)
        held = conversations.messages(self._database, name)
        return {
            **_shown(row),
            "history": [results.message(message) for message in held],
            "unfinished": [
                {"job_id": job["id"], "status": job["status"], "title": job["title"]}
                for job in jobs.without_turn(self._database, name)
            ],
        }

    def export(self, name: str, folder: str | None, caller: Caller) -> Path:
        self._row(name)
        target, root = where(folder or True, caller)
        return exporting.write(self._database, name, target, root)

    async def delete(self, *names: str) -> None:
        """All of them, or none when one is not there or at work."""
        for name in names:
            self._row(name)
            if jobs.running_of(self._database, name):
                raise Conflict(
                    f"A job runs on {name}.", hint=f"Wait for it, or stop it with `counsel cancel {name}`."
                )
        for name in names:
            await self._database.write(conversations.delete(name))
            backups.forget(self._database.path, name)

    async def usage(self, since: float, by: usage_report.By) -> Json:
        return {"since": results.iso(since), **await usage_report.usage(self._database, since, by)}

    def _row(self, name: str) -> sqlite3.Row:
        row = conversations.by_id(self._database, name)
        if row is None:
            raise NotFound(
                f"There is no conversation {name}.", hint="`counsel conversations list` shows them."
            )
        return row


def _shown(row: sqlite3.Row) -> Json:
    return {
        "id": row["id"],
        "title": row["title"],
        "tool": row["tool"],
        "model": row["model"],
        "provider": row["provider"],
        "messages": row["messages"],
        "project": row["project"],
        "client": row["client"],
        "tag": row["tag"],
        "created_at": results.iso(row["created"]),
        "updated_at": results.iso(row["updated"]),
        "expires_in_days": round((row["expires"] - time.time()) / 86400, 1),
    }


def _around(text: str | None, words: str) -> str | None:
    """The line in which the first word stands."""
    first = words.split(maxsplit=1)[0].lower() if words.split() else ""
    lines = [line.strip() for line in (text or "").splitlines() if first in line.lower()]
    return lines[0][:200] if lines else None
