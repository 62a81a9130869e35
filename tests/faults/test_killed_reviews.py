"""Kill -9 between any two calls of a review: it ends, and no finished call is repeated."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from fake import FakeProcess
from faults.test_killed_processes import environment
from support import planted

pytestmark = pytest.mark.thorough  # left out of `make check`

WORKER = Path(__file__).with_name("review_worker.py")


def finished_keys(home: Path) -> set[str]:
    with closing(sqlite3.connect(home / "counsel.db")) as db:
        return {key for (key,) in db.execute("SELECT key FROM calls")}


def sent_keys(fake: FakeProcess) -> list[str]:
    slots = dict(zip(planted.VENDORS, "012", strict=True))
    return [
        f"{'check' if 'Check these findings' in json.dumps(call['body']) else 'review'}:{slots[call['vendor']]}"
        for call in fake.calls
    ]


def wait_for_key(home: Path, key: str, worker: subprocess.Popen[bytes]) -> None:
    """Wait until the call is stored."""
    while worker.poll() is None:
        if (home / "counsel.db").exists():
            try:
                if key in finished_keys(home):
                    return
            except sqlite3.Error:  # the tables are being made
                pass
        time.sleep(0.01)
    raise AssertionError(f"the worker ended before {key}")


@pytest.mark.slow
def test_killed_after_each_call_it_repeats_none(tmp_path: Path, fake_process: FakeProcess) -> None:
    """Each member answers only when its gate opens: the process is killed after each of the six calls."""
    home, project = tmp_path / "home", planted.repository(tmp_path / "project")
    env = environment(home, fake_process)
    order = []
    for phase, text in (("review", "Review this change"), ("check", "Check these findings")):
        for slot, vendor in enumerate(planted.VENDORS):
            answer = planted.review(slot) if phase == "review" else planted.checks()
            key = f"{phase}:{slot}"
            fake_process.script(vendor=vendor, contains=text, text=answer, gate=key, times=None)
            order.append(key)
    for key in order:
        worker = subprocess.Popen([sys.executable, str(WORKER), str(project)], env=env)
        before = len(fake_process.calls)
        stored_keys = finished_keys(home) if before else set()
        fake_process.open_gate(key)
        wait_for_key(home, key, worker)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert not stored_keys & set(sent_keys(fake_process)[before:])
    before = len(fake_process.calls)
    last = subprocess.run(
        [sys.executable, str(WORKER), str(project)], env=env, capture_output=True, check=True, timeout=120
    )
    assert len(fake_process.calls) == before  # all six were stored
    document = json.loads(last.stdout)
    assert document["status"] == "review_complete"
    assert Counter(finding["status"] for finding in document["findings"]) == {
        "agreed": 1,
        "confirmed": 4,
        "unsure": 2,
        "disputed": 1,
    }
