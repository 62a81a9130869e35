"""An answer on its way to stdout: discarded text is never mistaken for the answer, in a pipe or on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.cli.questions.consensus_board import Board
from counsel.cli.terminal.live_output import LiveAnswer
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent
from fake import FakeProcess
from support.stdio_client import SHORT_LIVED, kill_daemon
from support.terminal import Terminal

pytestmark = pytest.mark.thorough  # left out of `make check`

ANSWER = "good1 good2 good3"
VOID = "gpt-5 failed; its partial answer is discarded. Asking claude-sonnet-4-5-20250929. "
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def env(tmp_path: Path, fake_process: FakeProcess) -> dict[str, str]:
    """gpt-5 fails after its second word, once `fail` is opened; Claude answers."""
    broken = {"text": "void1 void2 void3", "error": "overloaded", "error_after": 2}
    fake_process.script(**broken, gate="fail", gate_after=1, model="gpt-5")
    fake_process.script(text=ANSWER, model="claude")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "home"),
        **SHORT_LIVED,
        "COUNSEL_AUTO_ORDER": "gpt-5,sonnet",
        "OPENAI_API_KEY": "sk-test-000000000000000000000000",
        "OPENAI_BASE_URL": fake_process.v1,
        "ANTHROPIC_API_KEY": "sk-ant-test-000000000000",
        "ANTHROPIC_BASE_URL": fake_process.url,
    }


@pytest.fixture
def start(tmp_path: Path, env: dict[str, str]) -> Start:
    """`counsel` in a separate process."""

    def run(
        *arguments: str, way: tuple[str, ...] = ("--standalone",), **streams: Any
    ) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "counsel", *arguments, *way]
        return subprocess.Popen(argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, **streams)

    return run


def until(source: int, words: bytes) -> bytes:
    data = b""
    while words not in data:
        chunk = os.read(source, 65536)
        assert chunk, data
        data += chunk
    return data


def read_rest(source: int) -> bytes:
    data = b""
    try:
        while chunk := os.read(source, 65536):
            data += chunk
    except OSError:  # on Linux: the other side of the terminal has closed
        pass
    return data


def test_a_pipe_gets_the_answer_alone(start: Start, fake_process: FakeProcess) -> None:
    process = start("ask", "hello", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fake_process.wait_for(deltas=1)
    fake_process.open_gate("fail")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.decode()) == (0, f"{ANSWER}\n")
    assert err.decode().count(VOID) == 1


def test_a_pipe_with_live_text_gets_a_mark_after_discarded_text(
    start: Start, fake_process: FakeProcess
) -> None:
    process = start("ask", "hello", "--stream", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    live = until(process.stdout.fileno(), b"void1")
    fake_process.open_gate("fail")
    out, err = process.communicate(timeout=60)
    void, mark, answer = (live + out).decode().removesuffix("\n").split("\n")
    assert (void, answer) == ("void1 void2 ", ANSWER)
    assert mark.startswith(f"[{VOID}")
    assert err.decode().count(VOID) == 1


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_on_a_terminal_a_line_marks_discarded_text(
    env: dict[str, str], tmp_path: Path, fake_process: FakeProcess, term: str
) -> None:
    with Terminal(
        "ask", "hello", "--standalone", env={**env, "TERM": term}, cwd=tmp_path, columns=140
    ) as terminal:
        terminal.until("void1")
        fake_process.open_gate("fail")
        assert terminal.wait() == 0
    (mark,) = [at for at, line in enumerate(terminal.lines) if VOID in line]
    assert terminal.lines[mark - 1].strip() == "void1 void2"
    assert ANSWER in terminal.lines[mark + 1 :]
    assert terminal.text.count("void1") == 1


def test_the_mark_is_on_the_terminal_and_on_a_redirected_stderr(
    start: Start, fake_process: FakeProcess
) -> None:
    master, slave = pty.openpty()
    process = start("ask", "hello", stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    data = until(master, b"void1")
    fake_process.open_gate("fail")
    lines = (data + read_rest(master)).decode().split("\r\n")
    _, err = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0
    assert lines[0].strip() == "void1 void2"
    assert VOID in lines[1]
    assert lines[2] == ANSWER
    assert VOID in err.decode()


@pytest.mark.slow
def test_text_of_a_killed_daemon_is_marked_and_nothing_is_removed(
    start: Start, fake_process: FakeProcess, tmp_path: Path
) -> None:
    fake_process.reset()
    fake_process.script(text="void1 void2 void3", hang_after=2)
    fake_process.script(text=ANSWER)
    master, slave = pty.openpty()
    process = start("ask", "hello", "-m", "gpt-5", way=(), stdout=slave, stderr=slave)
    os.close(slave)
    data = until(master, b"void2")
    kill_daemon(tmp_path / "home")
    lines = (data + read_rest(master)).decode().split("void1", 1)[1].split("\r\n")
    process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0
    assert lines[0] == " void2 "
    assert "is discarded" in lines[1]
    assert lines[2].endswith(ANSWER)


def test_the_partial_text_of_a_failed_answer_is_shown_by_its_job(
    start: Start, fake_process: FakeProcess
) -> None:
    process = start("ask", "hello", "-m", "gpt-5", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fake_process.open_gate("fail")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, b"")
    (line,) = [line for line in err.decode().splitlines() if "is kept: `counsel jobs" in line]
    job = line.split("counsel jobs ")[1].split("`")[0]
    viewer = start("jobs", job, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = viewer.communicate(timeout=60)
    assert (viewer.returncode, out) == (1, b"void1 void2 \n")
    assert b"overloaded" in err


async def events(*texts: tuple[str, int]) -> AsyncGenerator[JobEvent]:
    for text, offset in texts:
        yield event_from(1, 0.0, "text", "0", {"text": text, "offset": offset})


@pytest.mark.parametrize(
    ("pieces", "out"),
    [
        ([("one ", 0), ("two", 4)], "one two\n"),
        ([("one ", 0), ("one two", 0)], "one two\n"),  # told again, as far as it was
        ([("one t", 0), ("on", 0), ("e two", 2)], "one two\n"),
        (
            [("uno ", 0), ("one two", 0)],
            "uno \n[the call was repeated; the text above is discarded]\none two\n",
        ),
        ([("uno", 0)], "uno\n[the call was repeated; the text above is discarded]\none two\n"),
        ([], "one two\n"),
    ],
)
def test_what_is_written_is_the_answer_or_marked(
    pieces: Any, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = LiveAnswer(stream=True)
    asyncio.run(answer.follow(events(*pieces)))
    answer.finish("one two")
    assert capsys.readouterr().out == out


def test_an_answer_that_is_stopped_after_a_mark_leaves_no_empty_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = LiveAnswer(stream=True)
    void = {"model": "claude", "next": "claude", "reason": "retried", "error": "It broke.", "offset": 0}

    async def broken() -> AsyncGenerator[JobEvent]:
        yield event_from(1, 0.0, "text", "0", {"text": "uno", "offset": 0})
        yield event_from(2, 0.0, "restarted", "0", void)

    asyncio.run(answer.follow(broken()))
    answer.stop()
    word, mark, rest = capsys.readouterr().out.split("\n")
    assert (word, mark[:1], rest) == ("uno", "[", "")


def test_a_column_of_a_consensus_drops_discarded_text() -> None:
    board = Board()
    board.add(event_from(1, 0.0, "model_started", "0", {"model": "claude", "phase": "initial"}))
    board.add(event_from(1, 0.0, "text", "0", {"text": "I look. It sa", "offset": 0}))
    void = {"model": "claude", "next": "claude", "reason": "retried", "error": "It broke.", "offset": 7}
    assert board.add(event_from(2, 0.0, "restarted", "0", void))
    assert board.text("0") == "I look."
    assert board.line("0") == "claude: starting again: It broke."
