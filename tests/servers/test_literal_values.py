"""Text that looks like a reference to a variable, and references that look like text."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from servers.conftest import World

CLAUDE = '{"mcpServers": {"x": {"type": "stdio", "command": "c", "args": %s, "env": {"P": "pa$WORD1"}}}}'


def entry(world: World, agent: str) -> Any:
    text = world.file(agent).read_text()
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
def test_an_update_interprets_only_what_was_typed(flags: tuple[str, ...], world: World) -> None:
    world.write("claude", CLAUDE % '["$KEPT"]')
    world.counsel("update", "x", "-a", "claude", *flags)
    written = entry(world, "claude")
    assert written["env"]["P"] == "pa$WORD1"
    assert written["args"][0] == "$KEPT"
    assert written["env"].get("NEW") in (None, "1", "${OTHER}")


def test_an_update_leaves_other_headers_as_they_are(world: World) -> None:
    text = (
        '{"mcpServers": {"x": {"type": "http", "url": "http://127.0.0.1:9/$PART", "headers": {"A": "b$C"}}}}'
    )
    world.write("claude", text)
    world.counsel("update", "x", "-a", "claude", "-H", "New: $TOKEN")
    written = entry(world, "claude")
    assert written["url"] == "http://127.0.0.1:9/$PART"
    assert written["headers"] == {"A": "b$C", "New": "${TOKEN}"}


def test_add_says_what_it_took_for_a_reference(world: World) -> None:
    done = world.json("add", "x", "-a", "claude,cursor", "-e", "P=pa$WORD1", "--", "c", "--k=$KEY", "$small")
    for result in done["results"]:
        assert [words.split()[0] for words in result["warnings"]] == ["$KEY", "$WORD1"]
        assert "--literal" in result["warnings"][0]
    assert entry(world, "claude")["env"] == {"P": "pa${WORD1}"}
    quiet = world.json("add", "y", "-a", "claude", "-e", "P=${WORD1}", "--", "c")
    assert quiet["results"][0]["warnings"] == []


def test_literal_values_are_written_as_they_were_typed(world: World) -> None:
    done = world.json(
        "add", "x", "-a", "claude,codex,cursor", "--literal", "-e", "P=pa$WORD1", "--", "c", "$KEY"
    )
    assert all(result["warnings"] == [] for result in done["results"])
    for agent in ("claude", "codex", "cursor"):
        assert entry(world, agent)["env"] == {"P": "pa$WORD1"}
        assert entry(world, agent)["args"] == ["$KEY"]
    world.counsel("update", "x", "-a", "codex", "--literal", "-e", "Q=${NAME}")
    assert entry(world, "codex")["env"] == {"P": "pa$WORD1", "Q": "${NAME}"}


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor"])
def test_text_that_an_agent_would_expand_is_refused(agent: str, world: World) -> None:
    shown = world.json("add", "x", "-a", agent, "--literal", "--", "c", "a ${NAME} b", code=1)
    assert "${NAME}" in shown["error"]
    assert "as a variable" in shown["error"]
    assert not world.file(agent).exists()


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor"])
def test_what_is_text_in_codex_is_never_copied_as_a_reference(agent: str, world: World) -> None:
    world.write("codex", '[mcp_servers.x]\ncommand = "c"\nargs = ["${NAME}"]\nenv = { A = "${B}" }\n')
    shown = world.json("copy", "x", "--from", "codex", "--to", agent, code=1)
    assert "as a variable" in shown["error"]
    assert not world.file(agent).exists()
    row = world.json("list")["servers"][0]
    assert row["args"] == ["${NAME}"]
    assert row["env"] == {"A": "${B}"}
    before = world.file("codex").read_text()
    world.counsel("update", "x", "-a", "codex", "--timeout", "5")
    assert world.file("codex").read_text() == before + "tool_timeout_sec = 5.0\n"


def test_a_shells_script_is_the_shells(world: World) -> None:
    script = "exec $HOME/bin/server ${PORT}"
    world.counsel("add", "x", "--everywhere", "--", "sh", "-c", script)
    assert entry(world, "claude")["args"] == ["-c", script]
    assert entry(world, "codex")["args"] == ["-c", script]
    assert entry(world, "gemini")["args"] == ["-c", "exec ${HOME}/bin/server ${PORT}"]
    assert entry(world, "cursor")["args"] == ["-c", "exec $HOME/bin/server ${env:PORT}"]


def test_a_page_sends_back_what_it_was_shown(world: World) -> None:
    world.write("codex", '[mcp_servers.x]\ncommand = "${C}"\nargs = ["${NAME}", "b"]\nenv = { A = "${B}" }\n')
    world.counsel("update", "x", "-a", "codex", "-e", "A=${B}", "--", "${C}", "${NAME}", "c")
    assert entry(world, "codex") == {"command": "${C}", "args": ["${NAME}", "c"], "env": {"A": "${B}"}}
