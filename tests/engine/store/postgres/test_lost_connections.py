"""Connections that are cut: no write is lost or applied twice, and followers continue."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from counsel.engine.store.postgres import database, writer
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.store.records import StoreError
from counsel.job_events import Noticed
from engine.store.postgres.conftest import Open
from support.postgres_proxy import PostgresProxy
from support.postgres_server import PostgresServer
from support.stored import completed, fence, new_job, usage

pytestmark = pytest.mark.thorough  # left out of `make check`


async def stuck(store: PostgresStore, job: str) -> int:
    detail = await store.job(job)
    assert detail is not None
    return detail.stuck


@pytest.mark.parametrize("forward", [True, False], ids=["answer lost", "commit lost"])
@pytest.mark.parametrize("statement", [b"COMMIT", b"stuck + 1", b"pg_notify"])
async def test_a_write_whose_connection_is_cut_is_made_once(
    open_store: Open, proxy: PostgresProxy, statement: bytes, forward: bool
) -> None:
    store = open_store(proxy)
    new = new_job()
    await store.submit(new)
    proxy.cut_at(statement, forward=forward)
    await asyncio.gather(store.mark_attempt(fence(new)), store.record_usage(usage(new.id)))
    assert proxy.cuts == 1
    assert await stuck(store, new.id) == 1
    assert len(await store.usage(0)) == 1


async def test_a_lost_answer_to_an_end_does_not_lose_the_job(open_store: Open, proxy: PostgresProxy) -> None:
    """If it ran again, it would find the job ended, and tell its caller that another process has it."""
    store = open_store(proxy)
    new = new_job()
    await store.submit(new)
    proxy.cut_at(b"COMMIT", forward=True)
    await store.finish(fence(new), completed(new))
    assert proxy.cuts == 1
    assert len(await store.messages("conversation")) == 2


async def test_reads_and_writes_survive_a_restart_of_the_server(
    open_store: Open, postgres_server: PostgresServer
) -> None:
    store = open_store()
    new = new_job()
    await store.submit(new)
    store.mark(new.id)
    await asyncio.gather(*(store.job(new.id) for _ in range(5)))  # several connections
    await asyncio.to_thread(postgres_server.stop)
    writing, reading = store.mark_attempt(fence(new)), asyncio.create_task(store.job(new.id))
    postgres_server.start()
    await asyncio.to_thread(postgres_server.wait)
    await writing
    assert await reading is not None
    assert await stuck(store, new.id) == 1


async def test_a_database_that_cannot_be_reached_is_a_problem_until_it_can(
    open_store: Open, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "WRITE_SECONDS", 0.2)
    monkeypatch.setattr(database, "READ_SECONDS", 0.2)
    store = open_store(proxy)
    new = new_job()
    await store.submit(new)
    assert (store.problem or "") == ""
    proxy.refuses = True
    proxy.cut_all()
    with pytest.raises(StoreError, match="cannot be used"):
        await store.mark_attempt(fence(new))
    with pytest.raises(StoreError, match="cannot be used"):
        await store.job(new.id)
    assert "not stored" in (store.problem or "")
    proxy.refuses = False
    await store.mark_attempt(fence(new))
    assert (store.problem or "") == ""
    monkeypatch.setattr(database, "READ_SECONDS", 30.0)
    assert await stuck(store, new.id) == 1


async def test_a_follower_whose_connection_was_cut_hears_of_changes_again(
    open_store: Open, proxy: PostgresProxy
) -> None:
    ours, theirs = open_store(), open_store(proxy)
    new = new_job()
    await ours.submit(new)
    for number in range(1, 4):
        mark = theirs.mark(new.id)
        await theirs.wait_for_change(new.id, mark, 0.05)
        proxy.cut_all()
        mark = theirs.mark(new.id)
        await ours.append(fence(new), [Noticed(number, 1.0, "", "info", "note")])
        async with asyncio.timeout(30):
            while len(await theirs.events(new.id, 0)) < number:
                await theirs.wait_for_change(new.id, mark, 30)
                mark = theirs.mark(new.id)


async def test_a_store_closes_although_the_database_is_gone(open_store: Open, proxy: PostgresProxy) -> None:
    store = open_store(proxy)
    new = new_job()
    await store.submit(new)
    proxy.refuses = True
    proxy.cut_all()
    write = store.mark_attempt(fence(new))
    async with asyncio.timeout(30):
        await store.close()
    with pytest.raises(StoreError):
        await write


async def test_a_cancellation_that_the_driver_swallows_still_ends_the_read(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asyncio.wait_for` of Python 3.11 loses it if its awaitable is done at that moment."""
    store = open_store()
    reading = asyncio.Event()

    async def swallow(*_: object) -> list[object]:
        reading.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return []

    await store.job("none")
    monkeypatch.setattr(store.database, "_read", swallow)
    task = asyncio.create_task(store.job("none"))
    await reading.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_listener_that_swallows_a_cancellation_is_still_closed(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    cancellations = 0

    async def swallow(*_: object) -> None:
        nonlocal cancellations
        beating.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancellations += 1
            if cancellations > 1:
                raise

    beating = asyncio.Event()
    monkeypatch.setattr(store.presence, "beat", swallow)
    store.mark("any")
    await beating.wait()
    async with asyncio.timeout(30):
        await store.close()
    assert cancellations
