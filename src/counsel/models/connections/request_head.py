"""Where a request goes, and its head as bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

_PLAIN_URL = re.compile(r"[!-~]+")


class Address(NamedTuple):
    host: str
    port: int
    is_tls: bool
    head: str  # the path and the `host` header, as in a request


@lru_cache(maxsize=256)
def address(url: str) -> Address | None:
    """The address of a plain URL; None for one that this module does not support."""
    parts = urlsplit(url)
    if not _PLAIN_URL.fullmatch(url) or "@" in parts.netloc or parts.scheme not in {"http", "https"}:
        return None
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or "%" in host:
        return None
    is_tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(
        host, port or (443 if is_tls else 80), is_tls, f"{target} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
    )


def request_head(
    method: str, server: Address, headers: Mapping[str, str], length: int | None
) -> bytes | None:
    """The request's head; None if a header has a line break."""
    head = _without_length(method, server, tuple(headers.items()))
    if head is None or length is None:
        return head and head + b"\r\n"
    return b"%scontent-length: %d\r\n\r\n" % (head, length)


@lru_cache(maxsize=256)
def _without_length(method: str, server: Address, headers: tuple[tuple[str, str], ...]) -> bytes | None:
    """The head without its content-length: the same for all requests of a caller to a provider."""
    lines = [f"{method} {server.head}", *(f"{name}: {value}\r\n" for name, value in headers)]
    head = "".join(lines)
    if head.count("\n") != len(lines) + 1 or head.count("\r") != len(lines) + 1 or "\0" in head:
        return None
    return head.encode("utf-8", "replace")
