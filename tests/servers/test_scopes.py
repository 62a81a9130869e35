"""Where servers are kept: scopes, projects and their git roots, folders that variables move."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from servers.conftest import World


def test_scopes_shadow_each_other_and_promote(world: World) -> None:
    for scope in ("user", "local", "project"):
        world.counsel("add", "x", "-a", "claude", "-s", scope, "--", scope)
    rows = {row["scope"]: row["shadowed_by"] for row in world.json("list")["servers"]}
    assert rows == {"user": "local", "local": None, "project": "local"}
    world.counsel("remove", "x", "-a", "claude", "-s", "user")
    world.counsel("copy", "x", "--from", "claude:project", "--to", "claude:user")
    assert world.json("show", "x", "-s", "user")["servers"][0]["command"] == "project"


def test_cursor_starts_both_so_nothing_shadows(world: World) -> None:
    world.counsel("add", "x", "-a", "cursor", "--", "one")
    world.counsel("add", "x", "-a", "cursor", "-s", "project", "--", "two")
    assert {row["shadowed_by"] for row in world.json("list")["servers"]} == {None}


def test_local_is_claudes_alone(world: World) -> None:
    shown = world.json("add", "x", "--everywhere", "-s", "local", "--", "c", code=1)
    assert "has no scope 'local'" in shown["error"]


def test_two_servers_of_one_command_are_both_there_in_a_new_project(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project's own object is made for the first, and must not be made again for the second."""
    pasted = {"mcpServers": {"one": {"command": "1"}, "two": {"command": "2"}}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(pasted)))
    world.counsel("add", "--agent", "claude", "--scope", "local", "--from", "-")
    listed = world.json("list", "--agent", "claude")["servers"]
    assert [(one["name"], one["scope"]) for one in listed] == [("one", "local"), ("two", "local")]


def test_a_local_server_belongs_to_the_git_root(world: World) -> None:
    (world.project / ".git").mkdir()
    below = world.project / "deep" / "er"
    below.mkdir(parents=True)
    world.counsel("add", "x", "-a", "claude", "-s", "local", "--project", str(below), "--", "c")
    assert list(json.loads(world.file("claude").read_text())["projects"]) == [str(world.project)]


def _git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", *who, *args], cwd=folder, check=True)


def _repository(folder: Path) -> None:
    _git(folder, "init", "-q")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "first")


def _local_key(world: World, folder: Path) -> str:
    """Under which name Claude Code's file has the servers that are local to a folder."""
    world.counsel("add", "x", "-a", "claude", "-s", "local", "--project", str(folder), "--", "c")
    (key,) = json.loads(world.file("claude").read_text())["projects"]
    return str(key)


def test_a_worktree_of_a_bare_repository_is_kept_under_the_repository(world: World, tmp_path: Path) -> None:
    _repository(world.project)
    _git(tmp_path, "clone", "-q", "--bare", str(world.project), "bare.git")
    _git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree")
    assert _local_key(world, tmp_path / "tree") == str(tmp_path / "bare.git")


def test_a_worktree_may_be_linked_by_relative_paths(world: World, tmp_path: Path) -> None:
    """`worktree.useRelativePaths` of newer gits."""
    _repository(world.project)
    _git(world.project, "worktree", "add", "-q", "../tree")
    (tmp_path / "tree" / ".git").write_text("gitdir: ../project/.git/worktrees/tree\n")
    (world.project / ".git" / "worktrees" / "tree" / "gitdir").write_text("../../../../tree/.git\n")
    assert _local_key(world, tmp_path / "tree") == str(world.project)


@pytest.mark.parametrize(
    "marker", [b"gitdir: ../project/.git/worktrees/tree\n", b"\xff\xfe", b"", b"gitdir: ../nowhere\n"]
)
def test_what_only_says_that_it_is_a_worktree_is_a_folder_of_its_own(
    marker: bytes, world: World, tmp_path: Path
) -> None:
    _repository(world.project)
    _git(world.project, "worktree", "add", "-q", "../tree")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").write_bytes(marker)
    assert _local_key(world, tmp_path / "other") == str(tmp_path / "other")


def test_worktrees_and_links_share_the_repositorys_local_servers(world: World, tmp_path: Path) -> None:
    git = ["git", "-c", "user.email=t@example.com", "-c", "user.name=t"]
    subprocess.run([*git, "init", "-q", "."], cwd=world.project, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=world.project, check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], cwd=world.project, check=True)
    (tmp_path / "link").symlink_to(world.project)
    for number, folder in enumerate(("tree", "link")):
        world.counsel(
            "add", f"x{number}", "-a", "claude", "-s", "local", "--project", str(tmp_path / folder), "--", "c"
        )
    assert list(json.loads(world.file("claude").read_text())["projects"]) == [str(world.project)]


def test_parents_project_files_are_listed_but_not_written(world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "-s", "project", "--", "c")
    below = world.project / "sub"
    below.mkdir()
    rows = world.json("list", "--project", str(below))["servers"]
    assert [(row["path"], row["writable"]) for row in rows] == [(str(world.project / ".mcp.json"), False)]
    assert "--project" in world.json("remove", "x", "--project", str(below), code=1)["hint"]


@pytest.mark.parametrize(
    ("variable", "agent", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("GEMINI_CLI_HOME", "gemini", ".gemini/settings.json"),
    ],
)
def test_the_agents_own_variables_move_their_files(
    variable: str, agent: str, file: str, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    world.counsel("add", "x", "-a", agent, "--", "c")
    assert (tmp_path / "moved" / file).exists()
    assert not world.file(agent).exists()


def test_a_relative_folder_in_a_variable_starts_at_the_project(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(name, "moved")
    done = world.json("add", "x", "-a", "claude,codex,gemini", "--", "c")
    moved = world.project / "moved"
    assert [row["path"] for row in done["results"]] == [
        str(moved / name) for name in (".claude.json", "config.toml", ".gemini/settings.json")
    ]
    monkeypatch.chdir(world.home)
    world.counsel("undo")
    assert not (moved / ".claude.json").exists()
