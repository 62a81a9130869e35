from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from fake import FakeAPI
from support.provider_keys import keys

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer


# Tests of SQLite itself, recognised by text in their source or by their names.
_SQLITE_SOURCE = {
    "database(": "it is about SQLite's file",
    "sqlite3.": "it is about SQLite's file",
}
_SQLITE_ONLY = {
    "test_a_home_that_was_replaced_is_left_alone": "the home has no file of a store",
    "test_the_row_of_a_job_that_cannot_run_again_waits_for_its_end": "it counts commits of SQLite's file",
    "test_a_call_needs_few_tasks_and_timers_however_many_pieces_it_has": "other tasks look after a team's queue",
    "test_a_call_needs_few_functions": "it counts those of a write to SQLite's file",
    "test_a_job_that_had_not_begun_when_its_engine_closed_sends_nothing_and_continues": "a team's job is written first",
}


# A test without any of these opens no store.
_USES_STORE = {"home", "engine", "caller", "fake_api", "fake_process"}


def _needs_sqlite(request: pytest.FixtureRequest) -> str | None:
    source = inspect.getsource(request.function)
    sqlite_reason = _SQLITE_ONLY.get(request.function.__name__)
    return sqlite_reason or next((reason for text, reason in _SQLITE_SOURCE.items() if text in source), None)


@pytest.fixture(autouse=True)
def _store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`make test-postgres`: engines store their jobs in PostgreSQL."""
    is_marked = request.node.get_closest_marker("postgres") is not None
    is_chosen = os.environ.get("COUNSEL_TEST_STORE") == "postgres" and _USES_STORE & set(request.fixturenames)
    if not is_marked and not is_chosen:
        yield
        return
    if not is_marked and (reason := _needs_sqlite(request)):
        pytest.skip(reason)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.migrated() as url:
        monkeypatch.setenv("COUNSEL_DATABASE", url)
        yield


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "counsel-home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


MakeCaller = Callable[..., Caller]


@pytest.fixture
def caller(fake_api: FakeAPI, home: Path, project: Path) -> MakeCaller:
    def make(client: str = "test", **env: str) -> Caller:
        config = settings.load({"COUNSEL_HOME": str(home), **keys(fake_api), **env})
        return Caller(client, cwd=project, settings=config)

    return make


@pytest.fixture
async def engine(home: Path) -> AsyncIterator[Engine]:
    engine_ = await open_engine(home)
    yield engine_
    await engine_.close()
