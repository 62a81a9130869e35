"""The layers around the application of `counsel serve`, while it loads and afterwards: request ids, then the guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counsel.http.auth import App, Guard
from counsel.http.console.sessions import ConsoleSessions
from counsel.http.proxies import Proxies
from counsel.http.request_ids import RequestIds
from counsel.settings import Settings

if TYPE_CHECKING:
    from counsel.http.team.access import TeamAccess


def guarded(
    app: App, settings: Settings, *, host: str, secret: str, team: TeamAccess | None = None
) -> RequestIds:
    """Wrap the application. `team`: accept people's tokens and sessions instead of this machine's."""
    guard = Guard(
        app,
        secret=secret,
        host=host,
        origins=settings.cors_origins,
        sessions=None if team else ConsoleSessions(settings.home, secret),
        proxies=Proxies.of(settings),
        team=team,
        metrics_token=settings.metrics_token,
    )
    return RequestIds(guard, logged=settings.log_format == "json")
