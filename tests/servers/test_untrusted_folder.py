"""A folder that nobody trusts starts nothing through `counsel servers check`, neither its servers nor the user's in it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from counsel import untrusted
from counsel.agents import trust
from counsel.agents.definitions import Workspace
from servers.conftest import QUICK, World

WHERE = "import os, sys; open(sys.argv[1], 'w').write(os.getcwd() + '|' + os.environ.get('PWD', ''))"


@pytest.fixture
def canary(world: World) -> Path:
    return world.home / "canary"


def told_to_trust(world: World, agent: str, folder: Path) -> None:
    if agent == "claude":
        known = json.loads(world.file("claude").read_text()) if world.file("claude").exists() else {}
        projects = {str(folder): {"hasTrustDialogAccepted": True}}
        world.write("claude", json.dumps({**known, "projects": projects}))
    elif agent == "codex":
        old = world.file("codex").read_text() if world.file("codex").exists() else ""
        world.write("codex", f'{old}\n[projects."{folder}"]\ntrust_level = "trusted"\n')
    else:
        path = world.home / ".gemini" / "trustedFolders.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({str(folder): "TRUST_FOLDER"}))


def trap(folder: Path, canary: Path, name: str) -> None:
    (folder / name).write_text(f"#!{sys.executable}\nopen({str(canary)!r}, 'w').write('sprung')\n")
    (folder / name).chmod(0o755)


def started_in(world: World, *more: str) -> tuple[Path, str]:
    said = world.home / "where"
    said.unlink(missing_ok=True)
    world.json("check", "x", *more, code=1)
    cwd, pwd = said.read_text().split("|")
    return Path(cwd), pwd


def test_the_users_server_imports_nothing_from_the_folder(world: World, canary: Path) -> None:
    trap(world.project, canary, "trap.py")
    world.counsel("add", "x", "-a", "claude,codex,gemini,cursor", "--", sys.executable, "-m", "trap")
    rows = world.json("check", code=1)["checks"]
    assert {row["status"] for row in rows} == {"failed"}
    assert any("No module named trap" in line for line in rows[0]["stderr"])
    assert not canary.exists()
    told_to_trust(world, "gemini", world.project)  # the trap is real
    world.json("check", code=1)
    assert canary.exists()


def test_the_users_server_starts_in_an_empty_folder_and_is_not_told_of_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", str(world.project))
    world.counsel("add", "x", "-a", "claude", "--", sys.executable, "-c", WHERE, str(world.home / "where"))
    cwd, pwd = started_in(world)
    assert str(cwd) == pwd
    assert list(cwd.iterdir()) == []
    assert cwd.is_relative_to(world.home / "counsel")
    assert cwd.stat().st_mode & 0o777 == 0o500
    assert started_in(world, "--trust-folder") == (world.project, str(world.project))
    told_to_trust(world, "codex", world.project)
    assert started_in(world)[0] == world.project


def test_a_folder_that_something_was_written_into_is_not_taken_for_empty(world: World) -> None:
    env = {"HOME": str(world.home), "COUNSEL_HOME": str(world.home / "counsel")}
    first = Path(untrusted.empty_folder(env))
    assert untrusted.empty_folder(env) == str(first)
    first.chmod(0o700)
    (first / "pip.py").write_text("")
    assert untrusted.empty_folder(env) != str(first)


def test_an_absolute_working_folder_of_the_users_entry_is_kept(world: World) -> None:
    there = world.home / "there"
    there.mkdir()
    words = ("--", sys.executable, "-c", WHERE, str(world.home / "where"))
    world.counsel("add", "x", "-a", "codex", "--cwd", str(there), *words)
    assert started_in(world)[0] == there
    world.counsel("add", "x", "-a", "gemini", "--cwd", "~/there", *words)
    world.counsel("remove", "x", "-a", "codex")
    assert started_in(world)[0] == there


@pytest.mark.parametrize("path", [".", "", "bin", "./bin:", "~/bin"])
def test_a_search_path_into_the_folder_is_not_searched(
    world: World, canary: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (world.project, world.project / "bin", world.project / "~" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        trap(folder, canary, "my-server")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    world.counsel("add", "x", "-a", "claude,codex", "--", "my-server")
    assert {row["status"] for row in world.json("check", code=1)["checks"]} == {"failed"}
    world.json("check", "--trust-folder", code=1)  # nor in a trusted one
    assert not canary.exists()


def test_a_module_path_into_the_folder_is_not_searched(
    world: World, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap(world.project, canary, "trap.py")
    trap(world.project, canary, "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", f":{world.project.parent}:.")
    world.counsel("add", "x", "-a", "claude", "--", sys.executable, "-m", "trap")
    world.counsel("add", "y", "-a", "claude", "-e", "PYTHONPATH=.", "--", sys.executable, "-m", "trap")
    world.json("check", code=1)
    assert not canary.exists()


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "./server"},
        {"command": "bin/../server"},
        {"command": "true", "cwd": "."},
        {"command": "true", "cwd": "bin"},
        {"command": "${HERE}/server"},
        {"command": "true", "cwd": "${HERE}"},
    ],
)
def test_a_relative_path_of_the_users_entry_is_refused_with_words(
    world: World, canary: Path, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", ".")
    trap(world.project, canary, "server")
    (world.project / "bin").mkdir()
    world.write("gemini", json.dumps({"mcpServers": {"x": entry}}))
    (row,) = world.json("check", code=1)["checks"]
    assert str(world.project) in row["error"]
    assert "absolute path" in row["error"]
    assert not canary.exists()


@pytest.mark.parametrize("word", ["${PWD}", "$PWD", "${OLDPWD}", "${CLAUDE_PROJECT_DIR:-.}", "${INIT_CWD}"])
def test_a_variable_does_not_lead_into_the_folder(
    world: World, canary: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PWD", "OLDPWD", "CLAUDE_PROJECT_DIR", "INIT_CWD"):
        monkeypatch.setenv(name, str(world.project))
    trap(world.project, canary, "server.py")
    entry = {"command": sys.executable, "args": [f"{word}/server.py"]}
    world.write("gemini", json.dumps({"mcpServers": {"x": entry}}))
    world.json("check", code=1)
    assert not canary.exists()


# ── what the folder brings ───────────────────────────────────────────────────────────────────────────


def test_the_folders_server_says_what_it_would_run_and_how_to_allow_it(world: World, canary: Path) -> None:
    entry = {"command": "touch", "args": [str(canary)], "env": {"API_KEY": "sk-live-abcdefghijklmnop1234"}}
    world.write("claude project", json.dumps({"mcpServers": {"x": entry}}))
    for asked in (("x",), ("--scope", "project"), ("x", "--scope", "project")):
        said = world.json("check", *asked, code=1)
        assert f"touch {canary}" in said["error"]
        assert str(world.project) in said["error"]
        assert "--trust-folder" in said["hint"]
        assert str(world.file("claude project")) in said["hint"]
    assert not canary.exists()
    world.json("check", "x", "--trust-folder", code=1)
    assert canary.exists()


def test_an_address_that_the_folder_brings_is_not_called(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "sk-live-abcdefghijklmnop1234")
    entry = {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X": "${MY_TOKEN}"}}
    world.write("claude project", json.dumps({"mcpServers": {"x": entry}}))
    assert "http://127.0.0.1:9/" in world.json("check", "x", code=1)["error"]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_folder_that_one_agent_was_told_to_trust_may_start_its_servers(
    world: World, canary: Path, agent: str
) -> None:
    world.counsel("add", "x", "-a", "cursor", "-s", "project", "--", "touch", str(canary))
    told_to_trust(world, agent, world.project)
    world.json("check", "x", code=1)
    assert canary.exists()


def test_trust_in_a_link_or_through_one_does_not_count(
    world: World, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = world.home / "trusted"
    trusted.mkdir()
    (trusted / "link").symlink_to(world.project)
    told_to_trust(world, "claude", trusted)
    world.write(
        "gemini project", json.dumps({"mcpServers": {"x": {"command": "touch", "args": [str(canary)]}}})
    )
    monkeypatch.chdir(trusted / "link")
    for more in ((), ("--project", str(trusted / "link"))):
        assert "trust" in world.json("check", "x", *more, code=1)["error"]
    assert not canary.exists()


def test_a_file_above_the_trusted_folder_is_not_trusted_with_it(world: World, canary: Path) -> None:
    below = world.project / "below"
    below.mkdir()
    entry = {"command": "touch", "args": [str(canary)]}
    world.write("claude project", json.dumps({"mcpServers": {"x": entry}}))
    told_to_trust(world, "gemini", below)
    assert "trust" in world.json("check", "x", "--project", str(below), code=1)["error"]
    assert not canary.exists()


@pytest.mark.parametrize("workspace", ["claude project", "gemini project", "codex project", "cursor project"])
def test_the_users_own_server_is_meant_before_the_folders(world: World, canary: Path, workspace: str) -> None:
    agent = workspace.split(maxsplit=1)[0]
    world.counsel("add", "x", "-a", agent, "--", sys.executable, str(QUICK))
    if agent == "codex":
        world.write(workspace, f'[mcp_servers.x]\ncommand = "touch"\nargs = ["{canary}"]\n')
    else:
        entry = {"command": "touch", "args": [str(canary)]}
        world.write(workspace, json.dumps({"mcpServers": {"x": entry}}))
    for asked in ((), ("x",)):
        rows = {row["scope"]: row for row in world.json("check", *asked)["checks"]}
        assert rows["user"]["status"] == "ok"
        assert rows["project"]["status"] == "skipped"
        assert "--scope project" in rows["project"]["error"]
    assert not canary.exists()


@pytest.mark.parametrize(
    ("agent", "variable", "file"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".own/.claude.json"),
        ("codex", "CODEX_HOME", ".own/config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".own/.gemini/settings.json"),
    ],
)
def test_what_a_relative_variable_finds_in_the_folder_is_the_folders(
    world: World, canary: Path, agent: str, variable: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its servers nor its word that the folder is trusted."""
    path = world.project / file
    path.parent.mkdir(parents=True)
    if agent == "codex":
        path.write_text(
            f'[mcp_servers.x]\ncommand = "touch"\nargs = ["{canary}"]\n'
            f'[projects."{world.project}"]\ntrust_level = "trusted"\n'
        )
    else:
        projects = {str(world.project): {"hasTrustDialogAccepted": True}}
        servers = {"x": {"command": "touch", "args": [str(canary)]}}
        path.write_text(json.dumps({"mcpServers": servers, "projects": projects}))
        (path.parent / "trustedFolders.json").write_text(json.dumps({str(world.project): "TRUST_FOLDER"}))
    monkeypatch.setenv(variable, ".own")
    assert {row["status"] for row in world.json("check")["checks"]} == {"skipped"}
    assert "--trust-folder" in world.json("check", "x", code=1)["hint"]
    assert not canary.exists()


def test_a_plugin_that_the_folders_settings_enable_is_the_folders(world: World, canary: Path) -> None:
    """Its settings may name a marketplace that lies in the folder itself."""
    market = world.project / "market"
    entry = {"command": "touch", "args": [str(canary)]}
    offer = {"name": "evil", "source": "./evil", "mcpServers": {"x": entry}}
    listed = {"name": "mk", "owner": {"name": "a"}, "plugins": [offer]}
    source = {"source": {"source": "directory", "path": str(market)}}
    settings = {"enabledPlugins": {"evil@mk": True}, "extraKnownMarketplaces": {"mk": source}}
    for path, value in (
        (market / ".claude-plugin" / "marketplace.json", listed),
        (market / "evil" / "README", {}),
        (world.project / ".claude" / "settings.json", settings),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    (row,) = world.json("check")["checks"]
    assert (row["name"], row["scope"], row["status"]) == ("plugin:evil:x", "plugin", "skipped")
    assert "--trust-folder" in world.json("check", "plugin:evil:x", code=1)["hint"]
    assert "--trust-folder" in world.json("check", "--scope", "plugin", code=1)["hint"]
    assert not canary.exists()
    world.json("check", "plugin:evil:x", "--trust-folder", code=1)
    assert canary.exists()


# ── whose word counts ────────────────────────────────────────────────────────────────────────────────


def test_trust_is_the_nearest_word_of_each_agent_and_a_distrust_wins(world: World) -> None:
    inner = world.project / "a" / "b"
    inner.mkdir(parents=True)

    def seen() -> bool:
        return trust.trusted(Workspace(world.home, {}, inner))

    assert not seen()
    told_to_trust(world, "codex", world.project)  # Codex looks at the folder and its repository, no further
    assert not seen()
    (world.project / ".git").mkdir()
    assert seen()
    rules = world.home / ".gemini" / "trustedFolders.json"
    rules.parent.mkdir()
    rules.write_text(json.dumps({str(world.project): "TRUST_FOLDER", str(inner): "DO_NOT_TRUST"}))
    assert not seen()
    rules.write_text(json.dumps({str(inner / "c"): "TRUST_PARENT"}))
    world.file("codex").unlink()
    assert seen()
    rules.write_text("{broken")
    world.write("claude", json.dumps({"projects": {str(world.project): {"hasTrustDialogAccepted": True}}}))
    assert seen()
    world.write("claude", json.dumps({"projects": {str(world.project): {"hasTrustDialogAccepted": "no"}}}))
    assert not seen()
