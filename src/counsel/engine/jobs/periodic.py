"""What a process does periodically: write new text, notice cancels, find jobs of dead processes, clean up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from counsel import pending_calls
from counsel.engine.context import uploads
from counsel.engine.jobs.callers import Secret, SharedSecret
from counsel.engine.store.protocol import Store
from counsel.errors import CounselError
from counsel.settings import load as load_settings

if TYPE_CHECKING:
    from counsel.engine.jobs.runner import Runner

log = logging.getLogger("counsel.runner")
_TICK_SECONDS = 0.2  # between writes of new text and checks for cancels from other processes
_ORPHAN_SECONDS = 2.0  # between searches for jobs of dead processes
_CHECK_SECONDS = 2.0  # between checks of the database's file
_FIRST_UPKEEP = 5.0  # seconds
_SWEEP_SECONDS = 3600.0
_FRESH = 3600.0  # seconds for which a text is kept although its job could not be stored


class Periodic:
    def __init__(self, runner: Runner, store: Store, home: Path, secret: Secret | SharedSecret) -> None:
        self._runner = runner
        self._store = store
        self._home = home
        self._secret = secret
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.tasks = [
            asyncio.create_task(_forever(_TICK_SECONDS, self._tick_while_running)),
            asyncio.create_task(_forever(_ORPHAN_SECONDS, self._recover, self._runner.orphan_event)),
            asyncio.create_task(_forever(_CHECK_SECONDS, self._look)),
            asyncio.create_task(self._upkeep()),
        ]

    async def _tick_while_running(self) -> None:
        """A process without jobs sleeps until there is one."""
        if self._runner.running:
            await self.tick()
        else:
            self._runner.began.clear()
            await self._runner.began.wait()

    async def tick(self) -> None:
        runner = self._runner
        if not runner.running:
            return
        now = time.monotonic()
        for running in list(runner.running.values()):
            if now - running.since > _TICK_SECONDS:  # most calls end sooner: their row has everything
                running.flush(self._store)
        if self._store.is_current():
            runner.ownership.hold()
        for standing in await self._store.standing(list(runner.running)):
            await runner.apply_standing(standing)

    async def _recover(self) -> None:
        await self._runner.look_for_orphans()
        await self._runner.endings.save()

    async def _look(self) -> None:
        self._store.look()
        if not self._secret.kept:
            await asyncio.to_thread(self._secret.keep)

    async def _upkeep(self) -> None:
        """Starts late, so that it slows neither the first call nor a short command."""
        await asyncio.sleep(_FIRST_UPKEEP)
        await self._store.check()
        await _forever(_SWEEP_SECONDS, self.sweep)

    async def sweep(self) -> None:
        if self._store.problem or not self._store.is_current():
            # others may need files of jobs that we do not see
            return
        await asyncio.to_thread(pending_calls.sweep, self._home)
        await asyncio.to_thread(uploads.sweep, self._home)
        if not self._runner.queue:  # otherwise one server of the team does it
            await self.sweep_store()
        await self._runner.ownership.tidy(await self._store.owners())
        await self._sweep_outputs()
        await self._store.back_up()

    async def sweep_store(self) -> None:
        limit = load_settings({**os.environ, "COUNSEL_HOME": str(self._home)}).max_database_bytes
        await self._store.sweep(limit)

    async def _sweep_outputs(self) -> None:
        """Delete the full texts that were written to files for clients with small limits, once their jobs are gone."""
        paths = await asyncio.to_thread(_old_texts, self._home / "outputs")
        existing = await self._store.existing_jobs([path.stem for path in paths])
        for path in paths:
            if path.stem not in existing:
                with contextlib.suppress(OSError):
                    path.unlink()


def _old_texts(folder: Path) -> list[Path]:
    paths = []
    for path in folder.glob("*.txt"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _FRESH:
                paths.append(path)
    return paths


async def _forever(
    seconds: float, step: Callable[[], Awaitable[None]], early: asyncio.Event | None = None
) -> None:
    while True:
        try:
            await step()
        except CounselError as error:
            log.warning("%s", error)
        except Exception:
            log.exception("a periodic step failed")
        if early is None:
            await asyncio.sleep(seconds)
            continue
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # not wait_for: on 3.11 it can swallow a cancellation
                await early.wait()
        early.clear()
