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
    fields = entry(user, "claude")
    assert fields["env"]["P"] == "pa$WORD1"
    assert fields["args"][0] == "$KEPT"
    assert fields["env"].get("NEW") in (None, "1", "${OTHER}")


def test_an_update_leaves_other_headers_as_they_are(user: User) -> None:
    text = (
        '{"mcpServers": {"x": {"type": "http", "url": "http://127.0.0.1:9/$PART", "headers": {"A": "b$C"}}}}'
    )
    user.write("claude", text)
    user.counsel("update", "x", "-a", "claude", "-H", "New: $TOKEN")
    fields = entry(user, "claude")
    assert fields["url"] == "http://127.0.0.1:9/$PART"
    assert fields["headers"] == {"A": "b$C", "New": "${TOKEN}"}


def test_add_says_what_it_took_for_a_reference(user: User) -> None:
    reply = user.json("add", "x", "-a", "claude,cursor", "-e", "P=pa$WORD1", "--", "c", "--k=$KEY", "$small")
    for result in reply["results"]:
        assert [words.split()[0] for words in result["warnings"]] == ["$KEY", "$WORD1"]
        assert "--literal" in result["warnings"][0]
    assert entry(user, "claude")["env"] == {"P": "pa${WORD1}"}
    quiet = user.json("add", "y", "-a", "claude", "-e", "P=${WORD1}", "--", "c")
    assert quiet["results"][0]["warnings"] == []


def test_literal_values_are_written_as_they_were_typed(user: User) -> None:
    reply = user.json(
        "add", "x", "-a", "claude,codex,cursor", "--literal", "-e", "P=pa$WORD1", "--", "c", "$KEY"
    )
    assert all(result["warnings"] == [] for result in reply["results"])
    for agent in ("claude", "codex", "cursor"):
        assert entry(user, agent)["env"] == {"P": "pa$WORD1"}
        assert entry(user, agent)["args"] == ["$KEY"]
    user.counsel("update", "x", "-a", "codex", "--literal", "-e", "Q=${NAME}")
    assert entry(user, "codex")["env"] == {"P": "pa$WORD1", "Q": "${NAME}"}


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor"])
def test_text_that_an_agent_would_expand_is_refused(agent: str, user: User) -> None:
    reply = user.json("add", "x", "-a", agent, "--literal", "--", "c", "a ${NAME} b", code=1)
    assert "${NAME}" in reply["error"]
    assert "as a variable" in reply["error"]
    assert not user.file(agent).exists()


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor"])
def test_what_is_text_in_codex_is_never_copied_as_a_reference(agent: str, user: User) -> None:
    user.write("codex", '[mcp_servers.x]\ncommand = "c"\nargs = ["${NAME}"]\nenv = { A = "${B}" }\n')
    reply = user.json("copy", "x", "--from", "codex", "--to", agent, code=1)
    assert "as a variable" in reply["error"]
    assert not user.file(agent).exists()
    row = user.json("list")["servers"][0]
    assert row["args"] == ["${NAME}"]
    assert row["env"] == {"A": "${B}"}
    before = user.file("codex").read_text()
    user.counsel("update", "x", "-a", "codex", "--timeout", "5")
    assert user.file("codex").read_text() == before + "tool_timeout_sec = 5.0\n"


def test_a_shell_script_is_not_interpreted(user: User) -> None:
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


TABLES = {"opencode": "mcp", "vscode": "servers", "codex": "mcp_servers"}
UNWRITABLE = [  # values in a client's own file that counsel would write differently or not at all
    ("claude", "$$X"),
    ("gemini", "pa$WORD"),
    ("cursor", "${X:-d}"),
    ("cursor", "${X}"),
    ("opencode", "{env:X:-d}"),
    ("vscode", "${X:-${Y}}"),
]


def written_by_hand(user: User, agent: str, entry: dict[str, Any]) -> None:
    user.write(agent, json.dumps({TABLES.get(agent, "mcpServers"): {"x": entry}}))


@pytest.mark.parametrize(("agent", "value"), UNWRITABLE)
def test_an_update_keeps_values_that_counsel_would_write_otherwise(
    agent: str, value: str, user: User
) -> None:
    start: dict[str, Any] = {"command": "c", "args": [value, "old"], "env": {"A": value}}
    kind, names = {"claude": {"type": "stdio"}, "vscode": {"type": "stdio"}}.get(agent, {}), "env"
    if agent == "opencode":
        start = {"type": "local", "command": ["c", value, "old"], "environment": {"A": value}}
        names = "environment"
    written_by_hand(user, agent, {**kind, **start})
    user.counsel("update", "x", "-a", agent, "-e", "B=1")
    assert read_entry(user, agent) == {**kind, **start, names: {"A": value, "B": "1"}}
    user.counsel("undo")
    argument = user.json("list", "--reveal")["servers"][0]["args"][0]
    user.counsel("update", "x", "-a", agent, "--", "c", argument, "new")
    args = {"command": ["c", value, "new"]} if agent == "opencode" else {"args": [value, "new"]}
    assert read_entry(user, agent) == {**kind, **start, **args}


def read_entry(user: User, agent: str) -> Any:
    return json.loads(user.file(agent).read_text())[TABLES.get(agent, "mcpServers")]["x"]


def test_a_new_value_that_cannot_be_written_is_refused_beside_an_old_one(user: User) -> None:
    written_by_hand(user, "cursor", {"command": "c", "env": {"A": "${X:-d}"}})
    before = user.files()
    reply = user.json("update", "x", "-a", "cursor", "-e", "B=${X:-d}", code=1)
    assert "no default values" in reply["error"]
    assert user.files() == before


def test_an_update_checks_only_the_header_that_it_changes(user: User) -> None:
    headers = {"Odd": "two\nlines", "Not a name": "1"}
    written_by_hand(user, "claude", {"type": "http", "url": "http://127.0.0.1:9/", "headers": headers})
    user.counsel("update", "x", "-a", "claude", "-H", "New: 1")
    assert read_entry(user, "claude")["headers"] == {**headers, "New": "1"}
    user.json("update", "x", "-a", "claude", "-H", "Worse: a\nb", code=1)


@pytest.mark.parametrize("target", ["cursor", "vscode"])
@pytest.mark.parametrize("origin", ["claude", "gemini"])
def test_what_only_the_other_client_would_expand_is_not_copied(origin: str, target: str, user: User) -> None:
    written_by_hand(user, origin, {"command": "c", "args": ["a ${env:X} b"]})
    reply = user.json("copy", "x", "--from", origin, "--to", target, code=1)
    assert "${env:X}" in reply["error"]
    assert "as a variable" in reply["error"]
    assert not user.file(target).exists()


def test_vs_code_expands_no_name_without_env(user: User) -> None:
    entry = {"type": "stdio", "command": "c", "args": ["${X}", "${env:Y}", "${workspaceFolder}"]}
    written_by_hand(user, "vscode", entry)
    user.counsel("copy", "x", "--from", "vscode", "--to", "vscode:project")
    assert json.loads(user.file("vscode project").read_text())["servers"]["x"] == entry
    written_by_hand(user, "vscode", {**entry, "args": ["${X}"]})
    reply = user.json("copy", "x", "--from", "vscode:user", "--to", "claude", code=1)
    assert "would read ${X}" in reply["error"]
    user.counsel("copy", "x", "--from", "vscode:user", "--to", "codex")
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"]["args"] == ["${X}"]
    user.counsel("add", "y", "-a", "vscode", "--literal", "--", "c", "${X}")
    for text in ("${env:X}", "${workspaceFolder}", "${input:key}"):
        reply = user.json("add", "z", "-a", "vscode", "--literal", "--", "c", text, code=1)
        assert text in reply["error"]


@pytest.mark.parametrize("agent", ["codex", "opencode", "vscode", "claude", "cursor", "gemini"])
@pytest.mark.parametrize("value", ["${input:key}", "${X:-${Y}}", "Bearer ${X:-${Y}}", "a ${b c} secret"])
def test_what_is_shown_of_text_comes_back_as_the_text(agent: str, value: str, user: User) -> None:
    """The console sends every header back as it was displayed: masked, or with the file's own text."""
    remote: dict[str, Any] = {
        "type": "http",
        "url": "http://127.0.0.1:9/",
        "headers": {"Authorization": value},
    }
    if agent == "codex":
        remote = {"url": remote["url"], "http_headers": remote["headers"]}
        text = f'[mcp_servers.x]\nurl = "{remote["url"]}"\nhttp_headers = {{ Authorization = "{value}" }}\n'
        user.write("codex", text)
    else:
        written_by_hand(user, agent, {**remote, "type": "remote"} if agent == "opencode" else remote)
    before = user.file(agent).read_bytes()
    for reveal in ((), ("--reveal",)):
        headers = user.json("show", "x", "-a", agent, *reveal)["servers"][0]["headers"]
        flags = [part for name, text in headers.items() for part in ("-H", f"{name}: {text}")]
        if flags:
            user.counsel("update", "x", "-a", agent, *flags)
        assert user.file(agent).read_bytes() == before


def test_an_update_with_an_unchanged_header_keeps_the_token(user: User) -> None:
    text = (
        '[mcp_servers.x]\nurl = "http://127.0.0.1:9/"\nbearer_token_env_var = "T"\n'
        'http_headers = { Authorization = "Basic abcdefghijkl", Z = "1" }\n'
    )
    user.write("codex", text)
    header = user.json("show", "x")["servers"][0]["headers"]["Authorization"]
    user.counsel("update", "x", "-H", f"Authorization: {header}", "-H", "Z: 2")
    assert user.file("codex").read_text() == text.replace('"1"', '"2"')
    user.counsel("update", "x", "-H", "Authorization: Basic other")
    assert "bearer_token_env_var" not in user.file("codex").read_text()


@pytest.mark.parametrize("agent", ["claude", "gemini", "cursor", "opencode", "vscode", "codex"])
def test_a_masked_script_comes_back_as_the_script(agent: str, user: User) -> None:
    script = "curl -H 'Authorization: Bearer abcdefghijklmnop' localhost"
    user.counsel("add", "x", "-a", agent, "--", "sh", "-c", script)
    before = user.file(agent).read_bytes()
    args = user.json("show", "x", "-a", agent)["servers"][0]["args"]
    assert "abcdefghijklmnop" not in args[1]
    user.counsel("update", "x", "-a", agent, "--", "sh", *args)
    assert user.file(agent).read_bytes() == before


@pytest.mark.parametrize(
    ("agent", "reference"),
    [("opencode", "{env:PORT}"), ("vscode", "${env:PORT}"), ("cursor", "${env:PORT}"), ("gemini", "$PORT")],
)
def test_another_argument_leaves_a_shells_script_as_it_is(agent: str, reference: str, user: User) -> None:
    args = ["-c", f"echo {reference} ${{f}}", "old"]
    entry: dict[str, Any] = {"command": "sh", "args": args}
    if agent == "opencode":
        entry = {"type": "local", "command": ["sh", *args]}
    written_by_hand(user, agent, entry)
    current_args = user.json("show", "x", "-a", agent, "--reveal")["servers"][0]["args"]
    user.counsel("update", "x", "-a", agent, "--", "sh", *current_args[:2], "new")
    new = [*args[:2], "new"]
    assert read_entry(user, agent) == {
        **entry,
        **({"command": ["sh", *new]} if agent == "opencode" else {"args": new}),
    }


@pytest.mark.parametrize("script", ["for f in a b; do echo ${f}; done", "echo ${X:-d} ${Y:-${Z}}"])
def test_a_shells_script_is_unchanged_where_the_client_leaves_it_alone(script: str, user: User) -> None:
    user.counsel("add", "x", "-a", "codex,opencode,vscode", "--", "bash", "-lc", script)
    assert read_entry(user, "opencode")["command"] == ["bash", "-lc", script]
    assert read_entry(user, "vscode")["args"] == ["-lc", script]
    assert entry(user, "codex")["args"] == ["-lc", script]


@pytest.mark.parametrize(
    ("agent", "value"),
    [*UNWRITABLE, ("gemini", "$X"), ("opencode", "{env:X}"), ("vscode", "${env:X}"), ("codex", "${X:-d} $Y")],
)
def test_a_copy_within_one_client_keeps_every_value_as_it_is(agent: str, value: str, user: User) -> None:
    args = ["-c", value, value]
    entry: dict[str, Any] = {"command": "sh", "args": args, "env": {"A": value}}
    if agent == "opencode":
        entry = {"type": "local", "command": ["sh", *args], "environment": {"A": value}}
    if agent == "codex":
        user.write(
            "codex",
            f'[mcp_servers.x]\ncommand = "sh"\nargs = {json.dumps(args)}\nenv = {{ A = "{value}" }}\n',
        )
    else:
        written_by_hand(
            user, agent, {**({"type": "stdio"} if agent in ("claude", "vscode") else {}), **entry}
        )
    user.counsel("copy", "x", "--from", f"{agent}:user", "--to", f"{agent}:project")
    before, after = (user.file(name).read_text() for name in (agent, f"{agent} project"))
    parse = tomllib.loads if agent == "codex" else json.loads
    key = TABLES.get(agent, "mcpServers")
    assert parse(after)[key] == parse(before)[key]
