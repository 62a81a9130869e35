"""`counsel ask-service` and its Python client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counsel.askmodel.client import AskClient, AskError
from fake import FakeProcess
from support.stdio_client import daemon_pid, kill_daemon

pytestmark = pytest.mark.thorough  # left out of `make check`


class ServiceProcess:
    def __init__(self, home: Path, env: dict[str, str], *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "counsel", "ask-service", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            cwd=home,
            text=True,
        )
        assert self.process.stdout is not None
        self.about = json.loads(self.process.stdout.readline())
        self.path: str = self.about["socket"]

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(20)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code


@pytest.fixture
def env(home: Path, fake_process: FakeProcess) -> Iterator[dict[str, str]]:
    variables = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    yield {
        **variables,
        "HOME": str(home),
        "COUNSEL_HOME": str(home),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake_process.v1,
    }
    if (pid := daemon_pid(home)) is not None:
        os.kill(pid, signal.SIGKILL)


Serve = Callable[..., ServiceProcess]


@pytest.fixture
def serve(home: Path, env: dict[str, str]) -> Iterator[Serve]:
    """Starts services, and ends them with the test."""
    processes: list[ServiceProcess] = []

    def start(*args: str, **more: str) -> ServiceProcess:
        processes.append(ServiceProcess(home, {**env, **more}, *args))
        return processes[-1]

    yield start
    for process in processes:
        process.end(signal.SIGKILL)


def test_the_command_and_its_client(serve: Serve, fake_process: FakeProcess) -> None:
    service = serve("--session", "mine")
    assert (service.about["session"], Path(service.path).name) == ("mine", "ask-mine.sock")
    client = AskClient(service.path)
    pieces: list[str] = []
    answer = client.ask("gpt-5", "hello", session_tag="t", on_partial=lambda piece, _: pieces.append(piece))
    assert (answer.text, answer.session_tag) == ("gpt-5 says: hello", "t")
    assert "".join(pieces) == answer.text
    fake_process.script(
        text="void1 void2 void3", error="overloaded", error_after=2, gate="fail", gate_after=1
    )
    fake_process.script(text="good1 good2 good3")
    reports: list[str] = []

    def collect_piece(piece: str, at: int) -> None:
        pieces[:] = ["".join(pieces)[:at], piece]
        fake_process.open_gate("fail")

    pieces.clear()
    again = client.ask(
        "auto", "hello", on_partial=collect_piece, on_restart=lambda why: reports.append(why["reason"])
    )
    assert ("".join(pieces), again.text, reports) == (again.text, "good1 good2 good3", ["failed"])
    with pytest.raises(AskError) as excinfo:
        client.ask("no-such-model", "hello")
    assert excinfo.value.code == "MODEL_NOT_FOUND"
    assert service.end() == 0
    assert not Path(service.path).exists()
    with pytest.raises(AskError, match="cannot be reached"):
        AskClient(service.path, patience=0.1).ask("gpt-5", "hello")


def test_the_client_survives_a_killed_service(serve: Serve, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never", gate_after=1, contains="ride on")
    service = serve("--session", "mine")
    answers: list[str] = []
    client = AskClient(service.path, timeout=90, patience=60)
    asking = threading.Thread(target=lambda: answers.append(client.ask("gpt-5", "ride on").text))
    asking.start()
    fake_process.wait_for(contains="ride on")
    service.end(signal.SIGKILL)
    fake_process.wait_for(contains="ride on", state="disconnected")  # its request is stopped
    assert Path(service.path).exists()  # left by the killed service, replaced by the next one
    serve("--session", "mine")
    asking.join(90)
    assert answers == ["gpt-5 says: ride on"]


def test_a_request_survives_a_dying_daemon(home: Path, serve: Serve, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never", contains="go on")
    service = serve("--session", "mine")
    answers: list[str] = []
    client = AskClient(service.path, timeout=90)
    asking = threading.Thread(target=lambda: answers.append(client.ask("gpt-5", "go on").text))
    asking.start()
    fake_process.wait_for(contains="go on")
    kill_daemon(home)
    asking.join(90)
    assert answers == ["gpt-5 says: go on"]


def test_the_client_gives_up_in_time(serve: Serve, fake_process: FakeProcess) -> None:
    fake_process.script(gate="never")
    service = serve()
    with pytest.raises(AskError) as excinfo:
        AskClient(service.path, timeout=1.0).ask("gpt-5", "hello")
    assert excinfo.value.code == "TIMEOUT"
    if fake_process.calls:  # on a busy machine the time may be over before the vendor is reached
        fake_process.wait_for(state="disconnected")


def test_it_ends_with_its_parent(serve: Serve) -> None:
    service = serve("--until-eof", "--standalone", SESSION_ID="of-the-host")
    assert service.about["session"] == "of-the-host"
    assert service.process.stdin is not None
    service.process.stdin.close()
    assert service.process.wait(20) == 0
    assert not Path(service.path).exists()


def test_a_parent_without_a_pipe_gets_an_error(home: Path, env: dict[str, str]) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "counsel", "ask-service", "--until-eof", "--standalone"],
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.returncode != 0
    assert "--until-eof needs a pipe or terminal" in process.stderr
    assert process.stdout == ""
