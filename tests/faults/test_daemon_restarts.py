"""Daemons with a real engine are killed at random moments, even during their start, or stopped; homes are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fake import FakeProcess
from faults.jobs_worker import MODELS
from faults.test_killed_processes import Call, check_all_done, check_not_repeated, environment, finished_calls
from support.stdio_client import StdioClient, daemon_pid, kill_daemon, process_ends

pytestmark = pytest.mark.thorough  # left out of `make check`

FRONT = [sys.executable, "-m", "counsel", "stdio"]


def daemon_pids(home: Path) -> list[int]:
    """All processes of this home's daemons: the one that starts it, and the daemon itself."""
    matches = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if (
                b"counsel.daemon.main" in command
                and f"COUNSEL_HOME={home}".encode() in (folder / "environ").read_bytes()
            ):
                matches.append(int(folder.name))
    return matches


def replace(home: Path, backup: Path | None) -> None:
    """Delete a home, or replace it by a backup, while a daemon still writes there and creates the folder again."""
    while True:
        shutil.rmtree(home, ignore_errors=True)
        if backup is None and not home.exists():
            return
        if backup is not None:
            with contextlib.suppress(OSError):  # not empty: a daemon has written there again
                shutil.copytree(backup, backup.with_name("copy"), dirs_exist_ok=True).rename(home)
                return


@contextlib.asynccontextmanager
async def serving(env: dict[str, str]) -> AsyncIterator[None]:
    """`counsel serve` on the same home, for the whole test."""
    command = [sys.executable, "-m", "counsel", "serve", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, env=env, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    while b"is listening" not in (output := await process.stderr.readline()):
        assert output, "it ended"
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    (home := tmp_path / "home").mkdir()
    yield home
    for pid in daemon_pids(home):
        os.kill(pid, signal.SIGKILL)


def ask(client: StdioClient, number: int) -> asyncio.Future[Any]:
    return client.begin("consensus", prompt=f"question {number:04d}.", models=list(MODELS))


async def start_begins(home: Path, old_pids: list[int]) -> bool:
    """Whether a new daemon process appears within a second. Takes no lock, which would stop the start."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            while not set(daemon_pids(home)).difference(old_pids):
                await asyncio.sleep(0.005)
            return True
    return False


async def kill_some(home: Path, seed: int, kills: int, fake: FakeProcess) -> list[tuple[set[Call], int]]:
    """Kill daemons at random moments, every second one during its start; a fifth get SIGTERM instead."""
    moments, hit, processes = random.Random(seed), 0, daemon_pids(home)
    states: list[tuple[set[Call], int]] = [(set(), 0)]
    for at in range(kills):
        # the moment is what the test is about; a start takes between 0.1 s and a second, by the machine's load
        await asyncio.sleep(
            moments.uniform(0, 0.1 if at % 2 and await start_begins(home, processes) else 0.5)
        )
        how = signal.SIGTERM if moments.random() < 0.2 else signal.SIGKILL
        processes = daemon_pids(home)
        for pid in moments.sample(processes, moments.randint(min(1, len(processes)), len(processes))):
            hit += pid != daemon_pid(home)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        if (home / "counsel.db").exists():
            states.append((finished_calls(home), len(fake.calls)))
    assert hit, "the kills missed the starts"
    return states


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
async def test_kills_at_any_moment_also_while_a_daemon_starts_lose_and_repeat_nothing(
    home: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(latency=0.2, times=None)
    env = {**environment(home, fake_process), "COUNSEL_DAEMON_IDLE_SECONDS": "20"}
    async with asyncio.timeout(240), serving(env), contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(StdioClient(home, command=FRONT, env=env)) for _ in range(4)
        ]
        for client in clients:
            await client.initialize()
        calls = [ask(client, at * 5 + n) for at, client in enumerate(clients) for n in range(5)]
        kills = await kill_some(home, 3, 40, fake_process)
        for number, answer in enumerate(await asyncio.gather(*calls)):
            content = answer["result"]["structuredContent"]
            assert f"question {number:04d}." in str(content)
            assert content["refined_responses"] == 3
        assert all(client.notes.empty() for client in clients)  # each was answered once
    check_not_repeated(kills, fake_process)
    check_all_done(home, 20)


@pytest.mark.slow
async def test_a_call_that_is_given_up_goes_on_in_the_next_daemon_and_ends(
    home: Path, tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(gate="never", times=1, contains="kept")
    env = {**environment(home, fake_process), "COUNSEL_CLIENT_LIMIT_SECONDS": "20"}
    python = tmp_path / "python"
    write(python, f'exec {sys.executable} "$@"')
    script = f"import sys; from counsel.front import launcher, main; launcher.COMMAND[0] = {str(python)!r}; sys.exit(main.main([]))"
    async with StdioClient(home, command=[sys.executable, "-c", script], env=env) as client:
        await client.initialize()
        call = client.begin("chat", prompt="kept", model="gpt-5")
        await asyncio.to_thread(fake_process.wait_for, contains="kept", timeout=30)
        await wait_until_stored(home)
        write(python, "echo it is broken on purpose >&2; exit 1")
        kill_daemon(home)
        content = (await asyncio.wait_for(call, 60))["result"]["structuredContent"]
        assert "the daemon did not start: it is broken on purpose" in content["error"]
        assert "continues as soon as a daemon runs" in content["hint"]
        write(python, f'exec {sys.executable} "$@"')
        async with asyncio.timeout(60):
            while True:
                result = await client.call("check_status", continuation_id=content["job_id"])
                assert not result.get("isError"), result
                if result["structuredContent"]["content"]["status"] == "completed":
                    break
    assert result["structuredContent"]["content"]["result"]["content"] == "gpt-5 says: kept"


async def wait_until_stored(home: Path) -> None:
    """Wait until a job is on disk, which may be milliseconds after its call was sent."""
    async with asyncio.timeout(30):
        with closing(sqlite3.connect(home / "counsel.db")) as db:
            while not db.execute("SELECT 1 FROM jobs").fetchone():
                await asyncio.sleep(0.01)


def write(script: Path, text: str) -> None:
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o700)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["signal", "command"])
async def test_an_orderly_stop_in_the_middle_of_a_call_interrupts_it_and_no_more(
    home: Path, fake_process: FakeProcess, how: str
) -> None:
    fake_process.script(gate="never", times=1, contains="stopped")
    env = environment(home, fake_process)
    async with StdioClient(home, command=FRONT, env=env) as client:
        await client.initialize()
        call = client.begin("chat", prompt="stopped", model="gpt-5")
        await asyncio.to_thread(fake_process.wait_for, contains="stopped", timeout=30)
        first = await stop(home, env, how)
        content = (await asyncio.wait_for(call, 60))["result"]["structuredContent"]
        assert content["content"] == "gpt-5 says: stopped"
        assert daemon_pid(home) not in {None, first}
    assert len(fake_process.calls) == 2


async def stop(home: Path, env: dict[str, str], how: str) -> int:
    first = daemon_pid(home)
    assert first is not None
    if how == "signal":
        os.kill(first, signal.SIGTERM)
    else:
        command = [sys.executable, "-m", "counsel", "daemon", "stop"]
        stopping = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.DEVNULL)
        assert await stopping.wait() == 0
    await process_ends(first)
    return first


@pytest.mark.slow
async def test_a_stopped_call_goes_on_for_a_client_that_comes_later(
    home: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(gate="never", times=1, contains="later")
    env = environment(home, fake_process)
    async with StdioClient(home, command=FRONT, env=env) as client:
        await client.initialize()
        call = client.begin("chat", prompt="later", model="gpt-5")
        await asyncio.to_thread(fake_process.wait_for, contains="later", timeout=30)
        await wait_until_stored(home)
        client.process.send_signal(signal.SIGSTOP)  # it does not start the next daemon
        await stop(home, env, "signal")
        client.process.kill()
        call.cancel()
    async with StdioClient(home, command=FRONT, env=env) as later_client:
        await later_client.initialize()
        async with asyncio.timeout(60):
            while True:
                jobs = (await later_client.call("check_status"))["structuredContent"]["content"]["jobs"]
                if [job["status"] for job in jobs] == ["completed"]:
                    break
    assert len(fake_process.calls) == 2


@pytest.mark.slow
@pytest.mark.parametrize("restored", [False, True])
async def test_a_home_deleted_or_restored_under_a_call_answers_it_and_the_new_home_has_nothing_of_it(
    home: Path, fake_process: FakeProcess, restored: bool
) -> None:
    env = {**environment(home, fake_process), "COUNSEL_DAEMON_IDLE_SECONDS": "20"}
    async with StdioClient(home, command=FRONT, cwd=home.parent, env=env) as client:
        await client.initialize()
        await client.call("chat", prompt="before", model="gpt-5")
        backup = home.with_name("backup")
        shutil.copytree(home, backup, ignore=shutil.ignore_patterns("*.sock"))
        fake_process.script(gate="hold", times=1, contains="meanwhile")
        call = client.begin("chat", prompt="meanwhile", model="gpt-5")
        await asyncio.to_thread(fake_process.wait_for, contains="meanwhile", timeout=30)
        first = daemon_pid(home)
        assert first is not None
        replace(home, backup if restored else None)
        async with StdioClient(home, command=FRONT, cwd=home.parent, env=env) as new:
            await new.initialize()
            assert "after" in await new.text("after", model="gpt-5")
            second = daemon_pid(home)
            assert second not in {None, first}
            fake_process.open_gate("hold")
            answer = (await asyncio.wait_for(call, 60))["result"]["structuredContent"]
            assert answer["content"] == "gpt-5 says: meanwhile"
            await process_ends(first)
            assert daemon_pid(home) == second
            assert "again" in await client.text("again", model="gpt-5")
    with closing(sqlite3.connect(home / "counsel.db")) as db:
        texts = {row[0] for row in db.execute("SELECT text FROM messages")}
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert "meanwhile" not in texts
    assert ("before" in texts) == restored
    assert sum("meanwhile" in str(request["body"]) for request in fake_process.calls) == 1
