"""Fixtures: each test of the service has its own engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counsel.engine.engine import Engine, open_engine


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
async def engine(home: Path) -> AsyncIterator[Engine]:
    opened_engine = await open_engine(home)
    yield opened_engine
    await opened_engine.close()
