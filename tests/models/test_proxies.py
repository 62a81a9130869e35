"""The caller's proxy and certificates: which proxy for which address, and the errors when one fails."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.errors import ConfigInvalid, ProviderUnavailable, UpstreamError
from counsel.models.connections import proxies
from counsel.models.transport import Transport
from counsel.settings import Settings
from counsel.types import Call, Endpoint, Limits, Model, Network, Provider, Proxy, Text, Turn
from fake.proxy import FakeProxy
from fake.raw import RawServer, event

ACME = Provider("acme", "Acme", "openai_chat", "")
HELLO = event(content="hello") + b"data: [DONE]\n\n"
PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("env", "url", "variable"),
    [
        ({"HTTPS_PROXY": PROXY}, "https://api.example/v1", "HTTPS_PROXY"),
        ({"HTTPS_PROXY": PROXY}, "http://api.example/v1", None),
        ({"HTTP_PROXY": PROXY}, "http://api.example/v1", "HTTP_PROXY"),
        ({"http_proxy": PROXY, "HTTP_PROXY": "http://other"}, "http://api.example/v1", "http_proxy"),
        ({"https_proxy": "", "HTTPS_PROXY": PROXY}, "https://api.example/v1", "HTTPS_PROXY"),
        ({"ALL_PROXY": PROXY}, "https://api.example/v1", "ALL_PROXY"),
        ({"all_proxy": "proxy.example:3128"}, "http://api.example/v1", "all_proxy"),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http://api.example/v1", None),
        ({}, "https://api.example/v1", None),
        *(
            ({"ALL_PROXY": PROXY, "no_proxy": entries}, url, variable)
            for entries, url, variable in [
                ("*", "https://api.example/v1", None),
                ("example", "https://api.example/v1", None),
                (".api.example", "https://api.example/v1", None),
                ("*.api.example", "https://v2.api.example/v1", None),
                ("other.org, API.Example", "https://api.example./v1", None),
                ("other.org api.example", "https://api.example/v1", None),
                ("pi.example", "https://api.example/v1", "ALL_PROXY"),
                ("api.example:443", "https://api.example/v1", None),
                ("api.example:8443", "https://api.example/v1", "ALL_PROXY"),
                ("10.0.0.0/8", "http://10.1.2.3:8000/v1", None),
                ("10.1.2.3", "http://10.1.2.3:8000/v1", None),
                ("10.1.2.3:8000", "http://10.1.2.3:8000/v1", None),
                ("10.0.0.0/8", "http://11.1.2.3/v1", "ALL_PROXY"),
                ("fd00::/8", "http://[fd00::1]:8000/v1", None),
                ("[fd00::1]:8000", "http://[fd00::1]:8000/v1", None),
                (",, ,", "https://api.example/v1", "ALL_PROXY"),
            ]
        ),
        *(
            ({"ALL_PROXY": PROXY}, f"http://{host}:11434/v1", None)
            for host in ("localhost", "127.0.0.1", "127.8.0.1", "[::1]", "box.localhost", "LOCALHOST")
        ),
    ],
)
def test_which_proxy_for_which_address(env: dict[str, str], url: str, variable: str | None) -> None:
    proxy = proxies.network(env, url).proxy
    assert (proxy.variable if proxy else None) == variable
    assert proxy is None or proxy.address == "proxy.example:3128"


def test_a_callers_proxy_is_part_of_its_fingerprint_and_shows_no_password() -> None:
    secret = b"s"
    callers = [
        Caller(settings=Settings(env=env))
        for env in ({}, {"HTTPS_PROXY": PROXY}, {"https_proxy": "http://u:p@x"}, {"SSL_CERT_FILE": "/a"})
    ]
    assert len({caller.fingerprint(secret) for caller in callers}) == len(callers)
    proxy = Proxy("http://user:pass-word@proxy.example:3128/", "HTTPS_PROXY")
    assert "pass-word" not in repr(Endpoint(ACME, "https://x", network=Network(proxy)))
    assert proxy.address == "proxy.example:3128"


async def ask(url: str, env: dict[str, str], **limits: Any) -> str:
    transport = Transport(backoff=0.001)
    endpoint = Endpoint(ACME, url, "sk-x", proxies.network(env, url))
    call = Call((Turn("user", "hello"),))
    try:
        stream = transport.stream(call, Model("m", "acme", "m"), endpoint, Limits(total=20, **limits))
        return "".join([event.delta async for event in stream if isinstance(event, Text)])
    finally:
        await transport.close()


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_plain_http_goes_through_the_proxy(scheme: str) -> None:
    async with RawServer(first=HELLO) as server, FakeProxy(("127.0.0.1", server.port)) as proxy:
        address = f"{scheme}127.0.0.1:{proxy.port}"
        assert await ask("http://api.example/v1", {"HTTP_PROXY": address}) == "hello"
    assert proxy.requests == ["POST http://api.example/v1/chat/completions"]


async def test_a_compressed_answer_is_read_behind_a_proxy() -> None:
    server = RawServer(first=gzip.compress(HELLO), head="content-encoding: gzip\r\n")
    async with server, FakeProxy(("127.0.0.1", server.port)) as proxy:
        assert await ask("http://api.example/v1", {"HTTP_PROXY": proxy.url}) == "hello"


@pytest.mark.parametrize("through_proxy", [False, True])
async def test_a_page_in_place_of_an_answer_is_named(through_proxy: bool) -> None:
    """The answer may be a network's login page, or come from a wrong address."""
    page = RawServer(first=b"<html>Log in</html>", kind="text/html; charset=utf-8")
    async with page, FakeProxy(("127.0.0.1", page.port)) as proxy:
        url = "http://api.example/v1" if through_proxy else f"{page.url}/v1"
        with pytest.raises(
            UpstreamError, match="Acme answered with text/html instead of a stream"
        ) as excinfo:
            await ask(url, {"HTTP_PROXY": proxy.url})
    assert url in (excinfo.value.hint or "")
    assert excinfo.value.fields["status"] == 200
    assert len(proxy.requests) == through_proxy


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for api.example and localhost, and a server's context with it."""
    certificate, key = tmp_path / "authority.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=api.example", "-addext", "subjectAltName=DNS:api.example,DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


async def test_https_goes_through_a_tunnel_to_a_server_that_this_caller_trusts(
    authority: tuple[Path, ssl.SSLContext],
) -> None:
    certificate, context = authority
    async with (
        RawServer(first=HELLO, tls=context) as server,
        FakeProxy(("127.0.0.1", server.port), credentials="me:pass%20word") as proxy,
    ):
        way = {"HTTPS_PROXY": proxy.url.replace("%20", "%2520")}
        assert await ask("https://api.example/v1", {**way, "SSL_CERT_FILE": str(certificate)}) == "hello"
        assert proxy.requests == ["CONNECT api.example:443"]
        with pytest.raises(ProviderUnavailable, match="cannot be reached securely") as excinfo:
            await ask("https://api.example/v1", way, attempts=1)
    assert "SSL_CERT_FILE" in (excinfo.value.hint or "")
    assert len(server.requests) == 1


async def test_https_without_a_proxy_reaches_only_servers_that_this_caller_trusts(
    authority: tuple[Path, ssl.SSLContext],
) -> None:
    certificate, context = authority
    long = event(content="x" * 1000) * 300  # several TLS records
    async with RawServer(iter([HELLO]), first=long, tls=context) as server:
        home = f"https://localhost:{server.port}/v1"
        assert await ask(home, {"SSL_CERT_FILE": str(certificate)}) == "x" * 300_000 + "hello"
        for url, env in ((home, {}), (f"{server.url}/v1", {"SSL_CERT_FILE": str(certificate)})):
            with pytest.raises(ProviderUnavailable, match="cannot be reached securely"):
                await ask(url, env, attempts=1)
    assert len(server.requests) == 1


async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(ConfigInvalid, match=name) as excinfo:
            await ask("https://api.example/v1", {"SSL_CERT_FILE": str(tmp_path / name)})
        assert "SSL_CERT_FILE" in (excinfo.value.hint or "")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_a_password_is_named_without_it(scheme: str) -> None:
    async with FakeProxy(("127.0.0.1", 9), credentials="me:right") as proxy:
        variable = f"{scheme.upper()}_PROXY"
        with pytest.raises(ProviderUnavailable, match="requires a user and a password") as excinfo:
            await ask(f"{scheme}://api.example/v1", {variable: f"http://me:wr0ng-one@127.0.0.1:{proxy.port}"})
    document = str(excinfo.value.as_dict())
    assert f"the proxy 127.0.0.1:{proxy.port} ({variable})" in document
    assert "wr0ng-one" not in document
    assert len(proxy.requests) == 1


async def test_a_proxy_that_refuses_or_is_not_there_is_named() -> None:
    async with FakeProxy(("127.0.0.1", 9), refuse=403) as proxy:
        with pytest.raises(ProviderUnavailable, match=rf"the proxy 127.0.0.1:{proxy.port} .* \(403\)"):
            await ask("https://api.example/v1", {"ALL_PROXY": proxy.url})
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{sock.getsockname()[1]}"
        for scheme in ("http", "https"):
            with pytest.raises(ProviderUnavailable, match=f"the proxy {place} ") as excinfo:
                await ask(f"{scheme}://api.example/v1", {"all_proxy": f"http://me:secret-one@{place}"})
            assert "secret-one" not in str(excinfo.value.as_dict())


@pytest.mark.parametrize(
    "url", ["socks5://me:secret-one@127.0.0.1:1080", "http://", "http://x:99999", "http://[1"]
)
async def test_a_proxy_of_another_kind_is_refused_by_name(url: str) -> None:
    with pytest.raises(
        ProviderUnavailable, match=r"ALL_PROXY (has the unsupported scheme|is not a valid proxy URL)"
    ) as excinfo:
        await ask("https://api.example/v1", {"ALL_PROXY": url})
    assert "secret-one" not in str(excinfo.value.as_dict())


@pytest.mark.parametrize(("is_bypassed", "proxy"), [(False, "http://proxy.example:3128"), (True, "")])
def test_macos_has_proxies_in_its_network_settings(
    monkeypatch: pytest.MonkeyPatch, is_bypassed: bool, proxy: str
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"https": "http://proxy.example:3128"})
    monkeypatch.setattr(urllib.request, "proxy_bypass", lambda host: is_bypassed and host == "api.example")
    network = proxies.network({}, "https://api.example/v1")
    assert (network.proxy.url if network.proxy else "") == proxy
    assert proxies.network({}, "http://127.0.0.1:9").proxy is None
