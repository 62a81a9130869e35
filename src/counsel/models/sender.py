"""Requests to the vendors: which client carries one, and whom it trusts.

The usual ones go through `http1.py`. A request through a proxy, or one whose URL or headers are unusual, goes through aiohttp,
which knows proxies and how to quote. Both give a response with the same few methods.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from counsel.lazy_import import Later, imported
from counsel.models import http1, proxies
from counsel.types import Endpoint, Limits, Network

if TYPE_CHECKING:
    import aiohttp
else:
    aiohttp = Later("aiohttp")  # 130 ms, half of them for certificates: few calls need it

_MOST_TRUSTED = 32  # sets of certificates
_HEADERS = {
    "content-type": "application/json",
    "accept": "*/*",
    "accept-encoding": "identity",  # compressed streams arrive in lumps
    "user-agent": "counsel",
}


class ProxyRefused(ConnectionError):
    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered with {status}")
        self.status = status


class ProxyUnreachable(ConnectionError):
    pass


class Untrusted(ConnectionError):
    """A certificate that this caller does not trust, or TLS that failed."""


class Response(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content_type(self) -> str: ...
    async def readany(self, until: float) -> bytes: ...
    def close(self) -> None: ...


class Sender:
    """All connections of a process. `close` it at the end."""

    def __init__(self) -> None:
        self._pool: http1.Pool | None = None
        self._session: aiohttp.ClientSession | None = None
        self._trusted: dict[tuple[str, ...], ssl.SSLContext] = {}

    async def send(
        self,
        url: str,
        headers: Mapping[str, str],
        limits: Limits,
        endpoint: Endpoint,
        *,
        until: float,
        body: bytes | None = None,
    ) -> Response:
        """The answer once its head is here. Redirects are not followed: a key goes to the address that was set, and nowhere else.

        Raises `OSError` and `http1.Late`.
        """
        proxy, trust = proxies.usable(endpoint), self._trusting(endpoint.network)
        method = "GET" if body is None else "POST"
        if proxy is None and (where := http1.address(url)) is not None:
            length = None if body is None else len(body)
            head = http1.request_head(method, where, {**_HEADERS, **headers}, length)
            if head is not None:
                if self._pool is None:
                    self._pool = http1.Pool()
                try:
                    return await self._pool.request(
                        where, head, body, trust=trust, connect=limits.connect, until=until
                    )
                except ssl.SSLError as error:
                    raise Untrusted(str(error)) from error
        if self._session is None:
            await imported(("aiohttp",))
        try:
            async with asyncio.timeout_at(until):
                response = await self._opened().request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
                    allow_redirects=False,
                    proxy=proxy,
                    ssl=True if trust is None else trust,
                )
        except aiohttp.ConnectionTimeoutError:
            raise http1.ConnectTimeout from None
        except TimeoutError:
            raise http1.Late from None
        except aiohttp.ClientError as error:
            raise _translated(error) from error
        return _OfAiohttp(response)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # it opens a chunk at once, however large: `compression` has a bound
                headers=_HEADERS,
            )
        return self._session

    def _trusting(self, network: Network) -> ssl.SSLContext | None:
        """Whom this caller trusts; None: whom everybody does. Connections made with one context are never used with another."""
        if not (network.ca_file or network.ca_dir):
            return None
        name = (network.ca_file, _stamp(network.ca_file), network.ca_dir, _stamp(network.ca_dir))
        if name not in self._trusted:
            while len(self._trusted) >= _MOST_TRUSTED:
                self._trusted.pop(next(iter(self._trusted)))
            self._trusted[name] = proxies.trust(network)
        return self._trusted[name]


def _stamp(path: str) -> str:
    try:
        return str(os.stat(path).st_mtime_ns) if path else ""  # noqa: PTH116
    except OSError:
        return "missing"


def _translated(error: aiohttp.ClientError) -> OSError:
    words = str(getattr(error, "os_error", None) or error) or type(error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return ProxyRefused(error.status)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return ProxyUnreachable(words)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return Untrusted(words)
    if isinstance(error, aiohttp.ClientResponseError):  # what came back is no HTTP, or breaks its limits
        return http1.NotHttp(error.message)
    return http1.Disconnected(words)


class _OfAiohttp:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    @property
    def content_type(self) -> str:
        return self._response.content_type

    async def readany(self, until: float) -> bytes:
        """Raises `OSError` when the answer breaks off, `Late` when nothing comes until then."""
        try:
            async with asyncio.timeout_at(until):
                return await self._response.content.readany()
        except TimeoutError:
            raise http1.Late from None
        except aiohttp.ClientError as error:
            raise http1.Disconnected(str(error)) from error

    def close(self) -> None:
        """One that was read to its end leaves its connection to the next request."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
