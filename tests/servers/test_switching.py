"""On and off, each client's own way."""

from __future__ import annotations

import json
import tomllib

import pytest

from servers.conftest import World


def test_a_server_of_two_scopes_is_switched_off_once(world: World) -> None:
    for scope in ("user", "local"):
        world.counsel("add", "x", "--agent", "claude", "--scope", scope, "--", "c")
    world.counsel("disable", "x", "--agent", "claude")
    held = json.loads(world.file("claude").read_text())["projects"][str(world.project)]
    assert held["disabledMcpServers"] == ["x"]


def test_each_client_is_switched_its_own_way(world: World) -> None:
    world.counsel("add", "x", "-a", "claude,codex,gemini", "--", "c")
    before = {agent: world.file(agent).read_bytes() for agent in ("claude", "codex", "gemini")}
    world.counsel("disable", "x", "-a", "claude,codex,gemini")
    assert {row["agent"]: row["enabled"] for row in world.json("list")["servers"]} == dict.fromkeys(
        before, False
    )
    project = json.loads(world.file("claude").read_text())["projects"][str(world.project)]
    assert project["disabledMcpServers"] == ["x"]
    assert tomllib.loads(world.file("codex").read_text())["mcp_servers"]["x"]["enabled"] is False
    switches = world.home / ".gemini" / "mcp-server-enablement.json"
    assert json.loads(switches.read_text()) == {"x": {"enabled": False}}
    world.counsel("enable", "x", "-a", "claude,codex,gemini")
    assert all(row["enabled"] for row in world.json("list")["servers"])
    assert world.file("codex").read_bytes() == before["codex"] + b"enabled = true\n"
    assert world.file("gemini").read_bytes() == before["gemini"]
    assert json.loads(switches.read_text()) == {}


def test_cursor_cannot_be_switched_and_says_why(world: World) -> None:
    world.counsel("add", "x", "-a", "cursor", "--", "c")
    assert "inside the application" in world.json("disable", "x", code=1)["error"]


def test_a_copy_does_not_switch_a_disabled_server_on_silently(world: World) -> None:
    world.counsel("add", "x", "-a", "codex", "--", "c")
    world.counsel("disable", "x", "-a", "codex")
    done = world.json("copy", "x", "--from", "codex", "--to", "gemini")
    assert any("switched on" in words for words in done["results"][0]["warnings"])


def test_a_server_whose_name_is_switched_off_is_added_and_that_is_said(world: World) -> None:
    world.counsel("add", "x", "-a", "claude,gemini", "--", "c")
    world.counsel("disable", "x", "-a", "claude,gemini")
    world.counsel("remove", "x", "-a", "claude,gemini")
    done = world.json("add", "x", "-a", "claude,gemini", "--", "c")
    for row in done["results"]:
        assert f"counsel servers enable x --agent {row['agent']}" in row["warnings"][0]
    assert not any(row["enabled"] for row in world.json("list")["servers"])


def test_a_copy_of_what_is_off_says_how_it_is_switched_there(world: World) -> None:
    world.counsel("add", "x", "-a", "codex,gemini", "--", "c")
    world.counsel("disable", "x", "-a", "codex,gemini")
    done = world.json("copy", "x", "--from", "codex", "--to", "claude,cursor,gemini:project")
    claude, cursor, gemini = (row["warnings"] for row in done["results"])
    assert "counsel servers disable x --agent claude" in claude[0]
    assert "inside the application" in cursor[0]
    assert not any("switched" in words for words in gemini)  # off there, too, by its name


@pytest.mark.parametrize(
    "file", ["home/settings.json", "project/settings.json", "project/settings.local.json"]
)
def test_a_projects_server_that_claudes_settings_switch_off(file: str, world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "-s", "project", "--", "c")
    folder, name = file.split("/")
    settings = (world.home if folder == "home" else world.project) / ".claude" / name
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"disabledMcpjsonServers": ["x", "y"], "mine": 1}')
    assert world.json("show", "x")["servers"][0]["enabled"] is False
    done = world.json("enable", "x")
    assert done["results"][0]["warnings"] == [f"{settings} switched it off, too, and no longer does."]
    assert settings.read_text() == '{"disabledMcpjsonServers": ["y"], "mine": 1}'
    assert world.json("show", "x")["servers"][0]["enabled"] is True
