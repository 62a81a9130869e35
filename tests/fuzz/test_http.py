"""`/mcp`, `/api` and HTTP itself of a real `counsel serve`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counsel.http.api.routes import ROUTES
from fuzz.effort import fuzz
from fuzz.inputs import CUTS, TEXT, documents, pieces
from fuzz.oracle import check_answer, unharmed
from support.processes import TOKEN, Http, read_all, serve

pytestmark = pytest.mark.slow  # left out of `make check`


@pytest.fixture(scope="module")
def http(home: Path, vendor: dict[str, str]) -> Iterator[Http]:
    with serve(home, env=vendor) as server:
        yield server


def check(http: Http, status: int, body: bytes) -> None:
    assert 200 <= status < 500, (status, body[:500])
    if body.startswith((b"{", b"[")):
        check_answer(json.loads(body))
    assert http.health() == 200


def test_any_mcp_body_gets_a_valid_answer(http: Http) -> None:
    versions = st.sampled_from(["", "2025-03-26", "2025-11-25", "2026-07-28", "9"])
    sessions = {version: http.session(version) for version in ("2025-03-26", "2025-11-25")}

    @fuzz
    @given(body=documents(), version=versions, session=versions, extra=st.tuples(HEADERS, TEXT))
    def run(body: bytes, version: str, session: str, extra: tuple[str, str]) -> None:
        headers = {"Mcp-Session-Id": sessions.get(session, session), "MCP-Protocol-Version": version}
        headers = {name: value for name, value in headers.items() if value}
        headers[extra[0]] = header_text(extra[1])
        check(http, *http.exchange(http.request("POST", "/mcp", body, headers)))

    with unharmed(http.home, http.process.pid, lambda: http.health() == 200):
        run()


HEADERS = st.sampled_from(
    ["Accept", "Content-Type", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Last-Event-ID", "X-Any", "Origin"]
)


def header_text(text: str) -> str:
    """The characters that h11 allows in a header. The raw requests below have others, too."""
    return "".join(letter for letter in text if 32 < ord(letter) < 256 and letter.isprintable())[:5_000]


# `servers:check` would start programs, `embedded-model` a download, and the stream of all jobs never ends.
LEFT_OUT = {("POST", "/api/servers:check"), ("POST", "/api/embedded-model"), ("GET", "/api/events")}
PATHS = [
    *(
        (row.method, re.sub(r"\{.*?\}", "{}", row.path))
        for row in ROUTES
        if (row.method, row.path) not in LEFT_OUT
    ),
    ("GET", "/metrics"),
    ("PUT", "/api/{}"),
]
NAMES = st.sampled_from(
    [
        "limit",
        "after",
        "history",
        "provider",
        "by",
        "seconds",
        "agents",
        "agent",
        "scope",
        "q",
        "name",
        "cursor",
        "words",
    ]
)
QUERY = st.lists(st.tuples(NAMES, TEXT), max_size=3)
BODIES: list[Any] = [
    {
        "name": "n",
        "server": {"command": "true", "args": ["a"], "env": {"A": "b"}},
        "agents": ["claude"],
        "dry_run": True,
    },
    {"paste": '{"mcpServers": {"x": {"command": "true"}}}', "name": "n", "dry_run": True},
    {"server": {"command": None}, "scope": "user", "dry_run": True},
    {"from": {"agent": "claude"}, "to": [{"agent": "codex", "scope": "user"}], "dry_run": True},
    {"name": "n", "to": ["claude"], "scope": "user", "copy": True, "dry_run": True},
    {"id": "op", "dry_run": True},
    {"tool": "chat", "prompt": "why?", "model": "gpt-5", "background": True},
    {"tool": "consensus", "prompt": "why?", "models": ["gpt-5", "sonnet"], "background": True},
    {"name": "default_model", "value": "sonnet"},
    {"model": "sonnet"},
    {"key": "k"},
]


def test_any_api_request_gets_a_valid_answer(http: Http) -> None:
    @fuzz
    @given(
        route=st.sampled_from(PATHS),
        name=TEXT,
        query=QUERY,
        body=documents(BODIES),
        last=st.one_of(st.none(), TEXT),
    )
    def run(
        route: tuple[str, str], name: str, query: list[tuple[str, str]], body: bytes, last: str | None
    ) -> None:
        method, path = route
        path = path.format(encoded(name)[:2_000])
        query_string = "&".join(f"{key}={encoded(value)[:2_000]}" for key, value in query)
        headers = {} if last is None else {"Last-Event-ID": header_text(last)}
        data = b"" if method == "GET" else body
        check(http, *http.exchange(http.request(method, f"{path}?{query_string}", data, headers)))

    with unharmed(http.home, http.process.pid, lambda: http.health() == 200):
        run()


def encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@st.composite
def raw_requests(draw: st.DrawFn) -> bytes:
    """HTTP requests with parts cut, doubled or replaced."""
    body = draw(st.binary(max_size=200))
    parts = [
        b"POST /mcp HTTP/1.1",
        b"Host: 127.0.0.1",
        b"Authorization: Bearer " + TOKEN.encode(),
        b"Content-Type: application/json",
        draw(
            st.sampled_from(
                [
                    b"Content-Length: %d" % len(body),
                    b"Content-Length: " + b"9" * 5_000,
                    b"Content-Length: -1",
                    b"Transfer-Encoding: chunked",
                    b"Transfer-Encoding: gzip",
                    b"Content-Length: 5\r\nContent-Length: 6",
                ]
            )
        ),
        b"X-Long: " + b"y" * draw(st.sampled_from([0, 10_000, 100_000])),
    ]
    at = draw(st.integers(0, len(parts) - 1))
    parts[at] = draw(
        st.one_of(st.just(parts[at]), st.binary(max_size=60), st.just(b""), st.just(parts[at] * 2))
    )
    return b"\r\n".join(parts) + b"\r\n\r\n" + body


def test_any_bytes_on_the_port_get_an_answer_or_an_end(http: Http) -> None:
    @fuzz
    @given(data=st.one_of(raw_requests(), st.binary(max_size=300)), cuts=CUTS)
    def run(data: bytes, cuts: list[int]) -> None:
        with http.connect() as peer:
            try:
                for piece in pieces(data, cuts):
                    peer.sendall(piece)
                peer.shutdown(1)
            except OSError:
                pass  # the server closed it before all was sent
            answer = read_all(peer)
        assert not answer.startswith(b"HTTP/1.1 5"), answer[:500]
        assert http.health() == 200

    with unharmed(http.home, http.process.pid, lambda: http.health() == 200):
        run()
