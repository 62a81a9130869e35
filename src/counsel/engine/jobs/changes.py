"""Follows the list of jobs: the newest ones first, then whatever is new, changed or deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import JobRecord
from counsel.lazy_dataclass import dataclass
from counsel.results import JobSummary

_PAUSE = 0.25  # seconds between two reports, which combine the changes in between
_LONGEST = 5.0  # seconds between two reads when nothing is committed
_MOST_OPEN = 500  # unfinished jobs beyond the newest ones that are watched

Summarise = Callable[[Sequence[JobRecord]], Awaitable[tuple[JobSummary, ...]]]


@dataclass(frozen=True, slots=True)
class JobChanges:
    jobs: tuple[JobSummary, ...]  # newest first
    deleted: tuple[str, ...] = ()


async def follow(store: Store, summarise: Summarise, newest: int) -> AsyncGenerator[JobChanges]:
    """First the newest jobs, even if there is none. Never ends."""
    await store.flush()  # a job that has just started may not be stored yet
    job_list = _JobList(store, summarise, newest)
    yield await job_list.update()
    while True:
        mark = store.mark("")
        changes = await job_list.update()
        if changes.jobs or changes.deleted:
            yield changes
        await asyncio.sleep(_PAUSE)
        await store.wait_for_change("", mark, _LONGEST)


class _JobList:
    """The jobs that a follower has been told about: the newest, and those that have not ended."""

    def __init__(self, store: Store, summarise: Summarise, newest: int) -> None:
        self._store = store
        self._summarise = summarise
        self._newest = newest
        self._summaries: dict[str, JobSummary] = {}  # without the elapsed time

    async def update(self) -> JobChanges:
        records = {job.id: job for job in await self._store.recent_jobs(self._newest)}
        for job in (await self._store.open_jobs())[-_MOST_OPEN:]:
            records.setdefault(job.id, job)
        missing = self._summaries.keys() - records.keys()
        existing = await self._store.existing_jobs(missing) if missing else set[str]()
        for job_id in existing:
            if self._summaries[job_id].is_open and (record := await self._store.job(job_id)):
                records[job_id] = record
        summaries, changes = dict[str, JobSummary](), list[JobSummary]()
        for summary in await self._summarise(sorted(records.values(), key=lambda job: -job.created)):
            summaries[summary.job_id] = content = replace(summary, elapsed_seconds=0.0)
            if self._summaries.get(summary.job_id) != content:
                changes.append(summary)
        self._summaries = summaries
        return JobChanges(tuple(changes), tuple(missing - existing))
