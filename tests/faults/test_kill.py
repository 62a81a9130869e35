"""Kill -9 in the middle of consensus jobs: all end, none is lost, no finished call is made twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fake import FakeProcess

WORKER = Path(__file__).with_name("worker.py")
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
    with sqlite3.connect(home / "counsel.db") as db:
        rows = db.execute(
            "SELECT jobs.task, calls.key FROM calls JOIN jobs ON jobs.id = calls.job"
        ).fetchall()
    found = set()
    for task, key in rows:
        phase, slot = key.split(":")
        found.add((json.loads(task)["prompt"], slot, phase))
    return found


def sent_calls(fake: FakeProcess) -> list[Call]:
    sent = []
    for request in fake.calls:
        body = json.dumps(request["body"])
        question = re.search(r"question \d{4}\.", body)
        slot = next(slot for name, slot in SLOTS.items() if name in request["model"])
        sent.append(
            (question[0] if question else "", slot, "refined" if "refined answer" in body else "initial")
        )
    return sent


def kill_at_random(seed: int, kills: int, jobs: int, home: Path, fake: FakeProcess) -> None:
    moments = random.Random(seed)
    env = environment(home, fake)
    fake.script(latency=0.1, times=None)
    known: list[tuple[set[Call], int]] = [(set(), 0)]
    for left in range(kills, 0, -1):
        open_ = 6 * jobs - len(known[-1][0])
        moment = len(fake.calls) + moments.randint(0, open_ // (left + 1))
        worker = start(jobs, env)
        fake.wait_for(count=moment, timeout=60)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        known.append((finished_calls(home), len(fake.calls)))
    assert sum(len(finished) < 6 * jobs for finished, _ in known) > kills / 2, "the kills missed the work"
    last = start(jobs, env)
    assert last.wait(240) == 0
    sent = sent_calls(fake)
    for finished, before in known:
        repeated = finished & set(sent[before:])
        assert not repeated, f"{len(repeated)} finished calls were made again"


def check_all_done(home: Path, jobs: int) -> None:
    with sqlite3.connect(home / "counsel.db") as db:
        assert Counter(row[0] for row in db.execute("SELECT status FROM jobs")) == {"completed": jobs}
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for task, result in db.execute("SELECT task, result FROM jobs"):
            held = json.loads(result)
            assert held["refined_responses"] == 3
            asked = json.loads(task)["prompt"]
            assert set(re.findall(r"question \d{4}\.", result)) == {asked}


def test_a_few_kills_lose_nothing(tmp_path: Path, fake_process: FakeProcess) -> None:
    home = tmp_path / "home"
    kill_at_random(1, 3, 20, home, fake_process)
    check_all_done(home, 20)


@pytest.mark.slow
def test_twenty_kills_over_two_hundred_jobs_lose_nothing(tmp_path: Path, fake_process: FakeProcess) -> None:
    home = tmp_path / "home"
    kill_at_random(2, 20, 200, home, fake_process)
    check_all_done(home, 200)
