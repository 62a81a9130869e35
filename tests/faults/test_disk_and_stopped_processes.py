"""Bad disks and stopped processes: a clear message, nothing corrupted, nothing run twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fake import FakeProcess
from faults.test_killed_processes import WORKER, environment

pytestmark = pytest.mark.thorough  # left out of `make check`


def test_a_stopped_engine_keeps_its_jobs(tmp_path: Path, fake_process: FakeProcess) -> None:
    """SIGSTOP for longer than the search for orphans takes: the other engine takes nothing over."""
    home = tmp_path / "home"
    env = environment(home, fake_process)
    fake_process.script(gate="hold", gate_after=0, times=3)
    first = subprocess.Popen([sys.executable, str(WORKER), "1"], env=env, stdout=subprocess.PIPE)
    fake_process.wait_for(count=3)
    first.send_signal(signal.SIGSTOP)
    second = subprocess.Popen([sys.executable, str(WORKER), "1"], env=env, stdout=subprocess.PIPE)
    assert second.stdout is not None
    second.stdout.readline()
    time.sleep(5)  # the elapsed time is what the test is about: more than two searches for orphans
    assert len(fake_process.calls) == 3
    first.send_signal(signal.SIGCONT)
    fake_process.open_gate("hold")
    assert first.wait(30) == 0
    assert second.wait(30) == 0
    assert len(fake_process.calls) == 6
    for process in (first, second):
        assert process.stdout is not None
        process.stdout.close()


def run(code: str, env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "counsel", *code.split()],
        check=False,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def test_a_home_that_cannot_be_written_still_answers_and_says_so(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    """A file where the default folder should be, which stops root, too; file modes would not."""
    (tmp_path / ".local").write_text("not a folder")
    env = {**environment(tmp_path / "home", fake_process), "HOME": str(tmp_path)}
    del env["COUNSEL_HOME"]
    process = run("ask hello -m gpt-5 --standalone", env)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "gpt-5 says: hello\n"
    assert "nothing is kept" in process.stderr


def test_a_full_disk_gives_the_answer_and_leaves_the_database_whole(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    """A limit on file sizes makes every write past it fail as a full disk does."""
    import resource

    home = tmp_path / "home"
    env = environment(home, fake_process)
    assert run("ask first -m gpt-5 --standalone", env).returncode == 0
    size = max((home / "counsel.db").stat().st_size, 4096 * 40)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    fake_process.script(size=2_000_000, contains="second")
    process = run("ask second -m gpt-5 --standalone", env, preexec_fn=limit)
    assert process.returncode == 0, process.stderr
    assert len(process.stdout) > 2_000_000
    assert "could not be stored" in process.stderr
    with closing(sqlite3.connect(home / "counsel.db")) as db, db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT text FROM messages WHERE n = 1").fetchall() == [("first",)]
    assert run("ask third -m gpt-5 --standalone", env).returncode == 0


def test_bad_lines_in_the_config_are_named_and_the_rest_works(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        'request_timeout_ms = = 5\nmax_attempts = 2\n[providers.bad]\nwire = "nonsense"\n'
    )
    (home / ".env").write_text("this is no line\n")
    process = run("ask hello -m gpt-5 --standalone", environment(home, fake_process))
    assert process.returncode == 0, process.stderr
    assert process.stdout == "gpt-5 says: hello\n"
    assert f"{home / 'config.toml'}: Invalid value" in process.stderr
    assert "line 1 ignored; the rest is used" in process.stderr
    assert f"{home / '.env'}: line 1 is not NAME=value" in process.stderr
    log = (home / "logs" / "counsel.log").read_text()
    assert "config.toml [providers.bad]: wire must be one of" in log
    assert ".env: line 1" in log
    assert "this is no line" not in log, "it might be a key"


def test_a_server_names_what_is_wrong_in_the_config_and_answers(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    """An agent's window shows only what its MCP server writes to stderr."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("nonsense = 1\n[models.mine]\nprovider = 'nobody'\n")
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    chat = {"name": "chat", "arguments": {"prompt": "hello", "model": "gpt-5"}}
    server = subprocess.Popen(
        [sys.executable, "-m", "counsel", "stdio", "--standalone"],
        env=environment(home, fake_process),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    for number, (method, params) in enumerate((("initialize", client), ("tools/call", chat))):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
    _, messages = server.communicate(timeout=60)
    assert answer["result"]["structuredContent"]["content"] == "gpt-5 says: hello"
    assert "unknown setting 'nonsense'" in messages
    assert "[models.mine]: unknown provider 'nobody'" in messages


def test_a_command_says_once_that_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file where the default folder should be")
    command = [sys.executable, "-P", "-m", "counsel", "conversations", "list"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stderr.splitlines()
    assert sum("counsel.db cannot be written" in line for line in output) == 1
    assert all(line.startswith("warning: ") for line in output[:-1])
