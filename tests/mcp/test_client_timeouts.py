"""When a call must answer before its client gives up, by the environment, the client's own files, and a table."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from counsel.mcp import client_argv, client_config, client_timeouts
from counsel.mcp.client_timeouts import CLIENTS, Configured
from support.session_client import SessionClient

STARTS = {"command": "counsel", "args": ["stdio", "--as", "x"]}


@pytest.mark.parametrize(
    ("client", "env", "file_limits", "seconds"),
    [
        ("codex-mcp-client", {}, Configured(), 60),
        ("codex-mcp-client", {}, Configured(trusted=600), 600),
        ("codex-mcp-client", {}, Configured(trusted=5), 5),
        ("codex-mcp-client", {}, Configured(project=600), 60),  # a project's file never raises
        ("codex-mcp-client", {}, Configured(trusted=30, project=5), 5),
        ("codex-mcp-client", {"MCP_TOOL_TIMEOUT": "1000"}, Configured(), 60),  # another client's variable
        ("claude-code", {}, Configured(), 120),
        ("claude-code", {"MCP_TOOL_TIMEOUT": "5000"}, Configured(), 5),
        ("claude-code", {"MCP_TOOL_TIMEOUT": "5000"}, Configured(trusted=3), 3),
        ("claude-code", {"MCP_TOOL_TIMEOUT": "900000"}, Configured(), 120),  # it goes to the background
        ("claude-code", {"MCP_TOOL_TIMEOUT": "60"}, Configured(), 1),  # it raises the limit to a second
        ("gemini-cli-mcp-client-counsel", {}, Configured(trusted=5), 5),
        ("somebody's", {}, Configured(), 60),
        *(
            ("claude-code", {"MCP_TOOL_TIMEOUT": bad}, Configured(), 120)
            for bad in ("", "x", "0", "-1", "inf", "nan")
        ),
    ],
)
def test_the_smallest_limit_counts(
    client: str, env: dict[str, str], file_limits: Configured, seconds: float
) -> None:
    assert client_timeouts.limit(client_timeouts.of(client), "stdio", env, file_limits) == seconds


@pytest.mark.parametrize("seconds", [0.001, 0.5, 1, 2, 5, 10, 60, 120, 1800])
def test_the_answer_comes_before_the_limit_however_small(seconds: float) -> None:
    assert 0 < client_timeouts.before(seconds) < seconds
    assert seconds - client_timeouts.before(seconds) <= 10


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def look(agent: str, home: Path, project: Path) -> Configured:
    project.mkdir(exist_ok=True)
    return client_config.configured(agent, {"HOME": str(home)}, project, "stdio")


def test_claudes_entry_of_the_local_scope_counts_before_the_users(tmp_path: Path) -> None:
    project = tmp_path / "project"
    content = {
        "mcpServers": {"counsel": {**STARTS, "timeout": 40_000}, "other": {"command": "x", "timeout": 1}}
    }
    write(tmp_path / ".claude.json", content)
    assert look("claude", tmp_path, project) == Configured(40)
    local = {"projects": {str(project): {"mcpServers": {"counsel": {**STARTS, "timeout": 70_000}}}}}
    write(tmp_path / ".claude.json", content | local)
    assert look("claude", tmp_path, project) == Configured(70)
    write(project / ".mcp.json", {"mcpServers": {"counsel": {**STARTS, "timeout": 5_000}}})
    assert look("claude", tmp_path, project) == Configured(70, 5)


def test_claude_ignores_an_entrys_limit_below_a_second(tmp_path: Path) -> None:
    """Someone wrote `60` and meant seconds."""
    project = tmp_path / "project"
    short, long = {**STARTS, "timeout": 60}, {**STARTS, "timeout": 40_000}
    write(tmp_path / ".claude.json", {"mcpServers": {"counsel": short}})
    assert look("claude", tmp_path, project) == Configured()
    write(tmp_path / ".claude.json", {"mcpServers": {"counsel": short, "other": long}})
    write(project / ".mcp.json", {"mcpServers": {"counsel": short}})
    assert look("claude", tmp_path, project) == Configured(40)
    inline = json.dumps({"mcpServers": {"a": short, "b": long}})
    assert client_argv.of_claude(["claude", "--mcp-config", inline], tmp_path) == 40
    write(tmp_path / ".gemini/settings.json", {"mcpServers": {"counsel": short}})
    assert look("gemini", tmp_path, project) == Configured(0.06)


def test_codex_and_gemini_entries_are_read_in_their_own_units(tmp_path: Path) -> None:
    project = tmp_path / "project"
    entry = (
        '[mcp_servers.mine]\ncommand = "python"\nargs = ["-m", "counsel", "stdio"]\ntool_timeout_sec = 5.5\n'
    )
    write(tmp_path / ".codex/config.toml", entry)
    assert look("codex", tmp_path, project) == Configured(5.5)
    write(tmp_path / ".gemini/settings.json", {"mcpServers": {"counsel": {**STARTS, "timeout": 5_000}}})
    assert look("gemini", tmp_path, project) == Configured(5)


def test_opencodes_limit_for_all_servers_counts_for_entries_without_one(tmp_path: Path) -> None:
    project, user_file = tmp_path / "project", tmp_path / ".config/opencode/opencode.json"
    entry: dict[str, object] = {"type": "local", "command": ["counsel", "stdio"]}
    for_all: dict[str, object] = {"experimental": {"mcp_timeout": 90_000}}
    write(user_file, {"mcp": {"counsel": entry}, **for_all})
    assert look("opencode", tmp_path, project) == Configured(90)
    write(project / "opencode.json", {"experimental": {"mcp_timeout": 5_000}})
    assert look("opencode", tmp_path, project) == Configured(90, 5)
    write(user_file, {"mcp": {"counsel": {**entry, "timeout": 7_000}}, **for_all})
    assert look("opencode", tmp_path, project) == Configured(7)
    for wrong in (
        {"experimental": 3},
        {"experimental": {"mcp_timeout": "5"}},
        {"experimental": {"mcp_timeout": -1}},
    ):
        write(user_file, {"mcp": {"counsel": entry}, **wrong})
        assert look("opencode", tmp_path, project) == Configured(None, 5)


@pytest.mark.parametrize(
    "hostile",
    [
        "{",
        "[]",
        '{"mcpServers": 3}',
        '{"mcpServers": {"counsel": {"command": "counsel", "args": ["stdio"], "timeout": "soon"}}}',
        '{"mcpServers": {"counsel": {"command": "counsel", "args": ["stdio"], "timeout": -5}}}',
        '{"mcpServers": {"counsel": {"command": "counsel", "args": ["stdio"], "timeout": 1e400}}}',
        '{"mcpServers": {"counsel": {"command": "counsel", "args": ["stdio"], "timeout": 900000000}}}',
        "[" * 100_000,
        "\x00\xff",
    ],
)
def test_a_projects_file_breaks_nothing_and_raises_nothing(tmp_path: Path, hostile: str) -> None:
    project = tmp_path / "project"
    write(tmp_path / ".claude.json", {"mcpServers": {"counsel": {**STARTS, "timeout": 40_000}}})
    write(project / ".mcp.json", hostile)
    result = look("claude", tmp_path, project)
    assert client_timeouts.limit(CLIENTS["claude-code"], "stdio", {}, result) == 40


@pytest.mark.parametrize("file", [".mcp.json", ".codex/config.toml", ".gemini/settings.json"])
def test_a_projects_file_that_is_a_pipe_or_endless_blocks_nothing(tmp_path: Path, file: str) -> None:
    project = tmp_path / "project"
    (project / file).parent.mkdir(parents=True, exist_ok=True)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir):
        make(project / file)
        for agent in ("claude", "codex", "gemini"):
            assert look(agent, tmp_path, project) == Configured()
        (project / file).rmdir() if (project / file).is_dir() else (project / file).unlink()


async def test_a_call_answers_before_the_limit_in_the_clients_file(tmp_path: Path) -> None:
    entry = '[mcp_servers.counsel]\ncommand = "counsel"\nargs = ["stdio"]\ntool_timeout_sec = 0.4\n'
    write(tmp_path / ".codex/config.toml", entry)
    client = SessionClient(tmp_path, HOME=str(tmp_path))
    await client.initialize(name="codex-mcp-client")
    result = await client.call("chat", {"prompt": "hang"})
    assert result["structuredContent"]["continuation"] == {"id": "conv_1", "status": "processing"}
    assert client.engine.jobs["conv_1"].background


async def test_calls_that_come_together_all_answer_before_that_limit(tmp_path: Path) -> None:
    """Gemini CLI begins with as many calls as its model makes at once."""
    entry = {"command": "counsel", "args": ["stdio"], "timeout": 400}
    write(tmp_path / ".gemini/settings.json", json.dumps({"mcpServers": {"counsel": entry}}))
    client = SessionClient(tmp_path, HOME=str(tmp_path))
    await client.initialize(name="gemini-cli-mcp-client")
    requests = {
        client.request("tools/call", {"name": "chat", "arguments": {"prompt": "hang"}}) for _ in range(3)
    }
    replies = [await asyncio.wait_for(client.messages.get(), 10) for _ in requests]
    assert {reply["id"] for reply in replies} == requests
    assert all("does not wait longer" in reply["result"]["content"][0]["text"] for reply in replies)


async def test_the_time_before_the_call_arrived_counts(tmp_path: Path) -> None:
    client = SessionClient(tmp_path)
    await client.initialize(name="codex-mcp-client")
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call"}
    line = {**message, "params": {"name": "chat", "arguments": {"prompt": "hang"}}}
    client.lines.line(json.dumps(line).encode(), "key", 54.0)
    assert (await client.messages.get())["result"]["structuredContent"]["continuation"][
        "status"
    ] == "processing"


@pytest.mark.parametrize(
    ("argv", "seconds"),
    [
        (["codex", "exec", "-c", "mcp_servers.counsel.tool_timeout_sec=5", "go"], 5),
        (["codex", "--config=mcp_servers.counsel.tool_timeout_sec = 7.5"], 7.5),
        (
            [
                "codex",
                "-cmcp_servers.x.tool_timeout_sec=9",
                "-c",
                'mcp_servers.x.args=["-m","counsel","stdio"]',
            ],
            9,
        ),
        (
            ["codex", "-c", "mcp_servers.other.tool_timeout_sec=1", "-c", 'mcp_servers.other.command="x"'],
            None,
        ),
        (["codex", "-c", "mcp_servers.counsel.tool_timeout_sec=soon"], None),
        (["codex", "exec", "mcp_servers.counsel.tool_timeout_sec=5"], None),  # a prompt
        (["codex", "-c"], None),
    ],
)
def test_codexs_command_line_has_a_limit(argv: list[str], seconds: float | None) -> None:
    assert client_argv.of_codex(argv, Path("/")) == seconds


def test_claudes_command_line_names_entries(tmp_path: Path) -> None:
    inline = json.dumps({"mcpServers": {"a": {**STARTS, "timeout": 9_000}}})
    write(
        tmp_path / "servers.json",
        {"mcpServers": {"b": {**STARTS, "timeout": 5_000}, "c": {"command": "x", "timeout": 1}}},
    )
    assert (
        client_argv.of_claude(["claude", "--mcp-config", inline, "servers.json", "-p", "go"], tmp_path) == 5
    )
    assert client_argv.of_claude(["claude", f"--mcp-config={inline}"], tmp_path) == 9
    for bad in ("missing.json", "{", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 3}}', "/dev/zero"):
        assert client_argv.of_claude(["claude", "--mcp-config", bad], tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_limit_is_found_in_the_processes_above(tmp_path: Path) -> None:
    """The client starts its server through another program."""
    code = (
        "import os, sys; from counsel.mcp import client_argv; print(client_argv.limit('codex', os.getpid()))"
    )
    through = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    options = ["-c", "mcp_servers.counsel.tool_timeout_sec=5"]
    process = subprocess.run(
        [sys.executable, "-c", through, *options], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "5.0"
