from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from fake import FakeAPI
from support.provider_keys import keys


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
