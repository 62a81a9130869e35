"""The routes by which people of a team sign in with an issuer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import BaseRoute

from counsel.errors import ConfigInvalid
from counsel.http.team import oidc_config

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store
    from counsel.http.team.sign_in import SignIn
    from counsel.settings import Settings

log = logging.getLogger("counsel.signin")


def oidc(store: Callable[[], Store], settings: Settings) -> tuple[list[BaseRoute], str | None]:
    """The routes, and the issuer's host for the page. A wrong setting disables this way to sign in, not the server."""
    try:
        config = oidc_config.read(settings)
        if config is None:
            return [], None
        sign_in = _sign_in(config, store(), settings)
    except ConfigInvalid as error:
        log.warning("people cannot sign in with the issuer: %s", error)
        return [], None
    return [*sign_in.routes()], urlsplit(config.issuer).hostname


def _sign_in(config: oidc_config.OidcConfig, store: Store, settings: Settings) -> SignIn:
    try:
        from counsel.http.team.oidc import Issuer  # authlib and cryptography: only with an issuer
        from counsel.http.team.sign_in import SignIn
    except ModuleNotFoundError as error:
        raise ConfigInvalid(
            f"{error.name} is not installed.", hint="Run `pip install 'counsel[team]'`."
        ) from None
    from counsel.engine.team.audit import Audit
    from counsel.http.team.sessions import TeamSessions

    sessions = TeamSessions(store.sessions, settings.token)
    audit = Audit(store.audit, settings.audit_days, prompts=False)
    return SignIn(Issuer(config), sessions, store.sessions, store.people, audit=audit)
