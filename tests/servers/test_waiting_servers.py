"""Servers that a client loads only after the user has answered its question, about trust or about a server.

The states are those that the clients' own `mcp list` shows (Claude Code 2.1.325, Codex 0.166.0, Gemini CLI 0.61.0).
"""

from __future__ import annotations

import json
import re
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
