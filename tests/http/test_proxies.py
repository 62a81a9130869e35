"""A proxy in front of the server: the public address, and whose forwarded headers count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.http import connection
from counsel.http.proxies import FORWARDED, Proxies
from support.http_server import TOKEN, served

PUBLIC = "https://counsel.example"


def scope(peer: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http", "client": (peer, 4711), "scheme": "http", "headers": list(headers)}


def proxies(**env: str) -> Proxies:
    return Proxies.of(settings.load({"COUNSEL_HOME": "/nowhere", **env}))


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client", "scheme"),
    [
        ("10.0.0.7", b"203.0.113.9", "203.0.113.9", "https"),
        ("::ffff:10.0.0.7", b"203.0.113.9", "203.0.113.9", "https"),
        ("10.0.0.7", b"1.2.3.4, 203.0.113.9, 10.9.9.9", "203.0.113.9", "https"),
        ("10.0.0.7", b"[2001:db8::1]:99", "2001:db8::1", "https"),
        ("10.0.0.7", b"203.0.113.9:1234", "203.0.113.9", "https"),
        ("10.0.0.7", b"1.2.3.4, unknown", "10.0.0.7", "https"),
        ("10.0.0.7", b"", "10.0.0.7", "https"),
        ("192.0.2.1", b"203.0.113.9", "192.0.2.1", "http"),
    ],
)
def test_only_a_trusted_proxy_says_who_its_client_is(
    peer: str, forwarded_for: bytes, client: str, scheme: str
) -> None:
    request = scope(peer, (b"x-forwarded-for", forwarded_for), (b"x-forwarded-proto", b"http, https"))
    proxies(COUNSEL_TRUSTED_PROXIES="10.0.0.0/8, ::1, nonsense").apply(request)
    assert (request["client"][0], request["scheme"]) == (client, scheme)
    assert request.get(FORWARDED, False) is (scheme == "https")


def test_nobody_is_trusted_by_default() -> None:
    request = scope("127.0.0.1", (b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https"))
    proxies().apply(request)
    assert request["client"] == ("127.0.0.1", 4711)
    assert request["scheme"] == "http"


def test_a_proxy_that_is_no_address_is_named_in_the_log_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    assert connection.HEAD_TIMEOUT  # the server's own module is loaded, as there
    assert len(proxies(COUNSEL_TRUSTED_PROXIES="proxy.example,10.0.0.0/8").networks) == 1
    assert "'proxy.example', which is not an address" in caplog.text


@pytest.mark.parametrize("url", ["counsel.example", "https://counsel.example/path", "ftp://x", "https://a b"])
def test_a_public_url_with_a_path_or_without_a_scheme_is_refused(url: str) -> None:
    config = settings.load({"COUNSEL_HOME": "/nowhere", "COUNSEL_PUBLIC_URL": url})
    assert config.public_url == ""
    assert any("public_url" in problem for problem in config.problems)


async def test_the_public_name_is_answered_and_its_pages_may_ask(tmp_path: Path) -> None:
    public_headers = {"Host": "counsel.example", "Origin": PUBLIC}
    async with (
        served(tmp_path) as client,
        client.session.get(f"{client.base}/health", headers=public_headers) as response,
    ):
        assert response.status == 421
    async with served(tmp_path, COUNSEL_PUBLIC_URL=f"{PUBLIC}/") as client:
        for headers in (
            public_headers,
            {"Origin": PUBLIC},
        ):  # a proxy that passes the Host on, and one that does not
            async with client.session.get(f"{client.base}/health", headers=headers) as response:
                assert response.status == 200
        for headers in ({"Host": "other.example"}, {**public_headers, "Origin": "https://other.example"}):
            async with client.session.get(f"{client.base}/health", headers=headers) as response:
                assert response.status in {421, 403}
        assert TOKEN not in client.base
