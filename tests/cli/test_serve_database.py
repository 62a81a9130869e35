"""`counsel serve --database`: a server of a team says clearly why it cannot start."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from counsel import settings
from counsel.engine.engine import open_engine
from counsel.engine.store.records import StoreError
from counsel.errors import ConfigInvalid
from counsel.http.worker_probes import WorkerProbes
from support.fake_engine import FakeEngine
from support.user import User

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty() as url:
        yield url


async def start_error(home: Path, url: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "counsel", "serve", "--port", "0", "--database", url),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home)},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        _, errors = await process.communicate()
    assert process.returncode == 1
    return errors.decode()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hush-hush@127.0.0.1/name",
        "postgresql://user@127.0.0.1/name?password=hush-hush",
        "host=127.0.0.1 user=user password=hush-hush",
        "postgresql://user:hush-hush@[/name",
    ],
)
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    user: User, command: str, url: str
) -> None:
    user.command = command
    outcome = user.run("--database", url)
    assert outcome.code == 1
    assert "COUNSEL_DATABASE" in outcome.err
    assert "PGPASSFILE" in outcome.err
    assert "hush" not in outcome.out + outcome.err


def test_a_worker_without_a_database_says_how_to_name_one(user: User) -> None:
    user.command = "worker"
    outcome = user.run()
    assert outcome.code == 1
    assert "COUNSEL_DATABASE" in outcome.err


async def test_a_database_without_tables_is_named_with_the_command_that_makes_them(
    home: Path, empty: str
) -> None:
    assert "counsel database migrate" in await start_error(home, empty)


async def test_a_server_of_a_team_says_how_people_get_their_tokens(
    home: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.migrated() as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "counsel", "serve", "--port", "0", "--database", url),
            env={"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home)},
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while "listening" not in (line := (await process.stderr.readline()).decode()):
                assert line, "it has ended"
            process.terminate()
            await process.communicate()
    assert "(tokens: `counsel people add NAME`)" in line


async def test_a_database_of_a_newer_release_is_refused(
    home: Path, empty: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counsel.engine.store import administration

    administration().migrate(empty)
    name = empty.partition("?")[0].rpartition("/")[2]
    postgres_server.execute("INSERT INTO counsel.migrations (version, works_for) VALUES (999, 999)", name)
    monkeypatch.setenv("COUNSEL_DATABASE", empty)
    with pytest.raises(ConfigInvalid) as refusal:
        await open_engine(home)
    assert "Upgrade counsel" in (refusal.value.hint or "")


async def test_a_database_that_cannot_be_reached_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.postgres.database.READ_SECONDS", 0.0)
    monkeypatch.setattr("counsel.engine.store.postgres.database._CONNECT", 0.5)
    monkeypatch.setenv("COUNSEL_DATABASE", f"postgresql://counsel@/name?host={home}")
    with pytest.raises(StoreError) as refusal:
        await open_engine(home)
    assert "cannot be used" in refusal.value.message
    assert "COUNSEL_DATABASE" in (refusal.value.hint or "")


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ('FATAL:  password authentication failed for user "counsel"', True),
        ('FATAL:  database "counsle" does not exist', True),
        ("fe_sendauth: no password supplied", True),
        ("FATAL:  the database system is starting up", False),
        ("FATAL:  sorry, too many clients already", False),
        ("failed to resolve host 'db': Name or service not known", False),
    ],
)
def test_only_an_answer_that_stays_the_same_ends_the_start_at_once(words: str, *, is_refused: bool) -> None:
    import psycopg

    from counsel.engine.store.postgres import connections

    assert connections.is_refused(psycopg.OperationalError(f"connection failed: {words}")) is is_refused


async def test_a_database_that_does_not_exist_is_named_at_once_and_in_one_line(
    home: Path, empty: str
) -> None:
    error = await start_error(home, empty.replace("/test_", "/no_such_"))
    assert error.count("does not exist") == 1
    assert "couldn't get a connection" not in error


async def test_a_workers_probes_answer_an_orchestrator_and_prometheus() -> None:
    """In this process: the worker itself is in tests/team/test_workers.py."""
    user_settings = settings.load({"COUNSEL_METRICS_TOKEN": "a-metrics-token"})
    draining = False
    server = await WorkerProbes(FakeEngine(), user_settings, lambda: draining).serve("127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession(base) as session:

        async def status(path: str, **headers: str) -> int:
            async with session.get(path, headers=headers) as response:
                return response.status

        assert await status("/health") == 200
        assert await status("/ready") == 200
        assert await status("/metrics") == 401
        assert await status("/metrics", Authorization="Bearer a-metrics-token") == 200
        assert await status("/api/jobs") == 404
        draining = True
        assert await status("/ready") == 503
    server.close()
    await server.wait_closed()
