"""Size limits for an MCP server's messages, and the caller's proxy for HTTP. The library has neither.

Without limits, a server that writes an endless line or body would fill the memory until its time limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from counsel.models.connections import proxies

MOST_LINE = 8 * 1024 * 1024  # characters of one message on stdio
MOST_BODY = 32 * 1024 * 1024  # bytes of one HTTP answer, which may be a stream of messages


class TooMuch(Exception):
    """A server sent a message that is too large."""


def bound_stdio() -> None:
    """Patch the library to limit the length of a server's lines: it creates its reader itself and accepts no other."""
    from mcp.client import stdio

    library: Any = stdio
    if not issubclass(library.TextReceiveStream, _Marked):
        library.TextReceiveStream = _with_bound(library.TextReceiveStream)


class _Marked:
    """Marks the patched class."""


def _with_bound(kind: Any) -> object:
    class Bounded(kind, _Marked):  # type: ignore[misc]
        _line = 0

        async def receive(self) -> str:
            chunk: str = await super().receive()
            end = chunk.rfind("\n")
            self._line = self._line + len(chunk) if end < 0 else len(chunk) - end - 1
            if self._line > MOST_LINE:
                # Otherwise the library would keep reading and discard the rest.
                await self.transport_stream.aclose()
                raise TooMuch(f"it sent a message of more than {MOST_LINE // 2**20} MB")
            return chunk

    return Bounded


def http_client(env: Mapping[str, str], url: str, **options: Any) -> object:
    """The library's client, with a limit for bodies and the caller's proxy instead of this process's."""
    import httpx2
    from mcp.shared import _httpx_utils as library

    network = proxies.network(env, url)
    headers = {"accept-encoding": "identity", **(options.pop("headers", None) or {})}
    timeout = options.pop("timeout", None) or httpx2.Timeout(
        library.MCP_DEFAULT_TIMEOUT, read=library.MCP_DEFAULT_SSE_READ_TIMEOUT
    )
    return httpx2.AsyncClient(
        **options,
        headers=headers,
        timeout=timeout,
        proxy=network.proxy.url if network.proxy else None,
        verify=proxies.trust(network) if network.ca_file or network.ca_dir else True,
        trust_env=False,
        event_hooks={"request": [], "response": [_bound]},
    )


async def _bound(response: Any) -> None:
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in {"", "identity"}:  # the library would decompress it without a limit
        raise TooMuch(f"it compressed its answer ({encoding[:40]}), which was not requested")
    response.stream = _stream(response.stream)


def _stream(inner: Any) -> object:
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in inner:
                size += len(chunk)
                if size > MOST_BODY:
                    raise TooMuch(f"it sent an answer of more than {MOST_BODY // 2**20} MB")
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

    return Counted()
