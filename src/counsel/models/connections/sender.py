"""Sends requests to the vendors, with each caller's proxy and certificates.

Most requests use `http1.py`. Requests through a proxy, or with unusual URLs or headers, use aiohttp, which supports
proxies and quotes URLs. Both return a response with the same few methods.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from counsel.lazy_import import LazyModule, import_in_thread
from counsel.models.connections import connection_pool, http1, proxies, request_head
from counsel.types import Endpoint, Limits, Network

if TYPE_CHECKING:
    import aiohttp
else:
    aiohttp = LazyModule("aiohttp")  # 130 ms, half of it for certificates: few calls need it

_MAX_TLS_CONTEXTS = 32
_HEADERS = {
    "content-type": "application/json",
    "accept": "*/*",
    "accept-encoding": "identity",  # compressed streams arrive in bursts
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
        self._pool: connection_pool.Pool | None = None
        self._session: aiohttp.ClientSession | None = None
        self._tls_contexts: dict[tuple[str, ...], ssl.SSLContext] = {}

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
        """The response, once its head has arrived. Redirects are not followed: the key is for the configured address.

        Raises `OSError` and `http1.DeadlineExceeded`.
        """
        proxy, trust = proxies.proxy_url(endpoint), self._tls_context(endpoint.network)
        method = "GET" if body is None else "POST"
        if proxy is None and (where := request_head.address(url)) is not None:
            length = None if body is None else len(body)
            head = request_head.request_head(method, where, {**_HEADERS, **headers}, length)
            if head is not None:
                if self._pool is None:
                    self._pool = connection_pool.Pool()
                try:
                    return await self._pool.request(
                        where, head, body, trust=trust, connect=limits.connect, until=until
                    )
                except ssl.SSLError as error:
                    raise Untrusted(str(error)) from error
        if self._session is None:
            await import_in_thread(("aiohttp",))
        try:
            async with asyncio.timeout_at(until):
                response = await self._aiohttp_session().request(
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
            raise http1.DeadlineExceeded from None
        except aiohttp.ClientError as error:
            raise _translated(error) from error
        return _AiohttpResponse(response)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
            await asyncio.sleep(0)  # aborted connections close their sockets in the loop's next turn
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _aiohttp_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # aiohttp decompresses a chunk whole, however large: `compression` has a bound
                headers=_HEADERS,
            )
        return self._session

    def _tls_context(self, network: Network) -> ssl.SSLContext | None:
        """The certificates that this caller trusts; None for the default. Two contexts never share a connection."""
        if not (network.ca_file or network.ca_dir):
            return None
        key = (network.ca_file, _modified(network.ca_file), network.ca_dir, _modified(network.ca_dir))
        if key not in self._tls_contexts:
            while len(self._tls_contexts) >= _MAX_TLS_CONTEXTS:
                self._tls_contexts.pop(next(iter(self._tls_contexts)))
            self._tls_contexts[key] = proxies.trust(network)
        return self._tls_contexts[key]


def _modified(path: str) -> str:
    try:
        return str(os.stat(path).st_mtime_ns) if path else ""  # noqa: PTH116 - before every call
    except OSError:
        return "missing"


def _translated(error: aiohttp.ClientError) -> OSError:
    message = str(getattr(error, "os_error", None) or error) or type(error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return ProxyRefused(error.status)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return ProxyUnreachable(message)
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return Untrusted(message)
    if isinstance(
        error, aiohttp.ClientResponseError
    ):  # the response is not HTTP, or exceeds aiohttp's limits
        return http1.NotHttp(error.message)
    return http1.Disconnected(message)


class _AiohttpResponse:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    @property
    def content_type(self) -> str:
        return self._response.content_type

    async def readany(self, until: float) -> bytes:
        """Raises `OSError` if the response breaks off, `DeadlineExceeded` if nothing arrives before the deadline."""
        try:
            async with asyncio.timeout_at(until):
                return await self._response.content.readany()
        except TimeoutError:
            raise http1.DeadlineExceeded from None
        except aiohttp.ClientError as error:
            raise http1.Disconnected(str(error)) from error

    def close(self) -> None:
        """After a complete response the connection is kept for the next request."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
