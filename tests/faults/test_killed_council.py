"""Kill -9 between any two calls of votes, rounds and the judge: no finished call is repeated."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fake import FakeProcess
from support.council import CONTRADICTION, picks, verdict

pytestmark = pytest.mark.thorough  # left out of `make check`

WORKER = Path(__file__).with_name("council_worker.py")
VOTES = [
    ("initial:0", picks("Tabs")),
    ("initial:1", "Neither."),
    ("initial:1:corrected", picks("Spaces")),
    ("initial:2", picks("Tabs")),
    ("refined:0", picks("Tabs")),
    ("refined:1", picks("Tabs")),
    ("refined:2", picks("Tabs")),
    ("verdict", "I like them all."),
    ("verdict:corrected", verdict(choice="Tabs")),
]
ANSWERS = [
    ("initial:0", "One."),
    ("initial:1", "Two."),
    ("initial:2", "Three."),
    ("verdict", verdict(contradictions=[CONTRADICTION])),
    ("refined:0", "Four.\n\nPosition: changed"),
    ("refined:1", "Five.\n\nPosition: kept"),
    ("refined:2", "Six.\n\nPosition: kept"),
    ("refined2:0", "Seven.\n\nPosition: kept"),
    ("refined2:1", "Eight.\n\nPosition: kept"),
    ("refined2:2", "Nine.\n\nPosition: kept"),
]


def environment(home: Path, fake: FakeProcess) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "COUNSEL_HOME": str(home),
        "OPENAI_API_KEY": "k1",
        "OPENAI_BASE_URL": fake.v1,
        "ANTHROPIC_API_KEY": "k2",
        "ANTHROPIC_BASE_URL": fake.url,
        "GOOGLE_API_KEY": "k3",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
        "DEEPSEEK_API_KEY": "k4",
        "DEEPSEEK_BASE_URL": fake.v1,
    }


def stored_keys(home: Path) -> list[str]:
    if not (home / "counsel.db").exists():
        return []
    with closing(sqlite3.connect(home / "counsel.db", timeout=30)) as db:
        return sorted(row[0] for row in db.execute("SELECT key FROM calls"))


def wait_until_stored(home: Path, keys: list[str]) -> None:
    deadline = time.monotonic() + 60
    while stored_keys(home) != sorted(keys):
        assert time.monotonic() < deadline, stored_keys(home)
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("fields", "calls"),
    [
        pytest.param({"choices": ["Tabs", "Spaces"]}, VOTES, id="vote"),
        pytest.param({"rounds": 3}, ANSWERS, id="judge", marks=pytest.mark.slow),
    ],
)
def test_a_kill_between_any_two_calls_repeats_no_finished_one(
    tmp_path: Path, fake_process: FakeProcess, fields: Any, calls: list[tuple[str, str]]
) -> None:
    home = tmp_path / "home"
    env, keys = environment(home, fake_process), [key for key, _ in calls]
    command = [sys.executable, str(WORKER), json.dumps(fields)]
    for number, (_, text) in enumerate(calls[:-1], 1):
        fake_process.script(text=text)
        fake_process.script(hang_after=0)  # the next call: it is sent again by the next process
        worker = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        try:
            fake_process.wait_for(count=2 * number, timeout=60)
            wait_until_stored(home, keys[:number])
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    fake_process.script(text=calls[-1][1])
    process = subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=120, check=True)
    result = json.loads(process.stdout)
    # each finished once, and each but the first was cut off once
    assert len(fake_process.calls) == 2 * len(calls) - 1
    assert result["phases"]["verdict"]["recommendation"] == "Use tabs."
    assert result["phases"]["failed"] == []
    if "choices" in fields:
        assert result["vote"]["counts"] == {"Tabs": 3, "Spaces": 0}
        assert [entry["changed"] for entry in result["phases"]["refined"]] == [False, True, False]
    else:
        assert result["refinement"] == {"mode": "disagreement", "rounds": 3, "ended": "unchanged"}
        assert [entry["refined_response"] for entry in result["phases"]["refined"]] == [
            "Seven.",
            "Eight.",
            "Nine.",
        ]
        first = result["phases"]["rounds"][0]["answers"]
        assert [entry["changed"] for entry in first] == [True, False, False]
