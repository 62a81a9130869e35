"""Where servers are stored: scopes, projects and their git roots, folders that variables change."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from support.user import User


def test_scopes_shadow_each_other_and_promote(user: User) -> None:
    for scope in ("user", "local", "project"):
        user.counsel("add", "x", "-a", "claude", "-s", scope, "--", scope)
    rows = {row["scope"]: row["shadowed_by"] for row in user.json("list")["servers"]}
    assert rows == {"user": "local", "local": None, "project": "local"}
    user.counsel("remove", "x", "-a", "claude", "-s", "user")
    user.counsel("copy", "x", "--from", "claude:project", "--to", "claude:user")
    assert user.json("show", "x", "-s", "user")["servers"][0]["command"] == "project"


def test_cursor_starts_both_so_nothing_shadows(user: User) -> None:
    user.counsel("add", "x", "-a", "cursor", "--", "one")
    user.counsel("add", "x", "-a", "cursor", "-s", "project", "--", "two")
    assert {row["shadowed_by"] for row in user.json("list")["servers"]} == {None}


def test_only_claude_has_the_local_scope(user: User) -> None:
    reply = user.json("add", "x", "--everywhere", "-s", "local", "--", "c", code=1)
    assert "has no writable scope 'local'" in reply["error"]


def test_two_servers_of_one_command_are_both_there_in_a_new_project(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project's object is created for the first server, and must not be created again for the second."""
    document = {"mcpServers": {"one": {"command": "1"}, "two": {"command": "2"}}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(document)))
    user.counsel("add", "--agent", "claude", "--scope", "local", "--from", "-")
    rows = user.json("list", "--agent", "claude")["servers"]
    assert [(server["name"], server["scope"]) for server in rows] == [("one", "local"), ("two", "local")]


def test_a_local_server_belongs_to_the_git_root(user: User) -> None:
    (user.project / ".git").mkdir()
    below = user.project / "deep" / "er"
    below.mkdir(parents=True)
    user.counsel("add", "x", "-a", "claude", "-s", "local", "--project", str(below), "--", "c")
    assert list(json.loads(user.file("claude").read_text())["projects"]) == [str(user.project)]


def _git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", *identity, *args], cwd=folder, check=True)


def _repository(folder: Path) -> None:
    _git(folder, "init", "-q")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "first")


def _local_key(user: User, folder: Path) -> str:
    """The key under which Claude Code's file has the servers that are local to a folder."""
    user.counsel("add", "x", "-a", "claude", "-s", "local", "--project", str(folder), "--", "c")
    (key,) = json.loads(user.file("claude").read_text())["projects"]
    return str(key)


def test_a_worktree_of_a_bare_repository_is_kept_under_the_repository(user: User, tmp_path: Path) -> None:
    _repository(user.project)
    _git(tmp_path, "clone", "-q", "--bare", str(user.project), "bare.git")
    _git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree")
    assert _local_key(user, tmp_path / "tree") == str(tmp_path / "bare.git")


def test_a_worktree_may_be_linked_by_relative_paths(user: User, tmp_path: Path) -> None:
    """`worktree.useRelativePaths` of newer gits."""
    _repository(user.project)
    _git(user.project, "worktree", "add", "-q", "../tree")
    (tmp_path / "tree" / ".git").write_text("gitdir: ../project/.git/worktrees/tree\n")
    (user.project / ".git" / "worktrees" / "tree" / "gitdir").write_text("../../../../tree/.git\n")
    assert _local_key(user, tmp_path / "tree") == str(user.project)


@pytest.mark.parametrize(
    "marker", [b"gitdir: ../project/.git/worktrees/tree\n", b"\xff\xfe", b"", b"gitdir: ../nowhere\n"]
)
def test_a_folder_that_only_claims_to_be_a_worktree_is_a_project_of_its_own(
    marker: bytes, user: User, tmp_path: Path
) -> None:
    _repository(user.project)
    _git(user.project, "worktree", "add", "-q", "../tree")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").write_bytes(marker)
    assert _local_key(user, tmp_path / "other") == str(tmp_path / "other")


def test_worktrees_and_links_share_the_repositorys_local_servers(user: User, tmp_path: Path) -> None:
    git = ["git", "-c", "user.email=t@example.com", "-c", "user.name=t"]
    subprocess.run([*git, "init", "-q", "."], cwd=user.project, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=user.project, check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], cwd=user.project, check=True)
    (tmp_path / "link").symlink_to(user.project)
    for number, folder in enumerate(("tree", "link")):
        user.counsel(
            "add", f"x{number}", "-a", "claude", "-s", "local", "--project", str(tmp_path / folder), "--", "c"
        )
    assert list(json.loads(user.file("claude").read_text())["projects"]) == [str(user.project)]


def test_parents_project_files_are_listed_but_not_written(user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "-s", "project", "--", "c")
    below = user.project / "sub"
    below.mkdir()
    rows = user.json("list", "--project", str(below))["servers"]
    assert [(row["path"], row["writable"]) for row in rows] == [(str(user.project / ".mcp.json"), False)]
    assert "--project" in user.json("remove", "x", "--project", str(below), code=1)["hint"]


@pytest.mark.parametrize(
    ("variable", "agent", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("GEMINI_CLI_HOME", "gemini", ".gemini/settings.json"),
    ],
)
def test_the_agents_own_variables_move_their_files(
    variable: str, agent: str, file: str, user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    user.counsel("add", "x", "-a", agent, "--", "c")
    assert (tmp_path / "moved" / file).exists()
    assert not user.file(agent).exists()


def test_a_relative_folder_in_a_variable_starts_at_the_project(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(name, "moved")
    reply = user.json("add", "x", "-a", "claude,codex,gemini", "--", "c")
    folder = user.project / "moved"
    assert [row["path"] for row in reply["results"]] == [
        str(folder / name) for name in (".claude.json", "config.toml", ".gemini/settings.json")
    ]
    monkeypatch.chdir(user.home)
    user.counsel("undo")
    assert not (folder / ".claude.json").exists()
