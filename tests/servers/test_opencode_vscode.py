"""OpenCode's and VS Code's files: what counsel writes and reads, and what it keeps unchanged."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from counsel.agents.server_format import Server
from servers import real_clients
from servers.conftest import QUICK, golden
from servers.test_golden import HTTP, PLAIN, SSE, STDIO
from support.user import User

QUIET = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
TOKEN = Server("x", "http", url="http://127.0.0.1:9/mcp", token_env="TOK")
REFERENCES = Server("x", command="c", args=("--key=${KEY}",), env={"KEY": "${KEY}"})
CASES = [("stdio", STDIO), ("stdio-min", PLAIN), ("http", HTTP), ("token", TOKEN), ("references", REFERENCES)]


@pytest.mark.parametrize(("case", "server"), CASES, ids=[row[0] for row in CASES])
@pytest.mark.parametrize("agent", ["opencode", "vscode"])
def test_each_client_writes_its_golden_file(agent: str, case: str, server: Server, user: User) -> None:
    """OpenCode's own `mcp add` asks a person, and VS Code is not available here: these files hold what counsel writes
    by the clients' documentation. That OpenCode uses it is shown below."""
    user.servers().add([server], [agent])
    assert user.file(agent).read_text() == golden(agent, f"{case}.json")
    assert user.file(agent).stat().st_mode & 0o777 == 0o600


def test_vscode_says_sse_and_opencode_refuses_it(user: User) -> None:
    user.servers().add([SSE], ["vscode"])
    assert user.file("vscode").read_text() == golden("vscode", "sse.json")
    reply = user.json("add", "x", "-a", "opencode", "-t", "sse", "--url", "http://127.0.0.1:9/sse", code=1)
    assert "OpenCode does not support sse" in reply["error"]


def test_vscode_keeps_inputs_comments_and_its_own_keys(user: User) -> None:
    before = """{
  // asked once
  "inputs": [{"type": "promptString", "id": "key", "password": true}],
  "servers": {
    "x": {"type": "stdio", "command": "${workspaceFolder}/run", "env": {"K": "${input:key}"}, "envFile": "${workspaceFolder}/.env"},
  }
}
"""
    file = user.write("vscode project", before)
    user.counsel("update", "x", "-a", "vscode", "-e", "A=${HOME}")
    assert file.read_text() == before.replace('"${input:key}"}', '"${input:key}", "A": "${env:HOME}"}')
    reply = user.json("copy", "x", "--from", "vscode", "--to", "claude", code=1)
    assert "only VS Code fills it in" in reply["error"]
    user.counsel("copy", "x", "--from", "vscode", "--to", "vscode:user")  # it knows its own


def test_opencode_keeps_what_only_it_fills_in(user: User) -> None:
    entry = '{"type": "local", "command": ["c", "${A}"], "environment": {"K": "{file:./k}", "E": "{env:E}"}}'
    file = user.write("opencode", f'{{"mcp": {{"x": {entry}}}}}')
    (row,) = user.json("show", "x", "--reveal")["servers"]
    assert (row["args"], row["env"]) == (["${A}"], {"K": "{file:./k}", "E": "${E}"})
    reply = user.json("copy", "x", "--from", "opencode", "--to", "codex", code=1)
    assert "only OpenCode fills it in" in reply["error"]
    user.counsel("update", "x", "-a", "opencode", "-e", "N=1")
    assert '"{file:./k}", "E": "{env:E}", "N": "1"' in file.read_text()
    reply = user.json("add", "y", "-a", "opencode", "-e", "A=${B:-c}", "--", "c", code=1)
    assert "OpenCode has no default values" in reply["error"]
    assert (
        "would replace {env:B}" in user.json("add", "y", "-a", "opencode", "--", "{env:B}", code=1)["error"]
    )
    reply = user.json("add", "y", "-a", "opencode", "--literal", "--", "c", "${env:B}", code=1)
    assert "would replace {env:B} in '${env:B}'" in reply["error"]


def test_opencode_writes_the_file_that_is_there(user: User) -> None:
    file = user.file("opencode").with_suffix(".jsonc")
    file.parent.mkdir(parents=True)
    file.write_text("{\n  // mine\n}\n")
    user.counsel("add", "x", "-a", "opencode", "--", "c")
    assert "// mine" in file.read_text()
    assert not user.file("opencode").exists()


def test_opencode_merges_its_files(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write("opencode", json.dumps({"mcp": {"x": {"type": "local", "command": ["c"]}}}))
    user.write("opencode project", json.dumps({"mcp": {"x": {"enabled": False}}}))
    file = user.home / "named.json"
    file.write_text(json.dumps({"mcp": {"z": {"type": "remote", "url": "http://127.0.0.1:9/"}}}))
    monkeypatch.setenv("OPENCODE_CONFIG", str(file))
    reply = user.json("list")
    assert reply["problems"] == []
    rows = {(row["name"], row["scope"]): row for row in reply["servers"]}
    assert (rows["x", "project"]["enabled"], rows["x", "project"]["command"]) == (False, "c")
    assert rows["x", "user"]["shadowed_by"] == "project"
    assert not rows["z", "managed"]["writable"]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": ["c"]},
        {"type": "local", "command": "c"},
        {"type": "local", "command": ["c"], "environment": {"A": 1}},
        {"type": "local", "command": ["c"], "enabled": "no"},
        {"type": "remote"},
    ],
)
@pytest.mark.parametrize("real", [False, pytest.param(True, marks=[pytest.mark.client, pytest.mark.slow])])
def test_what_breaks_opencode_is_a_problem(real: bool, entry: dict[str, object], user: User) -> None:
    user.write("opencode", json.dumps({"mcp": {"x": entry}}))
    (problem,) = user.json("list")["problems"]
    assert (problem["agent"], problem["name"]) == ("opencode", "x")
    if real:
        with pytest.raises(AssertionError, match="Configuration is invalid"):
            real_clients.ask(user.home, user.project, "opencode", "debug", "config", **QUIET)


def test_opencodes_form_can_be_pasted(user: User, tmp_path: Path) -> None:
    text = '{"mcp": {"x": {"type": "local", "command": ["c", "a"], "environment": {"K": "{env:K}"}}}}'
    file = tmp_path / "pasted.json"
    file.write_text(text)
    user.counsel("add", "--from", str(file), "-a", "claude")
    (row,) = user.json("list")["servers"]
    assert (row["command"], row["args"], row["env"]) == ("c", ["a"], {"K": "${K}"})


@pytest.mark.client
@pytest.mark.slow
def test_opencode_connects_to_what_counsel_writes(user: User, tiny_port: int) -> None:
    """Comments, both scopes, both transports, a reference, a switch: checked with `opencode mcp list`."""
    user.write("opencode", '// mine\n{\n  "theme": "x", /* kept */\n}\n')
    at = {"user": ("-s", "user"), "project": ("-s", "project")}
    for scope, where in at.items():
        stdio = ("-e", "A=b c", "-e", "FROM=${FROM}", "--", sys.executable, str(QUICK))
        user.counsel("add", f"{scope}-stdio", "-a", "opencode", *where, *stdio)
        remote = ("--url", f"http://127.0.0.1:{tiny_port}/mcp", "-H", "X-One: 1")
        user.counsel("add", f"{scope}-http", "-a", "opencode", *where, *remote)
    user.counsel("disable", "user-http", "-a", "opencode")
    output = real_clients.ask(user.home, user.project, "opencode", "mcp", "list", FROM="there", **QUIET)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    result = dict(re.findall(r"[✓○✗] (\S+) (\w+)", plain))
    assert result == {
        "user-stdio": "connected",
        "user-http": "disabled",
        "project-stdio": "connected",
        "project-http": "connected",
    }
    config = real_clients.ask(user.home, user.project, "opencode", "debug", "config", FROM="there", **QUIET)
    document = json.loads(config[config.index("{") :])["mcp"]["project-stdio"]
    assert document["command"] == [sys.executable, str(QUICK)]


def local(value: str) -> dict[str, object]:
    return {"mcp": {"x": {"type": "local", "command": ["true", value]}}}


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=[pytest.mark.client, pytest.mark.slow])])
def test_opencodes_own_folders_are_stronger_than_its_files(
    real: bool, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured with 1.18.33. Of the project's folders, the one nearest to the repository's root is the strongest."""
    sub, config_dir = user.project / "sub", user.home / "config-dir"
    (user.project / ".git").mkdir()
    monkeypatch.setenv("OPENCODE_CONFIG_DIR", str(config_dir))
    strongest_first = {
        "config-dir": config_dir / "opencode.json",
        "home": user.home / ".opencode" / "opencode.json",
        "root-folder": user.project / ".opencode" / "opencode.json",
        "sub-folder": sub / ".opencode" / "opencode.jsonc",
        "sub": sub / "opencode.json",
        "root": user.project / "opencode.json",
        "user": user.file("opencode"),
    }
    for name, path in strongest_first.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(local(name)))
    for name, path in strongest_first.items():
        rows = user.json("list", "-a", "opencode", "--project", str(sub))["servers"]
        (used,) = (row for row in rows if row["shadowed_by"] is None)
        assert (used["args"], used["path"]) == ([name], str(path))
        if real:
            more = {**QUIET, "OPENCODE_CONFIG_DIR": str(config_dir)}
            assert f"true {name}\n" in real_clients.ask(user.home, sub, "opencode", "mcp", "list", **more)
        path.unlink()


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=[pytest.mark.client, pytest.mark.slow])])
def test_outside_a_repository_opencode_reads_the_files_of_all_folders_above(real: bool, user: User) -> None:
    below = user.project / "a" / "b"
    below.mkdir(parents=True)
    user.write("opencode project", json.dumps(local("above")))
    (row,) = user.json("list", "-a", "opencode", "--project", str(below))["servers"]
    assert (row["args"], row["writable"]) == (["above"], False)
    if real:
        assert "true above" in real_clients.ask(user.home, below, "opencode", "mcp", "list", **QUIET)
