"""Titles and summaries of running jobs: made beside the work, written down when they come."""

from __future__ import annotations

import asyncio

from counsel.engine.history.titles import Summariser, title_of
from counsel.engine.jobs.owners import Owners
from counsel.engine.jobs.running import Running
from counsel.engine.store.protocol import Store


class Describer:
    def __init__(self, store: Store, summariser: Summariser, ownership: Owners) -> None:
        self._store = store
        self._summariser = summariser
        self._ownership = ownership

    def entitle(self, running: Running) -> asyncio.Task[str] | None:
        """Begin a title by a model, if the caller wants one."""
        job = running.job
        if not job.caller.settings.summaries:
            return None
        task = asyncio.create_task(self._title(running))
        task.add_done_callback(lambda done: self._entitled(running, done))
        return task

    async def _title(self, running: Running) -> str:
        job = running.job
        earlier = await self._store.job(job.id) if job.attempt > 1 else None
        if earlier and earlier.title and earlier.title != running.title:
            return earlier.title  # it was paid for
        await self._ownership.sure()
        if running.lost or running.gaps != self._ownership.gaps:
            return running.title  # another server may have the job by now, and asks for one
        return await self._summariser.title(job.task.prompt, job)

    def _entitled(self, running: Running, done: asyncio.Task[str]) -> None:
        if done.cancelled() or done.exception():
            return
        plain, running.title = running.title, done.result()
        self._store.describe(running.job.id, title=running.title)
        self._store.set_title(running.job.conversation, running.title, instead_of=plain)

    def sum_up(self, running: Running, text: str) -> None:
        """Begin the final summary; the job does not wait for it."""
        job = running.job
        if not job.caller.settings.summaries:
            return

        async def summarise() -> str:
            summary = await self._summariser.summary(text, job)
            self._store.describe(job.id, summary=summary)
            return summary

        running.summary = asyncio.create_task(summarise())

    def so_far(self, running: Running) -> str:
        """The newest summary there is; a fresher one is on its way for the next look."""
        text = "\n\n".join(slot.text() for slot in running.live.slots.values() if slot.length)
        if text and running.summing_up is None:

            async def refresh() -> None:
                running.running_summary = await self._summariser.running(text, running.job)
                running.summing_up = None

            running.summing_up = asyncio.create_task(refresh())
        return running.running_summary or title_of(text)
