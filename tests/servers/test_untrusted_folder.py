"""`counsel servers check` runs nothing from an untrusted folder: neither its servers, nor the user's in that folder."""

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
from servers.conftest import QUICK
from servers.trust import trust_folder
from support.user import User

WHERE = "import os, sys; open(sys.argv[1], 'w').write(os.getcwd() + '|' + os.environ.get('PWD', ''))"


@pytest.fixture
def canary(user: User) -> Path:
    return user.home / "canary"


def trap(folder: Path, canary: Path, name: str) -> None:
    (folder / name).write_text(f"#!{sys.executable}\nopen({str(canary)!r}, 'w').write('sprung')\n")
    (folder / name).chmod(0o755)


def started_in(user: User, *more: str) -> tuple[Path, str]:
    reply = user.home / "where"
    reply.unlink(missing_ok=True)
    user.json("check", "x", *more, code=1)
    cwd, pwd = reply.read_text().split("|")
    return Path(cwd), pwd


def test_the_users_server_imports_nothing_from_the_folder(user: User, canary: Path) -> None:
    trap(user.project, canary, "trap.py")
    user.counsel("add", "x", "-a", "claude,codex,gemini,cursor", "--", sys.executable, "-m", "trap")
    rows = user.json("check", code=1)["checks"]
    assert {row["status"] for row in rows} == {"failed"}
    assert any("No module named trap" in line for line in rows[0]["stderr"])
    assert not canary.exists()
    trust_folder(user, "gemini", user.project)  # the trap is real
    user.json("check", code=1)
    assert canary.exists()


def test_the_users_server_starts_in_an_empty_folder_without_the_others_name(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", str(user.project))
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, "-c", WHERE, str(user.home / "where"))
    cwd, pwd = started_in(user)
    assert str(cwd) == pwd
    assert list(cwd.iterdir()) == []
    assert cwd.is_relative_to(user.counsel_home)
    assert cwd.stat().st_mode & 0o777 == 0o500
    assert started_in(user, "--trust-folder") == (user.project, str(user.project))
    trust_folder(user, "codex", user.project)
    assert started_in(user)[0] == user.project


def test_a_folder_that_something_was_written_into_is_not_taken_for_empty(user: User) -> None:
    env = {"HOME": str(user.home), "COUNSEL_HOME": str(user.counsel_home)}
    first = Path(untrusted.empty_folder(env))
    assert untrusted.empty_folder(env) == str(first)
    first.chmod(0o700)
    (first / "pip.py").write_text("")
    assert untrusted.empty_folder(env) != str(first)


def test_an_absolute_working_folder_of_the_users_entry_is_kept(user: User) -> None:
    folder = user.home / "there"
    folder.mkdir()
    words = ("--", sys.executable, "-c", WHERE, str(user.home / "where"))
    user.counsel("add", "x", "-a", "codex", "--cwd", str(folder), *words)
    assert started_in(user)[0] == folder
    user.counsel("add", "x", "-a", "gemini", "--cwd", "~/there", *words)
    user.counsel("remove", "x", "-a", "codex")
    assert started_in(user)[0] == folder


@pytest.mark.parametrize("path", [".", "", "bin", "./bin:", "~/bin"])
def test_a_search_path_into_the_folder_is_not_searched(
    user: User, canary: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (user.project, user.project / "bin", user.project / "~" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        trap(folder, canary, "my-server")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    user.counsel("add", "x", "-a", "claude,codex", "--", "my-server")
    assert {row["status"] for row in user.json("check", code=1)["checks"]} == {"failed"}
    user.json("check", "--trust-folder", code=1)  # nor if the folder is trusted
    assert not canary.exists()


def test_relative_search_paths_of_the_entry_itself_are_left_out(user: User) -> None:
    seen = user.home / "seen"
    script = f"import os; open({str(seen)!r}, 'w').write(os.environ['PYTHONPATH'])"
    user.counsel(
        "add", "x", "-a", "claude", "-e", "PYTHONPATH=.:/absolute", "--", sys.executable, "-c", script
    )
    user.json("check", "x", code=1)
    assert seen.read_text() == "/absolute"
    user.json("check", "x", "--trust-folder", code=1)
    assert seen.read_text() == ".:/absolute"


def test_a_module_path_into_the_folder_is_not_searched(
    user: User, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap(user.project, canary, "trap.py")
    trap(user.project, canary, "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", f":{user.project.parent}:.")
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, "-m", "trap")
    user.counsel("add", "y", "-a", "claude", "-e", "PYTHONPATH=.", "--", sys.executable, "-m", "trap")
    user.json("check", code=1)
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
def test_a_relative_path_of_the_users_entry_is_refused_with_a_reason(
    user: User, canary: Path, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", ".")
    trap(user.project, canary, "server")
    (user.project / "bin").mkdir()
    user.write("gemini", json.dumps({"mcpServers": {"x": entry}}))
    (row,) = user.json("check", code=1)["checks"]
    assert str(user.project) in row["error"]
    assert "absolute path" in row["error"]
    assert not canary.exists()


@pytest.mark.parametrize("word", ["${PWD}", "$PWD", "${OLDPWD}", "${CLAUDE_PROJECT_DIR:-.}", "${INIT_CWD}"])
def test_a_variable_does_not_lead_into_the_folder(
    user: User, canary: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PWD", "OLDPWD", "CLAUDE_PROJECT_DIR", "INIT_CWD"):
        monkeypatch.setenv(name, str(user.project))
    trap(user.project, canary, "server.py")
    entry = {"command": sys.executable, "args": [f"{word}/server.py"]}
    user.write("gemini", json.dumps({"mcpServers": {"x": entry}}))
    user.json("check", code=1)
    assert not canary.exists()


# ── what the folder brings ───────────────────────────────────────────────────────────────────────────


def test_the_folders_server_says_what_it_would_run_and_how_to_allow_it(user: User, canary: Path) -> None:
    entry = {"command": "touch", "args": [str(canary)], "env": {"API_KEY": "sk-live-abcdefghijklmnop1234"}}
    user.write("claude project", json.dumps({"mcpServers": {"x": entry}}))
    for arguments in (("x",), ("--scope", "project"), ("x", "--scope", "project")):
        reply = user.json("check", *arguments, code=1)
        assert f"touch {canary}" in reply["error"]
        assert str(user.project) in reply["error"]
        assert "--trust-folder" in reply["hint"]
        assert str(user.file("claude project")) in reply["hint"]
    assert not canary.exists()
    user.json("check", "x", "--trust-folder", code=1)
    assert canary.exists()


@pytest.mark.parametrize(("size", "is_whole"), [(10, True), (300, True), (301, False)])
def test_what_the_folders_server_would_run_is_shown_up_to_300_characters(
    user: User, size: int, is_whole: bool
) -> None:
    command = "c ".ljust(size, "x")
    user.write("claude project", json.dumps({"mcpServers": {"x": {"command": "c", "args": [command[2:]]}}}))
    error = user.json("check", "x", code=1)["error"]
    assert error.endswith(f": {command}." if is_whole else f": {command[:299]}….")


def test_an_address_that_the_folder_brings_is_not_called(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "sk-live-abcdefghijklmnop1234")
    entry = {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X": "${MY_TOKEN}"}}
    user.write("claude project", json.dumps({"mcpServers": {"x": entry}}))
    assert "http://127.0.0.1:9/" in user.json("check", "x", code=1)["error"]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_folder_that_one_agent_trusts_may_start_its_servers(user: User, canary: Path, agent: str) -> None:
    user.counsel("add", "x", "-a", "cursor", "-s", "project", "--", "touch", str(canary))
    trust_folder(user, agent, user.project)
    user.json("check", "x", code=1)
    assert canary.exists()


def test_trust_in_a_link_or_through_one_does_not_count(
    user: User, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = user.home / "trusted"
    folder.mkdir()
    (folder / "link").symlink_to(user.project)
    trust_folder(user, "claude", folder)
    user.write(
        "gemini project", json.dumps({"mcpServers": {"x": {"command": "touch", "args": [str(canary)]}}})
    )
    monkeypatch.chdir(folder / "link")
    for more in ((), ("--project", str(folder / "link"))):
        assert "trust" in user.json("check", "x", *more, code=1)["error"]
    assert not canary.exists()


def test_a_file_above_the_trusted_folder_is_not_trusted_with_it(user: User, canary: Path) -> None:
    below = user.project / "below"
    below.mkdir()
    entry = {"command": "touch", "args": [str(canary)]}
    user.write("claude project", json.dumps({"mcpServers": {"x": entry}}))
    trust_folder(user, "gemini", below)
    assert "trust" in user.json("check", "x", "--project", str(below), code=1)["error"]
    assert not canary.exists()


@pytest.mark.parametrize("workspace", ["claude project", "gemini project", "codex project", "cursor project"])
def test_the_users_own_server_takes_precedence_over_the_folders(
    user: User, canary: Path, workspace: str
) -> None:
    agent = workspace.split(maxsplit=1)[0]
    user.counsel("add", "x", "-a", agent, "--", sys.executable, str(QUICK))
    if agent == "codex":
        user.write(workspace, f'[mcp_servers.x]\ncommand = "touch"\nargs = ["{canary}"]\n')
    else:
        entry = {"command": "touch", "args": [str(canary)]}
        user.write(workspace, json.dumps({"mcpServers": {"x": entry}}))
    for arguments in ((), ("x",)):
        rows = {row["scope"]: row for row in user.json("check", *arguments)["checks"]}
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
    user: User, canary: Path, agent: str, variable: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This applies to servers, and to the setting that the folder is trusted."""
    path = user.project / file
    path.parent.mkdir(parents=True)
    if agent == "codex":
        path.write_text(
            f'[mcp_servers.x]\ncommand = "touch"\nargs = ["{canary}"]\n'
            f'[projects."{user.project}"]\ntrust_level = "trusted"\n'
        )
    else:
        projects = {str(user.project): {"hasTrustDialogAccepted": True}}
        servers = {"x": {"command": "touch", "args": [str(canary)]}}
        path.write_text(json.dumps({"mcpServers": servers, "projects": projects}))
        (path.parent / "trustedFolders.json").write_text(json.dumps({str(user.project): "TRUST_FOLDER"}))
    monkeypatch.setenv(variable, ".own")
    assert {row["status"] for row in user.json("check")["checks"]} == {"skipped"}
    assert "--trust-folder" in user.json("check", "x", code=1)["hint"]
    assert not canary.exists()


def test_a_plugin_that_the_folders_settings_enable_is_the_folders(user: User, canary: Path) -> None:
    """The folder's settings may name a marketplace inside the folder."""
    market = user.project / "market"
    entry = {"command": "touch", "args": [str(canary)]}
    offer = {"name": "evil", "source": "./evil", "mcpServers": {"x": entry}}
    marketplace = {"name": "mk", "owner": {"name": "a"}, "plugins": [offer]}
    source = {"source": {"source": "directory", "path": str(market)}}
    settings = {"enabledPlugins": {"evil@mk": True}, "extraKnownMarketplaces": {"mk": source}}
    for path, value in (
        (market / ".claude-plugin" / "marketplace.json", marketplace),
        (market / "evil" / "README", {}),
        (user.project / ".claude" / "settings.json", settings),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    (row,) = user.json("check")["checks"]
    assert (row["name"], row["scope"], row["status"]) == ("plugin:evil:x", "plugin", "skipped")
    assert "--trust-folder" in user.json("check", "plugin:evil:x", code=1)["hint"]
    assert "--trust-folder" in user.json("check", "--scope", "plugin", code=1)["hint"]
    assert not canary.exists()
    user.json("check", "plugin:evil:x", "--trust-folder", code=1)
    assert canary.exists()


# ── whose trust counts ───────────────────────────────────────────────────────────────────────────────


def test_each_agents_nearest_trust_rule_counts_and_distrust_wins(user: User) -> None:
    inner = user.project / "a" / "b"
    inner.mkdir(parents=True)

    def is_trusted() -> bool:
        return trust.trusted(Workspace(user.home, {}, inner))

    assert not is_trusted()
    trust_folder(user, "codex", user.project)  # Codex looks at the folder and its repository, no further
    assert not is_trusted()
    (user.project / ".git").mkdir()
    assert is_trusted()
    rules = user.home / ".gemini" / "trustedFolders.json"
    rules.parent.mkdir()
    rules.write_text(json.dumps({str(user.project): "TRUST_FOLDER", str(inner): "DO_NOT_TRUST"}))
    assert not is_trusted()
    rules.write_text(json.dumps({str(inner / "c"): "TRUST_PARENT"}))
    user.file("codex").unlink()
    assert is_trusted()
    rules.write_text("{broken")
    user.write("claude", json.dumps({"projects": {str(user.project): {"hasTrustDialogAccepted": True}}}))
    assert is_trusted()
    user.write("claude", json.dumps({"projects": {str(user.project): {"hasTrustDialogAccepted": "no"}}}))
    assert not is_trusted()


def test_trust_in_a_folder_does_not_cover_a_repository_inside_it(user: User) -> None:
    """Claude Code asks again there (2.1.325)."""
    inner = user.project / "clone"
    inner.mkdir()
    trust_folder(user, "claude", user.project)
    assert trust.trusted(Workspace(user.home, {}, inner))
    (inner / ".git").mkdir()
    assert not trust.trusted(Workspace(user.home, {}, inner))
    assert not trust.trusted(Workspace(user.home, {}, inner / "src"))
    trust_folder(user, "claude", inner)
    assert trust.trusted(Workspace(user.home, {}, inner / "src"))


def test_a_rule_for_a_folder_above_counts_with_a_slash_at_its_end(user: User) -> None:
    rules = user.home / ".gemini" / "trustedFolders.json"
    rules.parent.mkdir()
    rules.write_text(json.dumps({f"{user.project}/other/": "TRUST_PARENT"}))
    assert trust.trusted(Workspace(user.home, {}, user.project))


def test_the_trusted_projects_own_server_starts_for_each_agent(user: User, canary: Path) -> None:
    trust_folder(user, "codex", user.project)
    for agent in ("claude", "codex", "gemini", "cursor", "opencode", "vscode"):
        user.counsel("add", "x", "-a", agent, "-s", "project", "--", "touch", str(canary))
        user.json("check", "x", "-a", agent, code=1)  # it is no MCP server
        assert canary.exists(), agent
        canary.unlink()
