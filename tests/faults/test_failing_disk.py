"""A disk that fails at any write (tests/faults/disk.c): full, broken, read-only or slow.

The process starts or says why; an answer without a warning is stored and is there afterwards;
no file of the user is damaged; no finished call is paid for twice.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from counsel.front.launcher import Launcher
from fake import FakeProcess
from faults.test_killed_processes import environment

pytestmark = pytest.mark.slow  # left out of `make check`

WORKER = Path(__file__).with_name("disk_worker.py")
FAULTS = {"full": errno.ENOSPC, "broken": errno.EIO, "read-only": errno.EROFS, "slow": 0}
ALL = "wstcr"
# one write fails; or all from there on
POSITIONS = [(skip, 1) for skip in (0, 1, 2, 3, 5, 8, 13)] + [(0, -1), (2, -1), (6, -1)]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The failing disk. Without a compiler CI fails; elsewhere the test is skipped and says why."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if sys.platform != "linux" or not compiler:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("Linux and gcc are needed")
    output = tmp_path_factory.mktemp("disk") / "disk.so"
    source = Path(__file__).with_name("disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", output, source, "-ldl"], check=True)
    return output


class Disk:
    def __init__(self, folder: Path, library: Path) -> None:
        self.control = folder / "control"
        self.control.touch()
        self.env = {
            "LD_PRELOAD": str(library),
            "FAULT_FOLDER": str(folder / "home"),
            "FAULT_CONTROL": str(self.control),
        }

    def fail(self, number: int, *, kinds: str = ALL, skip: int = 0, count: int = -1, part: str = "-") -> None:
        draft = self.control.with_suffix(".new")
        draft.write_text(f"{kinds} {number} {skip} {count} {part}")
        draft.replace(self.control)

    def repair(self) -> None:
        draft = self.control.with_suffix(".new")
        draft.write_text("")
        draft.replace(self.control)


@pytest.fixture
def disk(tmp_path: Path, library: Path) -> Disk:
    return Disk(tmp_path, library)


class Worker:
    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.problem = self._read()["problem"]

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "it died"
        return json.loads(line)

    def do(self, command: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._read()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def working(home: Path, fake: FakeProcess, disk: Disk) -> Iterator[Worker]:
    worker = Worker(environment(home, fake) | disk.env)
    try:
        yield worker
    finally:
        worker.kill()


def stored_questions(home: Path) -> set[str]:
    """The questions that the next process finds in the database."""
    with closing(sqlite3.connect(home / "counsel.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row[0] for row in db.execute("SELECT asked FROM messages WHERE role = 'user'")} | {
            row[0] for row in db.execute("SELECT text FROM messages WHERE role = 'user'")
        }


def check_paid_once(fake: FakeProcess) -> None:
    counts = Counter(json.dumps(request["body"]) for request in fake.calls)
    assert set(counts.values()) <= {1}, counts


@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_is_kept_or_warned_about_wherever_a_write_fails(
    tmp_path: Path, fake_process: FakeProcess, disk: Disk, fault: str
) -> None:
    home = tmp_path / "home"
    questions: set[str] = set()
    with working(home, fake_process, disk) as worker:
        for skip, count in POSITIONS:
            question = f"question {skip} {count}"
            disk.fail(FAULTS[fault], skip=skip, count=count)
            reply = worker.do(question)
            disk.repair()
            assert reply["content"] == f"gpt-5 says: {question}"
            if not reply["warnings"]:
                questions.add(question)
        for step in ("sweep", "backup", "check", "look"):
            disk.fail(FAULTS[fault])
            worker.do(step)
            disk.repair()
        assert not worker.do("the last one")["warnings"], "it works again once the disk does"
    questions.add("the last one")
    assert questions <= stored_questions(home)
    assert (len(questions) == len(POSITIONS) + 1) == (fault == "slow"), "the faults hit"
    with working(home, fake_process, disk) as worker:
        assert worker.problem is None
        assert worker.do("after a restart")["warnings"] == []
    assert questions <= stored_questions(home)
    check_paid_once(fake_process)


@pytest.mark.parametrize("fault", FAULTS)
def test_it_starts_on_a_failing_disk_and_keeps_everything_once_that_works(
    tmp_path: Path, fake_process: FakeProcess, disk: Disk, fault: str
) -> None:
    home = tmp_path / "home"
    disk.fail(FAULTS[fault])
    with working(home, fake_process, disk) as worker:
        reply = worker.do("first")
        assert reply["content"] == "gpt-5 says: first"
        assert bool(reply["warnings"]) == (fault != "slow")
    disk.repair()
    with working(home, fake_process, disk) as worker:
        assert worker.problem is None
        assert worker.do("second")["warnings"] == []
    assert "second" in stored_questions(home)
    assert len((home / "secret").read_bytes()) == 32
    check_paid_once(fake_process)


@pytest.mark.parametrize("part", ["secret", "counsel.db", "logs", "run/"])
def test_a_disk_that_is_full_for_one_file_only_stops_nothing(
    tmp_path: Path, fake_process: FakeProcess, disk: Disk, part: str
) -> None:
    home = tmp_path / "home"
    disk.fail(errno.ENOSPC, part=part)
    with working(home, fake_process, disk) as worker:
        assert worker.do("first")["content"] == "gpt-5 says: first"
    disk.repair()
    with working(home, fake_process, disk) as worker:
        assert worker.do("second")["warnings"] == []
    assert len((home / "secret").read_bytes()) == 32


def test_an_empty_secret_is_replaced(tmp_path: Path, fake_process: FakeProcess, disk: Disk) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "secret").touch(0o600)
    with working(home, fake_process, disk) as worker:
        worker.do("first")
    assert len((home / "secret").read_bytes()) == 32


@pytest.mark.parametrize("fault", ["full", "broken", "read-only"])
def test_the_daemon_starts_on_a_failing_disk_and_every_answer_says_so(
    tmp_path: Path, fake_process: FakeProcess, disk: Disk, fault: str
) -> None:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    env = environment(home, fake_process) | {"COUNSEL_DAEMON_IDLE_SECONDS": "60"}
    disk.fail(FAULTS[fault], kinds="wst")  # files can be created, so the socket can be, too
    command = [sys.executable, "-P", "-m", "counsel.daemon.main"]
    subprocess.run(command, env=env | disk.env, check=True, timeout=60)
    process = subprocess.run(
        [sys.executable, "-m", "counsel", "ask", "hello", "-m", "gpt-5"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert process.stdout == "gpt-5 says: hello\n"
    assert "kept" in process.stderr
    disk.repair()
    subprocess.run([sys.executable, "-m", "counsel", "daemon", "stop"], env=env, check=True, timeout=60)


@pytest.mark.parametrize("fault", ["full", "broken", "read-only"])
def test_a_users_config_file_is_never_damaged(
    tmp_path: Path, fake_process: FakeProcess, disk: Disk, fault: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = home / ".claude.json"
    text = '{"projects": {}, "mcpServers": {"mine": {"command": "x"}}}\n'
    settings.write_text(text)
    env = environment(home / "counsel", fake_process) | {"HOME": str(home)} | disk.env
    add = ["servers", "add", "other", "--agent", "claude", "--scope", "user", "--yes", "--", "true"]
    for kinds in ("w", "s", "r", "c"):
        disk.fail(FAULTS[fault], kinds=kinds)
        process = subprocess.run(
            [sys.executable, "-m", "counsel", *add],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        disk.repair()
        document = json.loads(settings.read_text())
        assert "mine" in document["mcpServers"]
        if process.returncode:
            assert settings.read_text() == text
            assert process.stderr.strip()
        else:
            assert "other" in document["mcpServers"]
            settings.write_text(text)


def test_a_daemon_that_cannot_start_says_the_true_cause(
    tmp_path: Path, fake_process: FakeProcess, disk: Disk
) -> None:
    """Neither an empty file nor a log can be written: the front reports how the daemon ended."""
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    disk.fail(errno.ENOSPC, part="daemon.lock")
    env = environment(home, fake_process)
    process = subprocess.run(
        [sys.executable, "-P", "-m", "counsel.daemon.main"],
        env=env | disk.env,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    assert process.returncode == errno.ENOSPC
    assert "No space left on device" in Launcher(env)._reason(process.returncode)
