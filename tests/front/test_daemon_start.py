"""Daemons that die while they start, and locks and sockets that block a start."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sys
from pathlib import Path

import pytest

from counsel import locks, run_paths
from counsel.daemon.files import DaemonFiles
from counsel.daemon.rpc_client import connect, find
from counsel.errors import Internal
from counsel.front import launcher
from counsel.mcp import client_timeouts
from support.stdio_client import FRONT, StdioClient, daemon_pid, kill_daemon

pytestmark = pytest.mark.slow  # left out of `make check`

FAKE_DAEMON = FRONT.with_name("fake_daemon.py")


@pytest.mark.parametrize("how", ["it broke", "SIGKILL"])
async def test_a_call_is_answered_although_several_daemons_died_while_they_started(
    home: Path, tmp_path: Path, how: str
) -> None:
    (fails := tmp_path / "fails").write_text(f"{how}\n" * 5)
    async with StdioClient(home, COUNSEL_TEST_FAILS=str(fails)) as client:
        await client.initialize()
        assert await client.text("echo at last") == "echo at last"
    assert fails.read_text() == ""


@pytest.mark.parametrize("how", ["it broke", "SIGKILL"])
async def test_a_call_in_progress_survives_a_daemon_that_dies_and_several_that_do_not_start(
    home: Path, tmp_path: Path, how: str
) -> None:
    (fails := tmp_path / "fails").touch()
    async with StdioClient(home, COUNSEL_TEST_FAILS=str(fails)) as client:
        await client.initialize()
        answer = client.begin("chat", prompt=f"later {tmp_path / 'now'}")
        await client.ask("resources/list")  # the daemon has had the call
        fails.write_text(f"{how}\n" * 4)
        kill_daemon(home)
        (tmp_path / "now").touch()
        result = (await asyncio.wait_for(answer, 60))["result"]
        assert result["structuredContent"]["content"].startswith("key ")
        assert list((home / "run" / "kept").iterdir()) == []  # the front removed its note


async def test_many_daemons_may_die_under_one_call(home: Path, tmp_path: Path) -> None:
    async with StdioClient(home) as client:
        await client.initialize()
        answer = client.begin("chat", prompt=f"later {tmp_path / 'now'}")
        pids: set[int | None] = {None}
        async with asyncio.timeout(60):
            for _ in range(8):
                while daemon_pid(home) in pids:
                    await asyncio.sleep(0.01)
                pids.add(kill_daemon(home))
        (tmp_path / "now").touch()
        result = (await asyncio.wait_for(answer, 60))["result"]
        assert result["structuredContent"]["content"].startswith("key ")


async def test_a_call_that_is_given_up_names_the_cause_and_keeps_its_job(home: Path, tmp_path: Path) -> None:
    (fails := tmp_path / "fails").touch()
    async with StdioClient(home, COUNSEL_TEST_FAILS=str(fails), COUNSEL_CLIENT_LIMIT_SECONDS="12") as client:
        await client.initialize()
        answer = client.begin("chat", prompt="hang")
        await client.ask("resources/list")
        fails.write_text("No module named 'counsel'\n" * 1000)
        kill_daemon(home)
        failure = (await asyncio.wait_for(answer, 30))["result"]["structuredContent"]
        assert "the daemon did not start: No module named 'counsel'" in failure["error"]
        assert "continues as soon as a daemon runs" in failure["hint"]
        assert len(list((home / "run" / "kept").iterdir())) == 1
        fails.write_text("")
        assert await client.text("echo again") == "echo again"


async def test_a_client_that_closes_while_there_is_no_daemon_keeps_nothing(
    home: Path, tmp_path: Path
) -> None:
    (fails := tmp_path / "fails").touch()
    async with StdioClient(home, COUNSEL_TEST_FAILS=str(fails)) as client:
        await client.initialize()
        client.begin("chat", prompt="hang")
        await client.ask("resources/list")
        fails.write_text("it broke\n" * 1000)
        kill_daemon(home)
        async with asyncio.timeout(20):
            while not list((home / "run").glob("kept/*")):
                await asyncio.sleep(0.01)
    assert list((home / "run" / "kept").iterdir()) == []


async def test_the_command_lines_client_waits_for_a_daemon_that_starts_at_last(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fails := tmp_path / "fails").write_text("it broke\nSIGKILL\nit broke\n")
    monkeypatch.setattr(launcher, "COMMAND", [sys.executable, str(FAKE_DAEMON)])
    for name, value in {"COUNSEL_HOME": home, "COUNSEL_TEST_FAILS": fails}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("COUNSEL_DAEMON_IDLE_SECONDS", "3")
    engine = await connect()
    await engine.close()
    kill_daemon(home)
    fails.write_text("it broke.\n" * 1000)
    monkeypatch.setattr("counsel.daemon.rpc_client.FIRST_FAILING_LIMIT", 0.5)
    with pytest.raises(Internal, match=r"did not start: it broke\. See"):
        await connect()


def test_the_front_knows_its_clients_limit() -> None:
    own = "COUNSEL_CLIENT_LIMIT_SECONDS"
    assert client_timeouts.time_limit_of("codex-mcp-client", "stdio", {}) == 54
    assert client_timeouts.time_limit_of("codex-mcp-client", "stdio", {own: "20"}) == 18
    assert client_timeouts.time_limit_of("somebody", "stdio", {own: "nonsense"}) == 54
    assert client_timeouts.time_limit_of("claude-code", "stdio", {"MCP_TOOL_TIMEOUT": "5000"}) == 4


# ── what is in the way ───────────────────────────────────────────────────────────────────────────────


async def test_a_daemon_whose_queue_is_full_is_waited_for_and_no_other_is_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "COMMAND", ["/nonexistent"])
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(run_paths.socket(str(home)))
        busy.listen(0)
        reaching, items = launcher.Launcher({"COUNSEL_HOME": str(home)}), []
        while (connection := reaching.attempt()) is not None:
            items.append(connection)
        assert "does not answer" in reaching.problem
        with pytest.raises(Internal, match="does not answer"):
            await find({"COUNSEL_HOME": str(home)})
        busy.accept()[0].close()
        connection = reaching.attempt()
        assert connection is not None
        connection.close()
        for connection in items:
            connection.close()


async def test_a_front_that_is_suspended_while_it_starts_the_daemon_blocks_no_other(home: Path) -> None:
    lock = locks.take(f"{run_paths.run_folder(str(home))}/spawn.lock")
    assert lock is not None
    script = f"import runpy; from counsel.front import launcher; launcher.STARTER_TIMEOUT = 1.0; runpy.run_path({str(FRONT)!r}, run_name='__main__')"
    async with StdioClient(home, command=[sys.executable, "-c", script]) as client:
        await client.initialize()
        assert await client.text("echo") == "echo"
    os.close(lock)


async def test_a_daemon_that_cannot_have_the_lock_names_its_owner(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.daemon.files.LOCK_TIMEOUT", 0.1)
    first, second = DaemonFiles(home), DaemonFiles(home)
    first.take()
    with pytest.raises(TimeoutError, match=f"process {os.getpid()} holds .*daemon.lock.*kill -CONT"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_lock_whose_file_was_deleted_has_no_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = locks.take(path)
    assert first is not None
    assert locks.take(path) is None
    path.unlink()
    second = locks.take(path)
    assert second is not None
    assert locks.is_at(second, path)
    assert not locks.is_at(first, path)
    os.close(first)
    os.close(second)


def test_a_lock_that_is_replaced_while_it_is_taken_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "lock", fcntl.flock
    times: list[int] = []

    def lock_and_replace(file: int, how: int) -> None:
        real(file, how)
        if not times:
            path.unlink()
            path.touch()
        times.append(file)

    monkeypatch.setattr(fcntl, "flock", lock_and_replace)
    lock = locks.take(path)
    assert lock is not None
    assert locks.is_at(lock, path)
    assert len(times) == 2
    os.close(lock)
