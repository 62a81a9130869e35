"""`list` says "on" only where the client would load the entry (measured with the real clients)."""

from __future__ import annotations

import json

import pytest

from support.user import User


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('\ufeff{"mcpServers": {"x": {"command": "c"}}}', "byte-order mark"),
        ('{"mcpServers": {"x": {"command": "c"},}}', "trailing comma"),
    ],
)
def test_gemini_does_not_start_with_such_a_file(text: str, words: str, user: User) -> None:
    user.write("gemini", text)
    shown = user.json("list")
    assert [row["enabled"] for row in shown["servers"]] == [False]
    assert words in shown["problems"][0]["error"]
    user.write("cursor", text)
    assert [row["enabled"] for row in user.json("list", "-a", "cursor")["servers"]] == [True]


def test_comments_are_no_problem_for_gemini(user: User) -> None:
    user.write("gemini", '{// a, }\n"mcpServers": {"x": {"command": "c", "args": [",}"]}}}')
    shown = user.json("list")
    assert [row["enabled"] for row in shown["servers"]] == [True]
    assert shown["problems"] == []


@pytest.mark.parametrize("entry", [{"env": {"A": 1}}, {"env": {"A": True}}, {"env": {"A": None}}])
def test_claude_skips_values_that_are_no_strings(entry: dict[str, object], user: User) -> None:
    content = {"x": {"type": "stdio", "command": "c", **entry}, "y": {"type": "stdio", "command": "c"}}
    user.write("claude", json.dumps({"mcpServers": content}))
    shown = user.json("list")
    assert [row["name"] for row in shown["servers"]] == ["y"]
    assert "skips it: env.A" in shown["problems"][0]["error"]
    user.counsel("remove", "x", "-a", "claude")
    assert user.json("list")["problems"] == []


def test_claude_skips_headers_that_are_no_strings(user: User) -> None:
    entry = {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"A": 1}}
    user.write("claude", json.dumps({"mcpServers": {"x": entry}}))
    assert "headers.A" in user.json("list")["problems"][0]["error"]


STARTED, REMOTE = {"type": "stdio", "command": "c"}, {"type": "http", "url": "http://127.0.0.1:9/"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**STARTED, "args": None}, "args is null"),
        ({**STARTED, "env": None}, "env is null"),
        ({**REMOTE, "headers": None}, "headers is null"),
        ({**STARTED, "type": None}, "its type is null"),
        ({**REMOTE, "type": "streamableHttp"}, "its type is"),
        *(({**STARTED, "timeout": limit}, "timeout") for limit in (None, True, 0, -5, 1500.5, 1e21, "5000")),
        ({**REMOTE, "timeout": 0.5}, "timeout"),
    ],
)
def test_claude_skips_entries_with_other_wrong_values(
    entry: dict[str, object], words: str, user: User
) -> None:
    user.write("claude", json.dumps({"mcpServers": {"x": entry, "y": STARTED}}))
    shown = user.json("list")
    assert [row["name"] for row in shown["servers"]] == ["y"]
    assert f"skips it: {words}" in shown["problems"][0]["error"]


@pytest.mark.parametrize(
    "entry",
    [
        {**STARTED, "timeout": 1500.0},
        {**STARTED, "timeout": 5},
        {**STARTED, "headers": None, "cwd": None},
        {**REMOTE, "args": None, "env": None},
        {**REMOTE, "type": "streamable-http"},
    ],
)
def test_claude_loads_these(entry: dict[str, object], user: User) -> None:
    user.write("claude", json.dumps({"mcpServers": {"x": entry}}))
    shown = user.json("list")
    assert [row["enabled"] for row in shown["servers"]] == [True]
    assert shown["problems"] == []


def test_a_pasted_entry_may_have_what_claude_skips(user: User) -> None:
    paste = user.project / "paste.json"
    pasted = {
        "x": {"command": "c", "args": None, "env": None, "timeout": None, "type": None},
        "y": {"type": "streamableHttp", "url": "http://127.0.0.1:9/", "headers": None, "timeout": 1500.5},
    }
    paste.write_text(json.dumps({"mcpServers": pasted}))
    user.counsel("add", "-a", "claude", "--from", str(paste))
    assert json.loads(user.file("claude").read_text())["mcpServers"] == {
        "x": {"type": "stdio", "command": "c", "args": [], "env": {}},
        "y": {"type": "http", "url": "http://127.0.0.1:9/", "timeout": 1500},
    }


@pytest.mark.parametrize("text", ["{}", '{"x": {"command": "c"}}'])
def test_claude_refuses_a_projects_file_without_mcp_servers(text: str, user: User) -> None:
    user.write("claude project", text)
    shown = user.json("list")
    assert shown["servers"] == []
    assert "no mcpServers" in shown["problems"][0]["error"]


def test_pasted_numbers_become_strings(user: User) -> None:
    paste = user.project / "paste.json"
    paste.write_text(json.dumps({"mcpServers": {"x": {"command": "c", "env": {"PORT": 80, "ON": True}}}}))
    user.counsel("add", "-a", "claude", "--from", str(paste))
    document = json.loads(user.file("claude").read_text())["mcpServers"]["x"]
    assert document["env"] == {"PORT": "80", "ON": "true"}
