"""Requests through aiohttp: its errors, deadlines and connections, and a caller's certificates."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from counsel.models.connections import http1, proxies, sender
from counsel.models.connections.sender import (
    ProxyRefused,
    ProxyUnreachable,
    Sender,
    Untrusted,
    _AiohttpResponse,
)
from counsel.types import Network


def connection_key(host: str = "x") -> Any:
    return SimpleNamespace(host=host, port=1, ssl=True, real_url="http://x", is_ssl=True)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (
            aiohttp.ClientHttpProxyError(connection_key(), (), status=407),
            ProxyRefused,
            "the proxy answered with 407",
        ),
        (
            aiohttp.ClientProxyConnectionError(connection_key(), OSError("refused")),
            ProxyUnreachable,
            "refused",
        ),
        (
            aiohttp.ClientConnectorSSLError(connection_key(), OSError("bad certificate")),
            Untrusted,
            "bad certificate",
        ),
        (
            aiohttp.ClientConnectorCertificateError(connection_key(), ssl.CertificateError("another name")),
            Untrusted,
            "another name",
        ),
        (aiohttp.ClientResponseError(connection_key(), (), message="no HTTP"), http1.NotHttp, "no HTTP"),
        (aiohttp.ServerDisconnectedError(), http1.Disconnected, "Server disconnected"),
        (aiohttp.ClientConnectorError(connection_key(), OSError("no route")), http1.Disconnected, "no route"),
        (aiohttp.ClientPayloadError(), http1.Disconnected, "ClientPayloadError"),
    ],
)
def test_errors_of_aiohttp_become_ours(
    error: aiohttp.ClientError, expected: type[OSError], message: str
) -> None:
    ours = sender._translated(error)
    assert type(ours) is expected
    assert message in str(ours)
    assert isinstance(ours, OSError)


class Content:
    def __init__(self, outcome: object) -> None:
        self.outcome, self.at_end = outcome, False

    async def readany(self) -> bytes:
        if self.outcome is None:
            await asyncio.Event().wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        assert isinstance(self.outcome, bytes)
        return self.outcome

    def at_eof(self) -> bool:
        return self.at_end


def response(outcome: object) -> tuple[_AiohttpResponse, list[str], Content]:
    ends: list[str] = []
    content = Content(outcome)
    some: Any = SimpleNamespace(
        status=200,
        headers={"a": "b"},
        content_type="text/plain",
        content=content,
        release=lambda: ends.append("release"),
        close=lambda: ends.append("close"),
    )
    return _AiohttpResponse(some), ends, content


async def test_a_response_is_read_until_its_deadline() -> None:
    now = asyncio.get_running_loop().time()
    reader, _, _ = response(b"abc")
    assert (reader.status, reader.headers, reader.content_type) == (200, {"a": "b"}, "text/plain")
    assert await reader.readany(now + 5) == b"abc"
    with pytest.raises(http1.DeadlineExceeded):
        await response(None)[0].readany(now + 0.01)
    with pytest.raises(http1.Disconnected, match="cut"):
        await response(aiohttp.ClientPayloadError("cut"))[0].readany(now + 5)


@pytest.mark.parametrize(("at_end", "ends"), [(True, ["release"]), (False, ["close"])])
def test_only_a_connection_whose_response_is_complete_is_kept(at_end: bool, ends: list[str]) -> None:
    reader, calls, content = response(b"")
    content.at_end = at_end
    reader.close()
    assert calls == ends


def test_a_callers_certificates_are_read_once_and_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks: list[Network] = []

    def trust(network: Network) -> Any:
        networks.append(network)
        return object()

    monkeypatch.setattr(proxies, "trust", trust)
    monkeypatch.setattr(sender, "_MAX_TLS_CONTEXTS", 2)
    requests = Sender()
    assert requests._tls_context(Network()) is None
    file = tmp_path / "ca.pem"
    file.write_text("one")
    network = Network(ca_file=str(file))
    first = requests._tls_context(network)
    assert requests._tls_context(network) is first
    os.utime(file, (1, 1))
    second = requests._tls_context(network)
    assert second is not first
    assert requests._tls_context(Network(ca_dir=str(tmp_path))) is not second
    assert len(networks) == 3
    assert len(requests._tls_contexts) == 2, "the oldest is dropped"
    assert requests._tls_context(network) is second
    file.unlink()
    assert requests._tls_context(network) is not second
