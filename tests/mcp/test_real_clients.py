"""Real MCP clients from npm against the real front, daemon and engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counsel.front.prompts import PROMPTS
from counsel.mcp.session import listing
from fake import FakeProcess
from support.stdio_client import SHORT_LIVED, daemon_pid

pytestmark = [pytest.mark.client, pytest.mark.slow]
COUNSEL = [sys.executable, "-m", "counsel", "stdio"]
Run = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (home := tmp_path / "home").mkdir()
    yield home
    if (pid := daemon_pid(home)) is not None:
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run(home: Path, tmp_path: Path, fake_process: FakeProcess, real_client: Callable[[str], str]) -> Run:
    """Runs a client with an empty home. Its vendor and counsel's are the fake."""

    def start(name: str, *args: str) -> str:
        program = real_client(name)
        env = {
            "HOME": str(tmp_path),
            "PATH": f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}",
            "COUNSEL_HOME": str(home),
            **SHORT_LIVED,
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": fake_process.v1,
            "ANTHROPIC_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": fake_process.url,
            "GEMINI_API_KEY": "test",
            "GOOGLE_GEMINI_BASE_URL": fake_process.url,
            "DISABLE_TELEMETRY": "1",
        }
        process = subprocess.run(
            [program, *args],
            env=env,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    return start


def test_the_inspector_lists_and_calls(run: Run) -> None:
    document = json.loads(run("mcp-inspector", "--cli", *COUNSEL, "--method", "tools/list"))
    assert [tool["name"] for tool in document["tools"]] == [tool["name"] for tool in listing()]
    call = ("--method", "tools/call", "--tool-name", "chat", "--tool-arg", "prompt=hello", "model=gpt-5-mini")
    result = json.loads(run("mcp-inspector", "--cli", *COUNSEL, *call))
    assert result["structuredContent"]["content"] == "gpt-5-mini says: hello"


def test_claude_code_is_connected(run: Run) -> None:
    run("claude", "mcp", "add", "counsel", "-s", "user", "--", *COUNSEL, "--as", "claude")
    assert "✔ Connected" in run("claude", "mcp", "list")


def test_claude_code_asks_a_model_through_counsel(
    run: Run, tmp_path: Path, fake_process: FakeProcess
) -> None:
    servers = {"counsel": {"command": COUNSEL[0], "args": [*COUNSEL[1:], "--as", "claude"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    arguments = {"prompt": "a colleague's question", "model": "gpt-5-mini"}
    fake_process.script(
        vendor="anthropic",
        tool_calls=[{"name": "mcp__counsel__chat", "arguments": arguments}],
        text="Thanks.",
        times=None,
    )
    reply = run(
        "claude",
        *("-p", "ask a colleague", "--output-format", "json", "--mcp-config", str(tmp_path / "mcp.json")),
        *("--strict-mcp-config", "--allowedTools", "mcp__counsel__chat"),
    )
    assert json.loads(reply)["result"] == "Thanks."
    requests = fake_process.wait_for(path="/v1/responses", state="finished")
    assert "a colleague's question" in json.dumps(requests)
    report = fake_process.wait_for(path="/v1/messages", count=2)
    assert "gpt-5-mini says: a colleague's question" in json.dumps(report)


IMPATIENT = """
import { Client } from "SDK/client/index.js";
import { StdioClientTransport } from "SDK/client/stdio.js";
const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "impatient", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const ask = { name: "chat", arguments: { prompt: "take your time", model: "gpt-5-mini" } };
const said = await client.callTool(ask, undefined, { timeout: 1000 }).catch((error) => error.message);
let jobs = [];
while (!jobs.length)
  jobs = (await client.callTool({ name: "check_status", arguments: {} })).structuredContent.content.jobs;
await client.close();
console.log(JSON.stringify({ said, job: jobs[0].id }));
"""


def test_the_typescript_sdk_times_out_and_the_job_goes_on(
    run: Run, tmp_path: Path, fake_process: FakeProcess, real_client: Callable[[str], str]
) -> None:
    """The limit belongs to this call: counsel cannot know it in advance."""
    sdk = Path(real_client("node")).parents[1] / "@modelcontextprotocol" / "sdk" / "dist" / "esm"
    (tmp_path / "impatient.mjs").write_text(IMPATIENT.replace("SDK", sdk.as_uri()))
    fake_process.script(model="gpt-5-mini", text="The slow answer.", gate="slow", times=None)
    document = json.loads(run("node", str(tmp_path / "impatient.mjs"), *COUNSEL))
    assert "Request timed out" in document["said"]
    fake_process.open_gate("slow")
    call = ("--method", "tools/call", "--tool-name", "check_status")
    status: dict[str, object] = {}
    while "result" not in status:
        reply = run(
            "mcp-inspector", "--cli", *COUNSEL, *call, "--tool-arg", f"continuation_id={document['job']}"
        )
        status = json.loads(reply)["structuredContent"]["content"]
        assert status["status"] in {"processing", "completed"}
    assert "The slow answer." in json.dumps(status)


def test_claude_code_offers_the_prompts_as_slash_commands(
    run: Run, tmp_path: Path, fake_process: FakeProcess
) -> None:
    servers = {"counsel": {"command": COUNSEL[0], "args": [*COUNSEL[1:], "--as", "claude"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    fake_process.script(vendor="anthropic", text="Done.", times=None)
    options = ("--output-format", "stream-json", "--verbose", "--mcp-config", str(tmp_path / "mcp.json"))
    reply = run("claude", "-p", "/mcp__counsel__review main locks", *options, "--strict-mcp-config")
    init = json.loads(reply.splitlines()[0])
    assert {f"mcp__counsel__{name}" for name in PROMPTS} <= set(init["slash_commands"])
    requests = json.dumps(fake_process.wait_for(path="/v1/messages"))
    assert "counsel review 'main' --json" in requests
    assert "Look especially at: locks." in requests


def test_claude_code_gives_free_text_one_word_and_the_whole_line_beside_it(
    run: Run, tmp_path: Path, fake_process: FakeProcess
) -> None:
    """The reason why the prompts refer to <command-args>."""
    servers = {"counsel": {"command": COUNSEL[0], "args": [*COUNSEL[1:], "--as", "claude"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    fake_process.script(vendor="anthropic", text="Done.", times=None)
    options = ("--mcp-config", str(tmp_path / "mcp.json"), "--strict-mcp-config")
    run("claude", "-p", "/mcp__counsel__plan Add a cache", *options)
    requests = json.dumps(fake_process.wait_for(path="/v1/messages"))
    assert "Add (If <command-args> is shown above" in requests
    assert "<command-args>Add a cache</command-args>" in requests


def test_gemini_cli_offers_the_prompts_as_slash_commands(
    run: Run, tmp_path: Path, fake_process: FakeProcess
) -> None:
    servers = {"counsel": {"command": COUNSEL[0], "args": [*COUNSEL[1:], "--as", "gemini"]}}
    settings = {"mcpServers": servers, "security": {"auth": {"selectedType": "gemini-api-key"}}}
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
    fake_process.script(vendor="google", text="Done.", times=None)
    run(
        "gemini",
        "--skip-trust",
        "-m",
        "gemini-2.5-flash",
        "-p",
        '/second_opinion --question="Is a cache right?"',
    )
    requests = json.dumps(fake_process.wait_for(path="streamGenerateContent"))
    assert "Get a second opinion" in requests
    assert "Is a cache right?" in requests
