"""The real clients list, read and connect to what counsel writes, and counsel reads what they write."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers import real_clients
from servers.conftest import QUICK
from support.client_programs import environment, program
from support.user import User

pytestmark = [pytest.mark.client, pytest.mark.slow]
TRUST = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}


def add_all(
    user: User, agent: str, port: int, scopes: tuple[str, ...], transports: tuple[str, ...]
) -> set[str]:
    """One server per scope and transport, named after both."""
    flags = {
        "stdio": ("-e", "A=b=c d", "--", sys.executable, str(QUICK)),
        "http": ("--url", f"http://127.0.0.1:{port}/mcp", "-H", "X-One: 1"),
        "sse": ("--url", f"http://127.0.0.1:{port}/events/sse", "-t", "sse", "-H", "X-Two: a b"),
    }
    names = set()
    for scope in scopes:
        for transport in transports:
            user.counsel("add", f"{scope}-{transport}", "-a", agent, "-s", scope, *flags[transport])
            names.add(f"{scope}-{transport}")
    return names


def test_claude_connects_to_what_counsel_writes(user: User, tiny_port: int) -> None:
    program("claude")
    names = add_all(user, "claude", tiny_port, ("user", "local", "project"), ("stdio", "http", "sse"))
    (user.home / ".claude").mkdir(exist_ok=True)
    (user.home / ".claude" / "settings.json").write_text('{"enableAllProjectMcpServers": true}')
    output = real_clients.ask(user.home, user.project, "claude", "mcp", "list")
    assert {line.split(":")[0] for line in output.splitlines() if "✔ Connected" in line} == names
    details = real_clients.ask(user.home, user.project, "claude", "mcp", "get", "local-stdio")
    assert f"Command: {sys.executable}" in details
    assert "A=b=c d" in details
    assert "Scope: Local config" in details
    user.counsel("disable", "user-http", "-a", "claude")
    user.counsel("disable", "project-stdio", "-a", "claude")
    output = real_clients.ask(user.home, user.project, "claude", "mcp", "list")
    disabled_names = {line.split(":")[0] for line in output.splitlines() if "Disabled" in line}
    assert disabled_names == {"user-http", "project-stdio"}


@pytest.mark.parametrize("kind", ["bare", "relative"])
def test_claude_and_counsel_agree_which_repository_owns_a_worktree(
    kind: str, user: User, tmp_path: Path
) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*git, "init", "-q"], cwd=user.project, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=user.project, check=True)
    subprocess.run([*git, "clone", "-q", "--bare", user.project, "bare"], cwd=tmp_path, check=True)
    repository, tree = tmp_path / ("bare" if kind == "bare" else "project"), tmp_path / "tree"
    subprocess.run([*git, "worktree", "add", "-q", tree], cwd=repository, check=True)
    if kind == "relative":
        (tree / ".git").write_text("gitdir: ../project/.git/worktrees/tree\n")
    real_clients.ask(user.home, tree, "claude", "mcp", "add", "-s", "local", "theirs", "--", "echo")
    user.counsel("add", "ours", "-a", "claude", "-s", "local", "--project", str(tree), "--", "echo")
    assert "Scope: Local config" in real_clients.ask(user.home, tree, "claude", "mcp", "get", "ours")
    rows = user.json("list", "--project", str(tree))["servers"]
    assert {row["name"] for row in rows} == {"ours", "theirs"}


def test_claude_takes_a_time_limit_of_any_fraction(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--timeout", "1.001", "--", "echo")
    assert "User config" in real_clients.ask(user.home, user.project, "claude", "mcp", "get", "x")


def test_codex_connects_to_what_counsel_writes(user: User, tiny_port: int) -> None:
    program("codex")
    user.write("codex", f'# mine\n[projects."{user.project}"]\ntrust_level = "trusted"\n')
    names = add_all(user, "codex", tiny_port, ("user", "project"), ("stdio", "http"))
    user.counsel(
        "add",
        "refs",
        "-a",
        "codex",
        "-e",
        "HOME=$HOME",
        "-e",
        "K=v",
        "--timeout",
        "5",
        "--cwd",
        str(user.project),
        "--",
        sys.executable,
        str(QUICK),
    )
    user.counsel(
        "add",
        "token",
        "-a",
        "codex",
        "--url",
        f"http://127.0.0.1:{tiny_port}/mcp",
        "--token-env",
        "T",
        "-H",
        "X: $V",
        "-H",
        "Y: 1",
    )
    rows_by_name = {
        row["name"]: row
        for row in json.loads(real_clients.ask(user.home, user.project, "codex", "mcp", "list", "--json"))
    }
    assert set(rows_by_name) == names | {"refs", "token"}
    assert rows_by_name["refs"]["transport"] == {
        "type": "stdio",
        "command": sys.executable,
        "args": [str(QUICK)],
        "env": {"K": "v"},
        "env_vars": ["HOME"],
        "cwd": str(user.project),
    }
    assert rows_by_name["refs"]["tool_timeout_sec"] == 5.0
    transport = rows_by_name["token"]["transport"]
    assert (transport["bearer_token_env_var"], transport["http_headers"], transport["env_http_headers"]) == (
        "T",
        {"Y": "1"},
        {"X": "V"},
    )
    with real_clients.app_server(user.home, user.project) as server:
        rows = server.call("mcpServerStatus/list", {})["data"]
    connected_names = {row["name"] for row in rows if "whereami" in row["tools"]}
    assert connected_names >= {"user-stdio", "user-http", "refs"}
    user.counsel("disable", "user-stdio", "-a", "codex")
    details = json.loads(
        real_clients.ask(user.home, user.project, "codex", "mcp", "get", "user-stdio", "--json")
    )
    assert details["enabled"] is False


ODD_TOML = """\
model = "m" # TOML 1.1, as Codex reads it
[mcp_servers]
dots.command = "\\x65cho" # dots
table = { # a table over lines
  command = "echo",
  args = [
    "a" # no comma
  ],
}

[mcp_servers."q.u"] # quoted
command = 'echo'
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_codex_and_counsel_edit_one_file_of_any_layout_in_turn(newline: str, user: User) -> None:
    def codex_entries() -> dict[str, tuple[bool, list[str], dict[str, str]]]:
        rows = json.loads(real_clients.ask(user.home, user.project, "codex", "mcp", "list", "--json"))
        parts = [(row["name"], row["enabled"], row["transport"]) for row in rows]
        assert {entry["command"] for _, _, entry in parts} == {"echo"}
        return {name: (on, entry["args"], entry["env"] or {}) for name, on, entry in parts}

    program("codex")
    file = user.write("codex", ODD_TOML.replace("\n", newline))
    before: dict[str, Any] = {"dots": (True, [], {}), "table": (True, ["a"], {}), "q.u": (True, [], {})}
    assert codex_entries() == before
    user.counsel("update", "table", "-a", "codex", "-e", "A=1", "--", "echo", "a", "b")
    for name in ("dots", "table"):
        user.counsel("disable", name, "-a", "codex")
    user.counsel("remove", "q.u", "-a", "codex")
    after = {"dots": (False, [], {}), "table": (False, ["a", "b"], {"A": "1"})}
    assert codex_entries() == after
    assert [line for line in ODD_TOML.splitlines() if "#" in line and line not in file.read_text()] == [
        '    "a" # no comma',  # it has one now
        '[mcp_servers."q.u"] # quoted',
    ]
    real_clients.ask(
        user.home, user.project, "codex", "mcp", "add", "theirs", "--", "echo"
    )  # moves tables about
    for _ in range(4):
        user.counsel("undo")
    assert codex_entries() == {**before, "theirs": (True, [], {})}


def test_gemini_connects_to_what_counsel_writes(user: User, tiny_port: int) -> None:
    program("gemini")
    user.write("gemini", '{\n  // mine\n  "ui": {"theme": "Default"}\n}\n')
    names = add_all(user, "gemini", tiny_port, ("user", "project"), ("stdio", "http", "sse"))
    output = real_clients.ask(user.home, user.project, "gemini", "mcp", "list", **TRUST)
    assert set(re.findall(r"✓ ([\w-]+):.*Connected", output)) == names
    user.counsel("disable", "user-sse", "-a", "gemini")
    output = real_clients.ask(user.home, user.project, "gemini", "mcp", "list", **TRUST)
    assert re.findall(r"○ ([\w-]+):.*Disabled", output) == ["user-sse"]
    assert "// mine" in user.file("gemini").read_text()


def test_counsel_reads_what_the_clients_write(user: User) -> None:
    """Every scope and transport that a client's own command can write."""

    def run(*args: str) -> None:
        # In a folder that it does not trust, `gemini mcp add -s project` drops the servers that were there.
        real_clients.ask(user.home, user.project, *args, **TRUST)

    (user.home / ".codex").mkdir()
    url, expected = "http://127.0.0.1:9/mcp", set()
    for agent, scopes in (("claude", ("user", "local", "project")), ("gemini", ("user", "project"))):
        for scope in scopes:
            to = (agent, "mcp", "add", "-s", scope)
            name, env = f"{scope}-stdio", ("-e", "A=1")
            run(
                *to, *((*env, name, "echo", "--") if agent == "gemini" else (name, *env, "--", "echo")), "a b"
            )
            for transport in ("http", "sse"):
                run(*to, "-t", transport, f"{scope}-{transport}", url, "-H", "X: 1")
            expected |= {(agent, scope, f"{scope}-{kind}") for kind in ("stdio", "http", "sse")}
    run("codex", "mcp", "add", "user-stdio", "--env", "A=1", "--", "echo", "a b")
    run("codex", "mcp", "add", "user-http", "--url", url, "--bearer-token-env-var", "T")
    expected |= {("codex", "user", "user-stdio"), ("codex", "user", "user-http")}
    result = user.json("list")
    assert result["problems"] == []
    rows = {(row["agent"], row["scope"], row["name"]): row for row in result["servers"]}
    assert set(rows) == expected
    for (agent, scope, name), row in rows.items():
        assert row["transport"] == name.split("-")[1], (agent, scope)
        if name.endswith("stdio"):
            assert (row["command"], row["args"], row["env"]) == ("echo", ["a b"], {"A": "1"}), (agent, scope)
        elif agent == "codex":
            assert (row["url"], row["token_env"]) == (url, "T")
        else:
            assert (row["url"], row["headers"]) == (url, {"X": "1"}), (agent, scope)


def test_clients_and_counsel_write_one_file_in_turn(user: User) -> None:
    """Clients and counsel write one file in turn: neither loses the other's entries."""
    (user.home / ".codex").mkdir()
    for number in range(2):
        user.counsel("add", f"ours-{number}", "-a", "claude,codex,gemini", "--", "echo")
        real_clients.ask(
            user.home, user.project, "claude", "mcp", "add", "-s", "user", f"theirs-{number}", "--", "echo"
        )
        real_clients.ask(user.home, user.project, "codex", "mcp", "add", f"theirs-{number}", "--", "echo")
        real_clients.ask(
            user.home, user.project, "gemini", "mcp", "add", "-s", "user", f"theirs-{number}", "echo"
        )
    for agent in ("claude", "codex", "gemini"):
        rows = user.json("list", "-a", agent)["servers"]
        assert {row["name"] for row in rows} == {"ours-0", "ours-1", "theirs-0", "theirs-1"}


def loaded(user: User, client: str) -> set[str]:
    """The names in the client's own list; none if it does not start."""
    command = [program(client), "mcp", "list"]
    process = subprocess.run(
        command,
        cwd=user.project,
        env=environment(user.home, **TRUST),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", process.stdout + process.stderr)
    return (
        {name for name in ("fine", "odd", "workspace") if re.search(rf"(?m)^\W*{name}\b", text)}
        if not process.returncode
        else set()
    )


@pytest.mark.parametrize(
    ("client", "odd"),
    [
        ("codex", {"command": "true", "scopes": "a"}),
        ("codex", {"command": "true", "startup_timeout_ms": 5}),
        ("gemini", None),
        ("opencode", {"type": "local", "command": ["true"], "timeout": 1.5}),
        ("opencode", {"type": "local", "command": ["true"], "timeout": 1.5, "enabled": True}),
        ("claude", {"type": "sse-ide", "url": "http://127.0.0.1:9/"}),
        ("claude", {"command": "true", "headers": {"A": 1}, "url": 5, "cwd": []}),
        ("claude", {"command": "true", "alwaysLoad": "yes"}),
        ("claude", {"type": "http", "url": "http://127.0.0.1:9/", "oauth": {"callbackPort": 0}}),
        ("codex", {"command": "true", "default_tools_approval_mode": "never"}),
        ("codex", {"url": "http://127.0.0.1:9/", "auth": "none"}),
        ("opencode", {"type": "remote", "url": "http://127.0.0.1:9/", "oauth": {"clientId": 3}}),
    ],
)
def test_the_client_loads_what_the_list_says_is_on(
    client: str, odd: dict[str, Any] | None, user: User
) -> None:
    program(client)
    user.counsel("add", "fine", "-a", client, "--", "true")
    if client == "codex":
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in (odd or {}).items()]
        user.write("codex", user.file("codex").read_text() + "[mcp_servers.odd]\n" + "".join(lines))
    else:
        document = json.loads(user.file(client).read_text())
        entries = document["mcp" if client == "opencode" else "mcpServers"]
        entries["odd"] = odd
        if client == "claude":
            entries["workspace"] = entries["fine"]
        user.write(client, json.dumps(document))
    on = {row["name"] for row in user.json("list")["servers"] if row["enabled"]}
    assert loaded(user, client) == on
