"""When a daemon is started, how long others wait for it, and what a start that fails says."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counsel import __version__, locks, run_paths
from counsel.front import launcher as module
from counsel.front.launcher import Launcher


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock_ = Clock()
    monkeypatch.setattr(module, "time", clock_)
    return clock_


@pytest.fixture
def home(tmp_path: Path) -> Path:
    Path(run_paths.run_folder(str(tmp_path))).mkdir(parents=True, exist_ok=True)
    return tmp_path


@pytest.fixture
def launcher(home: Path, clock: Clock) -> Iterator[Launcher]:
    launcher_ = Launcher({"COUNSEL_HOME": str(home)})
    yield launcher_
    launcher_.release()


@pytest.fixture
def starts(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Starts that would have been made."""
    made: list[str] = []
    monkeypatch.setattr(launcher, "_spawn", lambda: made.append("start"))
    return made


def listening(home: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(run_paths.socket(str(home)))
    server.listen(1)
    return server


NUMBERS = [int(part) for part in __version__.split(".") if part.isdigit()]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (__version__, False),
        (".".join(map(str, [*NUMBERS[:-1], NUMBERS[-1] + 1])), False),
        ("0", True),
        ("", True),
        (f"{NUMBERS[0] + 1}", False),
        (f"{NUMBERS[0] + 1}.0.dev5", False),
        ("x.y", True),
    ],
)
def test_only_an_older_daemon_is_replaced(version: str, expected: bool) -> None:
    assert module.older(version) is expected


def test_a_running_daemon_is_connected_to_and_none_is_started(
    launcher: Launcher, home: Path, starts: list[str]
) -> None:
    with listening(home):
        connection = launcher.attempt()
        assert connection is not None
        assert not connection.getblocking()
        connection.close()
        again = launcher.existing()
        assert again is not None
        again.close()
    assert starts == []
    assert launcher.attempt() is None, "the socket of a daemon that is gone"
    assert launcher.existing() is None
    assert starts == ["start"]


def test_the_lock_is_held_until_the_daemon_is_reached(
    launcher: Launcher, home: Path, starts: list[str]
) -> None:
    other = Launcher(launcher.env)
    assert launcher.attempt() is None
    assert not other.take_lock()
    assert locks.holder(f"{run_paths.run_folder(str(home))}/spawn.lock") == os.getpid()
    (home / "run").mkdir(exist_ok=True)
    with listening(home):
        connection = launcher.attempt()
        assert connection is not None
        connection.close()
    assert other.take_lock()
    other.release()


def test_a_daemon_whose_queue_is_full_is_named_and_not_started_again(
    launcher: Launcher, home: Path, clock: Clock, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "full")

    class Busy(socket.socket):
        connect = full

    monkeypatch.setattr(socket, "socket", Busy)
    assert launcher.attempt() is None
    assert launcher.problem == "it does not answer"
    assert launcher.pause() == module.CHECK_EVERY
    with pytest.raises(BlockingIOError, match="it does not answer"):
        launcher.existing()
    assert starts == []


def test_one_process_starts_it_and_the_others_wait_until_that_one_seems_stuck(
    launcher: Launcher, clock: Clock, starts: list[str]
) -> None:
    other = Launcher(launcher.env)
    assert other.take_lock()
    for _ in range(2):
        assert launcher.attempt() is None
        clock.now += module.STARTER_TIMEOUT / 2
    assert starts == []
    clock.now += 1
    assert launcher.attempt() is None
    assert starts == ["start"], "the process with the lock is suspended"
    clock.now += module.STARTER_TIMEOUT
    launcher.attempt()
    assert starts == ["start"], "the next one has its time, too"
    other.release()
    assert launcher.take_lock()
    launcher.release()
    assert other.take_lock()
    launcher.attempt()
    clock.now += module.STARTER_TIMEOUT - 1
    launcher.attempt()
    assert starts == ["start"], "it is another process that has the lock now"
    other.release()


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 0.01), (2, 0.05), (3, 0.1), (4, 0.2), (5, 0.25), (8, 0.25), (40, 0.25)]
)
def test_the_first_failure_is_followed_by_a_start_at_once_and_more_by_ever_longer_pauses(
    launcher: Launcher, clock: Clock, failures: int, pause: float
) -> None:
    for _ in range(failures):
        launcher.lost()
    assert launcher.pause() == pytest.approx(pause), "others' daemons are looked for more often"
    longest = min(module.LONGEST_PAUSE, 0.05 * 2 ** (failures - 2)) if failures > 1 else 0.0
    clock.now += max(0.0, longest - 0.01)
    assert launcher._may_start() is (failures == 1)
    clock.now += 0.02
    assert launcher._may_start()


def test_an_answer_forgets_earlier_failures_and_a_hello_only_their_cause(
    launcher: Launcher, clock: Clock
) -> None:
    for _ in range(5):
        launcher._failed("the disk is full.")
    assert launcher.problem == "the daemon did not start: the disk is full"
    launcher.greeted()
    assert (launcher.problem, launcher._failing_since) == ("", 0.0)
    assert launcher.pause() > module.RETRY
    launcher.answered()
    assert launcher.pause() == module.RETRY
    launcher.lost()
    assert launcher.pause() == module.RETRY, "it is the first failure again"


def test_when_a_call_stops_waiting_for_a_daemon(launcher: Launcher, clock: Clock) -> None:
    began = clock.now
    assert not launcher.should_give_up(began, 10)
    clock.now += 10
    assert not launcher.should_give_up(began, 10)
    clock.now += 0.1
    assert launcher.should_give_up(began, 10), "its client's limit"
    for _ in range(module.MIN_FAILURES):
        launcher._failed("full")
    clock.now += module.FAILING_LIMIT + 1
    assert not launcher.should_give_up(began, 1_000), "on a busy machine each start takes seconds"
    launcher._failed("full")
    assert launcher.should_give_up(began, 1_000)
    late = clock.now
    assert not launcher.should_give_up(late, 1_000), "a new call gets some attempts"
    clock.now += module.MIN_ATTEMPTS
    assert not launcher.should_give_up(late, 1_000)
    clock.now += 0.1
    assert launcher.should_give_up(late, 1_000)
    assert launcher.should_give_up(clock.now - 0.1, 1_000, failing_limit=0.05), (
        "a command line is less patient"
    )
    launcher.answered()
    assert not launcher.should_give_up(late, 1_000)


def test_starts_that_fail_for_a_known_reason_count_from_the_first(launcher: Launcher, clock: Clock) -> None:
    launcher._failed("full")
    since = clock.now
    clock.now += 30
    launcher._failed("full")
    assert launcher._failing_since == since


def finished(launcher: Launcher, code: str, output: str | None = None) -> None:
    """Let a child of this process end so, as a daemon that does not start."""
    if output is not None:
        Path(launcher.error_file).write_text(output)
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], {})
    launcher._child = pid
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    ("code", "output", "problem"),
    [
        (
            "import sys; sys.exit(1)",
            "Traceback\n  line\nValueError: bad.\n\n",
            "the daemon did not start: ValueError: bad",
        ),
        ("import sys; sys.exit(1)", "x" * 600, f"the daemon did not start: {'x' * 500}"),
        (
            f"import sys; sys.exit({errno.ENOSPC})",
            "",
            f"the daemon did not start: {os.strerror(errno.ENOSPC)} (",
        ),
        ("import os; os.kill(os.getpid(), 9)", "", "the daemon was killed while it started"),
        ("import sys; sys.exit(1)", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_start_that_failed_says_why(
    launcher: Launcher, code: str, output: str | None, problem: str
) -> None:
    assert launcher.take_lock()
    finished(launcher, code, output)
    assert not launcher._starting()
    assert problem in launcher.problem
    other = Launcher(launcher.env)
    assert other.take_lock(), "another process may try"
    other.release()


def test_a_start_that_is_in_progress_is_waited_for_and_one_that_succeeded_is_no_failure(
    launcher: Launcher,
) -> None:
    read, write = os.pipe()
    pid = os.posix_spawn(
        sys.executable, [sys.executable, "-c", "input()"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, read, 0)]
    )
    launcher._child = pid
    assert launcher._starting()
    os.write(write, b"\n")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for end in (read, write):
        os.close(end)
    assert not launcher._starting()
    assert (launcher.problem, launcher._failures) == ("", 0)


def test_a_child_that_is_no_longer_waited_for_is_still_collected(launcher: Launcher) -> None:
    finished(launcher, "pass")
    pid = launcher._child
    launcher.release()
    assert (launcher._child, launcher._earlier_children) == (0, [])
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_a_machine_that_cannot_start_it_says_why_and_lets_others_try(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object, **__: object) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "posix_spawn", no_memory)
    assert launcher.attempt() is None
    assert launcher.problem == "the daemon did not start: [Errno 12] Cannot allocate memory"
    assert launcher.error is not None
    other = Launcher(launcher.env)
    assert other.take_lock()
    other.release()


def test_the_daemon_gets_the_home_its_own_output_and_no_input(
    launcher: Launcher, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; print(os.environ['COUNSEL_HOME'], repr(sys.stdin.read()), flush=True); print('second', file=sys.stderr)"
    monkeypatch.setattr(module, "COMMAND", [sys.executable, "-c", code])
    for _ in range(2):  # the second start's output replaces the first one's
        launcher._child = 0
        launcher._spawn()
        os.waitid(os.P_PID, launcher._child, os.WEXITED | os.WNOWAIT)
        launcher.release()
    assert Path(launcher.error_file).read_text() == f"{home} ''\nsecond\n"
    assert Path(launcher.error_file).stat().st_mode & 0o777 == 0o600


def test_a_process_that_does_not_answer_is_named(launcher: Launcher, home: Path) -> None:
    assert launcher.not_answering() == "it does not answer"
    lock: Any = locks.take(f"{run_paths.run_folder(str(home))}/daemon.lock")
    locks.sign(lock, f'{{"pid": {os.getpid()}}}')
    assert f"process {os.getpid()} does not answer: `kill -CONT {os.getpid()}`" in launcher.not_answering()
    os.close(lock)
