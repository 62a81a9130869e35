"""`counsel servers check` connects to real servers, ends those that it started, and shows no secret."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from counsel.servers import check as checking
from counsel.servers import connecting, message_limits
from servers.conftest import QUICK, TINY
from support.user import User

pytestmark = pytest.mark.thorough  # left out of `make check`: starts processes and waits for time limits

SECRET = "sk-live-abcdefghijklmnop1234"


def check_one(user: User, *args: str, code: int = 0) -> dict[str, Any]:
    rows = user.json("check", *args, code=code)["checks"]
    assert len(rows) == 1
    return dict(rows[0])


def test_a_stdio_server_is_checked(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", sys.executable, str(TINY), "stdio")
    row = check_one(user, "x")
    assert (row["status"], row["tools"], row["server_info"]) == (
        "ok",
        ["whereami"],
        {"name": "tiny", "version": "1.0"},
    )
    assert row["protocol_version"] >= "2025"
    assert row["latency_ms"] > 0
    output = user.counsel("check")
    assert "whereami" in output
    assert "ok" in output


@pytest.mark.parametrize(("transport", "path"), [("http", "/mcp"), ("sse", "/events/sse")])
def test_a_remote_server_is_checked(transport: str, path: str, user: User, tiny_port: int) -> None:
    user.counsel("add", "x", "-a", "claude", "-t", transport, "--url", f"http://127.0.0.1:{tiny_port}{path}")
    row = check_one(user)
    assert (row["status"], row["tools"]) == ("ok", ["whereami"])


@pytest.mark.parametrize(("agent", "status"), [("claude", "ok"), ("gemini", "failed"), ("codex", "failed")])
def test_sse_is_tried_where_the_client_tries_it(agent: str, status: str, user: User, tiny_port: int) -> None:
    url = f"http://127.0.0.1:{tiny_port}/events/sse"
    user.counsel("add", "x", "-a", agent, "-t", "http", "--url", url)
    row = check_one(user, code=0 if status == "ok" else 1)
    assert (row["status"], row["transport"]) == (status, "sse" if status == "ok" else "http")


def test_gemini_tries_sse_for_an_address_without_a_type(user: User, tiny_port: int) -> None:
    user.write(
        "gemini", json.dumps({"mcpServers": {"x": {"url": f"http://127.0.0.1:{tiny_port}/events/sse"}}})
    )
    assert check_one(user)["transport"] == "sse"


def test_a_server_that_fails_shows_its_last_output_without_secrets(user: User) -> None:
    script = f"import sys; print('bad key {SECRET}', file=sys.stderr); sys.exit(3)"
    user.counsel("add", "x", "-a", "claude", "-e", f"API_KEY={SECRET}", "--", sys.executable, "-c", script)
    row = check_one(user, code=1)
    assert row["status"] == "failed"
    assert row["stderr"] == ["bad key sk…34"]
    output = user.counsel("check", code=1)
    assert "FAILED" in output
    assert SECRET not in output


@pytest.mark.parametrize(("client", "inherits_env"), [("claude", True), ("codex", False)])
def test_a_server_is_started_with_the_variables_that_its_client_would_hand_on(
    client: str, inherits_env: bool, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    names = user.home / "names"
    script = f"import os, pathlib; pathlib.Path({str(names)!r}).write_text(' '.join(os.environ))"
    user.counsel("add", "x", "-a", client, "-e", "NAMED=1", "--", sys.executable, "-c", script)
    check_one(user, code=1)
    seen = names.read_text().split()
    assert ("NAMED" in seen, "MINE" in seen) == (True, inherits_env)


def test_a_silent_server_times_out_and_is_ended(user: User) -> None:
    pid = user.home / "pid"
    script = (
        f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    )
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, "-c", script)
    for seconds in ("1", "5", "30"):  # on a busy machine it may not have started yet
        row = check_one(user, "--timeout", seconds, code=1)
        assert (row["status"], row["error"]) == ("timeout", f"no answer within {seconds} s")
        if pid.exists():
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_server_whose_first_message_has_no_end_is_cut_off(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_limits, "MOST_LINE", 2**20)
    script = "import sys\nwhile True: sys.stdout.write('x' * 100_000)"
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, "-c", script)
    row = check_one(user, code=1)
    assert (row["status"], row["error"]) == ("failed", "it sent a message of more than 1 MB")


@pytest.mark.parametrize("command", ["/nowhere/at/all", "counsel-no-such-program"])
def test_a_missing_program_is_a_failure(command: str, user: User) -> None:
    user.counsel("add", "x", "-a", "gemini", "--", command)
    assert check_one(user, code=1)["status"] == "failed"


def test_no_server_listens(user: User) -> None:
    user.counsel("add", "x", "-a", "gemini", "--url", "http://127.0.0.1:9/mcp", "-H", f"X-Key: {SECRET}")
    row = check_one(user, code=1)
    assert row["status"] == "failed"
    assert SECRET not in str(row)


@pytest.fixture
def refusing_server() -> Iterator[tuple[str, list[str]]]:
    """A server that answers `/401` with 401 and so on, `/page` with a page, `/broken` with half a document, `/endless`
    without an end; its address, and the Authorization headers that it received."""
    tokens: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            tokens.append(str(self.headers.get("Authorization")))
            status = int(self.path[1:]) if self.path[1:].isdigit() else 200
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if self.path == "/page" else "application/json")
            if self.path == "/gzip":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            if self.path == "/endless":
                with suppress(ConnectionError):
                    while True:
                        self.wfile.write(b" " * 100_000)
                return
            words = f"{'long ' * 97}{str(self.headers.get('Authorization')).removeprefix('Bearer ')}"
            reply = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32000, "message": words}}
            self.wfile.write(json.dumps(reply).encode() if self.path == "/echo" else b"{half")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", tokens
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/401", "it answered HTTP 401 Unauthorized (it needs a token or a login)"),
        ("/500", "it answered HTTP 500 Internal Server Error"),
        ("/404", "it answered HTTP 404 Not Found"),
        ("/page", "Unexpected content type: text/html"),
        ("/broken", "its answer is not MCP"),
        ("/endless", "it sent an answer of more than 1 MB"),
        ("/gzip", "it compressed its answer (gzip), which was not requested"),
    ],
)
def test_a_server_that_refuses_is_quoted(
    path: str, words: str, user: User, refusing_server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_limits, "MOST_BODY", 2**20)
    user.counsel("add", "x", "-a", "claude,codex", "--url", refusing_server[0] + path)
    assert [row["error"] for row in user.json("check", code=1)["checks"]] == [words, words]


def test_the_same_address_in_several_agents_is_called_once(
    user: User, refusing_server: tuple[str, list[str]]
) -> None:
    user.counsel("add", "x", "-a", "claude", "--url", f"{refusing_server[0]}/401")
    user.json("check", code=1)
    alone = len(refusing_server[1])
    user.counsel("add", "x", "-a", "codex,cursor", "--url", f"{refusing_server[0]}/401")
    user.json("check", code=1)
    assert len(refusing_server[1]) == 2 * alone


def test_a_token_that_is_not_set_is_named_and_not_sent(
    user: User, refusing_server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TINY_NOT_SET", raising=False)
    user.counsel(
        "add", "x", "-a", "codex", "--url", f"{refusing_server[0]}/401", "--token-env", "TINY_NOT_SET"
    )
    row = check_one(user, code=1)
    assert "HTTP 401" in row["error"]
    assert row["unset"] == ["TINY_NOT_SET"]
    assert set(refusing_server[1]) == {"None"}


@pytest.mark.parametrize("token", ["plain-word-of-mine", SECRET])
def test_a_token_that_a_server_repeats_is_not_shown_nor_half_of_it(
    token: str, user: User, refusing_server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_TOKEN", token)
    user.counsel(
        "add", "x", "-a", "codex", "--url", f"{refusing_server[0]}/echo", "--token-env", "TINY_TOKEN"
    )
    row = check_one(user, code=1)
    assert f"Bearer {token}" in refusing_server[1]
    assert row["error"].startswith("long long ")
    assert token[:4] not in row["error"]


def test_a_server_that_answers_and_will_not_end_is_ok(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    real = connecting.connected

    @asynccontextmanager
    async def hold_open(*args: Any) -> AsyncIterator[Any]:
        async with real(*args) as client:
            yield client
            await asyncio.Event().wait()

    monkeypatch.setattr(checking, "connected", hold_open)
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, str(QUICK))
    for seconds in ("2", "10", "60"):  # on a busy machine it may not have answered yet
        rows, _ = checking.rows_to_check(user.servers(), "x", ["claude"], None)
        (result,) = asyncio.run(checking.check(rows, user.servers().workspace, float(seconds)))
        if result.status == "ok":
            return
    pytest.fail("it was taken for silent")


def test_output_of_a_server_fits_a_line(user: User) -> None:
    script = "import sys; sys.stderr.write('x' * 5000 + 'the end'); sys.exit(1)"
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, "-c", script)
    (line,) = check_one(user, code=1)["stderr"]
    assert len(line) == 500
    assert line.endswith("xthe end")


def test_several_at_once_and_the_same_server_only_once(user: User) -> None:
    starts = user.home / "starts"
    script = f"open({str(starts)!r}, 'a').write('x'); import runpy, sys; runpy.run_path({str(QUICK)!r}, run_name='__main__')"
    user.counsel("add", "x", "-a", "claude,gemini", "--", sys.executable, "-c", script)
    user.counsel("add", "off", "-a", "codex", "--", "false")
    user.counsel("disable", "off", "-a", "codex")
    rows = user.json("check")["checks"]
    assert [(row["agent"], row["status"]) for row in rows] == [
        ("claude", "ok"),
        ("codex", "disabled"),
        ("gemini", "ok"),
    ]
    assert starts.read_text() == "x"


def test_variables_are_filled_in_and_missing_ones_named(
    user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TINY_FILE", str(QUICK))
    monkeypatch.delenv("TINY_NOT_SET", raising=False)
    user.counsel("add", "x", "-a", "claude", "-e", "A=${TINY_NOT_SET}", "--", sys.executable, "${TINY_FILE}")
    row = check_one(user)
    assert (row["status"], row["unset"]) == ("ok", ["TINY_NOT_SET"])


def test_variables_that_are_not_set_take_one_line(user: User) -> None:
    entry = {"command": sys.executable, "args": [str(QUICK)], "env_vars": ["TINY_A", "TINY_B"]}
    source = user.project / "pasted.json"
    source.write_text(json.dumps({"mcpServers": {"x": entry}}))
    user.counsel("add", "-a", "codex", "--from", str(source))
    lines = user.counsel("check").splitlines()
    assert [line.strip() for line in lines if "TINY" in line] == ["not set here: TINY_A, TINY_B"]


def test_a_check_without_servers(user: User) -> None:
    assert user.json("check") == {"checks": []}
    assert user.json("check", "nope", code=1)["code"] == "NOT_FOUND"


def test_output_outside_the_protocol_is_not_printed(user: User, caplog: pytest.LogCaptureFixture) -> None:
    """The library would log a traceback with the text for every such line."""
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, "-c", f"print('hello {SECRET}')")
    row = check_one(user, code=1)
    assert "before it answered" in row["error"]
    assert caplog.text == ""


def test_what_a_repository_brings_is_started_only_when_it_is_asked_for(user: User) -> None:
    flag = user.home / "started"
    user.counsel("add", "x", "-a", "claude,codex,gemini,cursor", "-s", "project", "--", "touch", str(flag))
    rows = user.json("check")["checks"]
    assert {row["status"] for row in rows} == {"skipped"}
    assert len(rows) == 4
    assert "counsel servers check x" in user.counsel("check")
    assert not flag.exists()
    for arguments in (("x",), ("--scope", "project")):
        flag.unlink(missing_ok=True)
        user.json("check", *arguments, "--trust-folder", code=1)
        assert flag.exists()


@pytest.mark.thorough  # servers that refuse to end take five seconds each
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_started_servers_first(signal_number: signal.Signals, user: User) -> None:
    """One server ends at once, the other does not: the wait for the second must not be cut short."""
    pids = user.home / "pids"
    os.mkfifo(pids)
    for name, word in (("mild", "DFL"), ("stubborn", "IGN")):
        script = (
            f"import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_{word}); "
            f"os.write(os.open({str(pids)!r}, os.O_WRONLY), b'%d\\n' % os.getpid()); time.sleep(600)"
        )
        user.counsel("add", name, "-a", "claude", "--", sys.executable, "-c", script)
    command = [sys.executable, "-m", "counsel", "servers", "check", "--timeout", "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with pids.open() as lines:
            server_pids = [int(lines.readline()), int(lines.readline())]
        process.send_signal(signal_number)
        process.communicate()
    assert process.returncode == 130
    for pid in server_pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
