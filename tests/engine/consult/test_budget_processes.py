"""Budgets across real processes: together they cannot overspend, and a dead process blocks nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.consult.test_budget import CONFIG
from fake import FakeProcess
from support.provider_keys import keys

pytestmark = pytest.mark.thorough  # left out of `make check`

WORKER = Path(__file__).with_name("budget_worker.py")


@contextmanager
def worker(home: Path, fake: FakeProcess, count: int, budget: str) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, **keys(fake), "COUNSEL_HOME": str(home), "COUNSEL_BUDGET_DAY": budget}
    process = subprocess.Popen(
        [sys.executable, str(WORKER), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        cwd=home,
    )
    assert process.stdin
    assert process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def outcomes(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdout
    outcome_counts: dict[str, int] = json.loads(process.stdout.readline())
    return outcome_counts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text(CONFIG)
    return folder


def test_of_100_simultaneous_calls_from_two_processes_at_most_40_are_sent(
    home: Path, fake_process: FakeProcess
) -> None:
    """A call can cost a cent, and does; the day's budget is 40 cents."""
    fake_process.script(usage={"input": 10, "output": 1_000}, gate="all", gate_after=0, times=None)
    with worker(home, fake_process, 50, "0.40") as ours, worker(home, fake_process, 50, "0.40") as theirs:
        go(ours)
        go(theirs)
        fake_process.wait_for(count=40)
        fake_process.open_gate("all")
        both = [outcomes(ours), outcomes(theirs)]
    answers = sum(counts.get("answered", 0) for counts in both)
    refusals = sum(counts.get("BUDGET_EXCEEDED", 0) for counts in both)
    assert (answers, refusals) == (40, 60), both
    assert len(fake_process.requests) == 40


def test_reservations_of_a_killed_process_are_freed(home: Path, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never", gate_after=0, times=3)
    with worker(home, fake_process, 3, "0.03") as process:
        go(process)
        fake_process.wait_for(count=3)
        with worker(home, fake_process, 1, "0.03") as beside:
            go(beside)
            assert outcomes(beside) == {"BUDGET_EXCEEDED": 1}, "it lives: its reservations hold"
        process.kill()
        process.wait()
        with worker(home, fake_process, 3, "0.03") as after:
            if "COUNSEL_DATABASE" in os.environ:  # a team's servers continue the dead one's jobs
                fake_process.wait_for(count=6)
                return
            go(after)
            assert outcomes(after) == {"answered": 3}
