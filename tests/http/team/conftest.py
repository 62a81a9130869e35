from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fake import FakeAPI

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer
    from support.team_server import TeamServer

if (find_spec("authlib") is None or find_spec("psycopg") is None) and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]  # they import what the extra `team` installs


@pytest.fixture
def database(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with postgres_server.migrated() as url:
        monkeypatch.setenv("COUNSEL_DATABASE", url)
        yield url


@pytest.fixture
async def team(tmp_path: Path, fake_api: FakeAPI, database: str) -> AsyncIterator[TeamServer]:
    from support.team_server import serving

    async with serving(tmp_path, fake_api, database) as server:
        yield server
