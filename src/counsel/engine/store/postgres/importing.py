"""A person's history from elsewhere, added to the database in one transaction. A second time adds only what is new."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from counsel import strict_json
from counsel.engine.store.history import History, ImportReport, Row
from counsel.engine.store.postgres import connections, schema
from counsel.engine.store.postgres.connections import bound
from counsel.engine.store.postgres.endings import outcome
from counsel.errors import InvalidArgument

_LOCK = 0x636F756E696D70  # one import at a time
_BATCH = 200  # rows in one round trip
_IDS = uuid.UUID("6c2b1d0e-51c7-4d6b-9a0b-2f6f1e6f7a11")  # of ids that had to be changed
_KINDS = ("job_", "conv_", "consensus_", "ask_", "review_")
_USAGE = (
    *("at", "job", "tool", "provider", "model", "client", "ms", "code", "input", "output"),
    *("reasoning", "cache_read", "cache_write", "cost", "project"),
)
_JOB = (
    *(
        "id",
        "tool",
        "conversation",
        "turn",
        "status",
        "background",
        "created",
        "finished",
        "owner",
        "attempt",
    ),
    *("stuck", "cancel", "cancelled_members", "fingerprint", "caller", "task", "models", "images", "total"),
    *("completed", "title", "summary", "result", "error", "outcome", "keep_days", "person"),
)
_CONVERSATION = (
    *(
        "id",
        "created",
        "updated",
        "expires",
        "tool",
        "title",
        "provider",
        "model",
        "project",
        "client",
        "tag",
    ),
    *("messages", "person"),
)
_MESSAGE = ("conversation", "n", "role", "text", "asked", "images", "about", "job", "at")


def add(
    url: str, history: History, person: str | None, *, dry_run: bool, progress: Callable[[str], None]
) -> ImportReport:
    """Add what is not there yet. `person`: the folded name of whoever it belongs to. Raises `InvalidArgument`, `StoreError`."""
    info = connections.conninfo(url)
    try:
        with psycopg.connect(info, autocommit=True) as connection:
            schema.check(schema.state_here(connection), info)
            with connection.transaction(force_rollback=dry_run):
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                return _Import(connection, history, _person(connection, person), progress).run()
    except psycopg.Error as error:
        raise connections.unreachable(info, error) from error


def _person(connection: psycopg.Connection[Any], folded: str | None) -> str:
    if folded is None:
        if connection.execute("SELECT 1 FROM counsel.people LIMIT 1").fetchone():
            raise InvalidArgument(
                "This database has people: whose history is it?", hint="Name the person with --person NAME."
            )
        return ""
    row = connection.execute("SELECT id FROM counsel.people WHERE folded = %s", [folded]).fetchone()
    if row is None:
        raise InvalidArgument(
            f"There is no person {folded!r} in this database.", hint="`counsel people list` shows them."
        )
    return str(row[0])


class _Import:
    def __init__(
        self,
        connection: psycopg.Connection[Any],
        history: History,
        person: str,
        progress: Callable[[str], None],
    ) -> None:
        self._db = connection
        self._history = history
        self._person = person
        self._progress = progress
        self._report = ImportReport(problem=history.problem)
        self._images: set[str] = set()
        self._job_ids: dict[str, str] = {}  # as they are here
        self._names: dict[str, str] = {}  # of conversations, the same

    def run(self) -> ImportReport:
        self._report.open_jobs = self._history.open_jobs()
        jobs = {row["id"]: row["created"] for row in self._history.jobs()}
        self._job_ids = self._own_ids("jobs", jobs)
        for row in self._history.conversations():
            self._conversation(row)
            self._progress(f"{self._report.conversations} conversations")
        turns: dict[str, int] = {}
        for row in self._history.jobs():
            self._job(row, turns)
            self._progress(f"{self._report.jobs} jobs")
        self._blobs()
        self._usage()
        return self._report

    # ── ids ──────────────────────────────────────────────────────────────────────────────────────────

    def _own_ids(self, table: str, created: dict[str, float]) -> dict[str, str]:
        """Each id as it is, or another one where someone else has it; the same one each time."""
        taken = self._owners(table, list(created))
        ids = {}
        for name, at in created.items():
            owner = taken.get(name)
            ids[name] = name if owner in {None, (self._person, at)} else self._other(name, at)
            if ids[name] != name:
                self._report.renamed[name] = ids[name]
        return ids

    def _owners(self, table: str, ids: Sequence[str]) -> dict[str, tuple[str, float]]:
        sql = f"SELECT id, person, created FROM counsel.{table} WHERE id = ANY(%s::text[])"
        return {row[0]: (row[1], row[2]) for row in self._db.execute(sql.encode(), bound([list(ids)]))}

    def _other(self, name: str, at: float) -> str:
        made = str(uuid.uuid5(_IDS, f"{self._person}\n{name}\n{at}"))
        kind = next((kind for kind in _KINDS if name.startswith(kind)), None)
        return f"{kind}{made}" if kind else f"{name[:100]}-{made[:8]}"

    # ── conversations ────────────────────────────────────────────────────────────────────────────────

    def _conversation(self, row: Row) -> None:
        name = self._own_ids("conversations", {row["id"]: row["created"]})[row["id"]]
        self._names[row["id"]] = name
        messages = list(self._history.messages(row["id"]))
        stored = self._db.execute(
            "SELECT messages FROM counsel.conversations WHERE id = %s FOR UPDATE", [name]
        )
        known = stored.fetchone()
        if known is None:
            values = {
                **row,
                "id": name,
                "tag": self._tag(row),
                "messages": len(messages),
                "person": self._person,
            }
            self._insert("conversations", _CONVERSATION, [values])
            self._report.conversations += 1
            self._add(name, messages)
        elif not self._continues(name, messages):
            self._report.diverged.append(row["id"])
        elif known[0] >= len(messages):
            self._report.present += 1
        else:
            self._add(name, messages[known[0] :])
            self._db.execute(
                "UPDATE counsel.conversations SET messages = %s, updated = GREATEST(updated, %s), "
                "expires = GREATEST(expires, %s), provider = %s, model = %s WHERE id = %s",
                [len(messages), row["updated"], row["expires"], row["provider"], row["model"], name],
            )

    def _continues(self, name: str, messages: Sequence[Row]) -> bool:
        """Whether one is the beginning of the other: what is here, and what comes."""
        stored = self._db.execute(
            "SELECT role, md5(text) FROM counsel.messages WHERE conversation = %s ORDER BY n", [name]
        ).fetchall()
        coming = [(row["role"], _md5(row["text"])) for row in messages[: len(stored)]]
        return stored[: len(coming)] == coming

    def _tag(self, row: Row) -> str | None:
        """No tag names two conversations of a person in one folder: the one that is here keeps it."""
        if row["tag"] is None:
            return None
        taken = self._db.execute(
            "SELECT 1 FROM counsel.conversations WHERE left(project, 200) = left(%s, 200) AND project = %s "
            "AND tag = %s AND person = %s AND expires > %s",
            bound([row["project"], row["project"], row["tag"], self._person, time.time()]),
        ).fetchone()
        if taken:
            self._report.untagged.append(row["id"])
        return None if taken else row["tag"]

    def _add(self, name: str, messages: Sequence[Row]) -> None:
        rows = [
            {**row, "conversation": name, "job": self._job_ids.get(row["job"], row["job"])}
            for row in messages
        ]
        self._insert("messages", _MESSAGE, rows)
        self._report.messages += len(rows)
        for row in rows:
            self._images.update(row["images"])

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────

    def _job(self, row: Row, turns: dict[str, int]) -> None:
        job = self._job_ids[row["id"]]
        if self._db.execute("SELECT 1 FROM counsel.jobs WHERE id = %s", [job]).fetchone():
            self._report.present += 1
            return
        name = self._names.get(row["conversation"]) or self._free_name(row)
        images = json.loads(row["task"]).get("images") or []
        result, error = (json.loads(row[part]) if row[part] else None for part in ("result", "error"))
        values = {
            **row,
            "id": job,
            "conversation": name,
            "turn": self._turn(name, turns),
            "owner": "",
            "background": bool(row["background"]),
            "cancel": bool(row["cancel"]),
            "images": images,
            "result": None if result is None else _renamed(result, row["id"], job, name),
            "outcome": strict_json.dumps(outcome(result, error)),
            "person": self._person,
        }
        self._insert("jobs", _JOB, [values])
        self._insert(
            "calls", ("job", "key", "at", "reply"), self._of_job(job, self._history.calls(row["id"]))
        )
        events = self._of_job(job, self._history.events(row["id"]))
        self._insert("events", ("job", "seq", "at", "kind", "slot", "data"), events)
        self._images.update(images)
        self._report.jobs += 1

    def _free_name(self, row: Row) -> str:
        """Of a conversation that has expired, or of a call that has none: not one of somebody else's."""
        name = str(row["conversation"])
        stored = self._owners("conversations", [name]).get(name)
        self._names[name] = name if stored is None or stored[0] == self._person else self._other(name, 0.0)
        return self._names[name]

    def _turn(self, name: str, turns: dict[str, int]) -> int:
        if name not in turns:
            sql = "SELECT COALESCE(MAX(turn), 0) FROM counsel.jobs WHERE conversation = %s"
            row = self._db.execute(sql, [name]).fetchone()
            turns[name] = int(row[0]) if row else 0
        turns[name] += 1
        return turns[name]

    def _of_job(self, job: str, rows: Iterator[Row]) -> Iterator[Row]:
        return ({**row, "job": job} for row in rows)

    # ── images and usage ─────────────────────────────────────────────────────────────────────────────

    def _blobs(self) -> None:
        for sha in sorted(self._images):
            if blob := self._history.blob(sha):
                added = self._db.execute(
                    "INSERT INTO counsel.blobs (sha, media_type, data, at) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (sha) DO NOTHING",
                    [sha, *blob, time.time()],
                )
                self._report.images += added.rowcount
                self._progress(f"{self._report.images} images")

    def _usage(self) -> None:
        """Records have no key: as many equal ones as there are in the history."""
        columns = ", ".join(_USAGE)
        known = Counter(
            self._db.execute(
                f"SELECT {columns} FROM counsel.usage WHERE person = %s".encode(), [self._person]
            )
        )
        fresh = []
        for row in self._history.usage():
            record = {**row, "job": self._job_ids.get(row["job"], row["job"]), "person": self._person}
            same = tuple(bound([record[name] for name in _USAGE]))
            if known[same]:
                known[same] -= 1
            else:
                fresh.append(record)
        self._insert("usage", (*_USAGE, "person"), fresh)
        self._report.usage = len(fresh)

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Row] | Iterator[Row]) -> None:
        names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
        sql = f"INSERT INTO counsel.{table} ({names}) VALUES ({marks})".encode()
        batch: list[list[object]] = []
        for row in rows:
            batch.append(bound([row[name] for name in columns]))
            if len(batch) == _BATCH:
                self._db.cursor().executemany(sql, batch)
                batch = []
        if batch:
            self._db.cursor().executemany(sql, batch)


def _md5(text: str) -> str:
    return hashlib.md5(connections.clean(text).encode(), usedforsecurity=False).hexdigest()


def _renamed(result: dict[str, Any], before: str, job: str, conversation: str) -> str:
    """A result names its job and its conversation."""
    if result.get("job_id") == before:
        result["job_id"] = job
    if isinstance(result.get("continuation"), dict) and "id" in result["continuation"]:
        result["continuation"]["id"] = conversation
    return strict_json.dumps(result)
