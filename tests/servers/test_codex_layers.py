"""Codex merges servers of one name from all its files; links and the home folder can make two files one."""

from __future__ import annotations

import tomllib

import pytest

from servers import real_clients
from servers.trust import trust_folder
from support.user import User

USER = '[mcp_servers.mine]\ncommand = "x"\nargs = ["u"]\n'


def test_a_part_of_a_server_is_no_problem(user: User) -> None:
    user.write("codex", USER)
    trust_folder(user, "codex", user.project)
    user.write("codex project", "[mcp_servers.mine]\nenabled = false\n")
    reply = user.json("list")
    assert reply["problems"] == []
    first, project = reply["servers"]
    assert (first["shadowed_by"], project["enabled"], project["args"]) == ("project", False, ["u"])
    user.json("update", "mine", "-a", "codex", "-s", "project", "-e", "A=b")
    assert tomllib.loads(user.file("codex project").read_text())["mcp_servers"]["mine"] == {
        "enabled": False,
        "env": {"A": "b"},
    }


def test_entries_that_together_would_break_codex_are_refused(user: User) -> None:
    """A project's url merged with the user's command makes every codex command fail in that project."""
    user.write("codex", USER)
    reply = user.json("add", "mine", "-a", "codex", "-s", "project", "--url", "http://127.0.0.1:9/", code=1)
    assert "Codex merges" in reply["error"]
    assert not user.file("codex project").exists()
    user.write("codex project", "[mcp_servers.mine]\nenabled = false\n")
    assert "Codex merges" in user.json("remove", "mine", "-a", "codex", "-s", "user", code=1)["error"]
    user.json("remove", "mine", "-a", "codex")  # with both, nothing is left
    assert user.json("list")["servers"] == []


@pytest.mark.parametrize(
    "entry",
    [
        'url = "http://127.0.0.1:9/"\nargs = ["a"]',
        'url = "http://127.0.0.1:9/"\ncwd = "/"',
        'url = "http://127.0.0.1:9/"\nenv_vars = ["A"]',
        'command = "c"\nhttp_headers = { a = "b" }',
        'command = "c"\nenv = { A = 1 }',
        'command = "c"\ntool_timeout_sec = inf',
        'command = "c"\nstartup_timeout_sec = "5"',
        'command = "c"\nenabled = "no"',
        'command = "c"\nrequired = 1',
        'command = "c"\nenv_vars = [{ other = "A" }]',
        'command = "c"\nenv_vars = [{ name = "A", source = "moon" }]',
        'url = "http://127.0.0.1:9/"\nhttp_headers = { A = 1 }',
    ],
)
@pytest.mark.parametrize("real", [False, pytest.param(True, marks=[pytest.mark.client, pytest.mark.slow])])
def test_what_breaks_codex_is_a_problem(real: bool, entry: str, user: User) -> None:
    user.write("codex", f"[mcp_servers.x]\n{entry}\n")
    assert [problem["name"] for problem in user.json("list")["problems"]] == ["x"]
    if real:
        with pytest.raises(AssertionError, match="failed to load"):
            real_clients.ask(user.home, user.project, "codex", "mcp", "list")


@pytest.mark.client
@pytest.mark.slow
def test_codex_sees_the_parts_together(user: User) -> None:
    user.write("codex", USER)
    trust_folder(user, "codex", user.project)
    user.write("codex project", "[mcp_servers.mine]\nenabled = false\n")
    output = real_clients.ask(user.home, user.project, "codex", "mcp", "get", "mine")
    assert "disabled" in output or "enabled: false" in output


def test_the_home_folder_is_no_project_of_its_own(user: User) -> None:
    user.write("codex", USER)
    user.write("gemini", '{"mcpServers": {"g": {"command": "x"}}}')
    folder = ("--project", str(user.home))
    assert [(row["name"], row["scope"]) for row in user.json("list", *folder)["servers"]] == [
        ("mine", "user"),
        ("g", "user"),
    ]
    reply = user.json("add", "b", "-a", "codex", "-s", "project", *folder, "--", "y", code=1)
    assert "user's own file" in reply["error"]
    user.json("remove", "mine", "-a", "codex", *folder)


def test_a_home_folder_that_is_a_repository_is_no_layer_of_its_own(user: User) -> None:
    user.write("codex", USER)
    (user.home / ".git").mkdir()
    link = user.home.with_name("link")
    link.symlink_to(user.home)
    (user.home / "project").mkdir()
    result = user.json("list", "--project", str(link / "project"))["servers"]
    assert [(row["name"], row["scope"], row["shadowed_by"]) for row in result] == [("mine", "user", None)]


def test_two_agents_with_one_file_get_one_entry(user: User) -> None:
    text = '{\n  "mcpServers": {}\n}\n'
    file = user.write("claude project", text)
    for name in ("cursor project", "gemini project"):
        user.file(name).parent.mkdir()
        user.file(name).symlink_to(file)
    reply = user.json("add", "x", "--everywhere", "-s", "project", "--", "echo", "hi")
    assert sum("same file" in words for row in reply["results"] for words in row["warnings"]) == 2
    assert {row["agent"] for row in user.json("show", "x")["servers"]} == {
        "claude",
        "codex",
        "gemini",
        "cursor",
    }
    user.json("update", "x", "--everywhere", "-e", "A=b")
    user.json("remove", "x", "--everywhere")
    assert file.read_text() == text
