"""Properties of every client's format: a new row of the table is tested automatically."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import counsel.agents
from counsel import cli
from counsel.agents.definitions import AGENTS, WITH_SERVERS, Agent
from counsel.agents.registry import askable_agents, resolve
from counsel.agents.server_format import Server
from counsel.servers.formats import FORMATS
from support.user import User

STDIO = Server("x", command="python3", args=("-m", "x", "a b"), env={"FOO": "bar", "BAZ": "a=b c"})
HTTP = Server("x", "http", url="http://127.0.0.1:9/mcp", headers={"X-Two": "2"}, token_env="TOKEN")
SERVERS = [STDIO, STDIO.replaced(env={"TOKEN": "${TOKEN}"}), HTTP]
every_client = pytest.mark.parametrize("agent", WITH_SERVERS)
every_file = pytest.mark.parametrize(
    ("agent", "scope"),
    [(row.name, scope) for row in WITH_SERVERS.values() for scope in row.scopes if scope != "local"],
)


@every_client
@pytest.mark.parametrize("server", SERVERS, ids=["stdio", "reference", "http"])
def test_what_is_written_is_read_back(agent: str, server: Server) -> None:
    fmt = FORMATS[agent]
    assert fmt.read("x", fmt.write(server)).compared_fields() == server.compared_fields()


FULL = {
    "cwd": "/srv",
    "timeout": 30,
    "include_tools": ("a", "b"),
    "exclude_tools": ("c",),
}


@every_client
def test_every_field_is_written_that_the_client_knows(agent: str) -> None:
    fmt = FORMATS[agent]
    fields = {name: value for name, value in FULL.items() if name not in fmt.unsupported}
    server = fmt.read("x", fmt.write(STDIO.replaced(**fields)))
    assert {name: getattr(server, name) for name in fields} == fields


@pytest.mark.parametrize("agent", [name for name in WITH_SERVERS if name != "codex"])  # test_codex_layers.py
@pytest.mark.parametrize("entry", [5, "c", ["c"], None])
def test_an_entry_that_is_no_object_hides_no_other(agent: str, entry: object, user: User) -> None:
    fmt = FORMATS[agent]
    home = next(table for table in fmt.tables(user.servers().workspace) if table.scope == "user")
    (key,) = home.keys
    home.target.path.parent.mkdir(parents=True, exist_ok=True)
    home.target.path.write_text(json.dumps({key: {"odd": entry, "x": fmt.write(STDIO)}}))
    reply = user.json("list")
    assert [row["name"] for row in reply["servers"]] == ["x"]
    rows = [row for row in reply["problems"] if "name" in row]
    assert [(row["name"], row["code"]) for row in rows] == [("odd", "CONFIG_INVALID")]


@every_file
def test_every_operation_and_undo_keep_the_bytes_around(agent: str, scope: str, user: User) -> None:
    """The file has a comment, an odd layout and another program's keys, which are unchanged after all operations."""
    home = next(table for table in FORMATS[agent].tables(user.servers().workspace) if table.scope == scope)
    toml = home.target.kind == "toml"
    comment = {"json": "", "jsonc": "// mine\n", "toml": "# mine\n"}[home.target.kind]
    before = comment + ("other   = 1\n[x_y]\na=[1,\n2]\n" if toml else '{"other" :  [1,2 ],\n\t"n": 1e2}\n')
    home.target.path.parent.mkdir(parents=True, exist_ok=True)
    home.target.path.write_text(before)
    at = ("-a", agent, "-s", scope)
    user.counsel("add", "x", *at, "-e", "A=1", "--", "c", "one")
    user.counsel("update", "x", *at, "-e", "B=2")
    (row,) = user.json("show", "x", *at)["servers"]
    assert (row["command"], row["args"], row["env"]) == ("c", ["one"], {"A": "1", "B": "2"})
    text = home.target.path.read_text()
    assert all(part in text for part in (before.rstrip("}\n \t")[:-4], comment))
    user.counsel("rename", "x", "y", *at)
    user.counsel("remove", "y", *at)
    for _ in range(4):
        user.counsel("undo")
    assert home.target.path.read_text() == before


@every_file
def test_removing_the_only_server_takes_the_table_that_adding_made(
    agent: str, scope: str, user: User
) -> None:
    home = next(table for table in FORMATS[agent].tables(user.servers().workspace) if table.scope == scope)
    before = "other   = 1\n" if home.target.kind == "toml" else '{"other" :  [1,2 ]}\n'
    home.target.path.parent.mkdir(parents=True, exist_ok=True)
    home.target.path.write_text(before)
    user.counsel("add", "x", "-a", agent, "-s", scope, "--", "c")
    user.counsel("remove", "x", "-a", agent, "-s", scope)
    assert home.target.path.read_text() == before


@every_client
def test_copies_from_every_client_to_every_other(agent: str, user: User) -> None:
    user.counsel("add", "x", "-a", agent, "-e", "A=1", "--", "c", "one")
    other_agents = [name for name in WITH_SERVERS if name != agent]
    user.counsel("copy", "x", "--from", agent, "--to", ",".join(other_agents))
    rows = user.json("list")["servers"]
    assert {row["agent"] for row in rows} == set(WITH_SERVERS)
    assert all(row["drift"] == [] and row["env"] == {"A": "1"} for row in rows)


# ── who is here ──────────────────────────────────────────────────────────────────────────────────────


def test_everywhere_means_the_clients_that_are_present_and_names_the_others(user: User) -> None:
    user.install("claude")
    (user.home / ".config" / "Code" / "User").mkdir(parents=True)  # used, with no program on PATH
    reply = user.json("add", "x", "--everywhere", "--", "c")
    assert {row["agent"] for row in reply["results"]} == {"claude", "vscode"}
    absent_agents = [name for name in WITH_SERVERS if name not in ("claude", "vscode")]
    assert reply["left_out"] == absent_agents
    assert not (user.home / ".codex").exists()
    user.counsel("add", "y", "--everywhere", "--", "c")
    assert (
        f"left out, not found here: {', '.join(AGENTS[name].label for name in absent_agents)} (" in user.err
    )
    head = user.counsel("list").splitlines()[1].split()
    assert head == ["SERVER", "CLAUDE", "VSCODE", "TARGET", "NOTES"]
    user.counsel("add", "y", "-a", "codex", "--", "c")  # naming a client always works
    assert "CODEX" in user.counsel("list").splitlines()[1].split()


def test_everywhere_without_a_client_says_so(user: User) -> None:
    user.install()
    reply = user.json("add", "x", "--everywhere", "--", "c", code=1)
    assert "No client was found" in reply["error"]
    assert "opencode" in reply["hint"]


def test_a_projects_file_counts_for_the_projects_scope_alone(user: User) -> None:
    user.install("claude")
    user.write("vscode project", "{}")
    assert [row["agent"] for row in user.json("add", "x", "--everywhere", "--", "c")["results"]] == ["claude"]
    reply = user.json("add", "x", "--everywhere", "-s", "project", "--", "c")
    assert {row["agent"] for row in reply["results"]} == {"claude", "vscode"}


def test_only_the_clients_that_are_meant_are_imported(user: User) -> None:
    code = (
        "import sys; from counsel import cli; cli.run(['servers', 'list', '-a', 'claude']);"
        "print(*sorted(name for name in sys.modules if name.startswith('counsel.agents.') and name.endswith('.servers')))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1].split() == ["counsel.agents.claude.servers"]


# ── a client is one module and one row ───────────────────────────────────────────────────────────────

MODULE = """
import re

from counsel.agents import references
from counsel.agents.json_server_format import read_entry, write_entry
from counsel.agents.server_format import ServerFormat, ServerTable
from counsel.configfiles.write.safewrite import Target


def layout(server):
    if server.transport == "stdio":
        return {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    return {"type": server.transport, "url": server.url, "headers": dict(server.headers)}


FORMAT = ServerFormat(
    agent="fictional",
    read=lambda name, entry: read_entry(name, entry, references.CLAUDE, {}),
    write=lambda server: write_entry(server, references.CLAUDE, {}, layout),
    tables=lambda workspace: [ServerTable("fictional", "user", Target(workspace.home / ".fictional" / "mcp.json", "jsonc"), ("tools",))],
    syntax=references.CLAUDE,
    names=re.compile(".+"),
    names_text="any letters",
    precedence=("user",),
    no_switch="Fictional has no switches",
)
"""


@pytest.fixture
def fictional(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    module = tmp_path / "clients" / "fictional" / "servers.py"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE)
    monkeypatch.setattr(counsel.agents, "__path__", [*counsel.agents.__path__, str(module.parents[1])])
    row = Agent("fictional", "Fictional", "fictional", "nowhere", "", ("user",), can=("servers",))
    monkeypatch.setitem(AGENTS, "fictional", row)
    for name in ("counsel.agents.fictional", "counsel.agents.fictional.servers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return user


def test_a_client_with_servers_alone_is_one_module_and_one_row(fictional: User) -> None:
    user, file = fictional, fictional.home / ".fictional" / "mcp.json"
    file.parent.mkdir()
    file.write_text('// mine\n{"theme":   "dark"}\n')
    reply = user.json("add", "x", "--everywhere", "-e", "KEY=${KEY}", "--", "c", "one")
    assert "fictional" in {row["agent"] for row in reply["results"]}
    user.counsel("update", "x", "-a", "fictional", "--", "c", "two")
    assert json.loads(file.read_text().removeprefix("// mine\n"))["tools"]["x"]["args"] == ["two"]
    user.counsel("copy", "x", "--from", "fictional", "--to", "codex", "--replace")
    rows = {row["agent"]: row for row in user.json("list")["servers"]}
    assert rows["codex"]["args"] == ["two"]
    assert "FICTIONAL" in user.counsel("list").splitlines()[1].split()
    user.counsel("remove", "x", "-a", "fictional")
    user.counsel("undo")
    assert "two" in file.read_text()
    assert "Fictional has no switches" in user.json("disable", "x", "-a", "fictional", code=1)["error"]


def test_a_client_with_servers_alone_can_be_neither_asked_nor_set_up(
    fictional: User, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolve("fictional") is None
    assert "fictional" not in askable_agents()
    for command in (["setup", "-a", "fictional"], ["skills", "list", "--agent", "fictional"]):
        assert cli.run(command) == 2
    assert "'fictional' is not one of" in capsys.readouterr().err
