from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from fake import FakeAPI


def keys(fake: FakeAPI) -> dict[str, str]:
    """An environment in which every provider is the fake."""
    v1 = fake.v1
    return {
        "OPENAI_API_KEY": "sk-test-openai-0000000000000000",
        "OPENAI_BASE_URL": v1,
        "ANTHROPIC_API_KEY": "sk-ant-test-0000000000000000",
        "ANTHROPIC_BASE_URL": fake.url,
        "GOOGLE_API_KEY": "AIzaTest00000000000000000000000000000000",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
        "XAI_API_KEY": "xai-test-0000000000000000",
        "XAI_BASE_URL": f"{fake.url}/xai/v1",
        "DEEPSEEK_API_KEY": "sk-test-deepseek-000000000000",
        "DEEPSEEK_BASE_URL": f"{fake.url}/deepseek/v1",
    }


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
