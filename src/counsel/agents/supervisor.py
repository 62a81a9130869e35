"""Supervises one agent, so that none of its processes outlives the call that started it.

Run as `python -I -S supervisor.py LIFELINE COMMAND ARG…`: it starts the command in a process group of its own and
watches the pipe LIFELINE, whose other end counsel holds. When counsel closes it or dies in any way (kill -9), the pipe
ends, and the supervisor ends the agent: SIGTERM to its group, SIGKILL after the grace period. When the agent has
exited, the supervisor ends whatever the agent left running, then exits with the same code or by the same signal.

Why a process and not `preexec_fn` with PDEATHSIG: Python warns of deadlocks when a process with threads runs
code between fork and exec, and PDEATHSIG reaches only the direct child, which for two of the agents is a Node
launcher whose real agent would live on. On Linux the supervisor is the reaper of all descendants, so it also
finds a process that has left the group. It costs 15 ms and 9 MB; an agent takes 300-2,000 ms.

Standard library only, no import of counsel.
"""

# ruff: noqa: SIM105 - contextlib, pathlib and typing would double the start-up time
from __future__ import annotations

import os
import select
import signal
import sys
import time

GRACE = 2.0
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


def main(argv: list[str]) -> int:
    lifeline, command = int(argv[1]), argv[2:]
    os.set_inheritable(lifeline, False)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    wakeup = _wakeup_pipe()
    agent = _start(command)
    _release_pipes()
    status = _watch(agent, lifeline, wakeup)
    if status is None:
        status = _end(agent, wakeup)
    _end_rest(agent)
    return _exit_like(status)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes  # only on Linux

        ctypes.CDLL(None).prctl(option, value)


def _wakeup_pipe() -> int:
    """A descriptor that becomes readable when a child exits or a signal asks us to exit."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return readable


def _start(command: list[str]) -> int:
    agent = os.fork()
    if agent:
        _own_group(agent)
        return agent
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would pass that on
            signal.signal(number, signal.SIG_DFL)
        _own_group(0)
        _prctl(_SET_PDEATHSIG, int(signal.SIGKILL))
        os.execv(command[0], command)  # noqa: S606 - running the command is the purpose
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _own_group(pid: int) -> None:
    try:
        os.setpgid(pid, pid)
    except OSError:  # the other process was first, or the agent has exited
        pass


def _release_pipes() -> None:
    """Close our ends of the agent's pipes: they must close when the agent exits, not when we do."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _watch(agent: int, lifeline: int, wakeup: int) -> int | None:
    """The agent's wait status; None if it must be ended."""
    while True:
        ready, _, _ = select.select([lifeline, wakeup], [], [])
        if wakeup in ready and signal.SIGTERM in os.read(wakeup, 512):
            return None
        status = _reap(agent)
        if status is not None:
            return status
        if lifeline in ready:
            return None


def _reap(agent: int) -> int | None:
    exit_status = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return exit_status
        if pid == 0:
            return exit_status
        if pid == agent:
            exit_status = status


def _end(agent: int, wakeup: int) -> int:
    _signal_group(agent, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while (remaining := deadline - time.monotonic()) > 0:
        if (status := _reap(agent)) is not None:
            return status
        if select.select([wakeup], [], [], remaining)[0]:
            os.read(wakeup, 512)
    _signal_group(agent, signal.SIGKILL)
    return os.waitpid(agent, 0)[1]


def _end_rest(agent: int) -> None:
    """End what the agent left running: its group, and on Linux every orphan, which is reparented to us."""
    _signal_group(agent, signal.SIGKILL)
    while True:
        for pid in _children():
            _signal(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123 - pathlib costs 10 ms
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _exit_like(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
