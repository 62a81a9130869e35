"""A COUNSEL_HOME with finished jobs, written without asking a model."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counsel.engine.store import open_store
from counsel.engine.store.records import UsageRecord
from counsel.results import ChatResult
from support.stored import completed, fence, new_job

TAIL = "-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Seed:
    job: str  # the first eight digits of its id
    conversation: str  # the same, or a name
    project: Path
    title: str = "Is it safe?"
    answer: str = "yes"
    age: float = 60.0  # seconds
    model: str = "gpt-5"
    provider: str = "openai"
    cost: float | None = 0.0042

    @property
    def job_id(self) -> str:
        return f"job_{self.job}{TAIL}"

    @property
    def conversation_id(self) -> str:
        digits = set("0123456789abcdef")
        is_generated = len(self.conversation) == 8 and set(self.conversation) <= digits
        return f"conv_{self.conversation}{TAIL}" if is_generated else self.conversation


def seed(home: Path, *seeds: Seed) -> None:
    async def write() -> None:
        store = open_store(home)
        for row in sorted(seeds, key=lambda row: -row.age):
            await _write(store, row)
        await store.close()

    home.mkdir(parents=True, exist_ok=True)
    asyncio.run(write())


def seed_calls(home: Path, *calls: UsageRecord) -> None:
    """Usage records alone: their jobs may have been deleted."""

    async def write() -> None:
        store = open_store(home)
        for call in calls:
            store.record_usage(call)
        await store.flush()
        await store.close()

    home.mkdir(parents=True, exist_ok=True)
    asyncio.run(write())


async def _write(store: Any, row: Seed) -> None:
    job = new_job(
        row.conversation_id,
        id=row.job_id,
        project=str(row.project.resolve()),
        created=time.time() - row.age,
        title=row.title,
    )
    await store.submit(job)
    about = {
        "model": row.model,
        "provider": row.provider,
        "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        "cost_usd": row.cost,
    }
    continuation = {"id": row.conversation_id}
    document: dict[str, object] = {
        "content": row.answer,
        "continuation": continuation,
        "metadata": about,
        "job_id": row.job_id,
    }
    result = ChatResult.from_json(document)
    await store.finish(fence(job), completed(job, row.answer, result=lambda _: result))
