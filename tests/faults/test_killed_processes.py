"""Kill -9 in the middle of consensus jobs: all end, none is lost, and no finished call is repeated."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from fake import FakeProcess
from faults.jobs_worker import MODELS
from support.stdio_client import StdioClient, daemon_pid, kill_daemon

pytestmark = pytest.mark.thorough  # left out of `make check`

WORKER = Path(__file__).with_name("jobs_worker.py")
Call = tuple[str, str, str]  # question, slot, phase
SLOTS = {"gpt-5": "0", "claude": "1", "gemini": "2"}


def environment(home: Path, fake: FakeProcess) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "COUNSEL_HOME": str(home),
        "COUNSEL_MAX_CONCURRENT_PER_PROVIDER": "16",
        "OPENAI_API_KEY": "k1",
        "OPENAI_BASE_URL": fake.v1,
        "ANTHROPIC_API_KEY": "k2",
        "ANTHROPIC_BASE_URL": fake.url,
        "GOOGLE_API_KEY": "k3",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
    }


def start(count: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(WORKER), str(count)], env=env, stdout=subprocess.DEVNULL)


def finished_calls(home: Path) -> set[Call]:
    with closing(sqlite3.connect(home / "counsel.db")) as db, db:
        rows = db.execute(
            "SELECT jobs.task, calls.key FROM calls JOIN jobs ON jobs.id = calls.job"
        ).fetchall()
    result = set()
    for task, key in rows:
        phase, slot = key.split(":")
        result.add((json.loads(task)["prompt"], slot, phase))
    return result


def sent_calls(fake: FakeProcess) -> list[Call]:
    calls = []
    for request in fake.calls:
        body = json.dumps(request["body"])
        question = re.search(r"question \d{4}\.", body)
        slot = next(slot for name, slot in SLOTS.items() if name in request["model"])
        calls.append(
            (question[0] if question else "", slot, "refined" if "refined answer" in body else "initial")
        )
    return calls


def kill_at_random(seed: int, kills: int, jobs: int, home: Path, fake: FakeProcess) -> None:
    moments = random.Random(seed)
    env = environment(home, fake)
    fake.script(latency=0.1, times=None)
    states: list[tuple[set[Call], int]] = [(set(), 0)]
    for remaining in range(kills, 0, -1):
        open_ = 6 * jobs - len(states[-1][0])
        moment = len(fake.calls) + moments.randint(0, open_ // (remaining + 1))
        worker = start(jobs, env)
        fake.wait_for(count=moment, timeout=60)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        states.append((finished_calls(home), len(fake.calls)))
    assert sum(len(calls) < 6 * jobs for calls, _ in states) > kills / 2, "the kills missed the work"
    last = start(jobs, env)
    assert last.wait(240) == 0
    check_not_repeated(states, fake)


def check_not_repeated(states: list[tuple[set[Call], int]], fake: FakeProcess) -> None:
    """None of the calls that were finished at a kill was sent after it."""
    all_calls = sent_calls(fake)
    for calls, before in states:
        repetitions = calls & set(all_calls[before:])
        assert not repetitions, f"{len(repetitions)} finished calls were made again"


def check_all_done(home: Path, jobs: int) -> None:
    with closing(sqlite3.connect(home / "counsel.db")) as db, db:
        assert Counter(row[0] for row in db.execute("SELECT status FROM jobs")) == {"completed": jobs}
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for task, result in db.execute("SELECT task, result FROM jobs"):
            document = json.loads(result)
            assert document["refined_responses"] == 3
            question = json.loads(task)["prompt"]
            assert set(re.findall(r"question \d{4}\.", result)) == {question}


def test_a_few_kills_lose_nothing(tmp_path: Path, fake_process: FakeProcess) -> None:
    home = tmp_path / "home"
    kill_at_random(1, 3, 20, home, fake_process)
    check_all_done(home, 20)


class Daemons:
    """The daemons of one home, one after the other, as the client's front starts them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pid: int | None = None

    async def kill(self) -> None:
        while daemon_pid(self.home) in {None, self.pid}:
            await asyncio.sleep(0.01)
        self.pid = kill_daemon(self.home)

    async def idle(self) -> None:
        with closing(sqlite3.connect(self.home / "counsel.db")) as db:
            while db.execute("SELECT 1 FROM jobs WHERE status = 'processing'").fetchone():
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_ten_kills_of_the_daemon_over_a_hundred_jobs_lose_nothing(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    home, kills, jobs = tmp_path / "home", 10, 100
    home.mkdir()
    fake_process.script(latency=0.1, times=None)
    moments, daemons = random.Random(2), Daemons(home)
    states: list[tuple[set[Call], int]] = [(set(), 0)]
    front = [sys.executable, "-m", "counsel", "stdio"]
    async with (
        asyncio.timeout(240),
        StdioClient(home, command=front, env=environment(home, fake_process)) as client,
    ):
        await client.initialize()
        requests = [
            client.begin("consensus", prompt=f"question {n:04d}.", models=list(MODELS), **{"async": True})
            for n in range(jobs)
        ]
        for remaining in range(kills, 0, -1):
            open_ = 6 * jobs - len(states[-1][0])
            if not open_:  # a busy machine: a kill that came late let many calls pass
                break
            moment = len(fake_process.calls) + moments.randint(1, max(1, open_ // (remaining + 1)))
            await asyncio.to_thread(fake_process.wait_for, count=moment, timeout=60)
            await daemons.kill()
            states.append((finished_calls(home), len(fake_process.calls)))
        for answer in await asyncio.gather(*requests):
            assert answer["result"]["structuredContent"]["continuation"]["status"] == "processing"
        await daemons.idle()
    assert sum(len(calls) < 6 * jobs for calls, _ in states) > kills / 2, "the kills missed the work"
    check_not_repeated(states, fake_process)
    check_all_done(home, jobs)
