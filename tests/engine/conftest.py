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


_SQLITE_ONLY = {"test_a_job_can_be_stopped_before_its_first_step": "SQLite's reads never let the job begin"}


def _needs_sqlite(request: pytest.FixtureRequest) -> str | None:
    if "database(" in inspect.getsource(request.function):
        return "it changes rows of SQLite"
    return _SQLITE_ONLY.get(request.function.__name__)


@pytest.fixture(autouse=True)
def _store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`COUNSEL_TEST_STORE=postgres pytest tests/engine`: engines keep their jobs in PostgreSQL."""
    is_marked = request.node.get_closest_marker("postgres") is not None
    if not is_marked and os.environ.get("COUNSEL_TEST_STORE") != "postgres":
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
    made = tmp_path / "project"
    made.mkdir()
    return made


MakeCaller = Callable[..., Caller]


@pytest.fixture
def caller(fake_api: FakeAPI, home: Path, project: Path) -> MakeCaller:
    def make(client: str = "test", **env: str) -> Caller:
        loaded = settings.load({"COUNSEL_HOME": str(home), **keys(fake_api), **env})
        return Caller(client, cwd=project, settings=loaded)

    return make


@pytest.fixture
async def engine(home: Path) -> AsyncIterator[Engine]:
    made = await open_engine(home)
    yield made
    await made.close()
