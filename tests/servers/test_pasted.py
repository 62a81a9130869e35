"""Servers pasted as JSON or TOML in any agent's format."""

from __future__ import annotations

import io
import json
import sys
import tomllib

import pytest

from support.user import User

PASTED = {
    "claude": '{"mcpServers": {"x": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}}}}',
    "gemini": '{"mcpServers": {"x": {"httpUrl": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer $T"}}}}',
    "cursor with notes": '{"mcpServers": {"x": {"url": "http://127.0.0.1:9/mcp", /* c */ "headers": {"Authorization": "Bearer ${env:T}"},}}}',
    "codex": '[mcp_servers.x]\nurl = "http://127.0.0.1:9/mcp"\nbearer_token_env_var = "T"\n',
    "fragment": '"x": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}},',
    "entry": '{"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${T}"}}',
}


@pytest.mark.parametrize("text", PASTED.values(), ids=PASTED.keys())
def test_any_pasted_form_is_understood(text: str, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    user.counsel("add", "x", "--everywhere", "--from", "-")
    rows = user.json("list")["servers"]
    assert {(row["agent"], row["transport"], row["url"], row["token_env"]) for row in rows} == {
        (agent, "http", "http://127.0.0.1:9/mcp", "T") for agent in ("claude", "codex", "gemini", "cursor")
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"mcp_servers": {"x": {"command": "c", "args": ["$HOME/%"]}}}',
        '[mcp_servers.x]\ncommand = "c"\nargs = ["$HOME/%"]',
    ],
    ids=["json", "toml"],
)
def test_a_dollar_in_codexs_own_form_is_text(text: str, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex expands nothing: an argument that other agents would read as a variable is plain text."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    user.counsel("add", "x", "-a", "codex", "--from", "-")
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"]["args"] == ["$HOME/%"]


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
def test_bad_pasted_text_is_refused(text: str, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    reply = user.json("add", "x", "-a", "claude", "--from", "-", code=1)
    assert reply["code"] in {"INVALID_ARGUMENT", "CONFIG_INVALID"}
    assert not user.file("claude").exists()


def test_a_pasted_file_that_is_not_text_is_refused(user: User) -> None:
    (user.project / "p.json").write_bytes(b'{"a": {"command": "\xff"}}')
    assert user.json("add", "-a", "codex", "--from", "p.json", code=1)["code"] == "INVALID_ARGUMENT"


def test_a_pasted_server_that_is_disabled_stays_disabled_or_it_is_reported(user: User) -> None:
    (user.project / "p.md").write_text(
        '```json\n{"mcpServers": {"a": {"command": "c", "disabled": true}}}\n```\n'
    )
    reply = user.json("add", "-a", "codex,cursor", "--from", "p.md")
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["a"]["enabled"] is False
    assert any("enabled in Cursor" in words for words in reply["results"][1]["warnings"])
    assert "disabled" not in user.file("cursor").read_text()


def test_a_switch_in_pasted_json_does_not_make_it_codexs_form(user: User) -> None:
    entry = {"type": "sse", "url": "http://127.0.0.1:9/sse", "enabled": False, "headers": {"X": "${V}"}}
    (user.project / "p.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    reply = user.json("add", "-a", "claude", "--from", "p.json")
    assert json.loads(user.file("claude").read_text())["mcpServers"]["a"] == {
        "type": "sse",
        "url": "http://127.0.0.1:9/sse",
        "headers": {"X": "${V}"},
    }
    assert any("enabled in Claude Code" in words for words in reply["results"][0]["warnings"])


def test_pasted_toml_is_codexs_form(user: User) -> None:
    (user.project / "p.toml").write_text('command = "sh"\nargs = ["-c", "echo $HOME"]\nrequired = true\n')
    user.counsel("add", "a", "-a", "codex", "--from", "p.toml")
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["a"] == {
        "command": "sh",
        "args": ["-c", "echo $HOME"],
        "required": True,
    }


def test_several_pasted_servers_keep_their_names(user: User) -> None:
    (user.project / "p.json").write_text('{"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}}}')
    user.counsel("add", "-a", "codex", "--from", "p.json")
    assert list(tomllib.loads(user.file("codex").read_text())["mcp_servers"]) == ["a", "b"]
