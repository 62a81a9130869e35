"""Which proxy a caller's variables name for an address, and which certificates they trust.

Like keys, these variables belong to the caller: two clients of one daemon may use different proxies.
They are `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, in lower or upper case (lower case wins, as in curl),
and OpenSSL's `SSL_CERT_FILE` and `SSL_CERT_DIR`. Loopback is always reached directly: no proxy elsewhere can reach it.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from counsel import paths
from counsel.errors import ConfigInvalid, ProviderUnavailable
from counsel.types import Endpoint, Network, Proxy

if TYPE_CHECKING:
    import ssl

VARIABLES = ("https_proxy", "http_proxy", "all_proxy", "no_proxy")
_PORTS = {"http": 80, "https": 443}


def network(env: Mapping[str, str], url: str) -> Network:
    """How this caller reaches the address."""
    return Network(
        proxy=_proxy(env, url),
        ca_file=env.get("SSL_CERT_FILE", "").strip(),
        ca_dir=env.get("SSL_CERT_DIR", "").strip(),
    )


def proxy_url(endpoint: Endpoint) -> str | None:
    """The proxy's URL. Raises `ProviderUnavailable` for an unsupported scheme or an invalid URL."""
    proxy = endpoint.network.proxy
    if proxy is None:
        return None
    scheme = proxy.url.partition("://")[0].lower()
    try:
        parts = urlsplit(proxy.url)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if valid and scheme in _PORTS:
        return proxy.url
    problem = f"has the unsupported scheme {scheme[:20]!r}" if valid else "is not a valid proxy URL"
    raise ProviderUnavailable(
        f"{endpoint.provider.label} cannot be reached: {proxy.variable} {problem}.",
        hint=f"Set {proxy.variable} to an HTTP proxy such as http://proxy.example:3128, or unset it.",
        provider=endpoint.provider.name,
    )


def trust(network: Network) -> ssl.SSLContext:
    """A TLS context that trusts SSL_CERT_FILE and SSL_CERT_DIR as OpenSSL does: each replaces its own default."""
    import ssl  # 20 ms that lists of models do not need

    default = ssl.get_default_verify_paths()
    file = network.ca_file or (default.openssl_cafile if paths.isfile(default.openssl_cafile) else None)
    folder = network.ca_dir or (default.openssl_capath if paths.isdir(default.openssl_capath) else None)
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:  # ssl.SSLError is one
        name = network.ca_file or network.ca_dir
        raise ConfigInvalid(
            f"The certificates in {name} cannot be read: {error.strerror or error}.",
            hint=f"Check {'SSL_CERT_FILE' if network.ca_file else 'SSL_CERT_DIR'}.",
            file=name,
        ) from None


def _proxy(env: Mapping[str, str], url: str) -> Proxy | None:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if not host or _is_loopback(host) or _excluded(host, parts.port or _PORTS.get(parts.scheme, 0), env):
        return None
    for variable in (f"{parts.scheme}_proxy", "all_proxy"):
        name, value = _value(env, variable)
        if value:
            return Proxy(value if "://" in value else f"http://{value}", name)
    return (
        _system(parts.scheme, host) if not any(_value(env, env_name)[1] for env_name in VARIABLES) else None
    )


def _value(env: Mapping[str, str], variable: str) -> tuple[str, str]:
    """The variable's name as the environment spells it, and its value."""
    for name in (variable, variable.upper()):
        # A CGI program has every request's `Proxy:` header in HTTP_PROXY (CVE-2016-1000110).
        if (value := env.get(name, "").strip()) and not (name == "HTTP_PROXY" and "REQUEST_METHOD" in env):
            return name, value
    return variable.upper(), ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _excluded(host: str, port: int, env: Mapping[str, str]) -> bool:
    return any(
        _matches(entry, host.lower(), port) for entry in re.split(r"[,\s]+", _value(env, "no_proxy")[1])
    )


def _matches(entry: str, host: str, port: int) -> bool:
    """`*`, a domain with its subdomains, an address, or a network (`10.0.0.0/8`); each may end with `:port`."""
    entry = entry.strip().lower()
    if entry in {"", "*"}:
        return entry == "*"
    if (address := _address(host)) is not None and _covers(entry, address):
        return True
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal() and (":" not in name or name.endswith("]")):
        return int(entry_port) == port and _matches(name, host, port)
    domain = entry.removeprefix("*").lstrip(".").rstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _covers(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except (ValueError, TypeError):
        return False


def _system(scheme: str, host: str) -> Proxy | None:
    """The proxy in macOS's network settings."""
    if sys.platform == "darwin":
        import urllib.request

        value = urllib.request.getproxies().get(scheme)
        if value and not urllib.request.proxy_bypass(host):
            return Proxy(value, "the system's network settings")
    return None
