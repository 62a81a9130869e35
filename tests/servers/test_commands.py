"""`counsel servers …` as a person or a script uses it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from servers.conftest import World

SECRET = "sk-live-abcdefghijklmnop1234"


def test_everywhere_adds_to_every_agent_and_remove_everywhere_takes_it_out(world: World) -> None:
    done = world.json("add", "x", "--everywhere", "-e", "A=1", "--", "python3", "-m", "x")
    assert {row["agent"]: row["action"] for row in done["results"]} == dict.fromkeys(
        ["claude", "codex", "gemini", "cursor"], "added"
    )
    rows = world.json("list")["servers"]
    assert [(row["agent"], row["command"], row["args"], row["env"]) for row in rows] == [
        (agent, "python3", ["-m", "x"], {"A": "1"}) for agent in ("claude", "codex", "gemini", "cursor")
    ]
    assert all(row["drift"] == [] and row["enabled"] and row["scope"] == "user" for row in rows)
    again = world.json("add", "x", "--everywhere", "-e", "A=1", "--", "python3", "-m", "x")
    assert {row["action"] for row in again["results"]} == {"unchanged"}
    assert again["id"] is None
    world.json("remove", "x", "--everywhere")
    assert world.json("list") == {"servers": [], "problems": []}


def test_one_refusal_stops_all(world: World) -> None:
    shown = world.json("add", "x", "--everywhere", "--url", "http://127.0.0.1:9/sse", "-t", "sse", code=1)
    assert shown["code"] == "INVALID_ARGUMENT"
    assert {row["agent"] for row in shown["results"] if row["action"] == "refused"} == {"codex"}
    assert "does not speak sse" in shown["error"]
    assert not any(world.file(agent).exists() for agent in ("claude", "codex", "gemini", "cursor"))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_name_with_a_space_is_refused(agent: str, world: World) -> None:
    assert "does not take the name" in world.json("add", "a b", "-a", agent, "--", "c", code=1)["error"]


def test_what_claude_ignores_is_said(world: World) -> None:
    done = world.json("add", "x", "--agent", "claude,codex", "--cwd", "/srv", "--", "c")
    assert "ignores a working folder" in done["results"][0]["warnings"][0]
    assert done["results"][1]["warnings"] == []
    assert "cwd" not in world.file("claude").read_text()
    assert tomllib.loads(world.file("codex").read_text())["mcp_servers"]["x"]["cwd"] == "/srv"


def test_an_existing_server_is_not_overwritten(world: World) -> None:
    world.counsel("add", "x", "-a", "codex", "--", "one")
    before = world.file("codex").read_bytes()
    assert world.json("add", "x", "-a", "codex", "--", "two", code=1)["code"] == "CONFLICT"
    assert world.file("codex").read_bytes() == before
    world.counsel("add", "x", "-a", "codex", "--replace", "--", "two")
    assert world.json("show", "x")["servers"][0]["command"] == "two"


def test_a_dry_run_writes_nothing_and_is_what_the_real_run_does(world: World) -> None:
    world.write("gemini", '{\n  "mcpServers": {} // none\n}\n')
    before = {name: world.file(name).exists() for name in ("claude", "codex", "cursor")}
    command = ("add", "x", "--everywhere", "-H", "X-A: 1", "--url", "http://127.0.0.1:9/mcp")
    diff = world.counsel(*command, "--dry-run")
    assert {name: world.file(name).exists() for name in before} == before
    assert not (world.home / "counsel" / "backups").exists()
    patched = world.home / "patched"
    patched.mkdir()
    (patched / "settings.json").write_bytes(world.file("gemini").read_bytes())
    parts = {part.splitlines()[0]: "--- " + part for part in diff.split("--- ")[1:]}
    mine = parts[str(world.file("gemini"))].split("\nClaude Code:")[0] + "\n"
    subprocess.run(["patch", "-s", str(patched / "settings.json")], input=mine, text=True, check=True)
    world.counsel(*command)
    assert (patched / "settings.json").read_bytes() == world.file("gemini").read_bytes()


def test_a_diff_has_the_lines_of_the_file(world: World) -> None:
    world.write("cursor", '{\n  "a": "\u2028\x85",\n  "mcpServers": {}\n}\n')
    (shown,) = world.json("add", "x", "-a", "cursor", "--dry-run", "--", "c")["diffs"]
    assert '\n   "a": "\u2028\x85",\n' in shown["diff"]
    assert "No newline" not in shown["diff"]


def test_update_touches_only_the_named_fields(world: World) -> None:
    text = (
        '{ // mine\n  "mcpServers": {\n    "x": {\n      "httpUrl": "http://127.0.0.1:9/a", // old form\n'
        '      "unknown": {"deep": [1, 2]}, "headers": {"A": "1"},\n      "timeout": 600000\n    }\n  }\n}\n'
    )
    world.write("gemini", text)
    world.counsel("update", "x", "--url", "http://127.0.0.1:9/b", "-H", "B: 2")
    wanted = text.replace("9/a", "9/b").replace('{"A": "1"}', '{"A": "1", "B": "2"}')
    assert world.file("gemini").read_text() == wanted
    world.counsel("update", "x", "--remove-header", "B", "--url", "http://127.0.0.1:9/a")
    assert world.file("gemini").read_text() == text


def test_update_keeps_comments_and_tables_of_toml(world: World) -> None:
    text = (
        '[mcp_servers.x] # mine\ncommand = "one" # why\nargs = [\n  "a", # first\n]\nstartup_timeout_sec = 20\n\n'
        '[mcp_servers.x.env]\n# secret\nA = "1"\n'
    )
    world.write("codex", text)
    world.counsel("update", "x", "-e", "A=2", "-e", "B=$B", "--timeout", "5")
    assert world.file("codex").read_text() == text.replace('A = "1"', 'A = "2"').replace(
        "startup_timeout_sec = 20\n", 'startup_timeout_sec = 20\nenv_vars = ["B"]\ntool_timeout_sec = 5.0\n'
    )


def test_several_places_must_be_named(world: World) -> None:
    world.counsel("add", "x", "--everywhere", "--", "c")
    assert "several places" in world.json("remove", "x", code=1)["error"]
    world.counsel("remove", "x", "-a", "gemini")
    assert {row["agent"] for row in world.json("list")["servers"]} == {"claude", "codex", "cursor"}
    assert world.json("remove", "nope", code=1)["code"] == "NOT_FOUND"


# ── scopes ───────────────────────────────────────────────────────────────────────────────────────────


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


def test_a_server_of_two_scopes_is_switched_off_once(world: World) -> None:
    for scope in ("user", "local"):
        world.counsel("add", "x", "--agent", "claude", "--scope", scope, "--", "c")
    world.counsel("disable", "x", "--agent", "claude")
    held = json.loads(world.file("claude").read_text())["projects"][str(world.project)]
    assert held["disabledMcpServers"] == ["x"]


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


# ── references and secrets ───────────────────────────────────────────────────────────────────────────


def test_references_are_translated(world: World) -> None:
    world.write(
        "gemini",
        '{"mcpServers": {"x": {"command": "c", "args": [], "env": {"TOKEN": "$TOKEN", "D": "${D:-1}"}}}}',
    )
    world.counsel("copy", "x", "--from", "gemini", "--to", "claude,cursor")
    assert json.loads(world.file("claude").read_text())["mcpServers"]["x"]["env"] == {
        "TOKEN": "${TOKEN}",
        "D": "${D:-1}",
    }
    assert json.loads(world.file("cursor").read_text())["mcpServers"]["x"]["env"] == {
        "TOKEN": "${env:TOKEN}",
        "D": "${D:-1}",
    }
    shown = world.json("copy", "x", "--from", "gemini", "--to", "codex", code=1)
    assert "${D}" in shown["error"]
    assert not world.file("codex").exists()


def test_a_bearer_token_from_the_environment_everywhere(world: World) -> None:
    world.counsel(
        "add", "x", "--everywhere", "--url", "http://127.0.0.1:9/mcp", "-H", "Authorization: Bearer $TOKEN"
    )
    assert tomllib.loads(world.file("codex").read_text())["mcp_servers"]["x"] == {
        "url": "http://127.0.0.1:9/mcp",
        "bearer_token_env_var": "TOKEN",
    }
    headers = {
        agent: json.loads(world.file(agent).read_text())["mcpServers"]["x"]["headers"]["Authorization"]
        for agent in ("claude", "gemini", "cursor")
    }
    assert headers == {
        "claude": "Bearer ${TOKEN}",
        "gemini": "Bearer ${TOKEN}",
        "cursor": "Bearer ${env:TOKEN}",
    }
    assert {row["token_env"] for row in world.json("list")["servers"]} == {"TOKEN"}
    assert all(row["drift"] == [] for row in world.json("list")["servers"])


def test_codex_forms_become_references_elsewhere(world: World) -> None:
    world.write(
        "codex",
        '[mcp_servers.x]\nurl = "http://127.0.0.1:9/mcp"\nbearer_token_env_var = "T"\n'
        'http_headers = { A = "1" }\nenv_http_headers = { B = "V" }\n'
        '[mcp_servers.y]\ncommand = "c"\nenv_vars = ["P", { name = "Q", source = "local" }]\n',
    )
    world.counsel("copy", "x", "--from", "codex", "--to", "claude")
    world.counsel("copy", "y", "--from", "codex", "--to", "claude")
    written = json.loads(world.file("claude").read_text())["mcpServers"]
    assert written["x"]["headers"] == {"Authorization": "Bearer ${T}", "A": "1", "B": "${V}"}
    assert written["y"]["env"] == {"P": "${P}", "Q": "${Q}"}


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("-e", "A=${B}", "--", "c"), "own name only"),
        (("--", "c", "--key=${KEY}"), "expands no variables"),
        (("--url", "http://127.0.0.1:9/${PATH_PART}"), "expands no variables"),
        (("--url", "http://127.0.0.1:9/", "-H", "X: a ${B} c"), "expands no variables"),
    ],
)
def test_what_codex_cannot_say_is_named(flags: tuple[str, ...], why: str, world: World) -> None:
    shown = world.json("add", "x", "-a", "codex", *flags, code=1)
    assert why in shown["error"]
    assert "env_vars" in shown["hint"]


def test_text_that_gemini_would_expand_is_refused(world: World) -> None:
    world.write(
        "claude", '{"mcpServers": {"x": {"type": "stdio", "command": "c", "args": ["$literal"], "env": {}}}}'
    )
    assert "as a variable" in world.json("copy", "x", "--from", "claude", "--to", "gemini", code=1)["error"]


def test_cursors_own_words_stay_with_cursor(world: World) -> None:
    world.write("cursor", '{"mcpServers": {"x": {"command": "${workspaceFolder}/run"}}}')
    assert (
        "Only Cursor knows" in world.json("copy", "x", "--from", "cursor", "--to", "claude", code=1)["error"]
    )


def test_literal_secrets_are_warned_about_and_masked(world: World) -> None:
    done = world.json(
        "add", "x", "-a", "claude", "-s", "project", "-e", f"API_KEY={SECRET}", "--", "c", "--token", SECRET
    )
    words = " ".join(done["results"][0]["warnings"])
    assert "argument 2" in words
    assert "API_KEY" in words
    assert "${NAME}" in words
    assert SECRET not in json.dumps(done)
    for command in (("list",), ("list", "--json"), ("show", "x"), ("show", "x", "--json")):
        shown = world.counsel(*command)
        assert SECRET not in shown
        assert "sk…34" in shown
    assert SECRET in world.counsel("show", "x", "--reveal")
    assert SECRET not in json.dumps(world.json("undo", "--list"))


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (("--header", "X-Api-Key: abcdefghijkl"), ("--header", "X-Api-Key: ab…kl")),
        (("--header", "Authorization: Bearer abcdefghijkl"), ("--header", "Authorization: Bearer ab…kl")),
        (("--api-key=sk-abcdefghijkl",), ("--api-key=sk…kl",)),
        (("--db", "postgresql://u:secretpw@h/db"), ("--db", "postgresql://u:…@h/db")),
        (("https://tokentoken@h/?sig=abcdefghijkl&b=1",), ("https://to…en@h/?sig=ab…kl&b=1",)),
        (("Server=x;Password=abcdefghijkl;Port=1",), ("Server=x;Password=ab…kl;Port=1",)),
    ],
)
def test_secrets_inside_arguments_are_masked(
    given: tuple[str, ...], seen: tuple[str, ...], world: World
) -> None:
    url = "postgres://u:pppppppp@h/d"
    world.counsel("add", "x", "-a", "cursor", "-e", f"DATABASE_URL={url}", "--", "c", *given)
    row = world.json("list")["servers"][0]
    assert row["args"] == list(seen)
    assert row["env"] == {"DATABASE_URL": "postgres://u:…@h/d"}
    assert world.json("list", "--reveal")["servers"][0]["args"] == list(given)


def test_harmless_values_are_not_masked(world: World) -> None:
    world.counsel(
        "add",
        "x",
        "-a",
        "codex",
        "-e",
        "LEVEL=debug",
        "-e",
        "DIR=/home/u1/some/long/folder/name/that/goes/on",
        "--",
        "c",
        "-y",
        "@scope/package@1.2.3",
    )
    row = world.json("list")["servers"][0]
    assert row["env"] == {"LEVEL": "debug", "DIR": "/home/u1/some/long/folder/name/that/goes/on"}
    assert row["args"] == ["-y", "@scope/package@1.2.3"]


def test_gemini_blocks_pythonpath(world: World) -> None:
    done = world.json("add", "x", "-a", "gemini", "-e", "PYTHONPATH=/x", "--", "c")
    assert "PYTHONPATH" in done["results"][0]["warnings"][0]


# ── pasted ───────────────────────────────────────────────────────────────────────────────────────────

PASTED = {
    "claude": '{"mcpServers": {"x": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}}}}',
    "gemini": '{"mcpServers": {"x": {"httpUrl": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer $T"}}}}',
    "cursor with notes": '{"mcpServers": {"x": {"url": "http://127.0.0.1:9/mcp", /* c */ "headers": {"Authorization": "Bearer ${env:T}"},}}}',
    "codex": '[mcp_servers.x]\nurl = "http://127.0.0.1:9/mcp"\nbearer_token_env_var = "T"\n',
    "fragment": '"x": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}},',
    "entry": '{"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}}',
}


@pytest.mark.parametrize("text", PASTED.values(), ids=PASTED.keys())
def test_any_pasted_form_is_understood(text: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    world.counsel("add", "x", "--everywhere", "--from", "-")
    rows = world.json("list")["servers"]
    assert {(row["agent"], row["transport"], row["url"], row["token_env"]) for row in rows} == {
        (agent, "http", "http://127.0.0.1:9/mcp", "T") for agent in ("claude", "codex", "gemini", "cursor")
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// nothing but this",
        "{",
        "[mcp_servers",
        '{"mcpServers": {}}',
        '{"mcpServers": {"x": {"command": "c", "url": "u", "env_vars": []}}}',
        '{"mcpServers": {"x": {"command": "c", "url": "http://127.0.0.1:9/"}}}',
        '{"mcpServers": {"x": {"url": "nowhere"}}}',
        '{"servers": {"x": {"command": "c", "args": ["${input:key}"]}}}',
        '{"mcpServers": {"x": {"command": "${workspaceFolder}/c"}}}',
        '{"mcpServers": {"x": {"command": "\\ud800"}}}',
        '{"mcpServers": {"x": {"command": "a"}, /* again */ "x": {"command": "b"}}}',
        "[1]",
    ],
)
def test_bad_pasted_text_is_refused(text: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    refused = world.json("add", "x", "-a", "claude", "--from", "-", code=1)
    assert refused["code"] in {"INVALID_ARGUMENT", "CONFIG_INVALID"}
    assert not world.file("claude").exists()


def test_a_pasted_file_that_is_not_text_is_refused(world: World) -> None:
    (world.project / "p.json").write_bytes(b'{"a": {"command": "\xff"}}')
    assert world.json("add", "-a", "codex", "--from", "p.json", code=1)["code"] == "INVALID_ARGUMENT"


def test_a_pasted_server_that_is_switched_off_stays_off_or_it_is_said(world: World) -> None:
    (world.project / "p.md").write_text(
        '```json\n{"mcpServers": {"a": {"command": "c", "disabled": true}}}\n```\n'
    )
    done = world.json("add", "-a", "codex,cursor", "--from", "p.md")
    assert tomllib.loads(world.file("codex").read_text())["mcp_servers"]["a"]["enabled"] is False
    assert any("switched on in Cursor" in words for words in done["results"][1]["warnings"])
    assert "disabled" not in world.file("cursor").read_text()


@pytest.mark.parametrize(
    "flags",
    [
        ("--url", "nowhere"),
        ("--url", "ftp://127.0.0.1/"),
        ("--url", "http://127.0.0.1:9/", "-H", "A B: c"),
        ("--url", "http://127.0.0.1:9/", "-H", "A: b\nC: d"),
        ("--url", "http://127.0.0.1:9/", "--token-env", "A B"),
        ("--timeout", "inf", "--", "c"),
        ("--timeout", "1e300", "--", "c"),
        ("--timeout", "nan", "--", "c"),
        ("--", "c", "\udcff"),
        ("-e", "A=\udcff", "--", "c"),
        ("--url", "https://"),
        ("--url", "https:///path"),
        ("--url", "http://127.0.0.1/a b"),
        ("--include-tool", "", "--", "c"),
        ("--", "  "),
    ],
)
def test_what_no_client_could_use_is_refused(flags: tuple[str, ...], world: World) -> None:
    world.counsel("add", "x", "--everywhere", *flags, code=1)
    assert world.json("list")["servers"] == []


def test_what_is_text_in_codex_stays_text(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex expands nothing: a shell's variable in its file is the shell's."""
    text = '[mcp_servers.x]\ncommand = "sh"\nargs = ["-c", "echo ${A} $B"]\nenv = { C = "pre-${D}" }\n'
    world.write("codex", text)
    world.json("update", "x", "-a", "codex", "-e", "E=1")
    world.json("update", "x", "-a", "codex", "--timeout", "5")
    assert world.file("codex").read_text().startswith(text.replace(" }", ', E = "1" }'))
    world.counsel("update", "x", "-a", "codex", "--cwd", "${HOME}/x", code=1)
    monkeypatch.setattr(
        sys, "stdin", io.StringIO('[mcp_servers.y]\ncommand = "sh"\nargs = ["-c", "echo $B"]\n')
    )
    world.json("add", "-a", "codex", "--from", "-")
    assert tomllib.loads(world.file("codex").read_text())["mcp_servers"]["y"]["args"] == ["-c", "echo $B"]


def test_a_switch_in_pasted_json_does_not_make_it_codexs_form(world: World) -> None:
    entry = {"type": "sse", "url": "http://127.0.0.1:9/sse", "enabled": False, "headers": {"X": "${V}"}}
    (world.project / "p.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    done = world.json("add", "-a", "claude", "--from", "p.json")
    assert json.loads(world.file("claude").read_text())["mcpServers"]["a"] == {
        "type": "sse",
        "url": "http://127.0.0.1:9/sse",
        "headers": {"X": "${V}"},
    }
    assert any("switched on in Claude Code" in words for words in done["results"][0]["warnings"])


def test_pasted_toml_is_codexs_form(world: World) -> None:
    (world.project / "p.toml").write_text('command = "sh"\nargs = ["-c", "echo $HOME"]\nrequired = true\n')
    world.counsel("add", "a", "-a", "codex", "--from", "p.toml")
    assert tomllib.loads(world.file("codex").read_text())["mcp_servers"]["a"] == {
        "command": "sh",
        "args": ["-c", "echo $HOME"],
        "required": True,
    }


@pytest.mark.parametrize(("seconds", "milliseconds"), [("1.001", 1001), ("0.0001", 1), ("30", 30000)])
def test_a_time_limit_is_a_whole_number_of_milliseconds(
    seconds: str, milliseconds: int, world: World
) -> None:
    """Claude Code leaves a server out whose `timeout` is 1000.9999999999999."""
    world.counsel("add", "x", "-a", "claude,gemini", "--timeout", seconds, "--", "c")
    for agent in ("claude", "gemini"):
        assert f'"timeout": {milliseconds}\n' in world.file(agent).read_text()


def test_several_pasted_servers_keep_their_names(world: World) -> None:
    (world.project / "p.json").write_text('{"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}}}')
    world.counsel("add", "-a", "codex", "--from", "p.json")
    assert list(tomllib.loads(world.file("codex").read_text())["mcp_servers"]) == ["a", "b"]


# ── on and off ───────────────────────────────────────────────────────────────────────────────────────


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
    assert world.file("codex").read_bytes() == before["codex"]
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


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────────


def test_one_bad_file_does_not_hide_the_others(world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "--", "c")
    world.write("codex", "[mcp_servers.x\n")
    world.write("gemini", '{"mcpServers": {"broken": {}, "fine": {"command": "c"}}}')
    world.write("cursor", '{"mcpServers": []}')
    os.utime(world.file("codex"), (1, 1))
    found = world.json("list")
    assert [(row["agent"], row["name"]) for row in found["servers"]] == [("claude", "x"), ("gemini", "fine")]
    problems = {(row["agent"], row.get("name")): row for row in found["problems"]}
    assert problems["codex", None]["line"] == 1
    assert problems["gemini", "broken"]["error"] == "it has neither a command nor a url"
    assert ("cursor", None) in problems
    assert "problem:" not in world.counsel("list")
    assert world.err.count("problem:") == 3
    world.counsel("remove", "broken", "-a", "gemini")
    assert world.json("add", "y", "--everywhere", "--", "c", code=1)["code"] == "CONFIG_INVALID"
    assert '"y"' not in world.file("claude").read_text()


def test_drift_between_agents_is_marked(world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "--", "c", "one")
    world.counsel("add", "x", "-a", "codex", "--", "c", "two")
    assert {tuple(row["drift"]) for row in world.json("list")["servers"]} == {("args",)}
    assert "differs: args" in world.counsel("list")


def test_what_is_taken_back_already_is_said_and_can_be_made_again(world: World) -> None:
    first = world.json("add", "a", "-a", "codex", "--", "x")["id"]
    undo = world.json("undo", first)["id"]
    assert undo in world.json("undo", first, code=1)["error"]
    world.json("undo", undo)
    assert [row["name"] for row in world.json("list")["servers"]] == ["a"]
    assert (
        world.json("undo")["undone"]["id"] == first
    )  # it is there again, so it is the last that can be undone


def test_nothing_to_do_is_unchanged_and_still_says_what_is_left_out(world: World) -> None:
    world.counsel("add", "x", "-a", "codex,claude", "--", "c")
    world.json("disable", "x", "-a", "codex")
    assert world.json("disable", "x", "-a", "codex")["results"][0]["action"] == "unchanged"
    (kept,) = world.json("update", "x", "-a", "claude", "--include-tool", "t")["results"]
    assert (kept["action"], len(kept["warnings"])) == ("unchanged", 1)


def test_a_refusal_names_the_agents_that_could(world: World) -> None:
    world.counsel("add", "x", "--everywhere", "--", "c")
    assert world.json("disable", "x", "--everywhere", code=1)["hint"].endswith("--agent claude,codex,gemini.")


def test_undo_by_id_and_last(world: World) -> None:
    world.write("gemini", '{ "theme":"x" }')
    first = world.json("add", "one", "--everywhere", "--", "c")["id"]
    world.json("add", "two", "-a", "gemini", "--", "c")
    assert world.json("undo", first)["undone"]["id"] == first
    assert [row["name"] for row in world.json("list")["servers"]] == ["two"]
    world.counsel("undo")
    assert json.loads(world.file("gemini").read_text()) == {"theme": "x", "mcpServers": {}}
    assert world.json("undo", code=1)["code"] == "NOT_FOUND"


def test_adding_and_removing_gives_the_same_bytes_even_where_a_table_had_to_be_made(world: World) -> None:
    texts = {
        "claude": '{"numStartups": 4,"big": 123456789012345678901234567890}',
        "codex": 'model = "x" # mine',
        "gemini": '{\r\n\t// mine\r\n\t"ui": {}\r\n}\r\n',
        "cursor": "{ }",
    }
    for agent, text in texts.items():
        world.write(agent, text)
    world.counsel("add", "x", "--everywhere", "-e", "A=1", "--", "c", "d")
    world.counsel("remove", "x", "--everywhere")
    assert {agent: world.file(agent).read_bytes().decode() for agent in texts} == texts


@pytest.mark.parametrize(
    "args",
    [
        ("add", "x", "--", "c"),
        ("add", "-a", "claude"),
        ("add", "x", "-a", "nobody", "--", "c"),
        ("add", "x", "-a", "claude", "--url", "u", "--", "c"),
        ("add", "x", "-a", "claude", "-e", "NOVALUE", "--", "c"),
        ("add", "x", "-a", "claude", "--everywhere", "--", "c"),
        ("update", "x", "-a", "claude"),
        ("copy", "x", "--from", "nobody", "--to", "codex"),
    ],
)
def test_bad_usage_is_exit_2(args: tuple[str, ...], world: World) -> None:
    world.counsel(*args, code=2)


def test_listing_starts_nothing(world: World) -> None:
    flag = world.home / "started"
    world.counsel("add", "x", "-a", "claude", "--", "touch", str(flag))
    world.counsel("list")
    world.counsel("show", "x")
    assert not flag.exists()


# ── what a stranger tried ────────────────────────────────────────────────────────────────────────────


def test_every_refusal_is_told(world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "--", "c")
    words = world.json(
        "add", "x", "-a", "claude,codex,gemini", "-t", "sse", "--url", "http://127.0.0.1:9/", code=1
    )
    assert "Claude Code already has" in words["error"]
    assert "Codex does not speak sse" in words["error"]
    assert words["hint"].endswith("--agent gemini.")


def test_drift_is_marked_beside_a_shadowed_server(world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "--", "first")
    world.counsel("add", "x", "-a", "claude", "-s", "local", "--", "second")
    world.counsel("add", "x", "-a", "gemini", "--", "third")
    user = next(line for line in world.counsel("list").splitlines() if line.startswith("x "))
    assert "stdio third" in user
    assert "differs: command" in user
    assert "claude: shadowed by local" in user


@pytest.mark.parametrize("entry", [{"type": "http"}, {"type": "http", "command": "c"}, {"type": "stdio"}])
def test_what_claude_leaves_out_is_a_problem(entry: dict[str, str], world: World) -> None:
    world.write("claude", json.dumps({"mcpServers": {"x": entry, "y": {"command": "c"}}}))
    found = world.json("list")
    assert [row["name"] for row in found["servers"]] == ["y"]
    assert [
        (row["name"], "leaves it out" in row["error"] or "neither" in row["error"])
        for row in found["problems"]
    ] == [("x", True)]


def test_gemini_starts_a_command_whatever_the_type_says(world: World) -> None:
    world.write("gemini", '{"mcpServers": {"x": {"type": "http", "command": "c"}}}')
    assert world.json("show", "x")["servers"][0]["transport"] == "stdio"


@pytest.mark.parametrize("command", [("remove",), ("disable",), ("update", "-e", "A=1")])
def test_everywhere_is_all_or_none_beside_a_file_that_cannot_be_read(
    command: tuple[str, ...], world: World
) -> None:
    world.counsel("add", "x", "-a", "claude,codex", "--", "c")
    before = world.file("codex").read_bytes()
    broken = world.write("cursor", "{ bad")
    os.utime(broken, (1, 1))
    shown = world.json(command[0], "x", "--everywhere", *command[1:], code=1)
    assert (shown["code"], str(broken) in shown["error"]) == ("CONFIG_INVALID", True)
    assert "--agent claude,codex" in shown["hint"]
    assert world.file("codex").read_bytes() == before
    world.counsel(command[0], "x", "-a", "claude,codex", *command[1:])
    assert world.file("codex").read_bytes() != before


def test_a_hint_names_a_broken_file_once(world: World) -> None:
    broken = world.write("cursor", "{ bad")
    os.utime(broken, (1, 1))
    assert world.json("show", "x", code=1)["hint"].count(str(broken)) == 1


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


def test_headers_are_the_same_in_capitals_or_not(world: World) -> None:
    world.counsel("add", "x", "-a", "claude", "--url", "http://127.0.0.1:9/", "-H", "X-A: 1", "-H", "B: 1")
    world.counsel("update", "x", "-H", "x-a: 2", "--remove-header", "b")
    assert world.json("show", "x")["servers"][0]["headers"] == {"X-A": "2"}


def test_fields_are_taken_out(world: World) -> None:
    world.counsel("add", "x", "-a", "codex", "--", "c")
    before = world.file("codex").read_bytes()
    tools = ("--include-tool", "a", "--exclude-tool", "b")
    world.counsel("update", "x", "--timeout", "5", "--cwd", "/srv", *tools, "--", "c", "arg")
    fields = ("timeout", "cwd", "include-tool", "exclude-tool", "args")
    world.counsel("update", "x", *(word for name in fields for word in ("--unset", name)))
    assert world.file("codex").read_bytes() == before


def test_an_empty_list_of_agents_is_not_every_agent(world: World) -> None:
    world.counsel("add", "x", "-a", "codex", "--", "c")
    world.json("remove", "x", "--agent", "", code=2)
    assert world.json("list")["servers"]


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


def test_show_tells_words_apart(world: World) -> None:
    world.counsel("add", "x", "-a", "codex", "-e", "A=one\ntwo", "--", "c", "a b", "", "plain")
    shown = world.counsel("show", "x")
    assert '  args: "a b" "" plain\n' in shown
    assert '  env: A="one\\ntwo"\n' in shown


def test_what_an_item_of_env_vars_says_stays(world: World) -> None:
    text = '[mcp_servers.x]\ncommand = "c"\nenv_vars = ["Z", { name = "A", source = "remote" }] # mine\n'
    world.write("codex", text)
    world.counsel("update", "x", "-e", "B=$B", "--remove-env", "Z")
    assert world.file("codex").read_text() == text.replace('"Z", ', "").replace("}]", '}, "B"]')
    world.counsel("copy", "x", "--from", "codex", "--to", "codex:project")
    assert 'env_vars = [{ name = "A", source = "remote" }, "B"]' in world.file("codex project").read_text()
    world.counsel("copy", "x", "--from", "codex", "--to", "claude")
    (row,) = world.json("show", "x", "-a", "claude")["servers"]
    assert row["env"] == {"A": "${A}", "B": "${B}"}


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


def test_codex_is_offered_what_goes_with_an_address(world: World) -> None:
    done = world.json("add", "x", "-a", "codex", "--url", f"http://127.0.0.1:9/?token={SECRET}")
    assert "env_http_headers" in done["results"][0]["warnings"][0]
    assert "env_vars" not in done["results"][0]["warnings"][0]
