"""`ask` and `consensus` as a person sees them: real commands in a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fake import FakeProcess
from support.terminal import Terminal, user_env

pytestmark = pytest.mark.thorough  # left out of `make check`

ANSWER = """\
## Verdict

It is **safe**, see [docs](https://example.com/docs).

```python
print("hi")
```

| model | price |
|---|---:|
| gpt-5 | 1.25 |
"""
RENDERED = """\
Verdict

It is safe, see docs (https://example.com/docs).

```python
print("hi")
```

model   price
─────────────
gpt-5    1.25
"""
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


@pytest.fixture
def env(tmp_path: Path, fake_process: FakeProcess) -> dict[str, str]:
    return user_env(tmp_path, tmp_path / "home", fake_process)


@pytest.fixture
def terminal(env: dict[str, str], tmp_path: Path) -> Callable[..., Terminal]:
    def make(*arguments: str, columns: int = 80, rows: int = 24, **more: str) -> Terminal:
        return Terminal(*arguments, env={**env, **more}, cwd=tmp_path, columns=columns, rows=rows)

    return make


Make = Callable[..., Terminal]
ASK = ("ask", "hello", "-m", "sonnet", "--standalone")


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("no_color", ["", "1"])
def test_an_answer_is_rendered_as_markdown(
    terminal: Make, fake_process: FakeProcess, columns: int, no_color: str
) -> None:
    fake_process.script(text=ANSWER, deltas=20)
    with terminal(*ASK, columns=columns, NO_COLOR=no_color) as screen:
        assert screen.wait() == 0
    assert screen.text.startswith(RENDERED)
    assert screen.style("Verdict").bold
    assert bool(COLOUR.search(screen.data.decode())) is not bool(no_color)
    if not no_color:
        assert screen.style('"hi"').fg != "default"


def test_a_dumb_terminal_gets_lines_and_no_escape_sequence(terminal: Make, fake_process: FakeProcess) -> None:
    fake_process.script(text=ANSWER, thinking="Let me see.", deltas=5)
    with terminal(*ASK, TERM="dumb") as screen:
        assert screen.wait() == 0
    assert b"\x1b" not in screen.data
    first, second, third, *rest = screen.lines
    assert first == "waiting for sonnet …"
    assert (second, third) == ("thinking …", "thought for 1 s")
    assert "\n".join(rest).startswith(ANSWER.rstrip())


def test_plain_shows_the_text_as_it_is(terminal: Make, fake_process: FakeProcess) -> None:
    fake_process.script(text=ANSWER, deltas=5)
    with terminal(*ASK, "--plain") as screen:
        assert screen.wait() == 0
    assert screen.text.startswith(ANSWER.rstrip())


def test_a_pipe_gets_the_exact_bytes(env: dict[str, str], tmp_path: Path, fake_process: FakeProcess) -> None:
    text = ANSWER + "\x1b[31m &amp; <b>\r\n漢字"
    fake_process.script(text=text)
    result = subprocess.run(
        [sys.executable, "-m", "counsel", *ASK],
        env={**env, "TERM": "xterm"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert result.stdout == text.encode() + b"\n"


def test_an_answer_longer_than_the_screen_is_in_the_scrollback_once(
    terminal: Make, fake_process: FakeProcess
) -> None:
    items = [f"item number {number}" for number in range(60)]
    fake_process.script(text="".join(f"- {item}\n" for item in items), deltas=30)
    with terminal(*ASK, rows=10) as screen:
        assert screen.wait() == 0
    assert screen.lines[:60] == [f"• {item}" for item in items]


def test_thinking_is_dimmed_and_then_one_line(terminal: Make, fake_process: FakeProcess) -> None:
    fake_process.script(
        text="The answer.", thinking="Let me look at it. " * 50, gate="go", gate_after=2, deltas=4
    )
    with terminal(*ASK) as screen:
        screen.until("thinking …")
        screen.until("look at it.")
        fake_process.open_gate("go")
        assert screen.wait() == 0
    output_text = screen.data.decode()
    dim_text = "".join(re.findall(r"\x1b\[2m(.*?)\x1b\[0m", output_text, re.DOTALL))
    bright_text = re.sub(r"\x1b\[2m.*?\x1b\[0m", "", output_text, flags=re.DOTALL)
    assert "Let me look at it." in dim_text
    assert "look" not in bright_text
    assert "The answer." in bright_text
    assert "The answer." not in dim_text
    assert re.fullmatch(r"thought for \d+ s", screen.lines[0])
    assert screen.lines[1] == "The answer."
    assert "Let me look" not in screen.text


def test_a_finished_job_and_its_conversation_are_rendered_too(
    terminal: Make, env: dict[str, str], tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(text=ANSWER)
    command = [sys.executable, "-m", "counsel", *ASK]
    subprocess.run(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True, timeout=60)
    for arguments in (("jobs", "last", "--standalone"), ("conversations", "show", "last")):
        with terminal(*arguments) as screen:
            assert screen.wait() == 0
        assert RENDERED.rstrip() in screen.text
    assert ANSWER in jobs(env, tmp_path, "last", "--standalone").stdout


# ── stopped ──────────────────────────────────────────────────────────────────────────────────────────


def jobs(env: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "counsel", "jobs", *arguments],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("way", [(), ("--standalone",)], ids=["daemon", "standalone"])
def test_ctrl_c_keeps_the_partial_answer_and_says_where(
    terminal: Make, env: dict[str, str], tmp_path: Path, fake_process: FakeProcess, way: tuple[str, ...]
) -> None:
    fake_process.script(text="one **two** three", deltas=3, hang_after=2)
    with terminal("ask", "hello", "-m", "sonnet", *way, columns=140) as screen:
        screen.until("one two")
        screen.interrupt()
        assert screen.wait() == 130
    answer, last = screen.lines
    assert answer.rstrip() == "one two"
    job = re.fullmatch(r"Stopped\. The partial answer is kept: counsel jobs (\S+)", last)
    assert job
    fake_process.wait_for(state="disconnected")
    details = jobs(env, tmp_path, job[1], *way)
    assert "one **two**" in details.stdout


def test_ctrl_c_leaves_a_followed_job_running_and_says_how_to_continue(
    terminal: Make, env: dict[str, str], tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(text="one two three", deltas=3, gate="go", gate_after=2)
    command = [sys.executable, "-m", "counsel", "ask", "hello", "-m", "sonnet", "--background"]
    subprocess.run(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True, timeout=60)
    with terminal("jobs", "--follow", columns=140) as screen:
        screen.until("one two")
        screen.interrupt()
        assert screen.wait() == 130
    assert re.fullmatch(
        r"The job continues: `counsel jobs (\S+)` shows it, `counsel cancel \1` stops it\.", screen.lines[-1]
    )
    fake_process.open_gate("go")
    assert "one two three" in jobs(env, tmp_path, "last", "--follow").stdout


CONSENSUS = ("consensus", "which?", "-m", "gpt-5", "-m", "sonnet", "--no-feedback")


@pytest.mark.parametrize("way", [(), ("--standalone",)], ids=["daemon", "standalone"])
def test_ctrl_c_keeps_the_finished_answers_of_a_consensus_and_leaves_no_border(
    terminal: Make, env: dict[str, str], tmp_path: Path, fake_process: FakeProcess, way: tuple[str, ...]
) -> None:
    fake_process.script(text="finished answer", model="gpt-5")
    fake_process.script(text="half an answer", deltas=2, hang_after=1, model="claude")
    with terminal(*CONSENSUS, *way, columns=140) as screen:
        screen.until(lambda: "done" in screen.text and "half" in screen.text)
        assert "╭" in screen.text
        screen.interrupt()
        assert screen.wait() == 130
    (last,) = screen.lines
    job = re.fullmatch(r"Stopped\. 1 of 2 answers kept, and partial text: counsel jobs (\S+)", last)
    assert job
    details = jobs(env, tmp_path, job[1], *way)
    assert "finished answer" in details.stdout
    assert "half" in details.stdout


@pytest.mark.parametrize("way", [(), ("--standalone",)], ids=["daemon", "standalone"])
def test_a_closed_window_keeps_what_was_paid_for(
    terminal: Make, env: dict[str, str], tmp_path: Path, fake_process: FakeProcess, way: tuple[str, ...]
) -> None:
    fake_process.script(text="finished answer", model="gpt-5")
    fake_process.script(text="half an answer", deltas=2, hang_after=1, model="claude")
    with terminal(*CONSENSUS, *way, columns=140) as screen:
        screen.until(lambda: "done" in screen.text and "half" in screen.text)
        screen.close_window()
        assert screen.process.wait(60) == 129
    fake_process.wait_for(state="disconnected")
    (job,) = json.loads(jobs(env, tmp_path, "--json", *way).stdout)["jobs"]
    assert job["status"] == "cancelled"
    details = jobs(env, tmp_path, job["job_id"], *way)
    assert "finished answer" in details.stdout
    assert "half" in details.stdout


def test_a_consensus_on_a_dumb_terminal_tells_its_progress_in_lines(
    terminal: Make, fake_process: FakeProcess
) -> None:
    with terminal(*CONSENSUS, "--standalone", TERM="dumb") as screen:
        assert screen.wait() == 0
    assert b"\x1b" not in screen.data
    assert "gpt-5: done" in screen.lines
    assert "╭" not in screen.text
