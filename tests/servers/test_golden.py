"""counsel writes the same bytes as the client itself (tests/golden; `cmd.txt` is the client's command)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counsel.agents.server_format import Server
from counsel.errors import InvalidArgument
from servers.conftest import golden
from support.user import User

STDIO = Server(
    "x", command="python3", args=("-m", "x", "--flag", "with space"), env={"FOO": "bar", "BAZ": "a=b c"}
)
PLAIN = Server("x", command="python3", args=("-m", "x"))
HTTP = Server("x", "http", url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer t", "X-Two": "2"})
HTTP_PLAIN = Server("x", "http", url="http://127.0.0.1:9/mcp")
SSE = Server("x", "sse", url="http://127.0.0.1:9/sse", headers={"X-A": "1"})
PROJECT = Path("/home/u/project")

CLAUDE = [
    *(("stdio-" + scope, scope, STDIO) for scope in ("user", "local", "project")),
    *(("http-" + scope, scope, HTTP) for scope in ("user", "local", "project")),
    *(("sse-" + scope, scope, SSE) for scope in ("user", "local", "project")),
    ("stdio-noenv", "local", PLAIN),
    ("http-noheader", "local", HTTP_PLAIN),
]


@pytest.mark.parametrize(("case", "scope", "server"), CLAUDE, ids=[row[0] for row in CLAUDE])
def test_same_bytes_as_claude(case: str, scope: str, server: Server, user: User) -> None:
    if scope == "project":
        user.servers().add([server], ["claude"], "project")
        text = user.file("claude project").read_bytes().decode()
        assert text == golden("claude", case, "project", ".mcp.json")
        assert user.file("claude project").stat().st_mode & 0o777 == 0o644
        return
    expected = golden("claude", case, "home", ".claude.json")
    before = {
        key: value for key, value in json.loads(expected).items() if key not in {"mcpServers", "projects"}
    }
    user.write("claude", json.dumps(before, indent=2, ensure_ascii=False))
    user.servers(PROJECT).add([server], ["claude"], scope)
    assert user.file("claude").read_bytes().decode() == expected


CODEX = [("stdio", STDIO), ("stdio-min", PLAIN), ("http", HTTP_PLAIN)]
CODEX.append(("http-bearer", Server("x", "http", url="http://127.0.0.1:9/mcp", token_env="TOK")))
CODEX += [
    (f"name-{case}", Server(name, command="python3"))
    for case, name in (("sep1", "a.b"), ("sep2", "a/b"), ("sep3", "a:b"))
]


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize(("case", "server"), CODEX, ids=[row[0] for row in CODEX])
def test_same_bytes_as_codex(case: str, server: Server, scope: str, user: User) -> None:
    user.servers().add([server], ["codex"], scope)
    file = user.file("codex" if scope == "user" else "codex project")
    assert file.read_bytes().decode() == golden("codex", case, "home", ".codex", "config.toml")
    assert file.stat().st_mode & 0o777 == (0o600 if scope == "user" else 0o644)


def test_codex_keeps_what_the_client_would_lose(user: User) -> None:
    """The client's own `add` drops the comments inside mcp_servers; everything else is the same."""
    before = golden("codex", "remove", "home", ".codex", "config.toml")
    file_text = before.replace('command = "python3"', 'command = "python3" # mine')
    user.write("codex", file_text)
    user.servers().add([PLAIN], ["codex"])
    expected = golden("codex", "preserve-replace", "home", ".codex", "config.toml")
    assert user.file("codex").read_text().replace(" # mine", "") == expected
    assert "# mine" in user.file("codex").read_text()
    user.servers().remove("x", ["codex"])
    assert user.file("codex").read_text() == file_text
    user.servers().remove("old", ["codex"])
    assert user.file("codex").read_text() == golden("codex", "remove-last", "home", ".codex", "config.toml")


GEMINI = [
    *(("stdio-" + scope, scope, STDIO) for scope in ("user", "project")),
    *(("http-" + scope, scope, HTTP) for scope in ("user", "project")),
    *(("sse-" + scope, scope, SSE) for scope in ("user", "project")),
    ("stdio-min", "user", PLAIN),
    ("http-min", "user", HTTP_PLAIN),
    (
        "stdio-all2",
        "user",
        Server(
            "x",
            command="python3",
            args=("m",),
            timeout=5,
            include_tools=("a,b",),
            exclude_tools=("c",),
            extras={"trust": True, "description": "my d"},
        ),
    ),
]


@pytest.mark.parametrize(("case", "scope", "server"), GEMINI, ids=[row[0] for row in GEMINI])
def test_same_bytes_as_gemini(case: str, scope: str, server: Server, user: User) -> None:
    user.servers().add([server], ["gemini"], scope, origin="gemini")
    where = "home" if scope == "user" else "project"
    expected = golden("gemini", case, where, ".gemini", "settings.json")
    # Gemini CLI's own command cuts a value at its second `=`: the only intended difference.
    expected = expected.replace('"BAZ": "a"', '"BAZ": "a=b c"')
    file = user.file("gemini" if scope == "user" else "gemini project")
    if case == "stdio-all2":
        assert json.loads(file.read_text()) == json.loads(expected)
    else:
        assert file.read_bytes().decode() == expected


def test_gemini_comments_stay_as_the_client_keeps_them(user: User) -> None:
    user.write("gemini", golden("gemini", "remove", "home", ".gemini", "settings.json"))
    user.servers().add([PLAIN], ["gemini"])
    assert user.file("gemini").read_text() == golden(
        "gemini", "preserve-replace", "home", ".gemini", "settings.json"
    )
    user.servers().remove("x", ["gemini"])
    assert user.file("gemini").read_text() == golden("gemini", "remove", "home", ".gemini", "settings.json")


CURSOR: dict[str, tuple[Server, dict[str, Any]]] = {
    "stdio": (
        STDIO,
        {
            "command": "python3",
            "args": ["-m", "x", "--flag", "with space"],
            "env": {"FOO": "bar", "BAZ": "a=b c"},
        },
    ),
    "http": (HTTP, {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer t", "X-Two": "2"}}),
    "sse": (SSE, {"type": "sse", "url": "http://127.0.0.1:9/sse", "headers": {"X-A": "1"}}),
}


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize(("server", "entry"), CURSOR.values(), ids=CURSOR.keys())
def test_cursor_in_converses_form(server: Server, entry: dict[str, Any], scope: str, user: User) -> None:
    user.servers().add([server], ["cursor"], scope)
    file = user.file("cursor" if scope == "user" else "cursor project")
    assert file.read_text() == json.dumps({"mcpServers": {"x": entry}}, indent=2)


CLIENT_WROTE = [
    *(("claude", case, scope, server) for case, scope, server in CLAUDE),
    *(("codex", case, "user", server) for case, server in CODEX),
    *(("gemini", case, scope, server) for case, scope, server in GEMINI),
]


@pytest.mark.parametrize(
    ("client", "case", "scope", "server"), CLIENT_WROTE, ids=[f"{row[0]}-{row[1]}" for row in CLIENT_WROTE]
)
def test_counsel_reads_what_the_client_wrote(
    client: str, case: str, scope: str, server: Server, user: User
) -> None:
    names = {
        "claude": (".claude.json", ".mcp.json"),
        "codex": (".codex/config.toml", ""),
        "gemini": (".gemini/settings.json",) * 2,
    }
    project = scope == "project"
    text = golden(client, case, "project" if project else "home", names[client][1 if project else 0])
    user.write(f"{client} project" if project else client, text)
    at = user.project if project else PROJECT
    result = user.servers(at).find(server.name, [client], scope)[0].server
    if client == "gemini" and result.env:
        result.env["BAZ"] = "a=b c"  # type: ignore[index]
    assert result == server


NAMES = [
    *(
        ("claude", name)
        for name in ("bad_name", "__n__", "__proto__", "sep1", "sep2", "sep3", "workspace", "A_b-9")
    ),
    *(("codex", name) for name in ("bad_name", "__n__", "", "sep1", "sep2", "sep3", "A_b-9")),
    *(("gemini", name) for name in ("bad_name", "sep1", "sep2", "sep3")),
]
WRITTEN = {"bad_name": "bad name", "__n__": "ünï", "sep1": "a.b", "sep2": "a/b", "sep3": "a:b"}


@pytest.mark.parametrize(("client", "case"), NAMES)
def test_names_are_refused_where_the_client_refuses_them(client: str, case: str, user: User) -> None:
    is_accepted = golden(client, f"name-{case}", "rc.txt").strip() == "0"
    server = Server(WRITTEN.get(case, case), command="c")
    if is_accepted:
        user.servers().add([server], [client])
        assert user.servers().find(server.name, [client])
        return
    with pytest.raises(InvalidArgument):
        user.servers().add([server], [client])
    assert not user.file(client).exists()
