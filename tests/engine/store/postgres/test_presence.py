"""Which owners are alive, on several machines: by a row that they renew and a lock that ends with its connection."""

from __future__ import annotations

import asyncio

import pytest

from counsel.engine import readiness
from counsel.engine.store.postgres import presence
from counsel.engine.store.postgres.store import PostgresStore
from engine.store.postgres.conftest import Open
from support.postgres_proxy import PostgresProxy

ALL = {"ours", "theirs", "unknown"}


@pytest.fixture(autouse=True)
def judge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """These stores may declare others dead at once, without renewing their own rows for a while first."""
    if request.function is not test_nobody_is_declared_dead_right_after_a_database_outage:
        monkeypatch.setattr(presence.Presence, "may_judge", lambda _: True)


async def age(store: PostgresStore, owner: str, seconds: float) -> None:
    """Make the owner's last renewal look `seconds` old."""
    await store.database.rows(
        "UPDATE counsel.owners SET seen = clock_timestamp() - make_interval(secs => %s) WHERE name = %s RETURNING 1",
        seconds,
        owner,
    )


async def until_locked(store: PostgresStore, owner: str, *, is_locked: bool) -> None:
    query = f"SELECT {presence._IS_LOCKED} FROM counsel.owners o WHERE name = %s"
    async with asyncio.timeout(60):
        while bool((await store.database.rows(query, owner))[0][0]) is not is_locked:
            await asyncio.sleep(0.05)


async def test_a_living_owner_is_not_dead_and_an_unknown_one_proves_nothing(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    await ours.presence.hold("ours")
    await theirs.presence.hold("theirs")
    assert ours.presence.is_sure()
    for store in (ours, theirs):
        assert await store.presence.dead(ALL) == set()


async def test_an_owner_whose_connection_ended_is_dead_after_a_few_seconds(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    await theirs.presence.hold("theirs")
    await theirs.database.listener.close()  # as the kernel does when its process dies
    await age(ours, "theirs", presence.DEAD_UNLOCKED - 1)
    assert await ours.presence.dead(ALL) == set()
    await age(ours, "theirs", presence.DEAD_UNLOCKED + 1)
    async with asyncio.timeout(60):
        while await ours.presence.dead(ALL) != {"theirs"}:
            await asyncio.sleep(0.05)


async def test_a_suspended_owner_keeps_its_connection_and_is_dead_after_the_longer_time(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = open_store(), open_store()
    monkeypatch.setattr("counsel.engine.store.postgres.listener.BEAT", 600)  # it no longer renews
    await theirs.presence.hold("theirs")
    await age(ours, "theirs", presence.DEAD_UNLOCKED + 1)
    assert await ours.presence.dead(ALL) == set()
    await age(ours, "theirs", presence.DEAD_AFTER + 1)
    assert await ours.presence.dead(ALL) == {"theirs"}


async def test_an_owner_whose_connection_was_cut_is_alive_again_when_it_reconnects(
    open_store: Open, proxy: PostgresProxy
) -> None:
    ours, theirs = open_store(), open_store(proxy)
    await theirs.presence.hold("theirs")
    proxy.refuses = True
    proxy.cut_all()
    await age(ours, "theirs", presence.DEAD_AFTER + 1)
    assert await ours.presence.dead(ALL) == {"theirs"}
    await until_locked(ours, "theirs", is_locked=False)
    proxy.refuses = False
    async with asyncio.timeout(60):
        while await ours.presence.dead(ALL):
            await asyncio.sleep(0.05)
    await until_locked(ours, "theirs", is_locked=True)  # its new connection has its lock again


async def test_an_owner_that_cannot_renew_knows_that_others_may_think_it_dead(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    assert not store.presence.is_sure()
    await store.presence.hold("ours")
    assert store.presence.is_sure()
    monkeypatch.setattr(presence, "SURE_SECONDS", 0.0)
    assert not store.presence.is_sure()


async def test_an_owner_that_was_away_knows_that_others_may_have_thought_it_dead(open_store: Open) -> None:
    store = open_store()
    await store.presence.hold("ours")
    assert store.presence.gaps == 0
    store.presence.confirmed -= presence.SURE_SECONDS  # as if it had been suspended
    assert not store.presence.is_sure()
    async with asyncio.timeout(60):
        await store.presence.sure()
    assert (store.presence.is_sure(), store.presence.gaps) == (True, 1)


async def test_nobody_is_declared_dead_right_after_a_database_outage(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = open_store(), open_store()
    monkeypatch.setattr("counsel.engine.store.postgres.listener.BEAT", 0.05)
    await ours.presence.hold("ours")
    await theirs.presence.hold("theirs")
    await theirs.database.listener.close()
    await age(ours, "theirs", 60)
    assert await ours.presence.dead(ALL) == set()
    monkeypatch.setattr(presence, "SETTLE_SECONDS", 0.0)
    assert await ours.presence.dead(ALL) == {"theirs"}
    monkeypatch.setattr(presence, "SETTLE_SECONDS", 3600.0)
    ours.presence.confirmed -= presence.SURE_SECONDS  # nobody could renew for a while
    async with asyncio.timeout(60):
        await ours.presence.sure()
    assert await ours.presence.dead(ALL) == set()


async def test_an_owner_without_a_row_is_dead_after_a_while_since_a_living_one_writes_it_again(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = open_store()
    assert await ours.presence.states({"unknown"}) == {"unknown": "unknown"}
    monkeypatch.setattr(presence, "DEAD_AFTER", 0.0)
    assert await ours.presence.states({"unknown"}) == {"unknown": "dead"}


async def test_a_released_owner_is_forgotten(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    await theirs.presence.hold("theirs")
    await theirs.presence.release("theirs")
    assert await ours.database.rows("SELECT name FROM counsel.owners") == []
    assert await ours.presence.dead(ALL) == set()


async def test_a_server_that_reads_but_cannot_write_or_be_seen_is_not_ready(open_store: Open) -> None:
    """As if all connections were in use elsewhere: the ones that it has still read."""
    store = open_store()
    await store.presence.hold("ours")
    assert await readiness.not_ready(store, 0) == []
    store.database.writer.problem = "The database cannot be reached."
    assert await readiness.not_ready(store, 0) == []  # a write succeeds, which ends the problem
    assert store.problem is None
    await store.database.listener.close()
    store.presence.confirmed -= presence.DEAD_UNLOCKED
    assert [reason.code for reason in await readiness.not_ready(store, 0)] == ["database"]
