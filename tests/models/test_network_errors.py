"""Why a provider could not be reached, in the operating system's words and without the key."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from counsel.errors import OutOfResources, ProviderUnavailable, UpstreamError
from counsel.models.connections import network_errors
from counsel.models.connections.http1 import NotHttp
from counsel.models.connections.sender import ProxyRefused, ProxyUnreachable, Untrusted
from counsel.types import Endpoint, Network, Provider, Proxy

ACME = Provider("acme", "Acme", "openai_chat", "", base_url_env="ACME_BASE_URL")
KEY = "sk-secret-0123456789abcdef"
PLAIN = Endpoint(ACME, "https://acme.example/v1", KEY)
PROXY = Proxy("http://proxy:3128", "HTTPS_PROXY")
PROXIED = Endpoint(ACME, "https://acme.example/v1", KEY, network=Network(proxy=PROXY))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            "Connection refused",
        ),
        (OSError(errno.EHOSTUNREACH, "x"), "No route to host"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
            "[SSL: WRONG_VERSION_NUMBER] wrong version number",
        ),
        (OSError("only words"), "only words"),
        (OSError(), "OSError"),
        (OSError(f"with {KEY}"), "with [key]"),
    ],
)
def test_the_systems_own_message_is_used_if_there_is_one(error: OSError, reason: str) -> None:
    failure = network_errors.as_error(PLAIN, error)
    assert isinstance(failure, ProviderUnavailable)
    assert failure.message == f"Acme cannot be reached at https://acme.example/v1: {reason}"
    assert failure.hint == "Check the network and ACME_BASE_URL."
    assert failure.provider == "acme"


def test_a_proxy_in_between_is_named() -> None:
    failure = network_errors.as_error(PROXIED, OSError(errno.EHOSTUNREACH, "x"))
    assert failure.message == (
        f"Acme cannot be reached at https://acme.example/v1 through the proxy {PROXY.address} (HTTPS_PROXY): No route to host"
    )
    assert failure.hint == "Check the network and ACME_BASE_URL and HTTPS_PROXY."


def test_a_proxy_that_does_not_answer() -> None:
    failure = network_errors.as_error(PROXIED, ProxyUnreachable(errno.ECONNREFUSED, "x"))
    assert f"the proxy {PROXY.address} (HTTPS_PROXY) does not answer: Connection refused" in failure.message
    assert failure.hint == "Check HTTPS_PROXY, or add the provider's host to NO_PROXY."


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (
            407,
            "requires a user and a password.",
            f"Set them in HTTPS_PROXY: http://USER:PASSWORD@{PROXY.address}",
        ),
        (403, "refused the connection (403).", "Check HTTPS_PROXY, or add the provider's host to NO_PROXY."),
    ],
)
def test_a_proxy_that_refuses(status: int, message: str, hint: str) -> None:
    failure = network_errors.as_error(PROXIED, ProxyRefused(status))
    assert failure.message.endswith(message)
    assert (failure.hint, failure.status, failure.provider) == (hint, status, "acme")


@pytest.mark.parametrize(
    ("endpoint", "through"), [(PLAIN, ""), (PROXIED, f" through the proxy {PROXY.address}")]
)
def test_a_certificate_that_nobody_here_trusts(endpoint: Endpoint, through: str) -> None:
    failure = network_errors.as_error(endpoint, Untrusted("self-signed"))
    assert (
        failure.message == f"Acme cannot be reached securely at https://acme.example/v1{through}: self-signed"
    )
    assert "SSL_CERT_FILE" in (failure.hint or "")


def test_a_response_that_is_not_http_and_a_shortage_on_this_machine() -> None:
    failure = network_errors.as_error(PLAIN, NotHttp("an invalid status line"))
    assert isinstance(failure, UpstreamError)
    assert failure.message == "Acme sent a response that is not valid HTTP: an invalid status line"
    assert "ACME_BASE_URL (https://acme.example/v1)" in (failure.hint or "")
    lack = network_errors.as_error(PLAIN, OSError(errno.EMFILE, "Too many open files"))
    assert isinstance(lack, OutOfResources)
    assert lack.message.startswith("Acme cannot be reached")
