"""Enable and disable servers in each client's own way."""

from __future__ import annotations

import json
import tomllib

import pytest

from support.user import User


def test_a_server_of_two_scopes_is_switched_off_once(user: User) -> None:
    for scope in ("user", "local"):
        user.counsel("add", "x", "--agent", "claude", "--scope", scope, "--", "c")
    user.counsel("disable", "x", "--agent", "claude")
    document = json.loads(user.file("claude").read_text())["projects"][str(user.project)]
    assert document["disabledMcpServers"] == ["x"]


def test_each_client_is_switched_its_own_way(user: User) -> None:
    user.counsel("add", "x", "-a", "claude,codex,gemini", "--", "c")
    before = {agent: user.file(agent).read_bytes() for agent in ("claude", "codex", "gemini")}
    user.counsel("disable", "x", "-a", "claude,codex,gemini")
    assert {row["agent"]: row["enabled"] for row in user.json("list")["servers"]} == dict.fromkeys(
        before, False
    )
    project = json.loads(user.file("claude").read_text())["projects"][str(user.project)]
    assert project["disabledMcpServers"] == ["x"]
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"]["enabled"] is False
    switches = user.home / ".gemini" / "mcp-server-enablement.json"
    assert json.loads(switches.read_text()) == {"x": {"enabled": False}}
    user.counsel("enable", "x", "-a", "claude,codex,gemini")
    assert all(row["enabled"] for row in user.json("list")["servers"])
    assert user.file("codex").read_bytes() == before["codex"] + b"enabled = true\n"
    assert user.file("gemini").read_bytes() == before["gemini"]
    assert json.loads(switches.read_text()) == {}


def test_cursor_cannot_be_switched_and_says_why(user: User) -> None:
    user.counsel("add", "x", "-a", "cursor", "--", "c")
    assert "inside the application" in user.json("disable", "x", code=1)["error"]


def test_a_copy_does_not_switch_a_disabled_server_on_silently(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    user.counsel("disable", "x", "-a", "codex")
    reply = user.json("copy", "x", "--from", "codex", "--to", "gemini")
    assert any("enabled in" in words for words in reply["results"][0]["warnings"])


def test_a_server_whose_name_is_disabled_is_added_with_a_note(user: User) -> None:
    user.counsel("add", "x", "-a", "claude,gemini", "--", "c")
    user.counsel("disable", "x", "-a", "claude,gemini")
    user.counsel("remove", "x", "-a", "claude,gemini")
    reply = user.json("add", "x", "-a", "claude,gemini", "--", "c")
    for row in reply["results"]:
        assert f"counsel servers enable x --agent {row['agent']}" in row["warnings"][0]
    assert not any(row["enabled"] for row in user.json("list")["servers"])


def test_a_copy_of_what_is_off_says_how_it_is_switched_there(user: User) -> None:
    user.counsel("add", "x", "-a", "codex,gemini", "--", "c")
    user.counsel("disable", "x", "-a", "codex,gemini")
    reply = user.json("copy", "x", "--from", "codex", "--to", "claude,cursor,gemini:project")
    claude, cursor, gemini = (row["warnings"] for row in reply["results"])
    assert "counsel servers disable x --agent claude" in claude[0]
    assert "inside the application" in cursor[0]
    assert not any(
        "enabled in" in words or "disabled in" in words for words in gemini
    )  # off there, too, by its name


@pytest.mark.parametrize(
    "file", ["home/settings.json", "project/settings.json", "project/settings.local.json"]
)
def test_a_projects_server_that_claudes_settings_switch_off(file: str, user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "-s", "project", "--", "c")
    folder, name = file.split("/")
    settings = (user.home if folder == "home" else user.project) / ".claude" / name
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"disabledMcpjsonServers": ["x", "y"], "mine": 1}')
    assert user.json("show", "x")["servers"][0]["enabled"] is False
    reply = user.json("enable", "x")
    assert reply["results"][0]["warnings"] == [f"{settings} disabled it, too; that entry was removed."]
    assert settings.read_text() == '{"disabledMcpjsonServers": ["y"], "mine": 1}'
    assert user.json("show", "x")["servers"][0]["enabled"] is True


def test_a_projects_server_that_claudes_own_file_switches_off(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "-s", "project", "--", "c")
    project = {"disabledMcpjsonServers": ["x"]}
    user.file("claude").write_text(json.dumps({"projects": {str(user.project): project}}))
    assert user.json("show", "x")["servers"][0]["enabled"] is False
    user.counsel("enable", "x")
    assert user.json("show", "x")["servers"][0]["enabled"] is True
