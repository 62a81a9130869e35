"""The console's page, its sign-in and its cookie: what a browser gets, and what others do not."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from counsel import settings
from counsel.http import app, auth, peer, serve
from counsel.http.api import routes
from counsel.http.console import files, sessions
from counsel.http.console.sessions import ConsoleSessions
from support.fake_engine import FakeEngine

TOKEN = "a-token-for-the-console"
SCRIPT = b"console.log('a page for these tests');\n" * 100
OWN = {"Sec-Fetch-Site": "same-origin", "X-Counsel": "1"}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the built page: only its files count here."""
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>counsel</title>" + " " * 600)
    (folder / "assets" / "index-B4x.js").write_bytes(SCRIPT)
    (folder / "licenses.md").write_text("1")
    (folder / "other.txt").write_text("not for you")
    (folder / "assets" / "index-9aZ.css").write_text("b{}")
    (tmp_path / "secret.txt").write_text("not for you")
    monkeypatch.setattr(files, "FOLDER", folder)
    return folder


class Browser:
    """Sends what a browser would send from the console's own page, and keeps its cookie."""

    def __init__(self, http: aiohttp.ClientSession, port: int, sessions_: ConsoleSessions) -> None:
        self.http = http
        self.port = port
        self.sessions = sessions_
        self.cookie = ""

    async def send(
        self, method: str, path: str, body: Any = None, *, own: bool = True, **headers: str
    ) -> tuple[int, Any, Any]:
        more_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        base = {**(OWN if own else {}), **({"Cookie": self.cookie} if self.cookie else {}), **more_headers}
        async with self.http.request(
            method, path, json=body, headers=base, allow_redirects=False
        ) as response:
            content = await response.read()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(content) if is_json else content, response.headers

    async def sign_in(self, key: str | None = None, **headers: str) -> int:
        status, _, answer = await self.send(
            "POST", "/api/session", {"key": key or self.sessions.new_link()}, own=True, **headers
        )
        if status == 204:
            self.cookie = answer["Set-Cookie"].partition(";")[0]
        return status

    async def status(
        self, path: str = "/api/session", method: str = "GET", *, own: bool = True, **headers: str
    ) -> int:
        return (await self.send(method, path, own=own, **headers))[0]


@asynccontextmanager
async def serving(home: Path, *, host: str = "127.0.0.1", token: str = TOKEN) -> AsyncIterator[Browser]:
    config = settings.load({"COUNSEL_HOME": str(home), "COUNSEL_TOKEN": token, "HOME": str(home)})
    engine: Any = FakeEngine()
    open_at: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    table = routes.routes(engine, config)
    application = app.build(engine, config, host=host, secret=token, routes=table)
    server = serve.Server(application, "127.0.0.1", 0, lambda _, port: open_at.set_result(port))
    running = asyncio.ensure_future(server.serve())
    try:
        port = await open_at
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{port}",
            connector=connector,
            auto_decompress=False,
            skip_auto_headers={"Accept-Encoding"},
        ) as http:
            yield Browser(http, port, ConsoleSessions(home, token))
    finally:
        server.should_exit = True
        await running


@pytest.fixture
async def browser(tmp_path: Path, page: Path) -> AsyncIterator[Browser]:
    async with serving(tmp_path / "home") as new_browser:
        yield new_browser


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────


async def test_the_page_needs_no_token_and_carries_the_strict_headers(browser: Browser) -> None:
    for path in ("/", "/login", "/assets/index-B4x.js", "/assets/missing.js", "/favicon.ico", "/licenses.md"):
        _, _, headers = await browser.send("GET", path, own=False)
        policy = headers["Content-Security-Policy"].split("; ")
        assert policy[:4] == [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
        ]
        assert {
            "connect-src 'self'",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            f"trusted-types {files.TRUSTED_TYPES}",
        } < set(policy)
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Set-Cookie" not in headers


async def test_hashed_files_are_cached_for_ever_and_the_page_is_asked_for_again(browser: Browser) -> None:
    status, body, headers = await browser.send("GET", "/assets/index-B4x.js")
    assert (status, body, headers["Content-Type"]) == (200, SCRIPT, "text/javascript; charset=utf-8")
    assert "immutable" in headers["Cache-Control"]
    _, first, headers = await browser.send("GET", "/")
    assert headers["Cache-Control"] == "no-cache"
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert (await browser.send("GET", "/licenses.md"))[2]["Cache-Control"] == "no-cache"
    status, again, _ = await browser.send("GET", "/", If_None_Match=headers["ETag"])
    assert (status, again) == (304, b"")
    assert (await browser.send("GET", "/login"))[1] == first


async def test_text_is_compressed_for_those_who_accept_it(browser: Browser) -> None:
    for encoding, is_compressed in [("gzip, br", True), ("br;q=1, gzip;q=0", False), ("", False)]:
        _, body, headers = await browser.send("GET", "/assets/index-B4x.js", Accept_Encoding=encoding)
        assert ("Content-Encoding" in headers) is is_compressed
        assert headers["Vary"] == "Accept-Encoding"
        assert (gzip.decompress(body) if is_compressed else body) == SCRIPT
    _, _, headers = await browser.send("GET", "/assets/index-9aZ.css", Accept_Encoding="gzip")
    assert "Content-Encoding" not in headers  # three bytes


async def test_a_page_that_was_built_again_is_served_without_a_restart(browser: Browser, page: Path) -> None:
    before = (await browser.send("GET", "/"))[1]
    (page / "assets" / "new-1.js").write_text("1")
    (page / "index.html").write_text("second")
    os.utime(page / "index.html", ns=(1, 1))
    assert (await browser.send("GET", "/"))[1] == b"second" != before
    assert await browser.status("/assets/new-1.js") == 200


async def send_raw(port: int, request: str) -> str:
    """Bytes as they are: clients resolve `..` themselves."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../index.html",
        "/assets/../../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/..%5csecret.txt",
        "/assets/index-B4x.js%00.css",
        "/assets/",
        "/assets/.",
        "/index.html",
        "/other.txt",
    ],
)
async def test_nothing_outside_the_built_files_has_a_name(browser: Browser, path: str) -> None:
    answer = await send_raw(browser.port, f"GET {path} HTTP/1.1")
    assert answer.split()[1] in {"400", "401", "404"}
    assert "not for you" not in answer
    assert "root:" not in answer


async def test_the_page_is_read_only(browser: Browser) -> None:
    for path in ("/", "/login", "/assets/index-B4x.js"):
        status, body, headers = await browser.send("HEAD", path)
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 0
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert await browser.status(path, method) == 405


async def test_a_page_that_is_not_built_explains_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path / "none")
    async with serving(tmp_path / "home") as browser:
        status, body, headers = await browser.send("GET", "/")
        assert status == 200
        assert b"<code>make console</code>" in body
        assert b"<script" not in body
        assert b"style=" not in body
        assert headers["Content-Security-Policy"] == files.CONTENT_SECURITY_POLICY
        assert await browser.sign_in() == 204  # everything else works
        assert await browser.status("/assets/index-B4x.js") == 404


# ── signing in ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_link_signs_in_once(browser: Browser) -> None:
    key = browser.sessions.new_link("/a/project")
    assert await browser.status() == 401
    assert await browser.sign_in(key) == 204
    status, document, headers = await browser.send("GET", "/api/session")
    assert status == 200
    assert document["project"] == "/a/project"
    assert document["host"] == f"127.0.0.1:{browser.port}"
    assert document["expires_at"] > 0
    assert headers["Cache-Control"] == "no-store"
    assert (await browser.send("GET", "/api/openapi.json"))[0] == 200
    cookie, browser.cookie = browser.cookie, ""
    assert await browser.sign_in(key) == 401
    browser.cookie = cookie
    assert await browser.status() == 200


async def test_the_token_signs_in_again_and_again(browser: Browser) -> None:
    for _ in range(2):
        browser.cookie = ""
        assert await browser.sign_in(f" {TOKEN}\n") == 204
        assert await browser.status() == 200


async def test_the_cookie_is_for_this_server_and_no_script(browser: Browser) -> None:
    _, _, headers = await browser.send("POST", "/api/session", {"key": TOKEN})
    morsel = next(iter(SimpleCookie(headers["Set-Cookie"]).values()))
    assert morsel.key == browser.sessions.cookie
    assert morsel.key != ConsoleSessions(Path("/elsewhere"), "another token").cookie
    assert (morsel["httponly"], morsel["samesite"].lower(), morsel["path"]) == (True, "strict", "/")
    assert (morsel["secure"], morsel["domain"]) == ("", "")
    assert int(morsel["max-age"]) == sessions.LONGEST_SECONDS
    assert TOKEN not in headers["Set-Cookie"]


async def test_over_tls_the_cookie_is_secure_and_of_this_host_alone(browser: Browser) -> None:
    """Behind a proxy with TLS the browser's own Origin says so; headers of a proxy could be anybody's."""
    body = {"key": TOKEN}
    _, _, headers = await browser.send(
        "POST", "/api/session", body, Origin=f"https://127.0.0.1:{browser.port}"
    )
    morsel = next(iter(SimpleCookie(headers["Set-Cookie"]).values()))
    assert morsel.key == f"__Host-{browser.sessions.cookie}"
    assert morsel["secure"] is True
    browser.cookie = f"{morsel.key}={morsel.value}"
    assert await browser.status() == 200
    _, _, headers = await browser.send("POST", "/api/session", body, X_Forwarded_Proto="https")
    assert "secure" not in headers["Set-Cookie"].lower()


@pytest.mark.parametrize("key", ["wrong", "x" * 999, "é", "../../token", "%00", "counsel console"])
async def test_a_wrong_key_is_refused(browser: Browser, key: str) -> None:
    status, body, headers = await browser.send("POST", "/api/session", {"key": key})
    assert (status, body["code"]) == (401, "AUTHENTICATION_FAILED")
    assert "counsel console" in body["hint"]
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize(
    "body",
    [{}, {"key": ""}, {"key": 7}, {"key": None}, {"key": "x" * 1001}, {"key": "a", "more": 1}, [], "a"],
)
async def test_a_malformed_sign_in_is_a_400(browser: Browser, body: Any) -> None:
    assert (await browser.send("POST", "/api/session", body))[0] == 400


async def test_wrong_tokens_are_limited_and_a_link_still_works(browser: Browser) -> None:
    for _ in range(sessions.WRONG_TRIES):
        assert (await browser.send("POST", "/api/session", {"key": "guess"}))[0] == 401
    status, body, headers = await browser.send("POST", "/api/session", {"key": TOKEN})
    assert (status, body["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert 0 < int(headers["Retry-After"]) <= sessions.TRIES_SECONDS
    assert await browser.sign_in() == 204


async def test_signing_out_ends_the_session_everywhere(browser: Browser) -> None:
    await browser.sign_in()
    first_cookie = browser.cookie
    browser.cookie = ""
    await browser.sign_in()
    status, _, headers = await browser.send("DELETE", "/api/session")
    assert status == 204
    assert "Max-Age=0" in headers["Set-Cookie"]
    assert await browser.status() == 401
    browser.cookie = first_cookie
    assert await browser.status() == 200


async def test_signing_out_ends_the_streams_of_the_session(tmp_path: Path) -> None:
    store = ConsoleSessions(tmp_path, TOKEN)
    value = store.sign_in(TOKEN)
    messages: list[Any] = []

    async def stream(_scope: auth.Scope, _receive: auth.Receive, send: auth.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        session = store.find(value)
        assert session is not None
        store.end(session)
        await send({"type": "http.response.body", "body": b"second", "more_body": True})
        await send({"type": "http.response.body", "body": b"third", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> auth.Message:
        return {}

    async def send(message: auth.Message) -> None:
        messages.append(message)

    headers = {"host": "127.0.0.1", "x-counsel": "1", "cookie": f"{store.cookie}={value}"}
    pairs = [(name.encode(), text.encode()) for name, text in headers.items()]
    guard = auth.Guard(stream, secret=TOKEN, host="127.0.0.1", sessions=store)
    await guard({"type": "http", "method": "GET", "path": "/api/events", "headers": pairs}, receive, send)
    assert [message.get("body") for message in messages[1:]] == [b"first", b""]
    assert not messages[-1].get("more_body")


# ── what the cookie does not give ────────────────────────────────────────────────────────────────────


async def test_a_cookie_counts_only_from_the_consoles_own_page(browser: Browser) -> None:
    await browser.sign_in()
    own = f"http://127.0.0.1:{browser.port}"
    good: list[dict[str, str]] = [
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": own},
        {"X-Counsel": "1"},  # over plain HTTP to another machine browsers send no Sec-Fetch-Site
    ]
    for headers in good:
        assert await browser.status(own=False, **headers) == 200, headers
    bad: list[tuple[int, dict[str, str]]] = [
        (401, {}),
        (401, {"Sec-Fetch-Site": "same-site"}),  # a page on another port of this machine
        (401, {"Sec-Fetch-Site": "same-site", "X-Counsel": "1"}),
        (401, {"Sec-Fetch-Site": "cross-site", "X-Counsel": "1"}),
        (401, {"Sec-Fetch-Site": "none"}),  # typed into the address bar
        (403, {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site", "X-Counsel": "1"}),
        (403, {"Origin": "https://evil.example", "X-Counsel": "1"}),
        (403, {"Origin": "null", "X-Counsel": "1"}),
        (421, {"Host": "evil.example", **OWN}),
        (
            421,
            {"Host": f"evil.example:{browser.port}", "Origin": f"http://evil.example:{browser.port}", **OWN},
        ),
    ]
    for status, headers in bad:
        assert await browser.status(own=False, **headers) == status, headers


async def test_a_change_also_needs_the_pages_own_header(browser: Browser) -> None:
    await browser.sign_in()
    own = f"http://127.0.0.1:{browser.port}"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for headers in (
            {"Sec-Fetch-Site": "same-origin"},
            {"Origin": own},
            {"X-Counsel": "0", "Origin": own},
        ):
            assert await browser.status("/api/jobs", method, own=False, **headers) == 401, (method, headers)
    assert await browser.status("/api/session", "DELETE", own=False, Sec_Fetch_Site="same-origin") == 401
    assert await browser.status() == 200


async def test_another_page_cannot_sign_a_browser_in(browser: Browser) -> None:
    """Otherwise a page could make you work in a session of its own."""
    for headers in (
        {},
        {"Sec-Fetch-Site": "cross-site", "X-Counsel": "1"},
        {"Sec-Fetch-Site": "same-origin"},
    ):
        status, _, answer = await browser.send("POST", "/api/session", {"key": TOKEN}, own=False, **headers)
        assert (status, "Set-Cookie" in answer) == (401, False)
    assert await browser.sign_in(TOKEN, Origin="http://127.0.0.1:1") == 403


async def test_no_page_is_allowed_to_send_the_cookie_from_elsewhere(browser: Browser) -> None:
    """The preflight of `X-Counsel` is refused, and a listed origin is not allowed to send cookies."""
    status, _, headers = await browser.send(
        "OPTIONS",
        "/api/session",
        own=False,
        Origin="http://127.0.0.1:1",
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="x-counsel",
    )
    assert status == 403
    assert not [name for name in headers if name.lower().startswith("access-control")]
    request_headers = {b"origin": "https://listed.example", b"host": "127.0.0.1", b"x-counsel": "1"}
    assert not auth.is_from_own_page("GET", request_headers)
    assert "x-counsel" not in auth._CORS_HEADERS.split(", ")


async def test_the_cookie_opens_nothing_but_the_api(browser: Browser) -> None:
    await browser.sign_in()
    for path in ("/mcp", "/metrics", "/apix"):
        assert await browser.status(path) == 401
    assert await browser.status("/mcp", "POST") == 401
    assert await browser.status(Authorization="Bearer wrong") == 401


async def test_what_the_api_answers_to_a_browser_is_never_a_page(browser: Browser) -> None:
    await browser.sign_in()
    for path in ("/api/session", "/api/openapi.json", "/api/nothing"):
        _, _, headers = await browser.send("GET", path)
        assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_a_cookie_set_by_another_port_neither_signs_in_nor_out(browser: Browser) -> None:
    await browser.sign_in()
    name, own = browser.sessions.cookie, browser.cookie
    for value in ("", "forged", "0.forged", "zz.forged", "../../../token"):
        browser.cookie = f"{name}={value}"
        assert await browser.status() == 401
        browser.cookie = f"{name}={value}; other=1; {own}"
        assert await browser.status() == 200
    browser.cookie = "; ".join([f"{name}=x"] * 500)
    assert await browser.status() == 401


@contextmanager
def another_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sockets that are created here belong to another user than the server."""
    if os.geteuid() != 0:  # without root, the server pretends to be another user
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux lists the owners of connections")
async def test_a_session_is_useless_to_another_user_who_learned_it(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in()
    for method, path in (("GET", "/api/session"), ("DELETE", "/api/session"), ("POST", "/api/session")):
        with another_user(monkeypatch):
            connection = socket.socket()
        connection.connect(("127.0.0.1", browser.port))
        reader, writer = await asyncio.open_connection(sock=connection)
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{browser.port}", f"Cookie: {browser.cookie}"]
        lines += [*(f"{name}: {value}" for name, value in OWN.items()), "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode())
        answer = (await reader.read()).decode()
        writer.close()
        assert answer.startswith("HTTP/1.1 403 ")
        assert "another user of the machine" in answer
    monkeypatch.undo()
    assert browser.sessions.find(browser.cookie.partition("=")[2])


def test_the_owner_of_a_connections_other_end_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = listener.getsockname()
        with socket.create_connection(server) as client:
            assert peer.is_own(client.getsockname(), server)
            if not Path("/proc/net/tcp").exists():
                return
            rows = list(peer._connections())
            assert (client.getsockname(), server, os.geteuid()) in rows
            for uid, is_own in ((os.geteuid(), True), (0, True), (4_000_001, False)):
                monkeypatch.setattr(
                    peer, "_connections", lambda uid=uid: iter([(client.getsockname(), server, uid)])
                )
                assert peer.is_own(client.getsockname(), server) is is_own
            monkeypatch.setattr(peer, "_connections", lambda: iter([(("127.0.0.1", 1), server, 0)]))
            assert not peer.is_own(client.getsockname(), server)  # it has left
            monkeypatch.setattr(peer, "_connections", lambda: iter([]))
            assert peer.is_own(client.getsockname(), server)  # this system does not tell


@pytest.mark.parametrize(
    ("field", "end"),
    [
        ("0100007F:1F90", ("127.0.0.1", 8080)),
        ("00000000000000000000000001000000:0050", ("::1", 80)),
        ("0000000000000000FFFF00000100007F:0050", ("127.0.0.1", 80)),
    ],
)
def test_the_kernels_addresses_are_read(
    field: str, end: peer.Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "byteorder", "little")
    assert peer._endpoint(field) == end


async def test_a_session_survives_the_server(tmp_path: Path, page: Path) -> None:
    async with serving(tmp_path / "home") as browser:
        await browser.sign_in()
        cookie = browser.cookie
    async with serving(tmp_path / "home") as browser:
        browser.cookie = cookie
        assert await browser.status() == 200
    async with serving(tmp_path / "home", token="another token") as browser:
        browser.cookie = cookie
        assert await browser.status() == 401
