"""`/api/servers…` through HTTP: the same operations, the same errors."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from counsel import settings
from counsel.errors import InvalidArgument
from counsel.http.api import routes
from counsel.servers import Server, Servers
from servers.conftest import QUICK
from support import openapi
from support.user import User

SECRET = "sk-live-abcdefghijklmnop1234"


@pytest.fixture
async def http(user: User) -> AsyncIterator[httpx2.AsyncClient]:
    app = Starlette(routes=routes.routes(None, settings.load()))  # type: ignore[arg-type] # servers need no engine
    transport = httpx2.ASGITransport(app=app)
    hooks = {"response": [openapi.check_httpx]}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", event_hooks=hooks
    ) as client:
        yield client


async def ask(http: httpx2.AsyncClient, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = (
        await http.request(method, path, json=body) if body is not None else await http.request(method, path)
    )
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_the_lifecycle_of_a_server(http: httpx2.AsyncClient, user: User) -> None:
    server = {"command": "c", "args": ["a"], "env": {"API_KEY": SECRET, "A": "1"}}
    reply = await ask(http, "POST", "/api/servers", {"name": "x", "server": server})
    assert [row["action"] for row in reply["results"]] == ["added"] * 4
    rows = (await ask(http, "GET", "/api/servers"))["servers"]
    assert {row["env"]["API_KEY"] for row in rows} == {"sk…34"}
    await ask(
        http,
        "PATCH",
        "/api/servers/x",
        {"agents": ["codex"], "server": {"env": {"API_KEY": "sk…34", "A": None}, "timeout": 5}},
    )
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"] == {
        "command": "c",
        "args": ["a"],
        "env": {"API_KEY": SECRET},
        "tool_timeout_sec": 5,
    }
    await ask(http, "POST", "/api/servers/x/disable", {"agents": ["codex"]})
    codex_rows = (await ask(http, "GET", "/api/servers/x?agents=codex"))["servers"]
    assert codex_rows[0]["enabled"] is False
    await ask(http, "POST", "/api/servers/x/enable", {"agents": ["codex"]})
    await ask(http, "DELETE", "/api/servers/x?agents=claude,gemini,cursor")
    await ask(
        http,
        "POST",
        "/api/servers/x/copy",
        {
            "from": {"agent": "codex"},
            "to": [{"agent": "claude", "scope": "project"}],
            "project": str(user.project),
        },
    )
    assert json.loads(user.file("claude project").read_text())["mcpServers"]["x"]["env"] == {
        "API_KEY": SECRET
    }
    history = (await ask(http, "GET", "/api/servers:history"))["operations"]
    assert history[0]["what"] == "copy x from codex"
    undone = await ask(http, "POST", "/api/servers:undo", {})
    assert undone["undone"]["id"] == history[0]["id"]
    assert not user.file("claude project").exists()


async def test_masked_values_are_not_written_back(http: httpx2.AsyncClient, user: User) -> None:
    args = ["--api-key", SECRET, f"--token={SECRET}", "a"]
    user.counsel("add", "x", "-a", "gemini", "--", "c", *args)
    user.counsel("add", "y", "-a", "gemini", "--url", f"https://u:{SECRET}@h/?key={SECRET}")
    for name, field in (("x", "args"), ("y", "url")):
        (row,) = (await ask(http, "GET", f"/api/servers/{name}"))["servers"]
        assert SECRET not in json.dumps(row)
        value = [*row[field], "b"] if field == "args" else row[field]
        await ask(http, "PATCH", f"/api/servers/{name}", {"server": {field: value}})
    document = json.loads(user.file("gemini").read_text())["mcpServers"]
    assert document["x"]["args"] == [*args, "b"]
    assert document["y"]["url"] == f"https://u:{SECRET}@h/?key={SECRET}"


async def test_a_dry_run_shows_the_diff_without_secrets(http: httpx2.AsyncClient, user: User) -> None:
    body = {
        "name": "x",
        "agents": ["codex"],
        "dry_run": True,
        "server": {"command": "c", "env": {"TOKEN": SECRET}},
    }
    reply = await ask(http, "POST", "/api/servers", body)
    assert '+TOKEN = "sk…34"' in reply["diffs"][0]["diff"]
    assert SECRET not in json.dumps(reply)
    assert not user.file("codex").exists()


@pytest.mark.parametrize(
    "server",
    [
        Server("x"),
        Server("x", command=""),
        Server("x", "http", url="nowhere"),
        Server("x", command="c", timeout=float("inf")),
        Server("x", command="c", args=("a\0",)),
        Server("x", command="c", env={"A": 1}),  # type: ignore[dict-item]
        Server("x", command="c", env={"A=B": "1"}),
        Server("x", command="c", env={"": "1"}),
        Server("x", "http", url="https://"),
    ],
)
def test_python_gets_the_same_refusals(server: Server, user: User) -> None:
    with pytest.raises(InvalidArgument):
        user.servers().add([server])
    user.counsel("add", "y", "-a", "codex", "--", "c")
    with pytest.raises(InvalidArgument):
        user.servers().update("y", lambda _: server.replaced(name="y"))
    assert [row["name"] for row in user.json("list")["servers"]] == ["y"]


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_what_a_new_server_lacks_is_said_of_the_server_whatever_the_client(client: str, user: User) -> None:
    for server, words in (
        (Server("x"), "With transport stdio a server needs a command"),
        (Server("x", "http"), "With transport http a server needs a url"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            user.servers().add([server], [client])


def test_a_server_that_its_client_could_not_read_is_not_written(user: User) -> None:
    server = Server("x", command="c", extras={"required": "yes"})
    with pytest.raises(
        InvalidArgument, match="Codex could not use 'x': a `required` that is neither true nor"
    ):
        user.servers().add([server], ["codex"], origin="codex")
    assert not user.file("codex").exists()


def test_python_sees_what_the_command_line_sees(user: User) -> None:
    """Without arguments: this process's environment and folder."""
    user.counsel("add", "mine", "-a", "codex", "--", "c")
    user.counsel("add", "here", "-a", "claude", "-s", "project", "--", "c")
    servers = Servers.here()
    assert [row.as_dict() for row in servers.listing().servers] == user.json("list")["servers"]
    operation, _, undone = servers.undo()
    assert (operation.what, bool(undone)) == ("add here", True)
    assert [row["name"] for row in user.json("list")["servers"]] == ["mine"]


def test_python_names_another_folder_and_environment(user: User, tmp_path: Path) -> None:
    """A folder named by a link stays a link, as the agents see it."""
    (tmp_path / "link").symlink_to(user.project)
    user.counsel("add", "here", "-a", "claude", "-s", "project", "--", "c")
    (row,) = Servers.here(tmp_path / "link", {"HOME": str(tmp_path)}).listing().servers
    assert (row.server.name, row.table.target.path) == ("here", tmp_path / "link" / ".mcp.json")
    assert Servers.here(tmp_path, {"HOME": str(tmp_path)}).listing().servers == ()


@pytest.mark.parametrize("agents", [[], "claude"])
def test_python_must_name_agents_in_a_list(agents: Any, user: User) -> None:
    user.counsel("add", "x", "-a", "claude,codex", "--", "c")
    servers = user.servers()
    for operation in (
        lambda: servers.add([Server("y", command="c")], agents),
        lambda: servers.update("x", lambda server: server.replaced(command="d"), agents),
        lambda: servers.switch("x", False, agents),
        lambda: servers.remove("x", agents),
        lambda: servers.listing(agents),
    ):
        with pytest.raises(InvalidArgument, match="must be a list of names"):
            operation()
    assert [(row["name"], row["command"]) for row in user.json("list")["servers"]] == [("x", "c")] * 2


@pytest.mark.parametrize(
    ("server", "unused_field"),
    [
        (Server("x", command="c", url="http://127.0.0.1:9/", headers={"A": "b"}), "url, headers"),
        (Server("x", "http", url="http://127.0.0.1:9/", command="c", env={"A": "b"}), "command, env"),
    ],
)
def test_fields_that_are_not_used_are_named(server: Server, unused_field: str, user: User) -> None:
    applied = user.servers().add([server], ["claude", "codex"])
    for row in applied.plan.results:
        assert f"ignores {unused_field} with the transport" in row.warnings[0]


async def test_pasted_text(http: httpx2.AsyncClient, user: User) -> None:
    await ask(
        http,
        "POST",
        "/api/servers",
        {"agents": ["gemini"], "paste": '{"mcpServers": {"a/b": {"command": "c"}}}'},
    )
    assert (await ask(http, "GET", "/api/servers/a%2Fb"))["servers"][0]["command"] == "c"


async def test_fields_beside_pasted_text_are_used(http: httpx2.AsyncClient, user: User) -> None:
    body = {"name": "x", "agents": ["codex"], "paste": '{"command": "c"}', "server": {"env": {"A": "1"}}}
    await ask(http, "POST", "/api/servers", body)
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"]["x"]["env"] == {"A": "1"}


@pytest.mark.parametrize(
    ("method", "query", "body"),
    [
        ("DELETE", "?dry_run=yes", None),  # never a real removal
        ("PATCH", "", {"server": {"command": None}}),
        ("PATCH", "", {"server": {"transport": "http"}}),
    ],
)
async def test_a_doubtful_change_is_refused(
    method: str, query: str, body: Any, http: httpx2.AsyncClient, user: User
) -> None:
    text = '[mcp_servers.x]\ncommand = "c"\n'
    user.write("codex", text)
    reply = await ask(http, method, f"/api/servers/x{query}", body, 400)
    assert reply["code"] == "INVALID_ARGUMENT"
    assert user.file("codex").read_text() == text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/api/servers/nope", None, 404, "NOT_FOUND"),
        ("GET", "/api/servers?agents=nobody", None, 400, "INVALID_ARGUMENT"),
        ("GET", "/api/servers?scope=galaxy", None, 400, "INVALID_ARGUMENT"),
        ("POST", "/api/servers", {"name": "x"}, 400, "INVALID_ARGUMENT"),
        ("POST", "/api/servers", {"name": 7, "paste": '{"a": {"command": "c"}}'}, 400, "INVALID_ARGUMENT"),
        ("POST", "/api/servers", {"paste": 7}, 400, "INVALID_ARGUMENT"),
        ("POST", "/api/servers", {"name": "x", "bogus": 1}, 400, "INVALID_ARGUMENT"),
        (
            "POST",
            "/api/servers",
            {"name": "x", "server": {"command": "c", "colour": 1}},
            400,
            "INVALID_ARGUMENT",
        ),
        ("POST", "/api/servers", {"name": "x", "server": {"command": 1}}, 400, "INVALID_ARGUMENT"),
        (
            "POST",
            "/api/servers",
            {"name": "x", "server": {"command": "c", "headers": {"A": "b"}}},
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "POST",
            "/api/servers",
            {"name": "x", "agents": "claude", "server": {"command": "c"}},
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "POST",
            "/api/servers",
            {"name": "x", "scope": "galaxy", "server": {"command": "c"}},
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "POST",
            "/api/servers",
            {"name": "x", "dry_run": "yes", "server": {"command": "c"}},
            400,
            "INVALID_ARGUMENT",
        ),
        (
            "POST",
            "/api/servers",
            {"name": "x", "project": "/nowhere", "server": {"command": "c"}},
            400,
            "INVALID_ARGUMENT",
        ),
        *(
            (
                "POST",
                "/api/servers",
                {"name": "x", "agents": agents, "server": {"command": "c"}},
                400,
                "INVALID_ARGUMENT",
            )
            for agents in ({"claude": 1}, 5, [5], [])
        ),
        ("POST", "/api/servers", [], 400, "INVALID_ARGUMENT"),
        ("POST", "/api/servers:undo", {}, 404, "NOT_FOUND"),
        ("POST", "/api/servers/x/copy", {"from": {"agent": "claude"}, "to": []}, 400, "INVALID_ARGUMENT"),
    ],
)
async def test_failures_have_a_fitting_status(
    method: str, path: str, body: Any, status: int, code: str, http: httpx2.AsyncClient, user: User
) -> None:
    assert (await ask(http, method, path, body, status))["code"] == code
    assert not user.file("claude").exists()


async def test_a_conflict_and_a_bad_file_have_their_own_status(http: httpx2.AsyncClient, user: User) -> None:
    body = {"name": "x", "agents": ["claude"], "server": {"command": "c"}}
    await ask(http, "POST", "/api/servers", body)
    await ask(http, "POST", "/api/servers", {**body, "server": {"command": "d"}}, 409)
    user.write("codex", "[")
    os.utime(user.file("codex"), (1, 1))
    reply = await ask(http, "POST", "/api/servers", {**body, "agents": ["codex"]}, 422)
    assert (reply["line"], reply["file"]) == (1, str(user.file("codex")))


async def test_a_name_that_no_path_can_have_is_given_in_the_body(
    http: httpx2.AsyncClient, user: User
) -> None:
    user.write("claude", json.dumps({"mcpServers": {"..": {"command": "c"}, "": {"command": "d"}}}))
    user.write("codex", "")
    place: dict[str, Any] = {"agents": ["claude"], "scope": "user"}

    async def change(name: str, action: str, status: int = 200, **more: Any) -> Any:
        return await ask(
            http, "POST", "/api/servers:change", {"name": name, "action": action, **more}, status
        )

    ends: dict[str, Any] = {"from": {"agent": "claude"}, "to": [{"agent": "codex"}]}
    reply = await change("..", "copy", **ends)
    assert [row["action"] for row in reply["results"]] == ["added"]
    await change("..", "disable", agents=["codex"])
    await change("..", "update", server={"args": ["a"]}, **place)
    await change("..", "rename", to="dots", **place)
    dry = await change("", "remove", dry_run=True, **place)
    assert dry["diffs"]
    await change("", "remove", **place)
    remaining = json.loads(user.file("claude").read_text())["mcpServers"]
    assert {name: entry["args"] for name, entry in remaining.items()} == {"dots": ["a"]}
    assert tomllib.loads(user.file("codex").read_text())["mcp_servers"][".."]["enabled"] is False
    for name, action, more in (
        ("dots", "add", {}),
        ("dots", "remove", {"to": "x"}),
        ("nowhere", "remove", {}),
    ):
        await change(name, action, 404 if name == "nowhere" else 400, **more)
    await ask(http, "POST", "/api/servers:change", {"action": "remove"}, 400)


async def test_check(http: httpx2.AsyncClient, user: User) -> None:
    user.counsel("add", "x", "-a", "claude", "--", sys.executable, str(QUICK))
    checks = (await ask(http, "POST", "/api/servers:check", {"name": "x"}))["checks"]
    assert (checks[0]["status"], checks[0]["tools"]) == ("ok", ["whereami"])
    assert checks[0]["tool_descriptions"] == {"whereami": "Where the server runs."}
    for seconds in (0, 601, True, "30"):
        await ask(http, "POST", "/api/servers:check", {"timeout": seconds}, 400)
    for timeout in (1, 0.5, 600):
        await ask(http, "POST", "/api/servers:check", {"name": "x", "timeout": timeout})


async def test_checking_a_folders_own_servers_needs_confirmation(
    http: httpx2.AsyncClient, user: User
) -> None:
    user.counsel("add", "x", "-a", "claude", "-s", "project", "--", sys.executable, str(QUICK))
    reply = await ask(http, "POST", "/api/servers:check", {"name": "x"}, 400)
    assert str(QUICK) in reply["error"]
    arguments = {"name": "x", "trust_folder": True}
    assert (await ask(http, "POST", "/api/servers:check", arguments))["checks"][0]["status"] == "ok"
    await ask(http, "POST", "/api/servers:check", {"trust_folder": "yes"}, 400)


async def test_the_list_says_where_each_agent_can_have_servers(http: httpx2.AsyncClient, user: User) -> None:
    user.install("codex")
    agents = {row["name"]: row for row in (await ask(http, "GET", "/api/servers"))["agents"]}
    assert agents["codex"]["scopes"] == [
        {"scope": "user", "path": str(user.file("codex")), "present": True},
        {"scope": "project", "path": str(user.file("codex project")), "present": True},
    ]
    assert not any(scope["present"] for scope in agents["opencode"]["scopes"])
    assert [scope["scope"] for scope in agents["claude"]["scopes"]] == ["user", "local", "project"]
    assert agents["codex"]["transports"] == ["stdio", "http"]
    assert "Cursor keeps its switches" in agents["cursor"]["no_switch"]
    assert agents["cursor"]["lacks"].keys() >= {"timeout"}


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
async def test_no_diff_shows_a_secret_among_the_arguments(
    http: httpx2.AsyncClient, user: User, agent: str
) -> None:
    secrets = ["hunter2hunter2", "pass-phrase-4", "opensesame99"]
    args = ["--api-key", secrets[0], f"--password={secrets[1]}", "a", "b", "c", "--token", secrets[2]]
    body = {"name": "x", "server": {"command": "c", "args": args}, "agents": [agent]}
    replies = [await ask(http, "POST", "/api/servers", {**body, "dry_run": True})]
    await ask(http, "POST", "/api/servers", body)
    # Of a later change, the lines around it quote the arguments, perhaps without the flag before.
    replies.append(await ask(http, "POST", "/api/servers", {**body, "name": "y", "dry_run": True}))
    more = {"server": {"timeout": 5}, "agents": [agent], "dry_run": True}
    replies.append(await ask(http, "PATCH", "/api/servers/x", more))
    replies.append(await ask(http, "DELETE", f"/api/servers/x?agents={agent}&dry_run=true"))
    replies.append(await ask(http, "POST", "/api/servers:undo", {"dry_run": True}))
    for answer in replies:
        assert answer["diffs"]
        assert not [secret for secret in secrets if secret in json.dumps(answer)]


OPERATIONS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", "/api/servers", {"name": "x", "server": {"command": "c"}}),
    ("PATCH", "/api/servers/x", {"server": {"command": "c"}}),
    ("POST", "/api/servers/x/rename", {"to": "y"}),
    ("POST", "/api/servers/x/copy", {"from": {"agent": "codex"}, "to": [{"agent": "claude"}]}),
    ("POST", "/api/servers/x/enable", {}),
    ("POST", "/api/servers/x/disable", {}),
    ("POST", "/api/servers:check", {}),
    ("POST", "/api/servers:reveal", {"name": "x", "agent": "codex", "field": "command"}),
]


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS)
async def test_a_field_that_an_operation_does_not_know_is_refused(
    http: httpx2.AsyncClient, user: User, method: str, path: str, body: dict[str, Any]
) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    before = user.file("codex").read_text()
    reply = await ask(http, method, path, {**body, "agnets": ["claude"]}, 400)
    assert "Unknown field 'agnets'." in reply["error"]
    assert "agents" in reply["hint"]
    assert user.file("codex").read_text() == before


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/api/servers", {}, "name is missing."),
        ("/api/servers", {"name": 5}, "name must be a string."),
        ("/api/servers", {"name": "x", "server": []}, "server must be an object."),
        ("/api/servers", {"name": "x", "server": {"command": "c"}, "agents": []}, "agents must be a list of names."),
        ("/api/servers", {"name": "x", "server": {"command": "c"}, "agents": [5]}, "agents must be a list of names."),
        ("/api/servers", {"name": "x", "server": {"command": "c"}, "dry_run": 1}, "dry_run must be true or false."),
        ("/api/servers", {"name": "x", "server": {"command": "c"}, "literal": "no"}, "literal must be true or false."),
        ("/api/servers", {"name": "x", "server": {"command": "c"}, "project": "/nowhere"}, "project must be a folder"),
        ("/api/servers/x/rename", {}, "to is missing: the new name."),
        ("/api/servers/x/rename", {"to": ""}, "to is missing: the new name."),
        ("/api/servers/x/copy", {"from": {"agent": "codex"}, "to": []}, "to must be a list of {agent, scope}."),
        ("/api/servers/x/copy", {"from": {}, "to": [{"agent": "claude"}]}, "from and to must be objects with agent"),
        ("/api/servers/x/copy", {"from": {"agent": "codex"}, "to": [{"agent": "claude", "x": 1}]}, "from and to must be"),
        ("/api/servers:check", {"timeout": 0}, "timeout must be seconds, from 0 to 600."),
        ("/api/servers:check", {"timeout": 600.5}, "timeout must be seconds, from 0 to 600."),
        ("/api/servers:check", {"timeout": True}, "timeout must be seconds, from 0 to 600."),
        ("/api/servers:check", {"trust_folder": "yes"}, "trust_folder must be true or false."),
        ("/api/servers:reveal", {"name": "x", "agent": "codex"}, "name, agent and field are required."),
        ("/api/servers:reveal", {"name": "x", "field": "url"}, "name, agent and field are required."),
        ("/api/servers:change", {"action": "remove"}, "name is missing."),
        ("/api/servers:change", {"name": "x", "action": "dance"}, "action must be one of update, remove, rename"),
        ("/api/servers:change", {"name": "x"}, "action must be one of"),
    ],
)  # fmt: skip
async def test_arguments_that_are_wrong_or_missing_are_named(
    http: httpx2.AsyncClient, user: User, path: str, body: dict[str, Any], words: str
) -> None:
    user.counsel("add", "x", "-a", "codex", "--", "c")
    reply = await ask(http, "POST", path, body, 400)
    assert words in reply["error"]


async def test_a_check_of_no_servers_checks_none(http: httpx2.AsyncClient) -> None:
    assert await ask(http, "POST", "/api/servers:check", {"timeout": 600}) == {"checks": []}
