"""The settings for OpenID Connect, checked once when a team's server starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import SplitResult, urlsplit

from counsel.errors import ConfigInvalid
from counsel.lazy_dataclass import dataclass
from counsel.people import ROLES, Role
from counsel.settings import Settings

CALLBACK = "/login/callback"
# Issuers at which anybody can have an account.
_PUBLIC = frozenset({"accounts.google.com", "appleid.apple.com", "gitlab.com", "login.live.com"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class OidcConfig:
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: str
    public_url: str  # without a slash at its end
    hosts: frozenset[str]  # `name` or `name:port`, including the issuer's: no others are contacted
    domains: frozenset[str]  # of e-mail addresses; empty: any
    creates: bool  # whether people who sign in first are added
    groups_claim: str  # "": groups are counsel's own
    roles: Mapping[str, Role]  # by group, in order

    @property
    def redirect_uri(self) -> str:
        return f"{self.public_url}{CALLBACK}"

    @property
    def is_secure(self) -> bool:
        return self.public_url.startswith("https://")


def read(settings: Settings) -> OidcConfig | None:
    """None: people sign in with their tokens only. Raises `ConfigInvalid`."""
    if not settings.oidc_issuer:
        return None
    if not settings.oidc_client_id:
        raise ConfigInvalid(
            "COUNSEL_OIDC_ISSUER is set, but COUNSEL_OIDC_CLIENT_ID is not.",
            hint="Register counsel at the issuer as a web application, and set its client id.",
        )
    issuer = checked_url(settings.oidc_issuer, "COUNSEL_OIDC_ISSUER")
    if not settings.public_url:
        raise ConfigInvalid(
            "COUNSEL_OIDC_ISSUER is set, but COUNSEL_PUBLIC_URL is not.",
            hint=f"Set the address that people use; the issuer must know it with {CALLBACK} as a redirect URI.",
        )
    checked_url(settings.public_url, "COUNSEL_PUBLIC_URL")
    if settings.oidc_create == "member" and not settings.oidc_allowed_domains and issuer.hostname in _PUBLIC:
        raise ConfigInvalid(
            f"Anybody can have an account at {issuer.hostname}, and COUNSEL_OIDC_CREATE=member would add them all.",
            hint="Set COUNSEL_OIDC_ALLOWED_DOMAINS to your company's domain.",
        )
    scopes = settings.oidc_scopes.split()
    return OidcConfig(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        scopes=" ".join(scopes if "openid" in scopes else ["openid", *scopes]),
        public_url=settings.public_url.rstrip("/"),
        hosts=frozenset({issuer.netloc.lower(), *(name.lower() for name in settings.oidc_hosts)}),
        domains=frozenset(name.lower().lstrip("@") for name in settings.oidc_allowed_domains),
        creates=settings.oidc_create == "member",
        groups_claim=settings.oidc_groups_claim,
        roles=_roles(settings.oidc_roles),
    )


def checked_url(url: str, name: str) -> SplitResult:
    """Parse a URL: https, or http to this machine only, since http can be read in transit."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = SplitResult("", "", "", "", ""), ""
    plain = parts.scheme == "http" and host in _LOOPBACK
    if not host or not (parts.scheme == "https" or plain) or parts.username or parts.query or parts.fragment:
        raise ConfigInvalid(
            f"{name} must be an https address without a user, a query or a fragment (http only on loopback).",
            hint="For example https://login.example.com.",
        )
    return parts


def _roles(rows: tuple[str, ...]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for row in rows:
        group, _, name = row.rpartition("=")
        role = next((role for role in ROLES if role == name.strip()), None)
        if not group.strip() or role is None:
            raise ConfigInvalid(
                f"COUNSEL_OIDC_ROLES has an entry that is not GROUP=ROLE: {row!r}.",
                hint=f"Roles are {', '.join(ROLES)}.",
            )
        roles.setdefault(group.strip(), role)
    return roles
