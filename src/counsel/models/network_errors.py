"""Why a provider could not be reached: the network, a proxy, a certificate, or a shortage on this machine."""

from __future__ import annotations

from counsel import resource_errors
from counsel.errors import CounselError, ProviderUnavailable, UpstreamError
from counsel.models.failures import scrubbed
from counsel.models.http1 import NotHttp
from counsel.models.sender import ProxyRefused, ProxyUnreachable, Untrusted
from counsel.types import Endpoint, Proxy


def explained(endpoint: Endpoint, error: BaseException) -> CounselError:
    provider, proxy = endpoint.provider, endpoint.network.proxy
    if lack := resource_errors.failure(error, f"{provider.label} could not be asked"):
        return lack
    if isinstance(error, ProxyRefused) and proxy:
        return refused_by_proxy(endpoint, proxy, error.status)
    if isinstance(error, ProxyUnreachable) and proxy:
        return ProviderUnavailable(
            f"{provider.label} could not be reached: the proxy {proxy.place} ({proxy.variable}) does not answer: {_reason(endpoint, error)}",
            hint=f"Check {proxy.variable}, or name the provider's host in NO_PROXY.",
            provider=provider.name,
        )
    if isinstance(error, Untrusted):
        through = f" through the proxy {proxy.place}" if proxy else ""
        return ProviderUnavailable(
            f"{provider.label} could not be reached safely at {endpoint.base_url}{through}: {_reason(endpoint, error)}",
            hint="If a proxy or a server of your own signs for it, set SSL_CERT_FILE to the file with its authority's certificate.",
            provider=provider.name,
        )
    if isinstance(error, NotHttp):
        return UpstreamError(
            f"{provider.label} answered with something that is not HTTP as counsel reads it: {scrubbed(str(error), endpoint.key)}",
            hint=f"Check {provider.base_url_env or 'the base URL'} ({endpoint.base_url}).",
            provider=provider.name,
        )
    through = f" through the proxy {proxy.place} ({proxy.variable})" if proxy else ""
    variables = [name for name in (provider.base_url_env, proxy.variable if proxy else "") if name]
    return ProviderUnavailable(
        f"{provider.label} could not be reached at {endpoint.base_url}{through}: {_reason(endpoint, error)}",
        hint=f"Check {' and '.join(['the network', *variables])}.",
        provider=provider.name,
    )


def refused_by_proxy(endpoint: Endpoint, proxy: Proxy, status: int) -> ProviderUnavailable:
    label = endpoint.provider.label
    wants = "wants a user and a password" if status == 407 else f"refused to connect to it ({status})"
    hint = (
        f"Write them into {proxy.variable}: http://USER:PASSWORD@{proxy.place}"
        if status == 407
        else f"Check {proxy.variable}, or name the provider's host in NO_PROXY."
    )
    return ProviderUnavailable(
        f"{label} could not be reached: the proxy {proxy.place} ({proxy.variable}) {wants}.",
        hint=hint,
        provider=endpoint.provider.name,
        status=status,
    )


def _reason(endpoint: Endpoint, error: BaseException) -> str:
    return scrubbed(str(error) or type(error).__name__, endpoint.key)
