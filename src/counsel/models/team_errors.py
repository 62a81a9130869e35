"""Errors of a team's server: its own keep their code and fields; the others say what to do about the login."""

from __future__ import annotations

from counsel.errors import (
    AuthenticationFailed,
    CounselError,
    OutOfResources,
    ProviderUnavailable,
    UpstreamError,
    from_dict,
)
from counsel.models.vendor_errors import ErrorReport, scrubbed
from counsel.types import Endpoint

_SERVER_FIELDS = (
    "job_id",
    "continuation_id",
    "partial",
    "tried",
)  # dropped: the server's ids mean nothing here
_OFFLINE = (
    "Check the network or the VPN. `counsel config set team_offline local` lets counsel use this machine's own keys "
    "in the meantime; `counsel logout` leaves the team."
)
_CERTIFICATE = (
    "If your company signs its own certificates, set SSL_CERT_FILE to its CA certificate, also in COUNSEL_HOME/.env "
    "for programs that start counsel. If it has expired or is not valid yet, check this machine's clock."
)
_NO_TLS = "The server at this address does not speak TLS: check the address and the port."


def as_error(report: ErrorReport, endpoint: Endpoint, **fields: object) -> CounselError:
    label, url, status = endpoint.provider.label, endpoint.base_url, report.status
    if status == 401:
        return AuthenticationFailed(
            f"{label} rejected this login: its token is wrong or no longer valid.",
            hint=f"Run `counsel login {url}` with a new token, or `counsel logout`.",
            provider=endpoint.provider.name,
            status=401,
            team=url,
        )
    if report.own is not None:
        return _own_error(report.own, endpoint, fields)
    if status is not None and 300 <= status < 400:
        return UpstreamError(
            f"{label} answers with a redirect ({status}). It is not followed: the token is for {url} only.",
            hint="Log in to the address that it redirects to, if you trust it.",
            provider=endpoint.provider.name,
            status=status,
            team=url,
        )
    if status == 404:
        return UpstreamError(
            f"There is no counsel server at {url} (404), or it is older than this counsel.",
            hint="Check the address: `counsel login --status`.",
            provider=endpoint.provider.name,
            status=404,
            team=url,
        )
    message = scrubbed(report.message, endpoint.key).strip()
    return ProviderUnavailable(
        f"{label} answered with {status or 'an error'}{f': {message}' if message else ''}.",
        hint=_OFFLINE if status == 503 else "Try again; if it fails again, tell whoever runs the server.",
        provider=endpoint.provider.name,
        status=status,
        team=url,
        unreachable=True if status == 503 else None,
        **fields,
    )


def _own_error(document: dict[str, object], endpoint: Endpoint, fields: dict[str, object]) -> CounselError:
    error = from_dict({name: value for name, value in document.items() if name not in _SERVER_FIELDS})
    error.fields |= {name: value for name, value in fields.items() if value is not None}
    if isinstance(error, AuthenticationFailed) and not error.fields.get("own_key"):
        error.hint = f"This is a key of {endpoint.provider.label.lower()}: tell whoever runs it."
    return error


def unreachable(failure: CounselError, endpoint: Endpoint, *, untrusted: bool) -> CounselError:
    """The failure with hints for a team. The field `unreachable` lets local keys be used instead, if the person allows
    it; a wrong certificate does not set it."""
    if isinstance(failure, OutOfResources):
        return failure
    failure.fields["team"] = endpoint.base_url
    if untrusted:
        failure.hint = _NO_TLS if "WRONG_VERSION_NUMBER" in failure.message else _CERTIFICATE
    elif isinstance(failure, ProviderUnavailable):
        failure.fields["unreachable"] = True
        if not endpoint.network.proxy:
            failure.hint = _OFFLINE
    return failure
