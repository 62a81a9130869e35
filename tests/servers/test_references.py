"""References to variables in each agent's syntax, and literal secrets."""

from __future__ import annotations

import io
import json
import sys
import tomllib

import pytest

from support.user import User

SECRET = "sk-live-abcdefghijklmnop1234"


def test_references_are_translated(user: User) -> None:
    user.write(
        "gemini",
        '{"mcpServers": {"x": {"command": "c", "args": [], "env": {"TOKEN": "$TOKEN", "D": "${D:-1}"}}}}',
    )
    user.counsel("copy", "x", "--from", "gemini", "--to", "claude")
    assert json.loads(user.file("claude").read_text())["mcpServers"]["x"]["env"] == {
        "TOKEN": "${TOKEN}",
        "D": "${D:-1}",
    }
    reply = user.json("copy", "x", "--from", "gemini", "--to", "cursor", code=1)
    assert "no default values" in reply["error"]
    assert "--literal" not in reply["hint"]  # `copy` has no such option
    user.counsel("update", "x", "-a", "gemini", "--remove-env", "D")
    user.counsel("copy", "x", "--from", "gemini", "--to", "cursor")
    entry = json.loads(user.file("cursor").read_text())["mcpServers"]["x"]
    assert entry["env"] == {"TOKEN": "${env:TOKEN}"}
    user.counsel("update", "x", "-a", "gemini", "-e", "D=${D:-1}")
    reply = user.json("copy", "x", "--from", "gemini", "--to", "codex", code=1)
    assert "${D}" in reply["error"]
    assert not user.file("codex").exists()


def test_a_bearer_token_from_the_environment_everywhere(user: User) -> None:
    user.counsel(
        "add", "x", "--everywhere", "--url", "http://127.0.0.1:9/mcp", "-H", "Authorization: Bearer $TOKEN"
    )
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"] == {
        "url": "http://127.0.0.1:9/mcp",
        "bearer_token_env_var": "TOKEN",
    }
    headers = {
        agent: json.loads(user.file(agent).read_text())["mcpServers"]["x"]["headers"]["Authorization"]
        for agent in ("claude", "gemini", "cursor")
    }
    assert headers == {
        "claude": "Bearer ${TOKEN}",
        "gemini": "Bearer ${TOKEN}",
        "cursor": "Bearer ${env:TOKEN}",
    }
    assert {row["token_env"] for row in user.json("list")["servers"]} == {"TOKEN"}
    assert all(row["drift"] == [] for row in user.json("list")["servers"])


def test_codex_forms_become_references_elsewhere(user: User) -> None:
    user.write(
        "codex",
        '[mcp_servers.x]\nurl = "http://127.0.0.1:9/mcp"\nbearer_token_env_var = "T"\n'
        'http_headers = { A = "1" }\nenv_http_headers = { B = "V" }\n'
        '[mcp_servers.y]\ncommand = "c"\nenv_vars = ["P", { name = "Q", source = "local" }]\n',
    )
    user.counsel("copy", "x", "--from", "codex", "--to", "claude")
    user.counsel("copy", "y", "--from", "codex", "--to", "claude")
    entries = json.loads(user.file("claude").read_text())["mcpServers"]
    assert entries["x"]["headers"] == {"Authorization": "Bearer ${T}", "A": "1", "B": "${V}"}
    assert entries["y"]["env"] == {"P": "${P}", "Q": "${Q}"}


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("-e", "A=${B}", "--", "c"), "only under their own name"),
        (("--", "c", "--key=${KEY}"), "expands no variables"),
        (("--url", "http://127.0.0.1:9/${PATH_PART}"), "expands no variables"),
        (("--url", "http://127.0.0.1:9/", "-H", "X: a ${B} c"), "expands no variables"),
    ],
)
def test_what_codex_cannot_express_is_named(flags: tuple[str, ...], why: str, user: User) -> None:
    reply = user.json("add", "x", "-a", "codex", *flags, code=1)
    assert why in reply["error"]
    assert "env_vars" in reply["hint"]


def test_text_that_gemini_would_expand_is_refused(user: User) -> None:
    user.write(
        "claude", '{"mcpServers": {"x": {"type": "stdio", "command": "c", "args": ["$literal"], "env": {}}}}'
    )
    assert "as a variable" in user.json("copy", "x", "--from", "claude", "--to", "gemini", code=1)["error"]


def test_cursors_own_placeholders_stay_with_cursor(user: User) -> None:
    user.write("cursor", '{"mcpServers": {"x": {"command": "${workspaceFolder}/run"}}}')
    assert (
        "only Cursor fills it in"
        in user.json("copy", "x", "--from", "cursor", "--to", "claude", code=1)["error"]
    )


def test_literal_secrets_are_warned_about_and_masked(user: User) -> None:
    reply = user.json(
        "add", "x", "-a", "claude", "-s", "project", "-e", f"API_KEY={SECRET}", "--", "c", "--token", SECRET
    )
    words = " ".join(reply["results"][0]["warnings"])
    assert "argument 2" in words
    assert "API_KEY" in words
    assert "${NAME}" in words
    assert SECRET not in json.dumps(reply)
    for command in (("list",), ("list", "--json"), ("show", "x"), ("show", "x", "--json")):
        output = user.counsel(*command)
        assert SECRET not in output
        assert "sk…34" in output
    assert SECRET in user.counsel("show", "x", "--reveal")
    assert SECRET not in json.dumps(user.json("undo", "--list"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
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
    arguments: tuple[str, ...], expected: tuple[str, ...], user: User
) -> None:
    url = "postgres://u:pppppppp@h/d"
    user.counsel("add", "x", "-a", "cursor", "-e", f"DATABASE_URL={url}", "--", "c", *arguments)
    row = user.json("list")["servers"][0]
    assert row["args"] == list(expected)
    assert row["env"] == {"DATABASE_URL": "postgres://u:…@h/d"}
    assert user.json("list", "--reveal")["servers"][0]["args"] == list(arguments)


def test_harmless_values_are_not_masked(user: User) -> None:
    user.counsel(
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
    row = user.json("list")["servers"][0]
    assert row["env"] == {"LEVEL": "debug", "DIR": "/home/u1/some/long/folder/name/that/goes/on"}
    assert row["args"] == ["-y", "@scope/package@1.2.3"]


def test_what_holds_no_literal_is_not_masked_whatever_its_name(user: User) -> None:
    values = {"API_KEY": "", "TOKEN": "Bearer", "PASSWORD": "${A}${B}"}
    user.write("claude", json.dumps({"mcpServers": {"x": {"command": "c", "env": values}}}))
    assert user.json("list")["servers"][0]["env"] == values


def test_gemini_blocks_pythonpath(user: User) -> None:
    reply = user.json("add", "x", "-a", "gemini", "-e", "PYTHONPATH=/x", "--", "c")
    assert "PYTHONPATH" in reply["results"][0]["warnings"][0]


def test_what_is_text_in_codex_stays_text(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex expands nothing: a shell's variable in its file belongs to the shell."""
    text = '[mcp_servers.x]\ncommand = "sh"\nargs = ["-c", "echo ${A} $B"]\nenv = { C = "pre-${D}" }\n'
    user.write("codex", text)
    user.json("update", "x", "-a", "codex", "-e", "E=1")
    user.json("update", "x", "-a", "codex", "--timeout", "5")
    assert user.file("codex").read_text().startswith(text.replace(" }", ', E = "1" }'))
    user.counsel("update", "x", "-a", "codex", "--cwd", "${HOME}/x", code=1)
    monkeypatch.setattr(
        sys, "stdin", io.StringIO('[mcp_servers.y]\ncommand = "sh"\nargs = ["-c", "echo $B"]\n')
    )
    user.json("add", "-a", "codex", "--from", "-")
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["y"]["args"] == ["-c", "echo $B"]


def test_an_item_of_env_vars_is_kept(user: User) -> None:
    text = '[mcp_servers.x]\ncommand = "c"\nenv_vars = ["Z", { name = "A", source = "remote" }] # mine\n'
    user.write("codex", text)
    user.counsel("update", "x", "-e", "B=$B", "--remove-env", "Z")
    assert user.file("codex").read_text() == text.replace('"Z", ', "").replace("}]", '}, "B"]')
    user.counsel("copy", "x", "--from", "codex", "--to", "codex:project")
    assert 'env_vars = [{ name = "A", source = "remote" }, "B"]' in user.file("codex project").read_text()
    user.counsel("copy", "x", "--from", "codex", "--to", "claude")
    (row,) = user.json("show", "x", "-a", "claude")["servers"]
    assert row["env"] == {"A": "${A}", "B": "${B}"}


def test_codex_is_offered_what_goes_with_an_address(user: User) -> None:
    reply = user.json("add", "x", "-a", "codex", "--url", f"http://127.0.0.1:9/?token={SECRET}")
    assert "env_http_headers" in reply["results"][0]["warnings"][0]
    assert "env_vars" not in reply["results"][0]["warnings"][0]
