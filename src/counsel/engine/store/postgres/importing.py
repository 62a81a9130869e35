"""Adds a person's history from elsewhere to the database, in one transaction. A second import adds only what is new."""

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
_NAMESPACE = uuid.UUID("6c2b1d0e-51c7-4d6b-9a0b-2f6f1e6f7a11")  # for the new ids of rows whose ids were taken
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
    """Add what is not there yet. `person`: the owner's folded name. Raises `InvalidArgument` and `StoreError`."""
    info = connections.conninfo(url)
    try:
        with psycopg.connect(info, autocommit=True) as connection:
            schema.check(schema.state_sync(connection), info)
            with connection.transaction(force_rollback=dry_run):
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                return _Import(connection, history, _person(connection, person), progress).run()
    except psycopg.Error as error:
        raise connections.unreachable(info, error) from error


def _person(connection: psycopg.Connection[Any], folded_name: str | None) -> str:
    if folded_name is None:
        if connection.execute("SELECT 1 FROM counsel.people LIMIT 1").fetchone():
            raise InvalidArgument(
                "This database belongs to a team: whose history is it?",
                hint="Name the person with --person NAME.",
            )
        return ""
    row = connection.execute("SELECT id FROM counsel.people WHERE folded = %s", [folded_name]).fetchone()
    if row is None:
        raise InvalidArgument(
            f"There is no person {folded_name!r} in this database.", hint="`counsel people list` shows them."
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
        self._job_ids: dict[str, str] = {}  # ids in this database, by ids in the history
        self._names: dict[str, str] = {}  # the same for conversations

    def run(self) -> ImportReport:
        self._report.open_jobs = self._history.open_jobs()
        jobs = {row["id"]: row["created"] for row in self._history.jobs()}
        self._job_ids = self._ids("jobs", jobs)
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

    def _ids(self, table: str, creation_times: dict[str, float]) -> dict[str, str]:
        """Each id unchanged, or a new one if someone else has it; later imports choose the same new one."""
        owners = self._owners(table, list(creation_times))
        ids = {}
        for name, at in creation_times.items():
            owner = owners.get(name)
            ids[name] = name if owner in {None, (self._person, at)} else self._new_id(name, at)
            if ids[name] != name:
                self._report.renamed[name] = ids[name]
        return ids

    def _owners(self, table: str, ids: Sequence[str]) -> dict[str, tuple[str, float]]:
        sql = f"SELECT id, person, created FROM counsel.{table} WHERE id = ANY(%s::text[])"
        return {row[0]: (row[1], row[2]) for row in self._db.execute(sql.encode(), bound([list(ids)]))}

    def _new_id(self, name: str, at: float) -> str:
        digest = str(uuid.uuid5(_NAMESPACE, f"{self._person}\n{name}\n{at}"))
        kind = next((kind for kind in _KINDS if name.startswith(kind)), None)
        return f"{kind}{digest}" if kind else f"{name[:100]}-{digest[:8]}"

    # ── conversations ────────────────────────────────────────────────────────────────────────────────

    def _conversation(self, row: Row) -> None:
        name = self._ids("conversations", {row["id"]: row["created"]})[row["id"]]
        self._names[row["id"]] = name
        messages = list(self._history.messages(row["id"]))
        cursor = self._db.execute(
            "SELECT messages FROM counsel.conversations WHERE id = %s FOR UPDATE", [name]
        )
        existing = cursor.fetchone()
        if existing is None:
            values = {
                **row,
                "id": name,
                "tag": self._tag(row),
                "messages": len(messages),
                "person": self._person,
            }
            self._insert("conversations", _CONVERSATION, [values])
            self._report.conversations += 1
            self._add_messages(name, messages)
        elif not self._continues(name, messages):
            self._report.diverged.append(row["id"])
        elif existing[0] >= len(messages):
            self._report.present += 1
        else:
            self._add_messages(name, messages[existing[0] :])
            self._db.execute(
                "UPDATE counsel.conversations SET messages = %s, updated = GREATEST(updated, %s), "
                "expires = GREATEST(expires, %s), provider = %s, model = %s WHERE id = %s",
                [len(messages), row["updated"], row["expires"], row["provider"], row["model"], name],
            )

    def _continues(self, name: str, messages: Sequence[Row]) -> bool:
        """Whether the stored messages and the new ones agree up to the end of the shorter list."""
        rows = self._db.execute(
            "SELECT role, md5(text) FROM counsel.messages WHERE conversation = %s ORDER BY n", [name]
        ).fetchall()
        new_rows = [(row["role"], _md5(row["text"])) for row in messages[: len(rows)]]
        return rows[: len(new_rows)] == new_rows

    def _tag(self, row: Row) -> str | None:
        """None if a stored conversation has the tag: no tag names two conversations of a person in one folder."""
        if row["tag"] is None:
            return None
        conflict = self._db.execute(
            "SELECT 1 FROM counsel.conversations WHERE left(project, 200) = left(%s, 200) AND project = %s "
            "AND tag = %s AND person = %s AND expires > %s",
            bound([row["project"], row["project"], row["tag"], self._person, time.time()]),
        ).fetchone()
        if conflict:
            self._report.untagged.append(row["id"])
        return None if conflict else row["tag"]

    def _add_messages(self, name: str, messages: Sequence[Row]) -> None:
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
            "result": None if result is None else _with_ids(result, row["id"], job, name),
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
        """A name that nobody else has, for a job whose conversation has expired or that has none."""
        name = str(row["conversation"])
        owner = self._owners("conversations", [name]).get(name)
        self._names[name] = name if owner is None or owner[0] == self._person else self._new_id(name, 0.0)
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
                cursor = self._db.execute(
                    "INSERT INTO counsel.blobs (sha, media_type, data, at) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (sha) DO NOTHING",
                    [sha, *blob, time.time()],
                )
                self._report.images += cursor.rowcount
                self._progress(f"{self._report.images} images")

    def _usage(self) -> None:
        """Records have no key: equal ones are added until there are as many as in the history."""
        columns = ", ".join(_USAGE)
        counts = Counter(
            self._db.execute(
                f"SELECT {columns} FROM counsel.usage WHERE person = %s".encode(), [self._person]
            )
        )
        records = []
        for row in self._history.usage():
            record = {**row, "job": self._job_ids.get(row["job"], row["job"]), "person": self._person}
            key = tuple(bound([record[name] for name in _USAGE]))
            if counts[key]:
                counts[key] -= 1
            else:
                records.append(record)
        self._insert("usage", (*_USAGE, "person"), records)
        self._report.usage = len(records)

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Row] | Iterator[Row]) -> None:
        names, placeholders = ", ".join(columns), ", ".join(["%s"] * len(columns))
        sql = f"INSERT INTO counsel.{table} ({names}) VALUES ({placeholders})".encode()
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


def _with_ids(result: dict[str, Any], before: str, job: str, conversation: str) -> str:
    """The result as JSON, with the ids of its job and conversation in this database."""
    if result.get("job_id") == before:
        result["job_id"] = job
    if isinstance(result.get("continuation"), dict) and "id" in result["continuation"]:
        result["continuation"]["id"] = conversation
    return strict_json.dumps(result)
