"""What a store on one machine says to what only a team has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counsel.engine.store import DATABASE, open_lookup
from counsel.engine.store.lookup import Lookup
from counsel.engine.store.sqlite.store import SqliteStore
from counsel.errors import ConfigInvalid

OPERATIONS: dict[str, Callable[[SqliteStore], object]] = {
    "people": lambda store: store.people,
    "sessions": lambda store: store.sessions,
    "limits": lambda store: store.limits,
    "person_keys": lambda store: store.person_keys,
    "audit": lambda store: store.audit,
    "scoped": lambda store: store.scoped("p_1"),
    "of_team": lambda store: store.of_team(),
    "share": lambda store: store.share("mine", 1.0),
    "sharings": lambda store: asyncio.run(store.sharings(["mine"])),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store_ = SqliteStore(tmp_path / "home" / "counsel.db")
    yield store_
    asyncio.run(store_.close())


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_needs_a_team_says_which_database_it_needs(store: SqliteStore, name: str) -> None:
    with pytest.raises(ConfigInvalid, match="a database that a team shares") as excinfo:
        OPERATIONS[name](store)
    assert "COUNSEL_DATABASE" in (excinfo.value.hint or "")


def test_each_server_of_one_machine_keeps_its_own_sessions_and_uploads(store: SqliteStore) -> None:
    assert (store.team, store.mcp_sessions, store.uploads) == (None, None, None)


@pytest.fixture
def looked_up(tmp_path: Path) -> Iterator[Callable[[], Lookup]]:
    lookups: list[Lookup] = []

    def open_one() -> Lookup:
        lookups.append(open_lookup(tmp_path))
        return lookups[-1]

    yield open_one
    for lookup in lookups:
        lookup.close()


def test_ids_are_looked_up_in_the_homes_file_which_is_not_made(
    tmp_path: Path, looked_up: Callable[[], Lookup]
) -> None:
    lookup = looked_up()
    assert (lookup.readable, lookup.jobs(""), lookup.job("job_1")) == (True, [], None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_not_readable_and_raises_nothing(
    tmp_path: Path, looked_up: Callable[[], Lookup]
) -> None:
    (tmp_path / DATABASE).write_text("notes " * 100)
    lookup = looked_up()
    assert (lookup.jobs(""), lookup.conversation("mine")) == ([], None)
    assert not lookup.readable
