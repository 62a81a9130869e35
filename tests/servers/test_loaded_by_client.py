"""`list` shows a server as on only if the client would load it (measured with the real clients)."""

from __future__ import annotations

import json

import pytest

from servers.trust import trust_folder
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
    reply = user.json("list")
    assert [row["enabled"] for row in reply["servers"]] == [False]
    assert words in reply["problems"][0]["error"]
    user.write("cursor", text)
    assert [row["enabled"] for row in user.json("list", "-a", "cursor")["servers"]] == [True]


def test_comments_are_no_problem_for_gemini(user: User) -> None:
    user.write("gemini", '{// a, }\n"mcpServers": {"x": {"command": "c", "args": [",}"]}}}')
    reply = user.json("list")
    assert [row["enabled"] for row in reply["servers"]] == [True]
    assert reply["problems"] == []


@pytest.mark.parametrize("entry", [{"env": {"A": 1}}, {"env": {"A": True}}, {"env": {"A": None}}])
def test_claude_skips_values_that_are_no_strings(entry: dict[str, object], user: User) -> None:
    content = {"x": {"type": "stdio", "command": "c", **entry}, "y": {"type": "stdio", "command": "c"}}
    user.write("claude", json.dumps({"mcpServers": content}))
    reply = user.json("list")
    assert [row["name"] for row in reply["servers"]] == ["y"]
    assert "skips it: env.A" in reply["problems"][0]["error"]
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
    reply = user.json("list")
    assert [row["name"] for row in reply["servers"]] == ["y"]
    assert f"skips it: {words}" in reply["problems"][0]["error"]


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
    reply = user.json("list")
    assert [row["enabled"] for row in reply["servers"]] == [True]
    assert reply["problems"] == []


def test_a_pasted_entry_may_have_what_claude_skips(user: User) -> None:
    paste = user.project / "paste.json"
    document = {
        "x": {"command": "c", "args": None, "env": None, "timeout": None, "type": None},
        "y": {"type": "streamableHttp", "url": "http://127.0.0.1:9/", "headers": None, "timeout": 1500.5},
    }
    paste.write_text(json.dumps({"mcpServers": document}))
    user.counsel("add", "-a", "claude", "--from", str(paste))
    assert json.loads(user.file("claude").read_text())["mcpServers"] == {
        "x": {"type": "stdio", "command": "c", "args": [], "env": {}},
        "y": {"type": "http", "url": "http://127.0.0.1:9/", "timeout": 1500},
    }


@pytest.mark.parametrize("text", ["{}", '{"x": {"command": "c"}}'])
def test_claude_refuses_a_projects_file_without_mcp_servers(text: str, user: User) -> None:
    user.write("claude project", text)
    reply = user.json("list")
    assert reply["servers"] == []
    assert "no mcpServers" in reply["problems"][0]["error"]


def test_pasted_numbers_become_strings(user: User) -> None:
    paste = user.project / "paste.json"
    paste.write_text(json.dumps({"mcpServers": {"x": {"command": "c", "env": {"PORT": 80, "ON": True}}}}))
    user.counsel("add", "-a", "claude", "--from", str(paste))
    document = json.loads(user.file("claude").read_text())["mcpServers"]["x"]
    assert document["env"] == {"PORT": "80", "ON": "true"}


@pytest.mark.parametrize("kind", ["banana", "sse-ide", "sdk", "", 3])
def test_claude_skips_types_that_it_does_not_know(kind: object, user: User) -> None:
    user.write("claude", json.dumps({"mcpServers": {"x": {**REMOTE, "type": kind}, "y": STARTED}}))
    reply = user.json("list")
    assert [row["name"] for row in reply["servers"]] == ["y"]
    assert "skips it: its type is" in reply["problems"][0]["error"]


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({**STARTED, "alwaysLoad": "x"}, "alwaysLoad"),
        ({**STARTED, "alwaysLoad": None}, "alwaysLoad"),
        ({**REMOTE, "headersHelper": 5}, "headersHelper"),
        ({**REMOTE, "oauth": 5}, "oauth"),
        ({**REMOTE, "tools": None}, "tools"),
        ({**REMOTE, "oauth": {"clientId": None}}, "oauth.clientId"),
        *(
            ({**REMOTE, "oauth": {"callbackPort": port}}, "oauth.callbackPort")
            for port in (0, -1, 1.5, "x", None)
        ),
        *(
            ({**REMOTE, "oauth": {"authServerMetadataUrl": url}}, "oauth.authServerMetadataUrl")
            for url in ("", "http://127.0.0.1", "HTTPS://a")
        ),
        ({**REMOTE, "oauth": {"scopes": ["a"]}}, "oauth.scopes"),
        ({**REMOTE, "oauth": {"scopes": ""}}, "oauth.scopes"),
        ({**REMOTE, "oauth": {"xaa": 1}}, "oauth.xaa"),
    ],
)
def test_claude_skips_wrong_values_of_fields_that_counsel_only_keeps(
    entry: dict[str, object], field: str, user: User
) -> None:
    user.write("claude", json.dumps({"mcpServers": {"x": entry}}))
    reply = user.json("list")
    assert reply["servers"] == []
    assert f"skips it: {field}" in reply["problems"][0]["error"]


@pytest.mark.parametrize(
    "entry",
    [
        {**STARTED, "headers": {"A": 1}, "url": 5, "cwd": 5},
        {**STARTED, "oauth": 5, "headersHelper": 5},
        {
            **REMOTE,
            "oauth": {"callbackPort": 80.0, "clientId": "", "clientSecret": 5, "scopes": "a b", "xaa": True},
        },
        {**REMOTE, "env": {"A": 1}, "args": [1], "command": 5, "cwd": 5},
        {**REMOTE, "httpUrl": "http://127.0.0.1:8/"},
    ],
)
def test_claude_does_not_look_at_fields_of_the_other_kind(entry: dict[str, object], user: User) -> None:
    user.write("claude", json.dumps({"mcpServers": {"x": entry}}))
    reply = user.json("list")
    assert reply["problems"] == []
    assert [(row["enabled"], row["url"]) for row in reply["servers"]] == [
        (True, entry.get("url") or None)
    ] or (entry["url"] == 5 and reply["servers"][0]["url"] is None)


@pytest.mark.parametrize(
    ("agent", "name"),
    [("claude", "workspace"), ("claude", "computer-use"), ("gemini", "__proto__"), ("codex", "a b")],
)
def test_a_name_that_the_client_does_not_load_is_off_and_can_be_renamed(
    agent: str, name: str, user: User
) -> None:
    entries = {name: {"command": "c"}, "y": {"command": "c"}}
    text = "".join(f'["mcp_servers"."{key}"]\ncommand = "c"\n' for key in entries)
    user.write(agent, text if agent == "codex" else json.dumps({"mcpServers": entries}))
    reply = user.json("list")
    assert {row["name"]: row["enabled"] for row in reply["servers"]} == {name: False, "y": True}
    assert [problem["name"] for problem in reply["problems"]] == [name]
    assert "servers rename" in reply["problems"][0]["error"]
    user.counsel("rename", name, "fine", "-a", agent)
    reply = user.json("list")
    assert {row["name"]: row["enabled"] for row in reply["servers"]} == {"fine": True, "y": True}
    assert reply["problems"] == []


WRONG_IN_CODEX = [
    'command = "c"\ndefault_tools_approval_mode = "never"\n',
    'command = "c"\ntools = { a = 3 }\n',
    'command = "c"\n[mcp_servers.x.tools.a]\napproval_mode = "Auto"\n',
    'command = "c"\nname = 3\n',
    'command = "c"\nauth = "oauth"\n',
    'command = "c"\noauth_resource = "a"\n',
    'url = "http://127.0.0.1:9/"\nauth = "none"\n',
    'url = "http://127.0.0.1:9/"\nscopes = [1]\n',
    'url = "http://127.0.0.1:9/"\noauth = { client_id = 3 }\n',
    'url = "http://127.0.0.1:9/"\noauth = { callback_port = 70000 }\n',
    'url = "http://127.0.0.1:9/"\noauth = { callback_port = 80.0 }\n',
]
STOPPING = [
    *(("codex", f'[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\n{entry}') for entry in WRONG_IN_CODEX),
    ("codex", '[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\nargs = [1]\n'),
    ("codex", '[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\n'),
    ("codex", '[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\ncommand = "c"\nscopes = "a"\n'),
    ("codex", '[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\ncommand = "c"\nstartup_timeout_ms = -1\n'),
    ("codex", '[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\ncommand = "c"\n[mcp_servers.x.oauth]\n'),
    (
        "codex",
        '[mcp_servers.y]\ncommand = "c"\n[mcp_servers.x]\ncommand = "c"\nenv_vars = [{ name = "A", b = 1 }]\n',
    ),
    ("gemini", '{"mcpServers": {"y": {"command": "c"}, "x": null}}'),
    *(
        ("opencode", json.dumps({"mcp": {"y": {"type": "local", "command": ["c"]}, "x": entry}}))
        for entry in (
            None,
            {"type": "local"},
            {"type": "local", "command": ["c"], "cwd": None},
            *({"type": "local", "command": ["c"], "timeout": limit} for limit in (None, 0, -1, 1.5, 1e300)),
            *(
                {"type": "remote", "url": "http://127.0.0.1:9/", "oauth": value}
                for value in (
                    *(None, True, "x", {"clientId": None}, {"scope": 3}),
                    *({"callbackPort": port} for port in (0, 1.5, "1", 65536)),
                )
            ),
        )
    ),
]


@pytest.mark.parametrize(("agent", "text"), STOPPING)
def test_no_server_is_on_in_a_client_that_does_not_start(agent: str, text: str, user: User) -> None:
    """One such entry breaks every command of these clients (measured: codex 0.166, gemini 0.61, opencode 1.18.33)."""
    file = user.write(agent, text)
    reply = user.json("list")
    assert not any(row["enabled"] for row in reply["servers"])
    assert f"does not start until {file}" in reply["problems"][-1]["error"] or agent == "gemini"
    check = user.json("check", "y", code=1)["checks"][0]
    assert (check["status"], "does not start" in check["error"]) == ("failed", True)
    user.counsel("remove", "x", "-a", agent)
    reply = user.json("list")
    assert [(row["name"], row["enabled"]) for row in reply["servers"]] == [("y", True)]
    assert reply["problems"] == []


@pytest.mark.parametrize(
    ("agent", "bad"), [("codex", "x ="), ("gemini", "{"), ("opencode", "{"), ("gemini", '{"a": 1,}')]
)
def test_a_file_that_cannot_be_read_turns_off_those_of_the_clients_other_files(
    agent: str, bad: str, user: User
) -> None:
    user.counsel("add", "x", "-a", agent, "--", "c")
    trust = f'[projects."{user.project}"]\ntrust_level = "trusted"\n'
    if agent == "codex":
        user.write("codex", user.file("codex").read_text() + trust)
    user.write(f"{agent} project", bad)
    reply = user.json("list")
    assert [row["enabled"] for row in reply["servers"]] == [False]
    assert str(user.file(f"{agent} project")) in reply["problems"][-1]["error"]


def test_codex_does_not_read_the_files_of_a_project_that_it_does_not_trust(user: User) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    user.write("codex project", "x =")
    assert [row["enabled"] for row in user.json("list")["servers"]] == [True]


def test_a_stronger_file_completes_what_codex_alone_could_not_use(user: User) -> None:
    user.write("codex", '[mcp_servers.x]\nargs = ["a"]\n')
    trust_folder(user, "codex", user.project)
    user.write("codex project", '[mcp_servers.x]\ncommand = "c"\n')
    reply = user.json("list")
    assert [(row["scope"], row["args"], row["enabled"]) for row in reply["servers"]] == [
        ("project", ["a"], True)
    ]
    assert reply["problems"] == []


@pytest.mark.parametrize(
    "entry", [{"type": "local", "command": []}, {"type": "remote", "url": ""}, {"enabled": True}]
)
def test_opencode_starts_with_entries_that_it_cannot_use(entry: dict[str, object], user: User) -> None:
    y = {"type": "local", "command": ["c"]}
    user.write("opencode", json.dumps({"mcp": {"x": entry, "y": y}}))
    assert [(row["name"], row["enabled"]) for row in user.json("list")["servers"]] == [("y", True)]


def test_a_copy_of_what_is_not_loaded_is_not_disabled(user: User) -> None:
    user.write("gemini", '\ufeff{"mcpServers": {"x": {"command": "c"}}}')
    user.counsel("copy", "x", "--from", "gemini", "--to", "codex")
    assert "enabled" not in user.file("codex").read_text()


def test_enabling_what_is_not_loaded_says_why(user: User) -> None:
    user.write("gemini", '{"mcpServers": {"x": {"command": "c"},}}')
    (result,) = user.json("enable", "x", "-a", "gemini")["results"]
    assert "trailing comma" in result["warnings"][0]


@pytest.mark.parametrize("text", ["", "\n", "// nothing\n"])
def test_gemini_does_not_start_with_an_empty_file(text: str, user: User) -> None:
    trust_folder(user, "gemini", user.project)
    user.write("gemini", text)
    user.write("gemini project", '{"mcpServers": {"x": {"command": "c"}}}')
    reply = user.json("list", "-a", "gemini")
    assert [row["enabled"] for row in reply["servers"]] == [False]
    assert "does not start" in reply["problems"][0]["error"]
    user.counsel("add", "y", "-a", "gemini", "--", "c")
    assert [row["enabled"] for row in user.json("list", "-a", "gemini")["servers"]] == [True, True]


@pytest.mark.parametrize("text", ["{}", "// nothing\n{ }\n"])
def test_gemini_starts_with_a_file_that_has_an_empty_object(text: str, user: User) -> None:
    trust_folder(user, "gemini", user.project)
    user.write("gemini", text)
    user.write("gemini project", '{"mcpServers": {"x": {"command": "c"}}}')
    reply = user.json("list", "-a", "gemini")
    assert [row["enabled"] for row in reply["servers"]] == [True]
    assert reply["problems"] == []


@pytest.mark.parametrize(
    ("of_user", "of_project", "started"),
    [
        ({"allowed": []}, {}, {"Mine", "theirs"}),
        ({"allowed": ["Mine"]}, {}, {"Mine"}),
        ({"allowed": ["mine"]}, {}, set()),
        ({"allowed": ["Mine"]}, {"allowed": ["theirs"]}, {"Mine", "theirs"}),
        ({"allowed": ["Mine", "theirs"]}, {"allowed": ["THEIRS"]}, {"theirs"}),
        ({"excluded": ["Mine"]}, {}, {"theirs"}),
        ({"excluded": ["mine"]}, {}, {"Mine", "theirs"}),
    ],
)
def test_geminis_lists_of_names_count_as_in_a_session(
    of_user: dict[str, object], of_project: dict[str, object], started: set[str], user: User
) -> None:
    """Measured with `gemini -p` (0.61): `gemini mcp list` ignores case.

    Lists without a common name allow everything.
    """
    trust_folder(user, "gemini", user.project)
    for file, name, rules in (("gemini", "Mine", of_user), ("gemini project", "theirs", of_project)):
        user.write(file, json.dumps({"mcpServers": {name: {"command": "c"}}, "mcp": rules}))
    rows = user.json("list", "-a", "gemini")["servers"]
    assert {row["name"] for row in rows if row["enabled"]} == started
