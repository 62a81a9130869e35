"""Proxies in front of `counsel serve`: whose forwarded headers count, and the address that people use.

Anybody can send `X-Forwarded-For` and `X-Forwarded-Proto`, so they count only on a connection from an address in
COUNSEL_TRUSTED_PROXIES. COUNSEL_PUBLIC_URL names a further host for which the server answers.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from counsel.lazy_dataclass import dataclass
from counsel.settings import Settings

log = logging.getLogger("counsel.http")
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
MOST_HOPS = 20  # addresses that are read from the end of X-Forwarded-For
FORWARDED = "counsel.forwarded"  # in a request's scope: the request came through a trusted proxy


@dataclass(frozen=True, slots=True)
class Proxies:
    """What the server knows about the proxies in front of it."""

    networks: tuple[Network, ...] = ()
    public_url: str = ""  # scheme, host and port, without a path

    @classmethod
    def of(cls, settings: Settings) -> Proxies:
        return cls(tuple(_networks(settings.trusted_proxies)), settings.public_url)

    @property
    def host(self) -> str:
        """The name in COUNSEL_PUBLIC_URL; "" without one."""
        return (urlsplit(self.public_url).hostname or "").lower()

    def is_over_tls(self, host: str) -> bool:
        """Whether people reach this name over TLS only."""
        return bool(host) and host == self.host and self.public_url.lower().startswith("https://")

    def is_public_origin(self, origin: str) -> bool:
        return bool(self.public_url) and origin.lower() == self.public_url.lower()

    def apply(self, scope: MutableMapping[str, Any]) -> None:
        """If the proxy is trusted, replace its address and scheme by the client's."""
        client = scope.get("client")
        if not self.networks or client is None or not self._trusts(_address(client[0])):
            return
        scope[FORWARDED] = True
        addresses = _values(scope, b"x-forwarded-for")[-MOST_HOPS:]
        scope["client"] = (self._nearest(addresses) or client[0], 0)
        scheme = (_values(scope, b"x-forwarded-proto") or [""])[-1].lower()
        if scheme in {"http", "https"}:
            scope["scheme"] = scheme

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(
            address in network for network in self.networks if network.version == address.version
        )

    def _nearest(self, addresses: list[str]) -> str | None:
        """The last address that is not a trusted proxy's: the client could have invented everything before it."""
        nearest = None
        for value in reversed(addresses):
            address = _address(value)
            if address is None:
                break
            nearest = str(address)
            if not self._trusts(address):
                break
        return nearest


def _values(scope: MutableMapping[str, Any], name: bytes) -> list[str]:
    values = (value.decode("latin-1") for key, value in scope["headers"] if key == name)
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _address(text: str) -> Address | None:
    """`10.0.0.1`, `10.0.0.1:4711`, `2001:db8::1` or `[2001:db8::1]:4711`."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _networks(values: Iterable[str]) -> Iterable[Network]:
    for value in values:
        try:
            yield ipaddress.ip_network(value, strict=False)
        except ValueError:  # trusting fewer proxies than intended is safe
            log.warning(
                "COUNSEL_TRUSTED_PROXIES: ignored %r, which is not an address or network", value[:100]
            )
