"""Titles and summaries of running jobs: generated in parallel to the job, and stored when they arrive."""

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

    def start_title(self, running: Running) -> asyncio.Task[str] | None:
        """Start to generate a title with a model, if the caller wants that."""
        job = running.job
        if not job.caller.settings.summaries:
            return None
        running.title = title_of(job.task.prompt)
        task = asyncio.create_task(self._title(running))
        task.add_done_callback(lambda done: self._store_title(running, done))
        return task

    async def _title(self, running: Running) -> str:
        job = running.job
        earlier = await self._store.job(job.id) if job.attempt > 1 else None
        if earlier and earlier.title and earlier.title != running.title:
            return earlier.title  # already paid for
        await self._ownership.sure()
        if running.lost or running.gaps != self._ownership.gaps:
            return running.title  # another server may have the job now, and generates the title
        return await self._summariser.title(job.task.prompt, job)

    def _store_title(self, running: Running, task: asyncio.Task[str]) -> None:
        if task.cancelled() or task.exception():
            return
        old_title, running.title = running.title, task.result()
        self._store.describe(running.job.id, title=running.title)
        self._store.set_title(running.job.conversation, running.title, instead_of=old_title)

    def start_summary(self, running: Running, text: str) -> None:
        """Start to generate the final summary; the job does not wait for it."""
        job = running.job
        if not job.caller.settings.summaries:
            return

        async def summarise() -> str:
            summary = await self._summariser.summary(text, job)
            self._store.describe(job.id, summary=summary)
            return summary

        running.summary = asyncio.create_task(summarise())

    def summary_so_far(self, running: Running) -> str:
        """The newest summary so far. Starts to generate a fresher one for the next call."""
        text = "\n\n".join(slot.text() for slot in running.live.slots.values() if slot.length)
        if text and running.summing_up is None:

            async def refresh() -> None:
                running.running_summary = await self._summariser.running(text, running.job)
                running.summing_up = None

            running.summing_up = asyncio.create_task(refresh())
        return running.running_summary or title_of(text)
