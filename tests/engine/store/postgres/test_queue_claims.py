"""The queue's row of a job that another process adopts: the worker there has it, unless another turn runs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.store.postgres import queue
from counsel.engine.store.records import QueueEntry
from engine.store.postgres.conftest import Open
from support.stored import new_job

STATE = (
    "SELECT q.status::text, q.worker_id, q.attempts FROM counsel_queue.procrastinate_jobs q "
    "JOIN counsel.jobs j ON j.ticket = q.id WHERE j.id = %s"
)


async def registered(store: Any) -> int:
    row = await store.database.row(
        "INSERT INTO counsel_queue.procrastinate_workers DEFAULT VALUES RETURNING id"
    )
    number: int = row[0]
    return number


async def state(store: Any, job: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = tuple(await store.database.row(STATE, job))
    return row


async def owner(store: Any, job: str) -> str:
    name: str = (await store.job(job)).owner
    return name


@pytest.mark.parametrize("has_worker", [True, False])
async def test_an_adopted_jobs_row_belongs_to_the_worker_of_who_adopts_it(
    open_store: Open, has_worker: bool
) -> None:
    store: Any = open_store()
    worker = await registered(store)
    job = replace(new_job(), queue=QueueEntry("any", 0))
    await store.submit(job)
    assert await state(store, job.id) == ("todo", None, 0)
    store.team.queue.worker = worker if has_worker else None
    assert await store.adopt(job.id, await owner(store, job.id), "another")
    claimed = ("doing", worker, 1)
    assert await state(store, job.id) == (claimed if has_worker else ("todo", None, 0))
    assert await store.adopt(job.id, "another", "a third")
    assert await state(store, job.id) == (claimed if has_worker else ("todo", None, 0)), "it has it already"


async def test_a_row_whose_conversation_runs_elsewhere_is_not_claimed(open_store: Open) -> None:
    store: Any = open_store()
    worker, other = await registered(store), await registered(store)
    running = replace(new_job(), queue=QueueEntry("any", 0, other))
    later = replace(new_job(), queue=QueueEntry("any", 0))
    await store.submit(running)
    await store.submit(later)
    store.team.queue.worker = worker
    assert await store.adopt(later.id, await owner(store, later.id), "another")
    assert await state(store, later.id) == ("todo", None, 0)
    assert (await state(store, running.id))[:2] == ("doing", other)


async def test_workers_are_told_of_rows_that_are_given_back_and_only_then(open_store: Open) -> None:
    store: Any = open_store()
    worker = await registered(store)
    job = replace(new_job(), queue=QueueEntry("any", 0, worker))
    await store.submit(job)
    (ticket,) = await store.database.row("SELECT ticket FROM counsel.jobs WHERE id = %s", job.id)
    statements: list[str] = []

    async def given_back(tickets: list[int | None]) -> None:
        async def work(db: Any) -> None:
            execute = db.execute

            async def noted(sql: str, *values: object) -> Any:
                statements.append(sql)
                return await execute(sql, *values)

            await queue.give_back(SimpleNamespace(execute=noted), tickets)  # type: ignore[arg-type]

        await store.database.write(work)

    await given_back([None])
    assert statements == []
    assert (await state(store, job.id))[0] == "doing"
    await given_back([None, ticket])
    assert (await state(store, job.id))[:2] == ("todo", None)
    assert "pg_notify" in statements[-1]
