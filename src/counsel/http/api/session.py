"""`/api/session`: the console signs in with a one-time link or the token, and gets a cookie."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response

from counsel import __version__
from counsel.agents.definitions import workspace_of
from counsel.argument_schema import Checker
from counsel.errors import AuthenticationFailed, InvalidArgument, NotFound
from counsel.http.api.endpoint import FRESH, ApiCall, failed_with
from counsel.http.auth import SESSIONS, cookie_name
from counsel.http.console.sessions import LONGEST_KEY, LONGEST_SECONDS
from counsel.http.person import address_of

if TYPE_CHECKING:
    from counsel.http.console.sessions import ConsoleSession, ConsoleSessions
    from counsel.http.team.access import TeamAccess
    from counsel.http.team.sessions import TeamSession

_CHECKER = Checker(
    "session",
    {
        "type": "object",
        "properties": {"key": {"type": "string", "minLength": 1}},
        "required": ["key"],
        "additionalProperties": False,
    },
)


async def sign_in(call: ApiCall) -> object:
    key = str(_CHECKER.check(call.body)["key"]).strip()
    if len(key) > LONGEST_KEY:
        raise InvalidArgument(f"A key has at most {LONGEST_KEY:,} characters.")
    try:
        team = _team(call)
        value = await (
            team.sign_in(key, address_of(call.request.scope))
            if team
            else asyncio.to_thread(_sessions(call).sign_in, key)
        )
    except AuthenticationFailed as error:
        return failed_with(error, 401)
    return _cookie_response(call, value, LONGEST_SECONDS)


async def show(call: ApiCall) -> object:
    session: ConsoleSession | TeamSession | None = call.request.scope[SESSIONS]["session"]
    if call.person is not None:  # a team does not see the server's paths
        return {
            "expires_at": session.expires_at if session else None,
            "version": __version__,
            "project": "",
            "home": "",
            "user_home": "",
            "host": call.request.headers.get("host", ""),
            "person": {
                "id": call.person.id,
                "name": call.person.name,
                "role": call.person.role,
                "groups": list(call.person.groups),
            },
        }
    project = (session.project if session else "") or str(call.caller().cwd)
    return {
        "expires_at": session.expires_at if session else None,
        "version": __version__,
        "project": project,
        "home": str(call.settings.home),
        "user_home": str(workspace_of(call.settings.env, Path(project)).home),
        "host": call.request.headers.get("host", ""),
        "person": None,
    }


async def sign_out(call: ApiCall) -> object:
    session = call.request.scope[SESSIONS]["session"]
    team = _team(call)
    if session is not None and team:
        await team.sign_out(session)
    elif session is not None:
        await asyncio.to_thread(_sessions(call).end, session)
    return _cookie_response(call, "", 0)


def _team(call: ApiCall) -> TeamAccess | None:
    team: TeamAccess | None = call.request.scope[SESSIONS]["team"]
    return team


def _sessions(call: ApiCall) -> ConsoleSessions:
    sessions: ConsoleSessions | None = call.request.scope[SESSIONS]["sessions"]
    if sessions is None:
        raise NotFound("This server has no console.")
    return sessions


def _cookie_response(call: ApiCall, value: str, seconds: int) -> Response:
    """Status 204, with the cookie.

    It is `Secure` if the browser or a trusted proxy says that it uses TLS: anybody could send other headers.
    """
    origin = call.request.headers.get("origin", "")
    secure = call.request.url.scheme == "https" or origin.lower().startswith("https://")
    response = Response(status_code=204, headers=FRESH)
    response.set_cookie(
        cookie_name((_team(call) or _sessions(call)).cookie, secure=secure),
        value,
        max_age=seconds,
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
    return response
