"""`counsel console`: the daemon's loopback port, the one-time link, the browser, and what survives a killed daemon."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from counsel.cli import console as command
from counsel.daemon.console import DaemonConsole
from fake import FakeProcess
from support import console_port
from support.fake_engine import FakeEngine
from support.stdio_client import daemon_pid, kill_daemon
from support.terminal import Terminal, user_env

pytestmark = pytest.mark.thorough  # left out of `make check`

SECONDS = 60  # against a hang, on a busy machine
LONG = {"COUNSEL_DAEMON_IDLE_SECONDS": "600"}  # each test ends its daemon
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/login#(\S+)")


def wait_for(condition: Callable[[], Any], description: str) -> Any:
    until = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < until, description
        time.sleep(0.02)
    return value


class Machine:
    """A user's machine: commands, and a browser without a screen."""

    def __init__(self, folder: Path, vendors: FakeProcess) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        for path in (self.home, self.project, folder / "user"):
            path.mkdir(mode=0o700)
        self.env = user_env(folder / "user", self.home, vendors) | LONG
        self.cookie = ""
        self.port = console_port.reserve(self.home)

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "counsel", *arguments],
            env=self.env | env,
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def link(self, *options: str) -> tuple[int, str]:
        result = self.run("console", "--json", "--no-build", *options)
        assert (result.returncode, result.stderr) == (0, "")
        document = json.loads(result.stdout)
        match = LINK.fullmatch(document["link"])
        assert match is not None
        assert set(document) == {"url", "link", "expires_in"}
        assert document["url"] == f"http://127.0.0.1:{match[1]}/"
        return int(match[1]), match[2]

    @contextmanager
    def terminal(self, *options: str, **env: str) -> Iterator[Terminal]:
        with Terminal(
            "console", "--no-build", *options, env=self.env | env, cwd=self.project, columns=150
        ) as screen:
            yield screen

    def ask(self, port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        headers = {"X-Counsel": "1", "Sec-Fetch-Site": "same-origin", "Connection": "close"}
        if self.cookie:
            headers["Cookie"] = self.cookie
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if "Set-Cookie" in answer.headers:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer.status, json.loads(data) if data.startswith(b"{") else data

    def sign_in(self, port: int, key: str) -> int:
        return self.ask(port, "POST", "/api/session", {"key": key})[0]

    def answers(self, port: int) -> bool:
        """Whether the session is accepted on this port."""
        try:
            return self.ask(port, "GET", "/api/session")[0] == 200
        except OSError:
            return False

    def end(self) -> None:
        if (pid := daemon_pid(self.home)) is not None:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: daemon_pid(self.home) != pid, "the daemon does not end")


@pytest.fixture
def machine(tmp_path: Path, fake_process: FakeProcess) -> Iterator[Machine]:
    user_machine = Machine(tmp_path, fake_process)
    yield user_machine
    user_machine.end()


def shown_link(terminal: Terminal) -> tuple[int, str]:
    terminal.until(lambda: LINK.search(terminal.text))
    match = LINK.search(terminal.text)
    assert match is not None
    return int(match[1]), match[2]


def test_a_link_signs_in_once_and_the_page_is_there(machine: Machine) -> None:
    port, key = machine.link()
    assert port == machine.port
    assert machine.ask(port, "GET", "/")[0] == 200
    assert machine.sign_in(port, key) == 204
    status, document = machine.ask(port, "GET", "/api/session")
    assert (status, document["project"]) == (200, str(machine.project))
    assert document["home"] == str(machine.home)
    assert machine.sign_in(port, key) == 401
    second, another = machine.link()
    assert (second, another != key) == (port, True)


def test_a_question_uses_the_keys_and_the_folder_of_the_shell(machine: Machine) -> None:
    port, key = machine.link()
    machine.sign_in(port, key)
    status, answer = machine.ask(port, "POST", "/api/jobs", {"prompt": "hello", "model": "gpt-5"})
    assert status == 200, answer
    assert answer["content"]


def test_a_session_and_the_port_survive_a_killed_daemon(machine: Machine) -> None:
    """Whatever starts the next daemon opens the console's port again."""
    port, key = machine.link()
    assert machine.sign_in(port, key) == 204
    before = kill_daemon(machine.home)
    wait_for(lambda: daemon_pid(machine.home) != before, "the daemon does not end")
    assert not machine.answers(port)
    assert machine.run("ask", "-m", "gpt-5", "hello").returncode == 0
    wait_for(lambda: machine.answers(port), "the console does not come back")


def test_the_command_restarts_a_killed_daemon_until_ctrl_c(machine: Machine) -> None:
    with machine.terminal("--no-browser") as terminal:
        port, key = shown_link(terminal)
        assert machine.sign_in(port, key) == 204
        for _ in range(2):
            old = {None, kill_daemon(machine.home)}
            wait_for(lambda old=old: daemon_pid(machine.home) not in old, "no new daemon")  # type: ignore[misc]
            wait_for(lambda: machine.answers(port), "the console does not come back")
            status, answer = machine.ask(port, "POST", "/api/jobs", {"prompt": "hello", "model": "gpt-5"})
            assert status == 200, answer  # with the keys of the shell
        terminal.until("was restarted")
        terminal.interrupt()
        assert terminal.wait() == 130


def test_the_daemon_stays_while_the_command_or_a_page_is_connected_and_exits_when_idle(
    machine: Machine,
) -> None:
    machine.env |= {"COUNSEL_DAEMON_IDLE_SECONDS": "1"}
    with machine.terminal("--no-browser") as terminal:
        port, key = shown_link(terminal)
        machine.sign_in(port, key)
        page = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        head = [
            "GET /api/events?jobs=1 HTTP/1.1",
            "Host: 127.0.0.1",
            "X-Counsel: 1",
            f"Cookie: {machine.cookie}",
        ]
        page.sendall("\r\n".join([*head, "", ""]).encode())
        assert b"200 OK" in page.recv(1000)
        terminal.interrupt()
        assert terminal.wait() == 130
    first = daemon_pid(machine.home)
    assert first is not None
    until = time.monotonic() + 3  # three times the idle time
    while time.monotonic() < until:
        assert daemon_pid(machine.home) == first
        time.sleep(0.1)
    page.close()
    wait_for(lambda: daemon_pid(machine.home) is None, "the daemon does not exit")
    machine.env |= LONG
    assert machine.run("ask", "-m", "gpt-5", "hello").returncode == 0  # another daemon
    note = json.loads((machine.home / "run" / "console.json").read_text())
    assert (note["open"], note["port"]) == (False, port)
    with pytest.raises(OSError):
        machine.ask(port, "GET", "/")
    assert machine.link()[0] == port


def test_a_taken_port_is_replaced_unless_it_was_asked_for(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]
        note = {"port": number, "at": 0, "open": False, "project": "/"}
        (machine.home / "run" / "console.json").write_text(json.dumps(note))
        port, _ = machine.link()
        assert port != number
        result = machine.run("console", "--json", "--no-build", "--port", str(number))
        assert (result.returncode, json.loads(result.stdout)["code"]) == (1, "CONFIG_INVALID")
    assert machine.link("--port", str(number))[0] == number
    assert machine.link()[0] == number


@pytest.mark.parametrize(
    "note",
    [
        "",
        "[]",
        "{",
        '{"port": -1, "at": 1}',
        '{"port": "3158", "at": 1}',
        '{"port": 3158}',
        '{"port": 1, "at": "x"}',
    ],
)
async def test_a_bad_note_about_the_port_is_ignored(tmp_path: Path, note: str) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "run" / "console.json").write_text(note)
    console = DaemonConsole(FakeEngine(), tmp_path)
    assert console._remembered() == {}
    await console.reopen()
    assert not console.in_use


# ── the browser ──────────────────────────────────────────────────────────────────────────────────────


def test_the_browser_gets_a_private_file_so_that_no_process_list_shows_the_key(machine: Machine) -> None:
    arguments_file, program = machine.folder / "seen", machine.folder / "browser"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {arguments_file}.tmp\nmv {arguments_file}.tmp {arguments_file}\n'
    )
    program.chmod(0o755)
    (machine.project / "webbrowser.py").write_text("raise SystemExit('hostile')")
    with machine.terminal("--detach", BROWSER=str(program)) as terminal:
        _, key = shown_link(terminal)
        assert terminal.wait() == 0
    wait_for(arguments_file.exists, "no browser was started")
    arguments = arguments_file.read_text()
    file = Path(arguments.strip().removeprefix("file://"))
    assert key not in arguments
    assert key in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.is_relative_to(machine.home)


def test_without_a_display_the_link_is_printed_and_no_browser_is_started() -> None:
    assert not command._has_browser({"SSH_CONNECTION": "1 2 3 4"})
    assert command._has_browser({"SSH_CONNECTION": "1 2 3 4", "DISPLAY": ":10"})
    assert command._has_browser({"BROWSER": "firefox"})
    assert command._has_browser({"WAYLAND_DISPLAY": "wayland-0"})
    assert command._has_browser({}) is (sys.platform == "darwin")


def test_serve_prints_a_link_in_a_terminal_and_none_into_a_log(machine: Machine) -> None:
    with Terminal("serve", "--port", "0", env=machine.env, cwd=machine.project, columns=150) as terminal:
        port, key = shown_link(terminal)
        assert machine.sign_in(port, key) == 204
        assert machine.ask(port, "GET", "/api/session")[1]["project"] == str(machine.project)
        terminal.interrupt()
        terminal.wait()
    serve = [sys.executable, "-m", "counsel", "serve", "--port", "0"]
    with subprocess.Popen(serve, env=machine.env, cwd=machine.project, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline().decode() for _ in range(2)]
        process.terminate()
    assert "/mcp" in lines[0]
    assert "sign in with the token" in lines[1]
    assert "#" not in "".join(lines)


def test_nothing_of_a_link_is_logged(machine: Machine) -> None:
    port, key = machine.link()
    machine.sign_in(port, key)
    machine.sign_in(port, "a-wrong-key-that-was-pasted")
    session = machine.cookie.partition("=")[2]
    for path in machine.home.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for secret in (key, session, "a-wrong-key-that-was-pasted"):
                assert secret.encode() not in data, path


async def test_an_older_client_of_the_daemon_is_told_what_is_wrong(machine: Machine) -> None:
    machine.link()
    reader, writer = await asyncio.open_unix_connection(str(machine.home / "run" / "daemon.sock"))
    writer.write(b'@{"hello":{"role":"engine"}}\n')
    await reader.readline()
    for number, params in enumerate(({}, {"caller": {}, "port": 0}, {"caller": {}, "port": "1"})):
        line = {"id": number, "method": "console_open", "params": params}
        writer.write(json.dumps(line).encode() + b"\n")
        assert json.loads(await reader.readline())["error"]["code"] == "INVALID_ARGUMENT"
    writer.close()
    await writer.wait_closed()
