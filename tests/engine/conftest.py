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


@pytest.fixture(autouse=True)
def _store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`COUNSEL_TEST_STORE=postgres pytest tests/engine`: engines keep their jobs in PostgreSQL."""
    if os.environ.get("COUNSEL_TEST_STORE") != "postgres":
        yield
        return
    if "database(" in inspect.getsource(request.function):
        pytest.skip("it changes rows of SQLite")
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
