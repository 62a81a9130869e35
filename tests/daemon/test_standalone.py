"""`counsel stdio --standalone`: the engine in the client's own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.stdio_client import StdioClient

TESTS = Path(__file__).parent.parent
# An engine in memory; it prints while it opens, as libraries do.
PROGRAM = f"""
import sys
sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent / "src")!r}]
from counsel.daemon.standalone import serve
from support import fake_daemon

async def open_engine(home):
    print("noise", flush=True)
    print(f"stdin has {{sys.stdin.read()!r}}", file=sys.stderr, flush=True)
    return await fake_daemon.open_engine(home)

sys.exit(serve("claude", open_engine))
"""
COMMAND = [sys.executable, "-c", PROGRAM]


async def test_standalone_answers_as_the_daemon_would(home: Path) -> None:
    async with StdioClient(home, command=COMMAND, KEY_OF_MINE="k", OPENAI_API_KEY="sk-one") as client:
        await client.initialize(name="anything")
        assert await client.text("env OPENAI_API_KEY") == f"sk-one|{home}|anything|claude"
        assert await client.text("echo hi") == "echo hi"
    assert client.process.returncode == 0


def test_only_messages_are_on_stdout_and_only_we_read_stdin(home: Path) -> None:
    request = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    process = subprocess.run(
        COMMAND, input=request, env=_environment(home), capture_output=True, text=True, timeout=60, check=True
    )
    assert [json.loads(line) for line in process.stdout.splitlines()] == [
        {"jsonrpc": "2.0", "id": 1, "result": {}}
    ]
    assert "noise" in process.stderr
    assert "stdin has ''" in process.stderr


def test_a_client_that_reads_nothing_does_not_keep_it_alive(home: Path) -> None:
    params = {"name": "chat", "arguments": {"prompt": "long 20000"}}
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params} for number in range(10)
    ]
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,  # a pipe holds less than one answer
        stderr=subprocess.DEVNULL,
        env=_environment(home),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
        process.stdin.close()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home)}
