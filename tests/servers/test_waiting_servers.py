"""Servers that a client loads only after the user has answered its question, about trust or about a server.

The states are those that the clients' own `mcp list` shows (Claude Code 2.1.325, Codex 0.166.0, Gemini CLI 0.61.0).
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers import real_clients
from servers.trust import trust_folder
from support.user import User

REAL = pytest.param(True, marks=[pytest.mark.client, pytest.mark.slow])
ENTRY = {"command": "true"}
NAMES: dict[str, object] = {"enabledMcpjsonServers": ["theirs"]}
ALL: dict[str, object] = {"enableAllProjectMcpServers": True}


def states(user: User, agent: str) -> dict[str, str | None]:
    rows = user.json("list", "-a", agent)["servers"]
    return {row["name"]: row["waits_for"] for row in rows if row["enabled"] and row["shadowed_by"] is None}


def project_server(user: User, agent: str) -> None:
    """A server in the project's file, as a repository brings it."""
    text = json.dumps({"mcpServers": {"theirs": ENTRY}})
    user.write(f"{agent} project", '[mcp_servers.theirs]\ncommand = "true"\n' if agent == "codex" else text)


@pytest.mark.parametrize("real", [False, REAL])
def test_codex_reads_a_projects_servers_only_after_it_was_told_to_trust_it(real: bool, user: User) -> None:
    user.counsel("add", "mine", "-a", "codex", "--", "true")
    project_server(user, "codex")
    assert states(user, "codex") == {"mine": None, "theirs": "trust"}
    if real:
        assert "theirs" not in real_clients.ask(user.home, user.project, "codex", "mcp", "list")
    trust_folder(user, "codex", user.project)
    assert states(user, "codex") == {"mine": None, "theirs": None}
    if real:
        assert "theirs" in real_clients.ask(user.home, user.project, "codex", "mcp", "list")


@pytest.mark.parametrize("real", [False, REAL])
def test_gemini_starts_no_server_in_a_folder_that_it_does_not_trust(real: bool, user: User) -> None:
    """Not even the user's own servers."""
    user.counsel("add", "mine", "-a", "gemini", "--", "true")
    project_server(user, "gemini")
    assert states(user, "gemini") == {"mine": "trust", "theirs": "trust"}
    if real:
        output = real_clients.ask(user.home, user.project, "gemini", "mcp", "list")
        assert output.count("Disabled") == 2
    trust_folder(user, "gemini", user.project)
    assert states(user, "gemini") == {"mine": None, "theirs": None}
    if real:
        assert "Disabled" not in real_clients.ask(user.home, user.project, "gemini", "mcp", "list")


def test_gemini_without_folder_trust_waits_for_nothing(user: User) -> None:
    settings = {"security": {"folderTrust": {"enabled": False}}, "mcpServers": {"mine": ENTRY}}
    user.write("gemini", "// no dialogs\n" + json.dumps(settings))
    assert states(user, "gemini") == {"mine": None}


@pytest.mark.parametrize(
    ("settings", "is_trusted", "waits_for"),
    [
        ({}, False, "approval"),
        ({}, True, "approval"),
        ({"user": NAMES}, False, None),
        ({"user": ALL}, False, None),
        ({"project": NAMES}, False, "approval"),
        ({"project": NAMES}, True, None),
        ({"project": ALL}, True, None),
        ({"local": NAMES}, False, "approval"),
        ({"local": NAMES}, True, None),
        ({"state": NAMES}, False, "approval"),
        ({"state": NAMES}, True, None),
    ],
)
@pytest.mark.parametrize("real", [False, REAL])
def test_claude_asks_about_a_projects_server_until_it_is_approved(
    real: bool, settings: dict[str, dict[str, object]], is_trusted: bool, waits_for: str | None, user: User
) -> None:
    """A repository cannot approve its own servers."""
    project_server(user, "claude")
    files = {
        "user": user.home / ".claude" / "settings.json",
        "project": user.project / ".claude" / "settings.json",
        "local": user.project / ".claude" / "settings.local.json",
    }
    for name, content in settings.items():
        if name == "state":
            user.write("claude", json.dumps({"projects": {str(user.project): content}}))
        else:
            files[name].parent.mkdir(exist_ok=True)
            files[name].write_text(json.dumps(content))
    if is_trusted:
        trust_folder(user, "claude", user.project)
    assert states(user, "claude") == {"theirs": waits_for}
    if real:
        output = real_clients.ask(user.home, user.project, "claude", "mcp", "list")
        assert ("Pending approval" in output) == (waits_for == "approval")


def test_a_disabled_server_waits_for_nothing(user: User) -> None:
    user.write("codex project", '[mcp_servers.theirs]\ncommand = "true"\nenabled = false\n')
    row = user.json("list")["servers"][0]
    assert (row["enabled"], row["waits_for"]) == (False, None)


def test_a_server_that_codex_does_not_read_yet_shadows_nothing(user: User) -> None:
    user.counsel("add", "same", "-a", "codex", "--", "mine")
    user.write("codex project", '[mcp_servers.same]\ncommand = "theirs"\n')
    rows = {row["scope"]: row for row in user.json("list")["servers"]}
    assert (rows["user"]["shadowed_by"], rows["user"]["drift"]) == (None, [])
    user.counsel("copy", "same", "--from", "codex", "--to", "cursor")
    assert json.loads(user.file("cursor").read_text())["mcpServers"]["same"]["command"] == "mine"
    trust_folder(user, "codex", user.project)
    rows = {row["scope"]: row for row in user.json("list", "-a", "codex")["servers"]}
    assert rows["user"]["shadowed_by"] == "project"


def test_an_entry_is_not_completed_by_a_file_that_codex_does_not_read(user: User) -> None:
    user.write("codex", '[mcp_servers.x]\nargs = ["a"]\n')
    user.write("codex project", '[mcp_servers.x]\ncommand = "c"\n')
    listing = user.json("list")
    assert not any(row["enabled"] for row in listing["servers"])
    assert "does not start until" in listing["problems"][-1]["error"]


def words_of(user: User, *arguments: str) -> tuple[list[Any], str]:
    output = user.run("list", *arguments)
    return re.findall(r"\b(?:on|off|pending|untrusted)\b", output.out), output.err


def test_the_table_says_which_servers_wait_and_for_what(user: User) -> None:
    user.install("claude", "codex", "gemini")
    user.counsel("add", "mine", "-a", "codex", "--", "true")
    for agent in ("claude", "codex", "gemini"):
        project_server(user, agent)
    words, notes = words_of(user)
    assert words == ["on", "pending", "untrusted", "untrusted"]
    assert "pending: Claude Code asks before it uses a project's servers (`-p` does not)." in notes
    assert "untrusted: Codex reads a project's servers once you trust the project in Codex." in notes
    assert "untrusted: Gemini CLI starts no servers" in notes
    for agent in ("codex", "gemini"):
        trust_folder(user, agent, user.project)
    assert words_of(user, "-a", "codex", "-a", "gemini") == (["on", "on", "on"], "")


# ── folders above, worktrees, and several answers ─────────────────────────────────────────────────────


def repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "-q", folder], check=True)


def seen_by_claude(user: User, folder: Path) -> str:
    return real_clients.ask(user.home, folder, "claude", "mcp", "list")


def state_in(user: User, agent: str, folder: Path, name: str) -> str | None:
    rows = user.json("list", "-a", agent, "--project", str(folder))["servers"]
    return next(row["waits_for"] if row["enabled"] else "off" for row in rows if row["name"] == name)


@pytest.mark.parametrize(
    ("trusted", "is_repository", "waits_for"),
    [(".", True, None), (".", False, "approval"), ("sub", True, "approval"), ("sub", False, None)],
)
@pytest.mark.parametrize("real", [False, REAL])
def test_claude_accepts_a_subfolders_approval_only_with_trust_in_the_project_itself(
    real: bool, trusted: str, is_repository: bool, waits_for: str | None, user: User
) -> None:
    """The project is the repository or, outside one, the folder."""
    sub = user.project / "sub"
    sub.mkdir()
    if is_repository:
        repository(user.project)
    project_server(user, "claude")
    write_json(sub / ".claude" / "settings.json", ALL)
    trust_folder(user, "claude", user.project / trusted)
    assert state_in(user, "claude", sub, "theirs") == waits_for
    if real:
        assert ("Pending approval" in seen_by_claude(user, sub)) == (waits_for == "approval")


@pytest.mark.parametrize("real", [False, REAL])
def test_claude_reads_the_local_settings_of_the_repositorys_root(real: bool, user: User) -> None:
    """They are stronger than those of the folder itself."""
    sub = user.project / "sub"
    repository(user.project)
    project_server(user, "claude")
    trust_folder(user, "claude", user.project)
    write_json(sub / ".claude" / "settings.local.json", {"enableAllProjectMcpServers": False})
    write_json(user.project / ".claude" / "settings.local.json", ALL)
    assert state_in(user, "claude", sub, "theirs") is None
    if real:
        assert "Pending approval" not in seen_by_claude(user, sub)
    write_json(user.project / ".claude" / "settings.local.json", {"disabledMcpjsonServers": ["theirs"]})
    assert state_in(user, "claude", sub, "theirs") == "off"
    if real:
        assert "theirs" not in seen_by_claude(user, sub)
    user.counsel("enable", "theirs", "-a", "claude", "-s", "project", "--project", str(user.project))
    assert state_in(user, "claude", sub, "theirs") == "approval"


@pytest.mark.parametrize(
    ("of_user", "of_project", "waits_for"),
    [
        (ALL, {"enableAllProjectMcpServers": False}, "approval"),
        ({"enableAllProjectMcpServers": False}, ALL, None),
        ({**NAMES, "disabledMcpjsonServers": [5]}, {}, "approval"),
        (ALL, {"disabledMcpjsonServers": ["theirs", 5]}, None),
        ({"enableAllProjectMcpServers": "true"}, {}, "approval"),
    ],
)
@pytest.mark.parametrize("real", [False, REAL])
def test_the_projects_settings_win_and_a_file_with_a_wrong_value_is_ignored(
    real: bool,
    of_user: dict[str, object],
    of_project: dict[str, object],
    waits_for: str | None,
    user: User,
) -> None:
    project_server(user, "claude")
    write_json(user.home / ".claude" / "settings.json", of_user)
    write_json(user.project / ".claude" / "settings.json", of_project)
    trust_folder(user, "claude", user.project)
    assert states(user, "claude") == {"theirs": waits_for}
    if real:
        assert ("Pending approval" in seen_by_claude(user, user.project)) == (waits_for == "approval")


@pytest.mark.parametrize("real", [False, REAL])
def test_claude_compares_rejected_names_without_special_characters(real: bool, user: User) -> None:
    entries = {"my server": ENTRY, "a.b": ENTRY}
    user.write("claude project", json.dumps({"mcpServers": entries}))
    settings = user.home / ".claude" / "settings.json"
    write_json(settings, {**ALL, "disabledMcpjsonServers": ["my_server"]})
    assert states(user, "claude") == {"a.b": None}
    if real:
        assert "my server" not in seen_by_claude(user, user.project)
    user.counsel("enable", "my server", "-a", "claude")
    assert states(user, "claude") == {"my server": None, "a.b": None}
    if real:
        assert "my server" in seen_by_claude(user, user.project)


@pytest.mark.parametrize("answer", ["pending", "rejected", "approved"])
@pytest.mark.parametrize("real", [False, REAL])
def test_a_projects_server_that_claude_does_not_use_shadows_nothing(
    real: bool, answer: str, user: User
) -> None:
    user.counsel("add", "same", "-a", "claude", "--", "true", "mine")
    user.write("claude project", json.dumps({"mcpServers": {"same": {**ENTRY, "args": ["theirs"]}}}))
    rejected: dict[str, object] = {"disabledMcpjsonServers": ["same"]}
    settings = {"pending": {}, "rejected": rejected, "approved": ALL}[answer]
    write_json(user.home / ".claude" / "settings.json", settings)
    rows = {row["scope"]: row for row in user.json("list", "-a", "claude")["servers"]}
    assert rows["user"]["shadowed_by"] == ("project" if answer == "approved" else None)
    assert rows["project"]["shadowed_by"] is None
    if real:
        used = "theirs" if answer == "approved" else "mine"
        assert f"same: true {used}" in seen_by_claude(user, user.project)


@pytest.mark.parametrize("real", [False, REAL])
def test_codex_trusts_each_folder_of_a_project_by_itself(real: bool, user: User) -> None:
    sub, deep = user.project / "sub", user.project / "sub" / "deep"
    repository(user.project)
    for folder in (user.project, sub, deep):
        (folder / ".codex").mkdir(parents=True)
        entry = f'[mcp_servers.{folder.name}]\ncommand = "true"\n'
        (folder / ".codex" / "config.toml").write_text(entry)
    user.write("codex", f'[projects."{sub}"]\ntrust_level = "trusted"\n')
    names = ["project", "sub", "deep"]
    assert [state_in(user, "codex", deep, name) for name in names] == ["trust", None, "trust"]
    if real:
        assert codex_names(user, deep) == {"sub"}
    user.write(
        "codex",
        f'[projects."{sub}"]\ntrust_level = "untrusted"\n[projects."{user.project}"]\ntrust_level = "trusted"\n',
    )
    assert [state_in(user, "codex", deep, name) for name in names] == [None, "trust", None]
    if real:
        assert codex_names(user, deep) == {"project", "deep"}


@pytest.mark.parametrize("real", [False, REAL])
def test_a_file_that_codex_does_not_read_changes_no_other(real: bool, user: User) -> None:
    sub = user.project / "sub"
    repository(user.project)
    user.write("codex project", "[mcp_servers.sub]\nenabled = false\n")
    (sub / ".codex").mkdir(parents=True)
    (sub / ".codex" / "config.toml").write_text('[mcp_servers.sub]\ncommand = "true"\n')
    user.write("codex", f'[projects."{sub}"]\ntrust_level = "trusted"\n')
    assert state_in(user, "codex", sub, "sub") is None
    if real:
        (row,) = json.loads(real_clients.ask(user.home, sub, "codex", "mcp", "list", "--json"))
        assert row["enabled"]


@pytest.mark.parametrize("markers", ['[".hg"]', "[]"])
@pytest.mark.parametrize("real", [False, REAL])
def test_codex_finds_a_projects_root_by_the_users_markers(real: bool, markers: str, user: User) -> None:
    sub = user.project / "sub"
    for folder in (user.project / ".hg", user.project / ".git", sub):
        folder.mkdir()
    project_server(user, "codex")
    trust = f'[projects."{user.project}"]\ntrust_level = "trusted"\n'
    user.write("codex", f"project_root_markers = {markers}\n{trust}")
    names = {row["name"] for row in user.json("list", "-a", "codex", "--project", str(sub))["servers"]}
    assert names == ({"theirs"} if "hg" in markers else set())
    if real:
        assert codex_names(user, sub) == names


def codex_names(user: User, folder: Path) -> set[str]:
    rows = json.loads(real_clients.ask(user.home, folder, "codex", "mcp", "list", "--json"))
    return {row["name"] for row in rows}


@pytest.mark.parametrize(
    "rules",
    ['\ufeff{"PROJECT": "TRUST_FOLDER"}', '{"PROJECT": "TRUST_FOLDER",}', '{"PROJECT": "YES"}', "[]"],
    ids=["byte-order mark", "trailing comma", "unknown level", "list"],
)
@pytest.mark.parametrize("real", [False, REAL])
def test_gemini_does_not_start_with_a_wrong_rule_about_a_folder(real: bool, rules: str, user: User) -> None:
    user.counsel("add", "mine", "-a", "gemini", "--", "true")
    path = user.home / ".gemini" / "trustedFolders.json"
    path.write_text(rules.replace("PROJECT", str(user.project)))
    reply = user.json("list", "-a", "gemini")
    assert [row["enabled"] for row in reply["servers"]] == [False]
    assert "does not start" in reply["problems"][-1]["error"]
    assert {problem["path"] for problem in reply["problems"]} == {str(path)}
    if real:
        with pytest.raises(AssertionError, match=re.escape(path.name)):
            real_clients.ask(user.home, user.project, "gemini", "mcp", "list")


def test_an_administrators_switch_of_folder_trust_wins(user: User) -> None:
    """Gemini CLI reads it from the defaults, then the user's settings, then the administrator's (its source, 0.61)."""
    user.counsel("add", "mine", "-a", "gemini", "--", "true")
    folder = user.machine / "etc" / "gemini-cli"
    off: dict[str, object] = {"security": {"folderTrust": {"enabled": False}}}
    write_json(folder / "system-defaults.json", off)
    assert states(user, "gemini") == {"mine": None}
    write_json(folder / "settings.json", {"security": {"folderTrust": {"enabled": True}}})
    assert states(user, "gemini") == {"mine": "trust"}


def write_json(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
