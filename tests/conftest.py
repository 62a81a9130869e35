from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from fake import FakeAPI, FakeHost, FakeProcess
from support.client_programs import program
from support.stdio_client import daemon_ends, daemon_pid
from support.user import User, make_user

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

# The time of one example says how busy the machine is.
settings.register_profile("counsel", deadline=None)
settings.load_profile("counsel")


def pytest_configure() -> None:
    """Let Ctrl-C and SIGHUP reach the programs that tests start, also in the background or under `nohup`."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.disable()  # until all tests are collected: scanning their objects would make it a quarter slower


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects, which all stay, from later garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Do not trace some tests: slow ones, generated documents and comparisons with other libraries repeat quick tests
    with more cases.

    Tracing doubles the time of code in this process, and would add next to nothing for them.
    """
    for item in items:
        repeats = item.get_closest_marker("slow") or item.get_closest_marker("oracle")
        if repeats or item.path.name.endswith("_properties.py"):
            item.add_marker("no_cover")
    # the build of the wheel takes a minute: as the last test it would run alone
    items.sort(key=lambda item: item.path.name != "test_wheel.py")


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeAPI]:
    """The vendors' APIs on a free loopback port, in this process (tests/fake/README.md)."""
    async with FakeAPI() as fake:
        yield fake


@pytest.fixture(scope="session")
def fake_host() -> Iterator[FakeHost]:
    """The process in which the fakes of `fake_process` run, one at a time."""
    host = FakeHost()
    yield host
    host.close()


@pytest.fixture
def fake_process(fake_host: FakeHost) -> Iterator[FakeProcess]:
    """A new fake of the vendors' APIs in another process, for tests that drive real CLIs and daemons."""
    with FakeProcess(fake_host) as fake:
        yield fake


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """A COUNSEL_HOME whose daemon is ended after the test."""
    (tmp_path / "home").mkdir()
    yield tmp_path / "home"
    if (pid := daemon_pid(tmp_path / "home")) is not None:
        os.kill(pid, signal.SIGKILL)
        await daemon_ends(tmp_path / "home")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    """A user with their own home and project, and no agent installed."""
    return make_user(tmp_path, monkeypatch, capsys)


@pytest.fixture
def real_client() -> Callable[[str], str]:
    """A real program from npm, by its name. If it is missing, CI fails; elsewhere the test is skipped with a reason."""

    return program


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Starts with the first test that needs it. Without PostgreSQL, CI fails; elsewhere the test is skipped."""
    if not os.environ.get("CI"):
        pytest.importorskip(
            "psycopg", reason="psycopg is not installed (pip install -r requirements-dev.lock)"
        )
    from support.postgres_server import PostgresServer, required_programs

    server = PostgresServer(required_programs())
    yield server
    server.end()
