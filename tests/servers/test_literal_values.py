"""Text that looks like a reference to a variable, and references that look like text."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from support.user import User

CLAUDE = '{"mcpServers": {"x": {"type": "stdio", "command": "c", "args": %s, "env": {"P": "pa$WORD1"}}}}'


def entry(user: User, agent: str) -> Any:
    text = user.file(agent).read_text()
    if agent == "codex":
        return tomllib.loads(text)["mcp_servers"]["x"]
    return json.loads(text)["mcpServers"]["x"]


@pytest.mark.parametrize(
    "flags",
    [
        ("-e", "NEW=1"),
        ("-e", "NEW=$OTHER"),
        ("--timeout", "5"),
        ("--", "c", "$KEPT", "new"),
        ("--", "d", "$KEPT"),
    ],
)
def test_an_update_interprets_only_what_was_typed(flags: tuple[str, ...], user: User) -> None:
    user.write("claude", CLAUDE % '["$KEPT"]')
    user.counsel("update", "x", "-a", "claude", *flags)
    written = entry(user, "claude")
    assert written["env"]["P"] == "pa$WORD1"
    assert written["args"][0] == "$KEPT"
    assert written["env"].get("NEW") in (None, "1", "${OTHER}")


def test_an_update_leaves_other_headers_as_they_are(user: User) -> None:
    text = (
        '{"mcpServers": {"x": {"type": "http", "url": "http://127.0.0.1:9/$PART", "headers": {"A": "b$C"}}}}'
    )
    user.write("claude", text)
    user.counsel("update", "x", "-a", "claude", "-H", "New: $TOKEN")
    written = entry(user, "claude")
    assert written["url"] == "http://127.0.0.1:9/$PART"
    assert written["headers"] == {"A": "b$C", "New": "${TOKEN}"}


def test_add_says_what_it_took_for_a_reference(user: User) -> None:
    done = user.json("add", "x", "-a", "claude,cursor", "-e", "P=pa$WORD1", "--", "c", "--k=$KEY", "$small")
    for result in done["results"]:
        assert [words.split()[0] for words in result["warnings"]] == ["$KEY", "$WORD1"]
        assert "--literal" in result["warnings"][0]
    assert entry(user, "claude")["env"] == {"P": "pa${WORD1}"}
    quiet = user.json("add", "y", "-a", "claude", "-e", "P=${WORD1}", "--", "c")
    assert quiet["results"][0]["warnings"] == []


def test_literal_values_are_written_as_they_were_typed(user: User) -> None:
    done = user.json(
        "add", "x", "-a", "claude,codex,cursor", "--literal", "-e", "P=pa$WORD1", "--", "c", "$KEY"
    )
    assert all(result["warnings"] == [] for result in done["results"])
    for agent in ("claude", "codex", "cursor"):
        assert entry(user, agent)["env"] == {"P": "pa$WORD1"}
        assert entry(user, agent)["args"] == ["$KEY"]
    user.counsel("update", "x", "-a", "codex", "--literal", "-e", "Q=${NAME}")
    assert entry(user, "codex")["env"] == {"P": "pa$WORD1", "Q": "${NAME}"}


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor"])
def test_text_that_an_agent_would_expand_is_refused(agent: str, user: User) -> None:
    shown = user.json("add", "x", "-a", agent, "--literal", "--", "c", "a ${NAME} b", code=1)
    assert "${NAME}" in shown["error"]
    assert "as a variable" in shown["error"]
    assert not user.file(agent).exists()


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor"])
def test_what_is_text_in_codex_is_never_copied_as_a_reference(agent: str, user: User) -> None:
    user.write("codex", '[mcp_servers.x]\ncommand = "c"\nargs = ["${NAME}"]\nenv = { A = "${B}" }\n')
    shown = user.json("copy", "x", "--from", "codex", "--to", agent, code=1)
    assert "as a variable" in shown["error"]
    assert not user.file(agent).exists()
    row = user.json("list")["servers"][0]
    assert row["args"] == ["${NAME}"]
    assert row["env"] == {"A": "${B}"}
    before = user.file("codex").read_text()
    user.counsel("update", "x", "-a", "codex", "--timeout", "5")
    assert user.file("codex").read_text() == before + "tool_timeout_sec = 5.0\n"


def test_a_shells_script_is_the_shells(user: User) -> None:
    script = "exec $HOME/bin/server ${PORT}"
    user.counsel("add", "x", "--everywhere", "--", "sh", "-c", script)
    assert entry(user, "claude")["args"] == ["-c", script]
    assert entry(user, "codex")["args"] == ["-c", script]
    assert entry(user, "gemini")["args"] == ["-c", "exec ${HOME}/bin/server ${PORT}"]
    assert entry(user, "cursor")["args"] == ["-c", "exec $HOME/bin/server ${env:PORT}"]


def test_a_page_sends_back_what_it_was_shown(user: User) -> None:
    user.write("codex", '[mcp_servers.x]\ncommand = "${C}"\nargs = ["${NAME}", "b"]\nenv = { A = "${B}" }\n')
    user.counsel("update", "x", "-a", "codex", "-e", "A=${B}", "--", "${C}", "${NAME}", "c")
    assert entry(user, "codex") == {"command": "${C}", "args": ["${NAME}", "c"], "env": {"A": "${B}"}}
