"""`counsel servers rename`, and names that the clients accept."""

from __future__ import annotations

import json

import pytest

from support.user import User

HELD = '{\n  "a": 1, "mcpServers": {\n    "first": {"command": "c"},\n    "my server.v2": {"type": "stdio", "command": "d", "unknown": [1]}\n  }\n}'


def test_a_rename_changes_the_name_and_nothing_else(user: User) -> None:
    path = user.write("claude", HELD)
    reply = user.json("rename", "my server.v2", "plain")
    assert reply["results"][0]["action"] == "renamed"
    assert path.read_text() == HELD.replace("my server.v2", "plain")
    user.counsel("undo")
    assert path.read_text() == HELD


def test_everywhere_all_or_none(user: User) -> None:
    user.counsel("add", "x", "--everywhere", "--", "c")
    user.counsel("add", "y", "-a", "gemini", "--", "c")
    reply = user.json("rename", "x", "y", "--everywhere", code=1)
    assert reply["code"] == "CONFLICT"
    assert {row["name"] for row in user.json("list", "-a", "claude,codex,cursor")["servers"]} == {"x"}
    user.counsel("rename", "x", "z", "--everywhere")
    rows = user.json("list")["servers"]
    assert sorted((row["agent"], row["name"]) for row in rows) == [
        ("claude", "z"),
        ("codex", "z"),
        ("cursor", "z"),
        ("gemini", "y"),
        ("gemini", "z"),
    ]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_server_that_is_off_stays_off(agent: str, user: User) -> None:
    user.counsel("add", "x", "-a", agent, "--", "c")
    user.counsel("disable", "x", "-a", agent)
    user.counsel("rename", "x", "y", "-a", agent)
    assert [(row["name"], row["enabled"]) for row in user.json("list")["servers"]] == [("y", False)]
    user.counsel("add", "x", "-a", agent, "--", "c")
    assert {row["name"]: row["enabled"] for row in user.json("list")["servers"]} == {"x": True, "y": False}


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("gone", "y"), "NOT_FOUND", "has a server 'gone'"),
        (("x", "x"), "INVALID_ARGUMENT", "already"),
        (("x", "bad name"), "INVALID_ARGUMENT", "does not accept the name"),
        (("x", ""), "INVALID_ARGUMENT", "does not accept the name"),
        (("x", "y", "--dry-run"), None, ""),
    ],
)
def test_what_cannot_be_renamed(args: tuple[str, ...], code: str | None, words: str, user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    before = user.file("codex").read_text()
    reply = user.json("rename", *args, code=1 if code else 0)
    assert reply.get("code") == code
    assert words in reply.get("error", "")
    assert user.file("codex").read_text() == before


def test_codex_layers_are_looked_at_under_both_names(user: User) -> None:
    user.write("codex", '[mcp_servers.x]\ncommand = "c"\n')
    user.write("codex project", '[mcp_servers.y]\nurl = "http://127.0.0.1:9/mcp"\n')
    assert "merges" in user.json("rename", "x", "y", "-a", "codex", "-s", "user", code=1)["error"]


@pytest.mark.parametrize("name", ["my server", "a.b", "größe", "x/y@1"])
def test_names_that_claude_code_loads_can_be_updated_and_copied(name: str, user: User) -> None:
    user.write("claude", json.dumps({"mcpServers": {name: {"type": "stdio", "command": "c"}}}))
    user.counsel("update", name, "-a", "claude", "-e", "A=1")
    assert json.loads(user.file("claude").read_text())["mcpServers"][name]["env"] == {"A": "1"}
    user.counsel("copy", name, "--from", "claude", "--to", "gemini,cursor")
    reply = user.json("copy", name, "--from", "gemini", "--to", "claude:project")
    assert "claude mcp" in reply["results"][0]["warnings"][0]


def test_enable_keeps_codexs_line_and_its_comment(user: User) -> None:
    path = user.write("codex", '[mcp_servers.x]\ncommand = "c"\nenabled = false # while I travel\n')
    user.counsel("enable", "x", "-a", "codex")
    assert path.read_text() == '[mcp_servers.x]\ncommand = "c"\nenabled = true # while I travel\n'


def test_a_user_server_stays_off_in_the_other_projects(user: User) -> None:
    """Claude Code switches a user's server off per project; that of a project's own server of that name stays."""
    user.counsel("add", "x", "-a", "claude", "--", "c")
    project = user.home / "other"
    project.mkdir()
    user.counsel("disable", "x", "-a", "claude", "--project", str(project))
    user.counsel("rename", "x", "y", "-a", "claude")
    assert [row["enabled"] for row in user.json("list", "--project", str(project))["servers"]] == [False]
    assert [row["enabled"] for row in user.json("list")["servers"]] == [True]
    projects = json.loads(user.file("claude").read_text())["projects"]
    assert {path: entry["disabledMcpServers"] for path, entry in projects.items()} == {
        str(project): ["x", "y"]
    }


@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_server_that_gemini_allows_stays_allowed(scope: str, user: User) -> None:
    name = "gemini" if scope == "user" else "gemini project"
    text = '{\n  // mine\n  "mcp": {"allowed": ["x"]},\n  "mcpServers": {"x": {"command": "c"}}\n}\n'
    file = user.write(name, text)
    user.counsel("rename", "x", "y", "-a", "gemini")
    assert [(row["name"], row["enabled"]) for row in user.json("list")["servers"]] == [("y", True)]
    assert file.read_text() == text.replace('["x"]', '["x", "y"]').replace('"x":', '"y":')
    user.counsel("undo")
    assert file.read_text() == text


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_a_name_that_is_switched_off_is_reported(agent: str, user: User) -> None:
    user.counsel("add", "y", "-a", agent, "--", "c")
    user.counsel("disable", "y", "-a", agent)
    user.counsel("remove", "y", "-a", agent)
    user.counsel("add", "x", "-a", agent, "--", "c")
    reply = user.json("rename", "x", "y", "-a", agent)
    assert "It is disabled in" in " ".join(reply["results"][0]["warnings"])
