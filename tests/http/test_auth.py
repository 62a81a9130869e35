"""Who may use the HTTP server: host, origin, token and number of headers, each at its limit."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import ConfigInvalid
from counsel.http import auth
from counsel.settings import Settings, load

SECRET = "s" * 32
GOOD = {"host": "127.0.0.1:8080", "authorization": f"Bearer {SECRET}"}


class Reply:
    def __init__(self, messages: list[Any]) -> None:
        self.status: int = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0].get("headers", [])}
        self.body: bytes = messages[1]["body"]

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


async def ask(
    headers: dict[str, str],
    *,
    method: str = "POST",
    path: str = "/mcp",
    bound: str = "127.0.0.1",
    state: dict[str, Any] | None = None,
    **options: Any,
) -> Reply:
    messages: list[Any] = []

    async def app(_scope: auth.Scope, _receive: auth.Receive, send: auth.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
        await send({"type": "http.response.body", "body": b"app"})

    async def receive() -> auth.Message:
        return {}

    async def send(message: auth.Message) -> None:
        messages.append(message)

    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs, "state": state or {}}
    await auth.Guard(app, secret=SECRET, host=bound, **options)(scope, receive, send)
    return Reply(messages)


async def test_the_token_gives_access() -> None:
    reply = await ask(GOOD)
    assert (reply.status, reply.body, reply.headers) == (200, b"app", {"x-app": "1"})
    assert (await ask({**GOOD, "authorization": f"bearer   {SECRET} "})).status == 200


@pytest.mark.parametrize(
    "token", ["Bearer wrong", f"Basic {SECRET}", SECRET, "Bearer", f"Bearer {SECRET}x", "Bearer é"]
)
async def test_another_token_is_refused(token: str) -> None:
    reply = await ask({**GOOD, "authorization": token})
    assert (reply.status, reply.error) == (401, "The token is wrong.")
    assert reply.headers["www-authenticate"] == 'Bearer realm="counsel"'
    assert reply.headers["content-type"] == "application/json"
    assert int(reply.headers["content-length"]) == len(reply.body)


async def test_without_a_token_only_health_is_answered() -> None:
    bare = {"host": "localhost"}
    assert (await ask(bare)).error == "A token is required."
    assert (await ask(bare, path="/health")).body == b"app"
    assert (await ask(bare, path="/health/more")).status == 401
    assert (await ask(bare, path="/open", public=frozenset({"/open"}))).body == b"app"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:1", "localhost:8080", "LOCALHOST", "[::1]:8080", "[::1]", socket.gethostname()],
)
async def test_these_hosts_are_this_machine(host: str) -> None:
    assert (await ask({**GOOD, "host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "", "192.168.1.5", "[::2]", "localhost.evil.example:8080"],
)
async def test_other_hosts_are_refused(host: str) -> None:
    reply = await ask({**GOOD, "host": host})
    assert reply.status == 421
    assert "www-authenticate" not in reply.headers
    assert "connection" not in reply.headers


async def test_a_server_for_other_machines_answers_to_addresses_and_its_own_name_only() -> None:
    for host, status in (
        ("192.168.1.5:8080", 200),
        ("[fe80::1]:8080", 200),
        ("box.lan", 200),
        ("evil.example", 421),
    ):
        assert (await ask({**GOOD, "host": host}, bound="box.lan")).status == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8080", 200),
        ("https://127.0.0.1:8080", 200),
        ("HTTP://127.0.0.1:8080", 200),
        ("http://127.0.0.1:9090", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("https://listed.example", 200),
        ("https://listed.example.evil", 403),
    ],
)
async def test_pages_of_other_origins_get_no_answer(origin: str, status: int) -> None:
    reply = await ask({**GOOD, "origin": origin}, origins=("https://listed.example",))
    assert reply.status == status
    assert reply.headers.get("access-control-allow-origin") == (
        origin if "listed.example" in origin and status == 200 else None
    )


async def test_a_listed_page_may_read_refusals_and_ask_what_is_allowed() -> None:
    page = {"host": "localhost", "origin": "https://listed.example"}
    refusal = await ask(page, origins=("https://listed.example",))
    assert refusal.status == 401
    assert refusal.headers["access-control-allow-origin"] == "https://listed.example"
    assert refusal.headers["vary"] == "Origin"
    preflight = await ask(
        {**page, "access-control-request-method": "POST"},
        method="OPTIONS",
        origins=("https://listed.example",),
    )
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-methods"] == "GET, POST, DELETE, PUT, PATCH"
    assert "mcp-session-id" in preflight.headers["access-control-allow-headers"]
    header_names = (
        "authorization, x-stainless-os, anthropic-dangerous-direct-browser-access, x-counsel, cookie"
    )
    sdk = {**page, "access-control-request-method": "POST", "access-control-request-headers": header_names}
    reply_headers = (await ask(sdk, method="OPTIONS", origins=("https://listed.example",))).headers
    names = reply_headers["access-control-allow-headers"].split(", ")
    assert {"x-stainless-os", "anthropic-dangerous-direct-browser-access", "x-counsel-conversation"} <= set(
        names
    )
    assert not {"x-counsel", "cookie"} & set(names), "the console's cookie is for its own page"
    assert preflight.headers["access-control-allow-origin"] == "https://listed.example"
    plain: Any = {"method": "OPTIONS", "origins": ("https://listed.example",)}
    assert (await ask(page, **plain)).status == 401, "only a preflight has no token"
    assert (await ask({**GOOD, **page}, **plain)).body == b"app"
    assert (await ask({**page, "access-control-request-method": "POST"}, method="OPTIONS")).status == 403
    assert (await ask({"host": "localhost", "access-control-request-method": "POST"})).status == 401


async def test_headers_are_bounded() -> None:
    for count, status in ((98, 200), (99, 431)):
        reply = await ask({**GOOD, **{f"x-{n}": "" for n in range(count)}})
        assert reply.status == status
    assert reply.headers["connection"] == "close"


async def test_over_the_limit_only_health_is_answered() -> None:
    busy = {"is_over_limit": True}
    reply = await ask(GOOD, state=busy)
    assert (reply.status, reply.headers["connection"]) == (503, "close")
    assert (await ask(GOOD, state={"is_over_limit": False})).status == 200
    assert (await ask(GOOD, path="/health", state=busy)).status == 200


async def test_what_is_not_a_request_passes_the_guard() -> None:
    types = []

    async def app(scope: auth.Scope, _receive: auth.Receive, _send: auth.Send) -> None:
        types.append(scope["type"])

    await auth.Guard(app, secret=SECRET, host="127.0.0.1")({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert types == ["lifespan"]


# ── the token ────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    settings = load({"COUNSEL_HOME": str(tmp_path / "home")})
    token = auth.token(settings)
    path = tmp_path / "home" / "token"
    assert len(token) >= 40
    assert path.read_text() == token == auth.token(settings)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]


def test_the_setting_comes_before_the_file(tmp_path: Path) -> None:
    assert auth.token(load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_TOKEN": "mine"})) == "mine"
    assert not (tmp_path / "token").exists()


def test_a_token_that_is_empty_or_cannot_be_stored_is_reported(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(ConfigInvalid, match="token is empty"):
        auth.token(load({"COUNSEL_HOME": str(tmp_path)}))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigInvalid, match="cannot store the token"):
        auth.token(Settings(home=tmp_path / "file"))


def test_other_machines_need_a_token_of_16_characters() -> None:
    auth.check_bind("0.0.0.0", "x" * 16)
    for host in ("127.0.0.1", "localhost", "::1"):
        auth.check_bind(host, "x")
    with pytest.raises(ConfigInvalid, match=r"on 0\.0\.0\.0 with a token of 15 characters"):
        auth.check_bind("0.0.0.0", "x" * 15)
