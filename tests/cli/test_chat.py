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


def prompted(shown: Terminal) -> bool:
    return shown.display[-1:] == [">"]


def drop_line(shown: Terminal) -> None:
    """Ctrl-C at the prompt, again if it is lost: Python's readline misses one that comes while it handles a key."""
    for _ in range(10):
        shown.interrupt()
        with contextlib.suppress(AssertionError):
            shown.until(lambda: prompted(shown), 6)
            return
    raise AssertionError(shown.text)


def say(shown: Terminal, text: str) -> None:
    """Type at the prompt, and see the text there: keys that are typed before the next prompt mean something else."""
    shown.until(lambda: prompted(shown))
    start = len(shown.data)
    shown.type(text)
    lines = re.sub(r"\x1b\[\d+~", "", text).split("\n")
    echo = re.compile(".*".join(re.escape(line) for line in lines if line.isprintable()).encode(), re.DOTALL)
    shown.until(lambda: echo.search(shown.data, start))


def test_a_chat_is_one_conversation_and_says_how_to_continue(
    chat: Make, fake_process: FakeProcess, env: dict[str, str], tmp_path: Path
) -> None:
    with chat() as shown:
        say(shown, "first\n")
        shown.until("says: first")
        say(shown, "second\n")
        shown.until("says: second")
        say(shown, "/cost\n")
        shown.until("2 answers: <$0.0001")
        say(shown, "\x04")
        assert shown.wait() == 0
    assert re.fullmatch(r"Continue with: counsel chat -c [0-9a-f]{8}", shown.lines[-1])
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
    with chat() as shown:
        say(shown, "hello\n")
        shown.until("one two")
        shown.interrupt()
        shown.until("The partial answer is kept: counsel jobs")
        fake_process.wait_for(state="disconnected")
        say(shown, "half a line")
        shown.until("half a line")
        drop_line(shown)  # it is not sent
        say(shown, "again\n")
        shown.until("says: again")
        say(shown, "/exit\n")
        assert shown.wait() == 0


def test_messages_of_several_lines(chat: Make, fake_process: FakeProcess) -> None:
    fake_process.script(text="ok", times=None)
    with chat() as shown:
        say(shown, "one\\\ntwo\n")
        shown.until("\nok")
        say(shown, '"""\nthree\n\nfour\n"""\n')
        fake_process.wait_for(state="finished", count=2)
        say(shown, "\x1b[200~five\nsix\x1b[201~\n")
        requests = fake_process.wait_for(state="finished", count=3)
        say(shown, "\x04")
        assert shown.wait() == 0
    sent = [str(request["body"]["messages"][-1]["content"]) for request in requests]
    for text, expected in zip(sent, ("one\\ntwo", "three\\n\\nfour", "five\\nsix"), strict=True):
        assert expected in text or expected.replace("\\n", "\n") in text


def test_commands_and_mistakes_do_not_end_the_chat(
    chat: Make, fake_process: FakeProcess, env: dict[str, str], tmp_path: Path
) -> None:
    env["PATH"] = str(tmp_path)  # without agents
    (tmp_path / "notes.txt").write_text("in the file")
    with chat() as shown:
        say(shown, "/nothing\n")
        shown.until("There is no command /nothing.")
        say(shown, "/file missing.txt\n")
        shown.until("error: There is no file 'missing.txt'.")
        say(shown, "/file notes.txt\n")
        shown.until("1 file with the next message")
        say(shown, "/model gpt5x\n")
        shown.until("Model not found: 'gpt5x'")
        say(shown, "/model gpt-5,sonnetx\n")
        shown.until("Model not found: 'sonnetx'")
        say(shown, "/model codex\n")
        shown.until("Codex is not installed")
        say(shown, "/model\n")
        shown.until("Model: sonnet")
        say(shown, "/model gpt-5\n")
        shown.until("Model: gpt-5")
        say(shown, "//etc is a folder?\n")
        shown.until("/etc is a folder?")
        (request,) = fake_process.wait_for(state="finished", count=1)
        assert "in the file" in str(request["body"])
        say(shown, "/new\n")
        shown.until("starts a new conversation")
        say(shown, "/help\n")
        shown.until("/model [NAME]")
        say(shown, "\x04")
        assert shown.wait() == 0


def test_a_chat_does_not_begin_with_a_model_that_does_not_exist(env: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counsel", "chat", "-m", "gpt5x", "--standalone"],
        env=env,
        cwd=tmp_path,
        input="hello\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Model not found: 'gpt5x'" in done.stderr


def test_a_pipe_sends_its_lines_and_gets_the_answers(env: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counsel", "chat", "-m", "gpt-5", "--standalone"],
        env=env,
        cwd=tmp_path,
        input='one\n\n"""two\nthree"""\n',
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "gpt-5 says: one\ngpt-5 says: two\nthree\n"
    assert not (tmp_path / "home" / "chat_history").exists()
