"""`counsel chat` as a person uses it: a real process in a terminal, and in a pipe."""

from __future__ import annotations

import contextlib
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fake import FakeProcess
from support.terminal import Terminal, user_env

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def env(tmp_path: Path, fake_process: FakeProcess) -> dict[str, str]:
    return user_env(tmp_path, tmp_path / "home", fake_process)


@pytest.fixture
def chat(env: dict[str, str], tmp_path: Path) -> Callable[..., Terminal]:
    def make(*arguments: str) -> Terminal:
        return Terminal(
            "chat", "-m", "sonnet", "--standalone", *arguments, env=env, cwd=tmp_path, columns=100
        )

    return make


Make = Callable[..., Terminal]


def shows_prompt(screen: Terminal) -> bool:
    return screen.display[-1:] == [">"]


def drop_line(screen: Terminal) -> None:
    """Press Ctrl-C at the prompt, again if it is lost: Python's readline misses one while it handles a key."""
    for _ in range(10):
        screen.interrupt()
        with contextlib.suppress(AssertionError):
            screen.until(lambda: shows_prompt(screen), 6)
            return
    raise AssertionError(screen.text)


def say(screen: Terminal, text: str) -> None:
    """Type at the prompt and wait for the echo: keys that are typed before the next prompt mean something else."""
    screen.until(lambda: shows_prompt(screen))
    start = len(screen.data)
    screen.type(text)
    lines = re.sub(r"\x1b\[\d+~", "", text).split("\n")
    echo = re.compile(".*".join(re.escape(line) for line in lines if line.isprintable()).encode(), re.DOTALL)
    screen.until(lambda: echo.search(screen.data, start))


def test_a_chat_is_one_conversation_and_says_how_to_continue(
    chat: Make, fake_process: FakeProcess, env: dict[str, str], tmp_path: Path
) -> None:
    with chat() as screen:
        say(screen, "first\n")
        screen.until("says: first")
        say(screen, "second\n")
        screen.until("says: second")
        say(screen, "/cost\n")
        screen.until("2 answers: <$0.0001")
        say(screen, "\x04")
        assert screen.wait() == 0
    assert re.fullmatch(r"Continue with: counsel chat -c [0-9a-f]{8}", screen.lines[-1])
    requests = fake_process.wait_for(state="finished", count=2)
    assert [len(request["body"]["messages"]) for request in requests] == [1, 3]
    history = tmp_path / "home" / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert history.read_text("utf-8").splitlines() == ["first", "second", "/cost"]
    again = subprocess.run(
        [sys.executable, "-m", "counsel", "chat", "-c", "last", "--standalone"],
        env=env,
        cwd=tmp_path,
        input="third\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "says: third" in again.stdout
    assert len(fake_process.wait_for(state="finished", count=3)[-1]["body"]["messages"]) == 5


def test_ctrl_c_stops_the_answer_and_not_the_chat(chat: Make, fake_process: FakeProcess) -> None:
    fake_process.script(text="one two three", deltas=3, hang_after=2)
    with chat() as screen:
        say(screen, "hello\n")
        screen.until("one two")
        screen.interrupt()
        screen.until("The partial answer is kept: counsel jobs")
        fake_process.wait_for(state="disconnected")
        say(screen, "half a line")
        screen.until("half a line")
        drop_line(screen)  # the line is not sent
        say(screen, "again\n")
        screen.until("says: again")
        say(screen, "/exit\n")
        assert screen.wait() == 0


def test_messages_of_several_lines(chat: Make, fake_process: FakeProcess) -> None:
    fake_process.script(text="ok", times=None)
    with chat() as screen:
        say(screen, "one\\\ntwo\n")
        screen.until("\nok")
        say(screen, '"""\nthree\n\nfour\n"""\n')
        fake_process.wait_for(state="finished", count=2)
        say(screen, "\x1b[200~five\nsix\x1b[201~\n")
        requests = fake_process.wait_for(state="finished", count=3)
        say(screen, "\x04")
        assert screen.wait() == 0
    contents = [str(request["body"]["messages"][-1]["content"]) for request in requests]
    for text, expected in zip(contents, ("one\\ntwo", "three\\n\\nfour", "five\\nsix"), strict=True):
        assert expected in text or expected.replace("\\n", "\n") in text


def test_commands_and_mistakes_do_not_end_the_chat(
    chat: Make, fake_process: FakeProcess, env: dict[str, str], tmp_path: Path
) -> None:
    env["PATH"] = str(tmp_path)  # without agents
    (tmp_path / "notes.txt").write_text("in the file")
    with chat() as screen:
        say(screen, "/nothing\n")
        screen.until("There is no command /nothing.")
        say(screen, "/file missing.txt\n")
        screen.until("error: There is no file 'missing.txt'.")
        say(screen, "/file notes.txt\n")
        screen.until("1 file with the next message")
        say(screen, "/model gpt5x\n")
        screen.until("Model not found: 'gpt5x'")
        say(screen, "/model gpt-5,sonnetx\n")
        screen.until("Model not found: 'sonnetx'")
        say(screen, "/model codex\n")
        screen.until("Codex is not installed")
        say(screen, "/model\n")
        screen.until("Model: sonnet")
        say(screen, "/model gpt-5\n")
        screen.until("Model: gpt-5")
        say(screen, "//etc is a folder?\n")
        screen.until("/etc is a folder?")
        (request,) = fake_process.wait_for(state="finished", count=1)
        assert "in the file" in str(request["body"])
        say(screen, "/new\n")
        screen.until("starts a new conversation")
        say(screen, "/help\n")
        screen.until("/model [NAME]")
        say(screen, "\x04")
        assert screen.wait() == 0


def test_a_chat_does_not_begin_with_a_model_that_does_not_exist(env: dict[str, str], tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "counsel", "chat", "-m", "gpt5x", "--standalone"],
        env=env,
        cwd=tmp_path,
        input="hello\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "Model not found: 'gpt5x'" in result.stderr


def test_a_pipe_sends_its_lines_and_gets_the_answers(env: dict[str, str], tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "counsel", "chat", "-m", "gpt-5", "--standalone"],
        env=env,
        cwd=tmp_path,
        input='one\n\n"""two\nthree"""\n',
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout == "gpt-5 says: one\ngpt-5 says: two\nthree\n"
    assert not (tmp_path / "home" / "chat_history").exists()
