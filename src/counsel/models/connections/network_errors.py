"""Why a provider could not be reached: the network, a proxy, a certificate, or a shortage on this machine."""

from __future__ import annotations

import os
import ssl

from counsel import resource_errors
from counsel.errors import CounselError, ProviderUnavailable, UpstreamError
from counsel.models.connections.http1 import NotHttp
from counsel.models.connections.sender import ProxyRefused, ProxyUnreachable, Untrusted
from counsel.models.vendor_errors import scrubbed
from counsel.types import Endpoint, Proxy


def as_error(endpoint: Endpoint, error: BaseException) -> CounselError:
    failure = _as_error(endpoint, error)
    if endpoint.team:
        from counsel.models import team_errors  # few homes have joined a team

        return team_errors.unreachable(failure, endpoint, untrusted=isinstance(error, Untrusted))
    return failure


def _as_error(endpoint: Endpoint, error: BaseException) -> CounselError:
    provider, proxy = endpoint.provider, endpoint.network.proxy
    if shortage := resource_errors.failure(error, f"{provider.label} cannot be reached"):
        return shortage
    if isinstance(error, ProxyRefused) and proxy:
        return refused_by_proxy(endpoint, proxy, error.status)
    if isinstance(error, ProxyUnreachable) and proxy:
        return ProviderUnavailable(
            f"{provider.label} cannot be reached: the proxy {proxy.address} ({proxy.variable}) does not answer: {_reason(endpoint, error)}",
            hint=f"Check {proxy.variable}, or add the provider's host to NO_PROXY.",
            provider=provider.name,
        )
    if isinstance(error, Untrusted):
        route = f" through the proxy {proxy.address}" if proxy else ""
        return ProviderUnavailable(
            f"{provider.label} cannot be reached securely at {endpoint.base_url}{route}: {_reason(endpoint, error)}",
            hint="If your own proxy or server signs the certificate, set SSL_CERT_FILE to its CA certificate.",
            provider=provider.name,
        )
    if isinstance(error, NotHttp):
        return UpstreamError(
            f"{provider.label} sent a response that is not valid HTTP: {scrubbed(str(error), endpoint.key)}",
            hint=f"Check {provider.base_url_env or 'the base URL'} ({endpoint.base_url}).",
            provider=provider.name,
        )
    route = f" through the proxy {proxy.address} ({proxy.variable})" if proxy else ""
    variables = [name for name in (provider.base_url_env, proxy.variable if proxy else "") if name]
    return ProviderUnavailable(
        f"{provider.label} cannot be reached at {endpoint.base_url}{route}: {_reason(endpoint, error)}",
        hint=f"Check {' and '.join(['the network', *variables])}.",
        provider=provider.name,
    )


def refused_by_proxy(endpoint: Endpoint, proxy: Proxy, status: int) -> ProviderUnavailable:
    label = endpoint.provider.label
    problem = "requires a user and a password" if status == 407 else f"refused the connection ({status})"
    hint = (
        f"Set them in {proxy.variable}: http://USER:PASSWORD@{proxy.address}"
        if status == 407
        else f"Check {proxy.variable}, or add the provider's host to NO_PROXY."
    )
    return ProviderUnavailable(
        f"{label} cannot be reached: the proxy {proxy.address} ({proxy.variable}) {problem}.",
        hint=hint,
        provider=endpoint.provider.name,
        status=status,
    )


def _reason(endpoint: Endpoint, error: BaseException) -> str:
    """The system's message where there is one: `Connection refused`, not `[Errno 111] Connect call failed (…)`."""
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    words = os.strerror(number) if number and number > 0 else getattr(error, "strerror", None)
    return scrubbed(words or str(error) or type(error).__name__, endpoint.key)
