"""With the real agents: they connect to what `counsel setup` wrote, and ask each other through it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents import rigs
from counsel import settings
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.cli.setup import plan as setup_plan
from counsel.cli.setup import verify as setup_verify
from counsel.mcp import client_timeouts
from counsel.servers import Server, Servers
from fake import FakeProcess

pytestmark = [pytest.mark.client, pytest.mark.slow]
TRUST = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}
# The first request waits for the servers and lists their tools: the fake cannot search for them.
AT_ONCE = {"MCP_CONNECTION_NONBLOCKING": "0", "ENABLE_TOOL_SEARCH": "false"}
ASK = "mcp__counsel__askModel"
# Proxies, certificates and settings: no proxy listens at these addresses, and none is used for NO_PROXY.
WAYS = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "SSL_CERT_DIR": "/etc/ssl/certs",
    "REQUEST_TIMEOUT_MS": "77000",
    "MAX_MCP_OUTPUT_TOKENS": "9000",
    "LOG_LEVEL": "debug",
    "COUNSEL_AUTO_ORDER": "xai,openai",
    "COUNSEL_MAX_FILE_BYTES": "1234567",
}
# Those that are installed connect; the others are not asked.
CONNECTED = {"claude": True, "codex": True, "gemini": True, "cursor": None, "opencode": None, "vscode": None}


@dataclass
class RealAgents:
    """An empty home with the three agents from npm on PATH, and the fake behind their keys."""

    env: dict[str, str]
    project: Path

    def run(self, *command: str, code: int = 0, env: Mapping[str, str] | None = None) -> str:
        result = subprocess.run(
            command,
            cwd=self.project,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    def counsel(self, *args: str, code: int = 0, **more: str) -> str:
        return self.run(sys.executable, "-P", "-m", "counsel", *args, code=code, env=more)

    def claude(self, prompt: str, **more: str) -> dict[str, Any]:
        command = ("claude", "-p", prompt, "--output-format", "json", "--allowedTools", ASK)
        document: dict[str, Any] = json.loads(self.run(*command, env={**AT_ONCE, **more}))
        return document


@pytest.fixture
def agents(tmp_path: Path, fake_process: FakeProcess) -> Iterator[RealAgents]:
    agent_rigs = [rigs.RIGS[name](fake_process, tmp_path) for name in ("claude", "codex", "gemini")]  # type: ignore[arg-type]
    env = {key: value for rig in agent_rigs for key, value in rig.env.items()}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    real_agents = RealAgents(env, agent_rigs[0].project)
    yield real_agents
    real_agents.counsel("daemon", "stop")


def test_every_agent_connects_after_setup_and_remove_restores_the_files(agents: RealAgents) -> None:
    before = {path: path.read_bytes() for path in Path(agents.env["HOME"]).glob(".*/*") if path.is_file()}
    rows = json.loads(agents.counsel("setup", "--yes", "--json"))["agents"]
    assert {row["agent"]: row["connected"] for row in rows} == CONNECTED
    assert "not in this folder" in rows[2]["said"]  # which Gemini CLI does not trust
    assert "✔ Connected" in agents.run("claude", "mcp", "list")
    assert "✓ counsel" in agents.run("gemini", "mcp", "list", env=TRUST)
    agents.counsel("setup", "--remove", "--yes")
    assert {path: path.read_bytes() for path in before} == before
    assert "counsel" not in (Path(agents.env["HOME"]) / ".claude.json").read_text()


def test_setup_in_a_hostile_folder_lets_no_other_server_import_from_it(
    agents: RealAgents, tmp_path: Path
) -> None:
    """To tell whether they connect, the agents start every server of the user."""
    canary = tmp_path / "canary"
    for name in ("trap.py", "sitecustomize.py"):
        (agents.project / name).write_text(f"open({str(canary)!r}, 'w').write(__file__)")
    mine = Server("mine", command=sys.executable, args=("-m", "trap"))
    Servers(workspace_of(agents.env, agents.project), tmp_path / "backups").add(
        [mine], ["claude", "codex", "gemini"]
    )
    rows = json.loads(agents.counsel("setup", "--yes", "--json"))["agents"]
    assert {row["agent"]: row["connected"] for row in rows} == CONNECTED
    assert not canary.exists()


ASKED = {"claude": ("claude", "mcp", "list"), "gemini": ("gemini", "mcp", "list")}


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_what_counsel_needs_reaches_it(agents: RealAgents, tmp_path: Path, agent: str) -> None:
    """The entry as setup writes it, with a program in counsel's place that records its environment."""
    env_file = tmp_path / "seen"
    env = {
        **agents.env,
        **TRUST,
        "COUNSEL_CHAIN": "claude,codex",
        "XAI_API_KEY": "x",
        "XAI_BASE_URL": "http://x",
        **WAYS,
    }
    entry = setup_plan.server(AGENTS[agent], settings.load(env))
    entry = entry.replaced(
        command="/bin/sh", args=("-c", f'env > "{env_file}.new" && mv "{env_file}.new" "{env_file}"')
    )
    Servers(workspace_of(env, agents.project), tmp_path / "backups").add([entry], [agent])
    if agent == "codex":
        step = setup_plan.Step(
            AGENTS["codex"], Path(agents.env["PATH"].split(os.pathsep)[1], "codex"), "added"
        )
        asyncio.run(setup_verify.check([step], env))
        assert "Codex says" in step.message
    else:
        agents.run(*ASKED[agent], env=env)
    variables = dict(line.partition("=")[::2] for line in env_file.read_text().splitlines())
    names = ("COUNSEL_CHAIN", "COUNSEL_HOME", "XAI_API_KEY", "XAI_BASE_URL", "HOME", *WAYS)
    assert {name: variables.get(name) for name in names} == {name: env[name] for name in names}
    assert variables["PATH"].endswith(env["PATH"])  # Codex puts a folder of its own before it
    assert not variables.get("MISTRAL_API_KEY")  # not set: nothing, or nothing in it


def tool_results(fake: FakeProcess, vendor: str) -> str:
    """The tool results in the last request to the vendor's model."""
    last = [call for call in fake.calls if call["vendor"] == vendor][-1]["body"]
    if vendor == "anthropic":
        parts = [
            part for message in last["messages"] for part in message["content"] if isinstance(part, dict)
        ]
        results = [part for part in parts if part.get("type") == "tool_result"]
    else:
        results = [item for item in last["input"] if "output" in item]
    return json.dumps(results, ensure_ascii=False)


def test_claude_asks_codex_through_counsel(agents: RealAgents, fake_process: FakeProcess) -> None:
    agents.counsel("setup", "--yes", "--no-check")
    asks = {
        "name": ASK,
        "arguments": {"model": "codex", "prompt": "What is six by seven?", "sessionTag": "sums"},
    }
    fake_process.script(vendor="anthropic", tool_calls=[asks], text="Codex answered.", times=None)
    fake_process.script(vendor="openai-responses", text="It is 42.", times=None)
    assert agents.claude("please ask codex")["result"] == "Codex answered."
    assert "It is 42." in tool_results(fake_process, "anthropic")
    assert "What is six by seven?" in fake_process.wait_for(vendor="openai-responses")[0]["text"]
    (job,) = json.loads(agents.counsel("jobs", "--json"))["jobs"]
    assert (job["tool"], job["models"], job["status"]) == ("askModel", ["codex"], "completed")
    # the same tag again: the thread goes on, in Codex's own session
    agents.claude("ask again")
    second = [call for call in fake_process.calls if call["vendor"] == "openai-responses"][-1]["body"]
    assert "It is 42." in json.dumps(second["input"])


def test_real_agents_that_ask_each_other_end(agents: RealAgents, fake_process: FakeProcess) -> None:
    """Claude asks Codex, and Codex (through the counsel that it starts itself) asks Claude back.

    Codex calls such tools only with full access: at the lower levels nobody is there to approve them.
    """
    agents.counsel("setup", "--yes", "--no-check")
    to_codex = {"name": ASK, "arguments": {"model": "codex", "prompt": "ask claude"}}
    back = {
        "name": "askModel",
        "namespace": "mcp__counsel",
        "arguments": {"model": "claude", "prompt": "well?"},
    }
    fake_process.script(vendor="anthropic", tool_calls=[to_codex], text="done", times=None)
    fake_process.script(vendor="openai-responses", tool_calls=[back], text="codex is done", times=None)
    assert agents.claude("begin", CODEX_SANDBOX_MODE="danger-full-access")["result"] == "done"
    assert "Claude Code → Codex → Claude Code" in tool_results(fake_process, "openai-responses")


def test_codex_asks_once_the_user_approved_the_tool(agents: RealAgents, fake_process: FakeProcess) -> None:
    """As docs/use/askmodel.md tells it; and `--remove` leaves nothing of the entry that would stop Codex."""
    agents.counsel("setup", "--yes", "--no-check")
    asks = {
        "name": "askModel",
        "namespace": "mcp__counsel",
        "arguments": {"model": "claude", "prompt": "well?"},
    }
    fake_process.script(vendor="openai-responses", tool_calls=[asks], text="done", times=None)
    fake_process.script(vendor="anthropic", text="It is 42.", times=None)
    agents.counsel("ask", "-m", "codex", "go")
    assert "requires approval" in tool_results(fake_process, "openai-responses")
    config = Path(agents.env["HOME"], ".codex", "config.toml")
    approval = '\n[mcp_servers.counsel.tools.askModel]\napproval_mode = "approve"\n'
    config.write_text(config.read_text() + approval)
    agents.counsel("ask", "-m", "codex", "go")
    assert "It is 42." in tool_results(fake_process, "openai-responses")
    agents.counsel("setup", "--remove", "--yes")
    assert "No MCP servers" in agents.run("codex", "mcp", "list")


def test_claude_does_not_ask_itself(agents: RealAgents, fake_process: FakeProcess) -> None:
    agents.counsel("setup", "--yes", "--no-check")
    asks = {"name": ASK, "arguments": {"model": "claude", "prompt": "who am I?"}}
    fake_process.script(vendor="anthropic", tool_calls=[asks], text="never mind", times=None)
    assert agents.claude("ask yourself")["result"] == "never mind"
    assert "SELF_CONSULTATION" in tool_results(fake_process, "anthropic")


# ── a client's own time limit ────────────────────────────────────────────────────────────────────────

SLOW = {"model": "gpt-5-mini", "prompt": "take your time"}


def run_claude(agents: RealAgents, config: Path | None) -> None:
    """Its limit from the environment, or from counsel's entry in its file."""
    limit = {} if config else {"MCP_TOOL_TIMEOUT": "5000"}
    if config:
        document = json.loads(config.read_text())
        document["mcpServers"]["counsel"]["timeout"] = 5_000
        config.write_text(json.dumps(document))
    command = ("claude", "-p", "go", "--output-format", "json", "--allowedTools", "mcp__counsel__chat")
    agents.run(*command, env={**AT_ONCE, **limit})


def run_codex(agents: RealAgents, config: Path | None) -> None:
    assert config
    approval = '\n[mcp_servers.counsel.tools.chat]\napproval_mode = "approve"\n'
    text = config.read_text().replace("[mcp_servers.counsel]", "[mcp_servers.counsel]\ntool_timeout_sec = 5")
    config.write_text(text + approval)
    agents.run("codex", "exec", "--skip-git-repo-check", "--json", "go")


def run_codex_with_an_option(agents: RealAgents, config: Path | None) -> None:
    assert config
    config.write_text(config.read_text() + '\n[mcp_servers.counsel.tools.chat]\napproval_mode = "approve"\n')
    limit = ("-c", "mcp_servers.counsel.tool_timeout_sec=5")
    agents.run("codex", "exec", "--skip-git-repo-check", "--json", *limit, "go")


def run_claude_with_an_option(agents: RealAgents, config: Path | None) -> None:
    assert config
    entry = json.loads(config.read_text())["mcpServers"]["counsel"] | {"timeout": 5_000}
    (agents.project / "only.json").write_text(json.dumps({"mcpServers": {"counsel": entry}}))
    command = ("claude", "-p", "go", "--output-format", "json", "--allowedTools", "mcp__counsel__chat")
    agents.run(*command, "--mcp-config", "only.json", "--strict-mcp-config", env=AT_ONCE)


def run_gemini(agents: RealAgents, config: Path | None) -> None:
    assert config
    document = json.loads(config.read_text())
    document["mcpServers"]["counsel"]["timeout"] = 5_000
    config.write_text(json.dumps(document))
    agents.run("gemini", "--skip-trust", "-p", "go", "-o", "json", "--approval-mode", "yolo", env=TRUST)


CALLS: dict[str, Any] = {
    "anthropic": {"name": "mcp__counsel__chat", "arguments": SLOW},
    "openai-responses": {"name": "chat", "namespace": "mcp__counsel", "arguments": SLOW},
    "gemini": {"name": "mcp_counsel_chat", "arguments": SLOW},
}
MODELS = {"openai-responses": {"model": "gpt-5.1"}}


@pytest.mark.parametrize(
    ("run", "file", "vendor"),
    [
        (run_claude, None, "anthropic"),
        (run_claude, ".claude.json", "anthropic"),
        (run_codex, ".codex/config.toml", "openai-responses"),
        (run_claude_with_an_option, ".claude.json", "anthropic"),
        (run_codex_with_an_option, ".codex/config.toml", "openai-responses"),
        (run_gemini, ".gemini/settings.json", "gemini"),
    ],
    ids=["claude-environment", "claude-file", "codex", "claude-option", "codex-option", "gemini"],
)
def test_a_call_past_the_clients_limit_is_answered_with_its_job(
    agents: RealAgents, fake_process: FakeProcess, run: Any, file: str | None, vendor: str
) -> None:
    agents.env |= {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake_process.v1}
    agents.counsel("setup", "--yes", "--no-check")
    agents.counsel("jobs")  # the daemon runs: on a loaded machine its start takes most of five seconds
    which = MODELS.get(vendor, {})
    fake_process.script(vendor=vendor, tool_calls=[CALLS[vendor]], text="I see.", times=None, **which)
    fake_process.script(model="gpt-5-mini", text="The slow answer.", gate="slow", times=None)
    run(agents, Path(agents.env["HOME"], file) if file else None)
    (job,) = json.loads(agents.counsel("jobs", "--json"))["jobs"]
    assert job["status"] == "processing"
    last_request = json.dumps([call["body"] for call in fake_process.calls if call["vendor"] == vendor][-1])
    assert "continues in the background" in last_request
    assert job["id"] in last_request
    fake_process.open_gate("slow")
    assert "The slow answer." in agents.counsel("jobs", job["id"], "--follow")


def test_calls_that_gemini_makes_at_once_are_all_answered_before_its_limit(
    agents: RealAgents, fake_process: FakeProcess
) -> None:
    agents.env |= {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake_process.v1}
    agents.counsel("setup", "--yes", "--no-check")
    agents.counsel("jobs")  # the daemon runs
    fake_process.script(vendor="gemini", tool_calls=[CALLS["gemini"]] * 3, text="I see.", times=None)
    fake_process.script(model="gpt-5-mini", gate="slow", times=None)
    run_gemini(agents, Path(agents.env["HOME"], ".gemini", "settings.json"))
    last_request = json.dumps([call["body"] for call in fake_process.calls if call["vendor"] == "gemini"][-1])
    assert last_request.count("continues in the background") == 3
    assert "Request timed out" not in last_request


@pytest.fixture
def opencode(tmp_path: Path, fake_process: FakeProcess) -> Iterator[RealAgents]:
    rig = rigs.opencode(fake_process, tmp_path)  # type: ignore[arg-type]
    env = {**rig.env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{rig.env['PATH']}"}
    real_agents = RealAgents(
        {**env, "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake_process.v1}, rig.project
    )
    yield real_agents
    real_agents.counsel("daemon", "stop")


def ask_slowly(
    opencode: RealAgents, fake: FakeProcess, limits: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """The job of a slow call that OpenCode makes, and what OpenCode tells its model about the call."""
    opencode.counsel("setup", "--yes", "--no-check")
    opencode.counsel("jobs")  # the daemon runs
    config = Path(opencode.env["HOME"], ".config", "opencode", "opencode.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), **limits}))
    calls = [{"name": "counsel_chat", "arguments": SLOW}]
    fake.script(model="some-model", tool_calls=calls, text="I see.", times=None)
    fake.script(model="gpt-5-mini", text="The slow answer.", gate="slow", times=None)
    opencode.run("opencode", "run", "go")
    (job,) = json.loads(opencode.counsel("jobs", "--json"))["jobs"]
    requests = [call["body"]["messages"] for call in fake.calls if call["body"]["model"] == "some-model"]
    return job, json.dumps(requests[-1][-1])


def test_opencode_gets_the_job_before_the_limit_for_all_servers(
    opencode: RealAgents, fake_process: FakeProcess
) -> None:
    job, told = ask_slowly(opencode, fake_process, {"experimental": {"mcp_timeout": 4_000}})
    assert job["status"] == "processing"
    assert "continues in the background" in told
    assert job["id"] in told


def test_a_job_continues_when_opencode_times_out(opencode: RealAgents, fake_process: FakeProcess) -> None:
    """It cancels the call twice: for its time limit, then because it aborted."""
    opencode.env["COUNSEL_CLIENT_LIMIT_SECONDS"] = "60"
    job, told = ask_slowly(opencode, fake_process, {"experimental": {"mcp_timeout": 2_000}})
    assert "Request timed out" in told
    assert job["status"] == "processing"
    fake_process.open_gate("slow")
    assert "The slow answer." in opencode.counsel("jobs", job["id"], "--follow")


# ── what a client gives to its model ─────────────────────────────────────────────────────────────────

TELLER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        info = {"name": "teller", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/list":
        any_object = {"type": "object", "properties": {}}
        result = {"tools": [{"name": "tell", "inputSchema": any_object, "outputSchema": any_object}]}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "words-as-text"}], "structuredContent": {"is": "words-as-json"}}
        result["isError"] = FAILS
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
TELLS: dict[str, Any] = {
    "claude": ("anthropic", {"name": "mcp__teller__tell", "arguments": {}}),
    "codex": ("openai-responses", {"name": "tell", "namespace": "mcp__teller", "arguments": {}}),
    "gemini": ("gemini", {"name": "mcp_teller_tell", "arguments": {}}),
}
RUNS = {
    "claude": ("claude", "-p", "go", "--output-format", "json", "--allowedTools", "mcp__teller__tell"),
    "codex": ("codex", "exec", "--skip-git-repo-check", "--json", "go"),
    "gemini": ("gemini", "--skip-trust", "-p", "go", "-o", "json", "--approval-mode", "yolo"),
}


@pytest.mark.parametrize("fails", [False, True], ids=["success", "failure"])
@pytest.mark.parametrize("agent", list(RUNS))
def test_clients_read_what_the_table_says(
    agents: RealAgents, fake_process: FakeProcess, tmp_path: Path, agent: str, fails: bool
) -> None:
    (program := tmp_path / "teller.py").write_text(TELLER.replace("FAILS", str(fails)))
    server = Server("teller", command=sys.executable, args=(str(program),))
    Servers(workspace_of(agents.env, agents.project), tmp_path / "backups").add([server], [agent])
    if agent == "codex":
        config = Path(agents.env["HOME"], ".codex", "config.toml")
        approval = '\n[mcp_servers.teller.tools.tell]\napproval_mode = "approve"\n'
        config.write_text(config.read_text() + approval)
    vendor, call = TELLS[agent]
    fake_process.script(vendor=vendor, tool_calls=[call], text="I see.", times=None)
    agents.run(*RUNS[agent], env={**AT_ONCE, **TRUST})
    last_request = json.dumps(
        [request["body"] for request in fake_process.calls if request["vendor"] == vendor][-1]
    )
    row = client_timeouts.of(AGENTS[agent].client_names[0])
    reads = row.reads_failed if fails else row.reads
    both = agent == "gemini" and fails  # it shows a failure as a whole
    assert ("words-as-text" in last_request) == (reads == "text")
    assert ("words-as-json" in last_request) == (reads == "structured" or both)
