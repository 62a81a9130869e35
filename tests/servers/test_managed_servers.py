"""Servers of plugins, extensions and the machine's administrator: they are listed and never written."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from servers import real_clients
from servers.conftest import QUICK
from support.user import User

TRUST = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def put(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def server(name: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(QUICK), name]}


def rows(user: User, agent: str) -> dict[str, tuple[str, str | None]]:
    return {
        row["name"]: (row["scope"], row["shadowed_by"])
        for row in user.json("list")["servers"]
        if row["agent"] == agent
    }


def claude_plugins(user: User) -> set[str]:
    """A marketplace with a plugin for each way to define servers; returns the names that Claude Code gives them."""
    market = user.home / "market"
    manifests: dict[str, Any] = {
        "usual": {},
        "inline": {"mcpServers": {"two": server("two"), "shared": server("wins")}},
        "path": {"mcpServers": "./conf/mcp.json"},
        "several": {"mcpServers": ["./more.json", {"five": server("five")}]},
    }
    for name, more in manifests.items():
        put(market / name / ".claude-plugin" / "plugin.json", {"name": name, "version": "1.0.0", **more})
    root = {**server("${CLAUDE_PLUGIN_ROOT}/x"), "env": {"A": "${CLAUDE_PLUGIN_DATA}"}}
    put(market / "usual" / ".mcp.json", {"mcpServers": {"one": root}})
    put(market / "inline" / ".mcp.json", {"shared": server("loses")})
    put(market / "path" / "conf" / "mcp.json", {"mcpServers": {"three": server("three")}})
    put(market / "several" / "more.json", {"four": server("four")})
    (market / "offered").mkdir()
    offers: list[dict[str, Any]] = [{"name": name, "source": f"./{name}"} for name in manifests]
    offers.append({"name": "offered", "source": "./offered", "mcpServers": {"six": server("six")}})
    put(
        market / ".claude-plugin" / "marketplace.json",
        {"name": "mk", "owner": {"name": "a"}, "plugins": [*offers, {"name": "off", "source": "./usual"}]},
    )
    source = {"source": {"source": "directory", "path": str(market)}}
    switches = {**{f"{offer['name']}@mk": True for offer in offers}, "off@mk": False}
    put(
        user.home / ".claude" / "settings.json",
        {"enabledPlugins": switches, "extraKnownMarketplaces": {"mk": source}},
    )
    marketplace = {**source, "installLocation": str(market), "lastUpdated": "2026-11-15T00:00:00.000Z"}
    put(user.home / ".claude" / "plugins" / "known_marketplaces.json", {"mk": marketplace})
    names = ("usual:one", "inline:two", "inline:shared", "path:three", "several:four", "several:five")
    return {f"plugin:{name}" for name in (*names, "offered:six")}


def test_claudes_plugin_servers_are_listed_as_the_client_fills_them_in(user: User) -> None:
    names = claude_plugins(user)
    assert rows(user, "claude") == dict.fromkeys(names, ("plugin", None))
    (server,) = user.json("show", "plugin:usual:one")["servers"]
    folder = user.home / "market" / "usual"
    data = str(user.home / ".claude" / "plugins" / "data" / "usual-mk")
    assert server["args"] == [str(QUICK), f"{folder}/x"]
    assert server["env"] == {"CLAUDE_PLUGIN_ROOT": str(folder), "CLAUDE_PLUGIN_DATA": data, "A": data}
    assert not server["writable"]
    assert user.json("show", "plugin:inline:shared")["servers"][0]["args"][-1] == "wins"


def test_a_plugins_server_is_switched_but_not_edited(user: User) -> None:
    claude_plugins(user)
    for command in (["remove"], ["update", "-e", "A=b"]):
        reply = user.json(command[0], "plugin:usual:one", *command[1:], code=1)
        assert "belongs to the plugin usual@mk" in reply["error"]
    user.json("disable", "plugin:usual:one", "-a", "claude")
    assert user.json("show", "plugin:usual:one")["servers"][0]["enabled"] is False
    user.json("enable", "plugin:usual:one")
    assert user.json("show", "plugin:usual:one")["servers"][0]["enabled"] is True


def test_a_plugins_broken_file_is_a_problem_and_hides_nothing(user: User) -> None:
    names = claude_plugins(user)
    broken = put(user.home / "market" / "usual" / ".mcp.json", "{")
    assert rows(user, "claude").keys() == names - {"plugin:usual:one"}
    assert [problem["path"] for problem in user.json("list")["problems"]] == [str(broken)]


def test_claudes_managed_file_excludes_other_files(user: User) -> None:
    user.counsel("add", "mine", "-a", "claude", "--", "x")
    claude_plugins(user)
    file = user.machine / "etc" / "claude-code" / "managed-mcp.json"
    put(file, {"mcpServers": {"corp": server("corp")}})
    servers = rows(user, "claude")
    assert servers.pop("corp") == ("managed", None)
    assert {shadow for _, shadow in servers.values()} == {"managed"}
    assert "administrator" in user.json("remove", "corp", code=1)["error"]
    warnings = user.json("add", "more", "-a", "claude", "--", "x")["results"][0]["warnings"]
    assert any(str(file) in words for words in warnings)
    put(file, "{")
    assert {shadow for _, shadow in rows(user, "claude").values()} == {"managed"}


def test_codex_layers_of_the_machine_and_of_folders_above(user: User) -> None:
    user.write("codex", '[mcp_servers.both]\ncommand = "user"\n[mcp_servers.mine]\ncommand = "x"\n')
    put(
        user.machine / "etc" / "codex" / "config.toml",
        '[mcp_servers.sys]\ncommand = "echo"\n[mcp_servers.both]\ncommand = "system"\nargs = ["s"]\n',
    )
    put(user.machine / "etc" / "codex" / "managed_config.toml", '[mcp_servers.mine]\ncommand = "managed"\n')
    (user.project / ".git").mkdir()
    user.write("codex project", '[mcp_servers.above]\ncommand = "above"\n')
    below = user.project / "below"
    below.mkdir()
    servers = {
        (row["name"], row["scope"]): (row["command"], row["args"], row["shadowed_by"])
        for row in user.json("list", "--project", str(below))["servers"]
    }
    assert servers == {
        ("both", "user"): ("user", ["s"], None),
        ("both", "system"): ("system", ["s"], "user"),
        ("mine", "user"): ("x", [], "managed"),
        ("mine", "managed"): ("managed", [], None),
        ("sys", "system"): ("echo", [], None),
        ("above", "project"): ("above", [], None),
    }
    assert "administrator" in user.json("disable", "sys", code=1)["error"]
    assert "a folder above" in user.json("remove", "above", "--project", str(below), code=1)["error"]


def codex_plugin(user: User) -> None:
    user.write("codex", '[plugins."plug@mk"]\nenabled = true\n[mcp_servers.mine]\ncommand = "x"\n')
    folder = user.home / ".codex" / "plugins" / "cache" / "mk" / "plug" / "1.0.0"
    put(folder / ".codex-plugin" / "plugin.json", {"name": "plug", "version": "1.0.0"})
    servers = {"brought": {"command": "echo", "cwd": "sub"}, "mine": {"command": "plugin"}}
    put(folder / ".mcp.json", {"mcpServers": servers})


def test_codex_plugin_servers(user: User) -> None:
    codex_plugin(user)
    result = user.json("list")["servers"]
    assert [(row["name"], row["scope"], row["shadowed_by"]) for row in result] == [
        ("mine", "user", None),
        ("brought", "plugin", None),
        ("mine", "plugin", "user"),
    ]
    assert result[1]["cwd"].endswith("/plug/1.0.0/sub")


def gemini_files(user: User) -> None:
    """Files with one server of the same name in all places, and another in each; checked against `gemini mcp list`."""
    for place, file in (
        ("managed", user.machine / "etc" / "gemini-cli" / "settings.json"),
        ("system", user.machine / "etc" / "gemini-cli" / "system-defaults.json"),
        ("user", user.file("gemini")),
        ("project", user.file("gemini project")),
    ):
        put(file, {"mcpServers": {f"own-{place}": server(place), "both": server(place)}})
    servers = {"own-plugin": server("${extensionPath}${/}a"), "both": server("plugin")}
    folder = user.home / ".gemini" / "extensions" / "ext"
    put(folder / "gemini-extension.json", {"name": "ext", "version": "1.0.0", "mcpServers": servers})


def test_geminis_system_files_and_extensions(user: User) -> None:
    gemini_files(user)
    servers = rows(user, "gemini")
    places = ("managed", "system", "user", "project", "plugin")
    assert {name: matches for name, matches in servers.items() if name != "both"} == {
        f"own-{place}": (place, None) for place in places
    }
    both = {row["scope"]: row["shadowed_by"] for row in user.json("show", "both")["servers"]}
    assert both == {**dict.fromkeys(places, "managed"), "managed": None}
    (own,) = user.json("show", "own-plugin")["servers"]
    assert own["args"][-1] == str(user.home / ".gemini" / "extensions" / "ext" / "a")
    switches = user.home / ".gemini" / "extensions" / "extension-enablement.json"
    put(switches, {"ext": {"overrides": [f"!{user.project.parent}/*"]}})
    assert "own-plugin" not in rows(user, "gemini")
    put(switches, {"ext": {"overrides": [f"!{user.project.parent}/*", f"{user.project}/"]}})
    assert "own-plugin" in rows(user, "gemini")


def test_geminis_lists_of_excluded_and_allowed_count_across_files(user: User) -> None:
    user.write("gemini", '{"mcp": {"excluded": ["one"]}, "mcpServers": {"two": {"command": "x"}}}')
    user.write("gemini project", '{"mcpServers": {"one": {"command": "x"}, "three": {"command": "x"}}}')
    switches = {row["name"]: row["enabled"] for row in user.json("list")["servers"]}
    assert switches == {"two": True, "one": False, "three": True}
    user.json("enable", "one")
    assert user.json("show", "one")["servers"][0]["enabled"]
    user.write("gemini", '{"mcp": {"allowed": ["one"]}, "mcpServers": {"two": {"command": "x"}}}')
    switches = {row["name"]: row["enabled"] for row in user.json("list")["servers"]}
    assert switches == {"two": False, "one": True, "three": False}


@pytest.mark.client
@pytest.mark.slow
def test_the_clients_list_the_same(user: User) -> None:
    names = claude_plugins(user)
    output = real_clients.ask(user.home, user.project, "claude", "mcp", "list")
    assert {line.split(": ")[0] for line in output.splitlines() if "✔ Connected" in line} == names
    codex_plugin(user)
    codex_list = json.loads(real_clients.ask(user.home, user.project, "codex", "mcp", "list", "--json"))
    assert {server["name"] for server in codex_list} == {"brought", "mine"}
    gemini_files(user)
    shutil.rmtree(user.machine)  # Gemini accepts them only if root alone can write them
    output = real_clients.ask(user.home, user.project, "gemini", "mcp", "list", **TRUST)
    used = {
        row["name"]: row for row in user.json("list", "-a", "gemini")["servers"] if not row["shadowed_by"]
    }
    claude_lines = {line.split()[1].rstrip(":"): line for line in output.splitlines() if "Connected" in line}
    assert claude_lines.keys() == used.keys()
    assert all(used[name]["args"][-1] in line for name, line in claude_lines.items())
