"""Jobs whose process has died: going on with them, giving them up, or saying what they wait for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Container
from typing import Any

from counsel import pending_calls
from counsel.engine.jobs import interrupted, partial
from counsel.engine.jobs.callers import Keyring
from counsel.engine.jobs.model import TOOLS, Job, Task, caller_load
from counsel.engine.jobs.ownership import Ownership
from counsel.engine.store.sqlite import jobs
from counsel.engine.store.sqlite.database import Database
from counsel.errors import Cancelled, CounselError
from counsel.job_events import Wait
from counsel.settings import Settings

log = logging.getLogger("counsel.recovery")
_STUCK = 25  # attempts in a row in which calls went out and none finished
_CLIENT_GONE = 60.0  # seconds after which an interrupted synchronous call is given up


class Recovery:
    def __init__(
        self,
        database: Database,
        ownership: Ownership,
        keyring: Keyring,
        *,
        running: Container[str],
        start: Callable[[Job], None],
        wanted: asyncio.Event,
    ) -> None:
        self._database = database
        self._ownership = ownership
        self._keyring = keyring
        self._running = running
        self._start = start
        self._wanted = wanted
        self._found: dict[str, float] = {}  # interrupted calls whose client may come back, and since when

    async def look(self, only: str | None = None) -> None:
        """Go on with jobs whose process died, when the keys that they were asked with are at hand.

        Not while no file can be opened: whoever cannot open a connection had better leave the job to others.

        Whoever sends its call again, and names the job with `only`, is the client that an interrupted call waits for.
        """
        if not _can_open():
            return
        for row in self._orphans(only):
            if row["cancel"]:
                await self.give_up(row, "cancelled", Cancelled(f"Job {row['id']} was cancelled."))
            elif row["stuck"] >= _STUCK:
                await self.give_up(row, "failed", interrupted.gave_up(row))
            elif self._waits_for_client(row) and not only:
                await self._decide(row)
            elif settings := self._settings(row):
                await self._take_over(row, settings)
            elif _too_old(row):
                await self.give_up(row, "failed", interrupted.keyless(row))

    def actionable(self) -> bool:
        """More can be done here for some job of a dead process than wait for its keys."""
        return any(
            row["cancel"]
            or row["stuck"] >= _STUCK
            or not row["background"]
            or self._settings(row)
            or _too_old(row)
            for row in self._orphans()
        )

    def _orphans(self, only: str | None = None) -> list[sqlite3.Row]:
        dead: dict[str, bool] = {}
        found = []
        for row in jobs.unfinished(self._database):
            owner = row["owner"]
            if row["id"] in self._running or (only and row["id"] != only):
                continue
            if owner not in dead:
                dead[owner] = self._ownership.dead(owner)
            if dead[owner]:
                found.append(row)
        return found

    def _settings(self, row: sqlite3.Row) -> Settings | None:
        """The keys that the job was asked with, if they are here. A newer release's kind of job is left to it."""
        return self._keyring.find(row["fingerprint"]) if row["tool"] in TOOLS else None

    def _waits_for_client(self, row: sqlite3.Row) -> bool:
        if row["background"]:
            return False
        settings = self._keyring.find(row["fingerprint"])
        return not (settings and settings.keep_abandoned)

    async def _decide(self, row: sqlite3.Row) -> None:
        """An interrupted call whose client has not come back: it is kept, given up, or left for a while longer."""
        if pending_calls.take(self._database.path.parent, row["id"]):
            await self._detach(row)
        elif self._nobody_came(row):
            if jobs.has_answers(self._database, row["id"]):  # they were paid for
                await self._detach(row)
            else:
                await self.give_up(row, "cancelled", interrupted.abandoned(row))

    async def _detach(self, row: sqlite3.Row) -> None:
        await self._database.write(jobs.detach(row["id"]))
        self._wanted.set()  # the next look takes it over

    def _nobody_came(self, row: sqlite3.Row) -> bool:
        """An interrupted call's client has had its time to come back, counted from when this engine found the call."""
        found = self._found.setdefault(row["id"], time.monotonic())
        return time.monotonic() - found >= _CLIENT_GONE

    async def _take_over(self, row: sqlite3.Row, settings: Settings) -> None:
        self._found.pop(row["id"], None)
        promised = pending_calls.take(
            self._database.path.parent, row["id"]
        )  # by its front: it goes on whoever waits
        if promised:
            await self._database.write(jobs.detach(row["id"]))
        if await self._database.write(jobs.adopt(row["id"], row["owner"], self._ownership.name)):
            job = job_of(row, settings)
            job.background = job.background or promised
            log.info("going on with %s (attempt %s)", job.id, job.attempt)
            self._start(job)

    async def give_up(self, row: sqlite3.Row, status: Any, error: CounselError) -> None:
        """End a job that nobody runs. What had been answered is kept."""
        self._found.pop(row["id"], None)
        if not await self._database.write(jobs.adopt(row["id"], row["owner"], self._ownership.name)):
            return
        fence = jobs.Fence(row["id"], self._ownership.name, row["attempt"] + 1)
        turn = partial.turn(job_of(row, Settings()), status)
        with contextlib.suppress(jobs.LostJob):
            await self._database.write(jobs.finish(fence, status, error=error.as_dict(), also=turn))

    # ── what a job waits for ─────────────────────────────────────────────────────────────────────────

    def has_owner(self, row: sqlite3.Row) -> bool:
        return row["id"] in self._running or not self._ownership.dead(row["owner"])

    def lacks(self, row: sqlite3.Row) -> Wait | None:
        """What the job of a dead process waits for: None where it has an owner, or goes on in a moment."""
        if row["status"] != "processing" or self.has_owner(row):
            return None
        if self._waits_for_client(row):
            return Wait("client", interrupted.CLIENT)
        return None if self._settings(row) else self._keys(row)

    def lacks_keys(self, row: sqlite3.Row) -> Wait | None:
        found = self.lacks(row)
        return found if found and found.reason == "keys" else None

    def _keys(self, row: sqlite3.Row) -> Wait:
        names = self._keyring.names(json.loads(row["models"]))
        return Wait("keys", interrupted.keys(names), names=tuple(names))


def job_of(row: sqlite3.Row, settings: Settings) -> Job:
    """A job as its next owner holds it."""
    return Job(
        id=row["id"],
        conversation=row["conversation"],
        task=Task.load(row["task"]),
        caller=caller_load(row["caller"], settings),
        background=bool(row["background"]),
        created=row["created"],
        key=row["key"],
        attempt=row["attempt"] + 1,
    )


def _can_open() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _too_old(row: sqlite3.Row) -> bool:
    return bool(time.time() - row["created"] > row["keep_days"] * 86400)
