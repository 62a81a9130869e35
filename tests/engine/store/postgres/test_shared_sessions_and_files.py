"""MCP sessions and uploads that all servers of a team share: whose they are, how many, and for how long."""

from __future__ import annotations

import pytest

from counsel.engine.store.postgres import mcp_sessions, uploads
from counsel.engine.store.postgres.store import PostgresStore
from engine.store.postgres.conftest import Open
from support.stored import new_job


async def age(store: PostgresStore, table: str, column: str, name: str, seconds: float) -> None:
    """Make a row look so many seconds older."""
    await store.database.rows(
        f"UPDATE counsel.{table} SET {column} = {column} - make_interval(secs => %s) WHERE id = %s RETURNING 1",
        seconds,
        name,
    )


async def test_a_session_is_used_by_its_person_at_any_server_until_it_is_closed(open_store: Open) -> None:
    ours, theirs = open_store().mcp_sessions, open_store().mcp_sessions
    await ours.open("s_1", "p_ada", "state")
    assert await theirs.uses("s_1") == 0
    assert await theirs.use("s_1", "p_ada") == "state"
    assert await ours.use("s_1", "p_ada") == "state"
    assert (await theirs.uses("s_1"), await theirs.uses("s_2")) == (2, 0)
    assert await theirs.use("s_1", "p_bob") is None
    assert await theirs.use("s_2", "p_ada") is None
    await theirs.close("s_1")
    assert await ours.use("s_1", "p_ada") is None
    assert await ours.uses("s_1") == 0


async def test_a_session_ends_when_nobody_has_used_it_for_an_hour(open_store: Open) -> None:
    store = open_store()
    for name in ("s_1", "s_2"):
        await store.mcp_sessions.open(name, "p_ada", "state")
        await age(store, "mcp_sessions", "seen", name, mcp_sessions.IDLE_SECONDS - 60)
    assert await store.mcp_sessions.use("s_1", "p_ada") == "state"
    for name in ("s_1", "s_2"):
        await age(store, "mcp_sessions", "seen", name, 120)
    assert await store.mcp_sessions.use("s_1", "p_ada") == "state", "its hour began again"
    assert await store.mcp_sessions.use("s_2", "p_ada") is None


async def test_of_a_persons_many_sessions_the_least_recently_used_go(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_sessions, "MOST", 2)
    store = open_store()
    await store.mcp_sessions.open("theirs", "p_bob", "state")
    for name in ("s_1", "s_2"):
        await store.mcp_sessions.open(name, "p_ada", "state")
    await age(store, "mcp_sessions", "seen", "s_2", 60)
    await store.mcp_sessions.open("s_3", "p_ada", "state")
    rows = await store.database.rows("SELECT id FROM counsel.mcp_sessions ORDER BY id")
    assert [row[0] for row in rows] == ["s_1", "s_3", "theirs"]


async def test_an_upload_is_read_by_its_person_at_any_server_for_a_day(open_store: Open) -> None:
    store = open_store()
    ours, theirs = store.uploads, open_store().uploads
    await ours.add("u_1", "p_ada", "notes.txt", b"\0text")
    assert await theirs.read("u_1", "p_ada") == ("notes.txt", b"\0text")
    assert await theirs.read("u_1", "p_bob") is None
    assert await theirs.read("u_2", "p_ada") is None
    await age(store, "uploads", "created", "u_1", uploads.KEEP - 60)
    assert await theirs.read("u_1", "p_ada") is not None
    await age(store, "uploads", "created", "u_1", 120)
    assert await theirs.read("u_1", "p_ada") is None


@pytest.mark.parametrize(
    ("files", "size", "kept"),
    [(3, 100, ["u_2", "u_3", "u_4"]), (9, 20, ["u_3", "u_4"]), (9, 19, ["u_4"]), (9, 5, ["u_4"])],
)
async def test_of_a_persons_many_uploads_the_oldest_go_and_the_newest_always_stays(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, files: int, size: int, kept: list[str]
) -> None:
    store = open_store()
    for number in range(4):
        await store.uploads.add(f"u_{number}", "p_ada", "a", b"x" * 10)
        await age(store, "uploads", "created", f"u_{number}", 100 - number)
    await store.uploads.add("theirs", "p_bob", "a", b"x" * 1000)
    monkeypatch.setattr(uploads, "MOST_FILES", files)
    monkeypatch.setattr(uploads, "MOST_BYTES", size)
    await store.uploads.add("u_4", "p_ada", "a", b"x" * 10)
    rows = await store.database.rows("SELECT id FROM counsel.uploads ORDER BY id")
    assert [row[0] for row in rows] == ["theirs", *kept]


async def test_a_view_of_the_store_is_of_the_same_team(open_store: Open) -> None:
    store = open_store()
    view = store.scoped("p_ada")
    await store.mcp_sessions.open("s_1", "p_ada", "state")
    assert await view.mcp_sessions.use("s_1", "p_ada") == "state"
    await view.uploads.add("u_1", "p_ada", "a", b"x")
    assert await store.uploads.read("u_1", "p_ada") == ("a", b"x")
    assert view.scoped("p_bob").person == "p_bob"
    assert view.of_team().person == ""
    assert view.is_home()
    assert view.is_current()
    problems = [view.problem]
    store.database.writer.problem = "The database cannot be reached."
    assert [*problems, view.problem] == [None, "The database cannot be reached."]
    assert await view.people.listed() == []
    assert await view.sessions.find("sha", 0.0) is None
    assert await view.audit.read(0.0, None, 10) == []
    assert await view.person_keys.stored("p_ada") == {}
    assert await view.limits.listed() == []


async def test_how_far_the_servers_are_behind(open_store: Open) -> None:
    """Of two jobs that no process has taken, one waits for the turn of the other: only that one is late."""
    store = open_store()
    await store.submit(new_job("taken", id="job_1"))
    await store.submit(new_job("mine", id="job_2", owner=""))
    await store.submit(new_job("mine", id="job_3", owner=""))
    state = await store.team.health.queue()
    assert (state.open, state.waiting) == (3, 1)
    assert 0.0 <= state.oldest_seconds < 600.0
    await store.database.rows(
        "UPDATE counsel.jobs SET created = created - 7000 WHERE id = 'job_2' RETURNING 1"
    )
    assert 7000.0 <= (await store.team.health.queue()).oldest_seconds < 8000.0
    await store.database.rows(
        "UPDATE counsel.jobs SET created = created + 9000 WHERE id = 'job_2' RETURNING 1"
    )
    assert (await store.team.health.queue()).oldest_seconds == 0.0, "another machine's clock is ahead"
