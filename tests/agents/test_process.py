"""Agents as real processes: their output, and that they leave nothing behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import textwrap
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.agents import process, supervisor
from counsel.agents.process import Command, OutputTooLarge, Process
from counsel.types import Limits


@pytest.fixture
def mark() -> str:
    return f"mark-{uuid.uuid4().hex}"


def python(code: str, cwd: Path, *, mark: str = "", stdin: bytes = b"", dialog: bool = False) -> Command:
    argv = (sys.executable, "-c", textwrap.dedent(code))
    return Command(argv, cwd, {"PATH": os.defpath, "MARK": mark}, stdin, dialog)


def processes_with(mark: str) -> list[int]:
    """Every live process with any parent that inherited the mark."""
    matches = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in entry.read_bytes():
                matches.append(int(entry.parent.name))
        except OSError:
            continue
    return matches


async def live_processes(mark: str, count: int) -> list[int]:
    """Wait for this many live processes. During `exec`, a process has no environment for a moment."""
    async with asyncio.timeout(30):
        while len(result := processes_with(mark)) != count:
            await asyncio.sleep(0.02)
    return result


async def wait_until_ended(pids: list[int]) -> None:
    for pid in pids:
        exited = asyncio.Event()
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        asyncio.get_running_loop().add_reader(descriptor, exited.set)
        async with asyncio.timeout(20):
            await exited.wait()
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def collect(command: Command, limits: Limits | None = None) -> tuple[list[Any], process.Exit]:
    async with Process(command, limits or Limits()) as agent:
        lines = [line async for line in agent.lines()]
        return lines, await agent.wait()


async def test_lines_of_any_size_however_they_are_cut(tmp_path: Path) -> None:
    code = """
        import json, sys, os
        os.write(1, b'{"a":'); os.write(1, b' 1}\\n{"b": 2}\\nnot json\\n[1]\\n\\n')
        sys.stdout.write(json.dumps({"big": "ä" * 3_000_000}) + '\\n')
        sys.stdout.write('{"last": true}')
    """
    lines, exit_ = await collect(python(code, tmp_path))
    assert lines[:2] == [{"a": 1}, {"b": 2}]
    assert len(lines[2]["big"]) == 3_000_000
    assert lines[3] == {"last": True}
    assert (exit_.code, exit_.garbage) == (0, 2)


async def test_the_environment_is_the_given_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the daemon's own")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    (env,), _ = await collect(python(code, tmp_path, mark="m"))
    assert env.pop("MARK") == "m"
    assert set(env) <= {"PATH", "LC_CTYPE", "PWD"}


async def test_no_descriptor_of_ours_is_open_in_it(tmp_path: Path) -> None:
    code = """
        import json, os
        print(json.dumps({name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
                          if os.path.exists(f"/proc/self/fd/{name}")}))
    """
    (descriptors,), _ = await collect(python(code, tmp_path))
    assert set(descriptors) == {"0", "1", "2"}


async def test_stdin_is_written_and_closed(tmp_path: Path) -> None:
    data = b"x" * 2_000_000
    code = "import sys, json; print(json.dumps({'got': len(sys.stdin.read())}))"
    lines, _ = await collect(python(code, tmp_path, stdin=data))
    assert lines == [{"got": len(data)}]


async def test_an_agent_that_reads_nothing_causes_no_deadlock(tmp_path: Path) -> None:
    lines, exit_ = await collect(python("print('{}')", tmp_path, stdin=b"x" * 5_000_000))
    assert (lines, exit_.code) == ([{}], 0)


async def test_a_dialog_with_an_agent(tmp_path: Path) -> None:
    code = """
        import sys, json
        for line in sys.stdin:
            print(json.dumps({"echo": json.loads(line)}), flush=True)
    """
    async with Process(python(code, tmp_path, dialog=True), Limits()) as agent:
        lines = agent.lines()
        for number in range(3):
            await agent.send({"n": number})
            assert await anext(lines) == {"echo": {"n": number}}
        assert (await agent.wait()).code == 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(41)", 41),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    ],
)
async def test_the_exit_code_is_the_agents(code: str, expected: int, tmp_path: Path) -> None:
    _, exit_ = await collect(python(code, tmp_path))
    assert exit_.code == expected


async def test_a_bounded_tail_of_stderr(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('x' * 1_000_000 + 'the end'); sys.exit(3)"
    _, exit_ = await collect(python(code, tmp_path))
    assert exit_.code == 3
    assert exit_.stderr.endswith("the end")
    assert len(exit_.stderr) <= process.STDERR_TAIL


async def test_a_missing_program(tmp_path: Path) -> None:
    _, exit_ = await collect(Command((str(tmp_path / "nothing"),), tmp_path, {}))
    assert exit_.code == 127
    assert "No such file" in exit_.stderr


async def test_a_missing_folder_is_an_error_that_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        await collect(Command(("true",), tmp_path / "gone", {}))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_too_much_output_ends_it(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_OUTPUT", 1_000_000)
    with pytest.raises(OutputTooLarge):
        await collect(python("while True: print('{}' * 1000)", tmp_path, mark=mark))
    assert processes_with(mark) == []


@pytest.mark.parametrize("limits", [Limits(total=0.3), Limits(first_event=0.3)])
async def test_a_hang_ends_at_the_limit(limits: Limits, tmp_path: Path, mark: str) -> None:
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    with pytest.raises(TimeoutError):
        await collect(python(code, tmp_path, mark=mark), limits)
    assert processes_with(mark) == []


FAMILY = """
    import os, subprocess, sys, time
    subprocess.Popen(["sleep", "600"])                              # in the agent's group
    subprocess.Popen(["sleep", "600"], start_new_session=True)      # out of it
    if os.fork() == 0:                                              # a daemon: its parent ends
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "600"])
        os._exit(0)
    os.wait()
    print('{"ready": true}', flush=True)
    if "stay" in sys.argv:
        time.sleep(600)
"""


async def test_cancel_leaves_no_process_of_an_agent(tmp_path: Path, mark: str) -> None:
    ready = asyncio.Event()

    async def run() -> None:
        command = python(FAMILY, tmp_path, mark=mark)
        async with Process(Command((*command.argv, "stay"), tmp_path, command.env), Limits()) as agent:
            async for _ in agent.lines():
                ready.set()

    task = asyncio.create_task(run())
    await ready.wait()
    await live_processes(mark, 5)  # the supervisor, the agent, three sleeps
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_with(mark) == []


async def test_what_an_agent_leaves_running_ends_with_it(tmp_path: Path, mark: str) -> None:
    lines, exit_ = await collect(python(FAMILY, tmp_path, mark=mark))
    assert (lines, exit_.code) == ([{"ready": True}], 0)
    assert processes_with(mark) == []


async def test_an_agent_that_ignores_sigterm_is_killed(tmp_path: Path, mark: str) -> None:
    code = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('{}', flush=True)
        time.sleep(600)
    """
    async with Process(python(code, tmp_path, mark=mark), Limits()) as agent:
        await anext(agent.lines())
    assert processes_with(mark) == []


@pytest.mark.parametrize(
    ("seconds", "signals"),
    [(supervisor.GRACE - 0.5, [signal.SIGTERM]), (supervisor.GRACE + 0.5, [signal.SIGTERM, signal.SIGKILL])],
)
def test_an_agent_has_the_whole_grace_period_to_end_by_itself(
    seconds: float, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, sent = itertools.count(100.0, 0.125), list[int]()

    def reap(agent: int) -> int | None:
        return 0 if next(clock) > 100.0 + seconds else None

    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(supervisor, "select", SimpleNamespace(select=lambda *_: ([], [], [])))
    monkeypatch.setattr(supervisor, "os", SimpleNamespace(waitpid=lambda agent, _: (agent, 0)))
    monkeypatch.setattr(supervisor, "_reap", reap)
    monkeypatch.setattr(supervisor, "_signal_group", lambda agent, number: sent.append(number))
    assert supervisor._end(4_000_000, -1) == 0
    assert sent == signals


async def test_kill_9_of_counsel_leaves_nothing(tmp_path: Path, mark: str) -> None:
    """The daemon itself is killed and cannot react: its agents end too."""
    daemon = f"""
        import asyncio, os, sys
        from pathlib import Path
        from counsel.agents.process import Command, Process
        from counsel.types import Limits
        async def main():
            command = Command((sys.executable, "-c", {textwrap.dedent(FAMILY)!r}, "stay"), Path("."), dict(os.environ))
            async with Process(command, Limits()) as agent:
                async for line in agent.lines():
                    print("ready", flush=True)
        asyncio.run(main())
    """
    env = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "MARK": mark}
    daemon_process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(daemon)),
        cwd=tmp_path,
        env=env,
        stdout=asyncio.subprocess.PIPE,
    )
    assert daemon_process.stdout is not None
    assert await daemon_process.stdout.readline() == b"ready\n"
    family = await live_processes(mark, 6)
    daemon_process.kill()
    await daemon_process.wait()
    await wait_until_ended(family)
    assert processes_with(mark) == []


async def test_a_line_that_is_too_long_or_not_json_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_LINE", 100_000)
    code = """
        print('{"big": "' + "x" * 200_000 + '"}')
        print('{"starts": "well"}' + " " * 200_000)
        print('{"a": "byte too much"}'.ljust(100_001))
        print('{"just": "fits"}'.ljust(100_000))
        print('{"deep":' * 10_000)
        print('{"number": NaN}')
        print('{"digits": ' + '9' * 5000 + '}')
        print('{"last": true}')
    """
    lines, exit_ = await collect(python(code, tmp_path))
    assert lines == [{"just": "fits"}, {"last": True}]
    assert exit_.garbage == 6


async def test_an_agent_that_never_pauses_is_ended_in_time(tmp_path: Path) -> None:
    code = """
        while True:
            print('{"a": 1}' * 100)
    """
    with pytest.raises((TimeoutError, OutputTooLarge)):
        await collect(python(code, tmp_path), Limits(total=0.5))
