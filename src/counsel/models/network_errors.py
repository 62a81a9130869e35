"""Why a provider could not be reached: the network, a proxy, a certificate, or a shortage on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counsel import resource_errors
from counsel.errors import CounselError, ProviderUnavailable, UpstreamError
from counsel.lazy_import import Later
from counsel.models.failures import scrubbed
from counsel.types import Endpoint, Proxy

if TYPE_CHECKING:
    import aiohttp
else:
    aiohttp = Later("aiohttp")  # 130 ms, half of them for certificates: few commands and no start need it


def explained(endpoint: Endpoint, error: BaseException) -> CounselError:
    provider, proxy = endpoint.provider, endpoint.network.proxy
    if lack := resource_errors.failure(error, f"{provider.label} could not be asked"):
        return lack
    if isinstance(error, aiohttp.ClientHttpProxyError) and proxy:
        return refused_by_proxy(endpoint, proxy, error.status)
    if isinstance(error, aiohttp.ClientProxyConnectionError) and proxy:
        return ProviderUnavailable(
            f"{provider.label} could not be reached: the proxy {proxy.place} ({proxy.variable}) does not answer: {_reason(endpoint, error)}",
            hint=f"Check {proxy.variable}, or name the provider's host in NO_PROXY.",
            provider=provider.name,
        )
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        through = f" through the proxy {proxy.place}" if proxy else ""
        return ProviderUnavailable(
            f"{provider.label} could not be reached safely at {endpoint.base_url}{through}: {_reason(endpoint, error)}",
            hint="If a proxy or a server of your own signs for it, set SSL_CERT_FILE to the file with its authority's certificate.",
            provider=provider.name,
        )
    if isinstance(error, aiohttp.ClientResponseError):  # what came back is no HTTP, or breaks its limits
        return UpstreamError(
            f"{provider.label} answered with something that is not HTTP as counsel reads it: {scrubbed(error.message, endpoint.key)}",
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
    words = str(getattr(error, "os_error", None) or error) or type(error).__name__
    return scrubbed(words, endpoint.key)
