"""`/login/oidc` sends a browser to the issuer, `/login/callback` signs it in when it returns, at whichever server.

The state, the nonce and PKCE's verifier are derived from one random value in the browser's cookie. The database has
only a hash of the state, and deletes it when it is used. So an answer is accepted only from the browser that asked,
once, within ten minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from counsel.engine.store.records import StoreError
from counsel.engine.team.audit import Audit, Sender
from counsel.http.auth import cookie_name, cookies
from counsel.http.console.sessions import LONGEST_SECONDS
from counsel.http.person import address_of
from counsel.http.team.admission import admit
from counsel.http.team.oidc import Issuer, SignInFailed
from counsel.http.team.oidc_config import CALLBACK
from counsel.http.team.sessions import hashed

if TYPE_CHECKING:
    from counsel.engine.store.people import PeopleStore
    from counsel.engine.store.sessions import SessionStore
    from counsel.http.team.sessions import TeamSessions
    from counsel.people import Person

log = logging.getLogger("counsel.signin")
BEGIN = "/login/oidc"
SECONDS = 600  # for signing in at the issuer
COOKIE = "counsel_sign_in"
LONGEST_CODE = 4_096
_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer"}


class SignIn:
    def __init__(
        self,
        issuer: Issuer,
        sessions: TeamSessions,
        store: SessionStore,
        people: PeopleStore,
        *,
        audit: Audit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuer, self._sessions, self._store, self._people = issuer, sessions, store, people
        self._audit = audit
        self._clock = clock
        self._secure = issuer.config.is_secure

    def routes(self) -> list[Route]:
        return [Route(BEGIN, self.begin), Route(CALLBACK, self.callback)]

    async def begin(self, _: Request) -> Response:
        seed = secrets.token_urlsafe(32)
        state = _derived(seed, "state")
        try:
            url = await self._issuer.authorization_url(
                state=state, nonce=_derived(seed, "nonce"), verifier=_derived(seed, "verifier")
            )
            now = self._clock()
            await self._store.begin_sign_in(hashed(state), now, now + SECONDS)
        except (SignInFailed, StoreError) as error:
            return self._failed(error)
        response = RedirectResponse(url, 303, headers=_PRIVATE)
        # Lax: the issuer's redirect is a navigation from another site, and must carry this cookie
        self._set_cookie(response, COOKIE, seed, SECONDS, strict=False)
        return response

    async def callback(self, request: Request) -> Response:
        try:
            person, change = await self._person(request)
            value = await self._sessions.start(person, "oidc")
        except (SignInFailed, StoreError) as error:
            self._audit.note(
                Sender(None, "", address_of(request.scope)), "refused", "", f"issuer: {_problem(error)}"
            )
            return self._failed(error)
        log.info("%s has signed in with the issuer", person.id)
        sender = Sender(person, "", address_of(request.scope))
        if change:
            self._audit.note(sender, "people changed", person.name, change)
        self._audit.note(sender, "signed in", "", "issuer")
        response = RedirectResponse("/", 303, headers=_PRIVATE)
        self._set_cookie(response, self._sessions.cookie, value, LONGEST_SECONDS, strict=True)
        self._set_cookie(response, COOKIE, "", 0, strict=False)
        return response

    async def _person(self, request: Request) -> tuple[Person, str]:
        query = request.query_params
        seed = self._seed(request, query.get("state", ""))
        if not await self._store.take_sign_in(hashed(query["state"]), self._clock()):
            raise SignInFailed("expired", "this sign-in was already used, or took too long")
        if "error" in query:
            code_of_error = query["error"]
            reason = (
                code_of_error
                if code_of_error.isascii() and code_of_error.isprintable() and len(code_of_error) < 60
                else "no reason"
            )
            raise SignInFailed("refused", f"the issuer refused ({reason})")
        await self._issuer.check_answer(query.get("iss"))
        code = query.get("code", "")
        if not 0 < len(code) <= LONGEST_CODE:
            raise SignInFailed("invalid", "the issuer sent no code")
        identity = await self._issuer.identity(
            code, nonce=_derived(seed, "nonce"), verifier=_derived(seed, "verifier")
        )
        return await admit(identity, self._issuer.config, self._store, self._people)

    def _seed(self, request: Request, state: str) -> str:
        """The cookie's value that this state was derived from: no other page can sign this browser in."""
        for value in cookies(request.scope["headers"], COOKIE, secure=self._secure)[:8]:
            if hmac.compare_digest(_derived(value, "state").encode(), state.encode(errors="replace")):
                return value
        raise SignInFailed("expired", "the answer does not belong to this browser")

    def _failed(self, error: SignInFailed | StoreError) -> Response:
        problem = _problem(error)
        log.warning("a sign-in failed (%s): %s", problem, error)
        response = RedirectResponse(f"/login?problem={problem}", 303, headers=_PRIVATE)
        self._set_cookie(response, COOKIE, "", 0, strict=False)
        return response

    def _set_cookie(self, response: Response, name: str, value: str, seconds: int, *, strict: bool) -> None:
        response.set_cookie(
            cookie_name(name, secure=self._secure),
            value,
            max_age=seconds,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict" if strict else "lax",
        )


def _problem(error: SignInFailed | StoreError) -> str:
    return error.problem if isinstance(error, SignInFailed) else "provider"


def _derived(seed: str, purpose: str) -> str:
    return hmac.new(seed.encode(errors="replace"), f"counsel {purpose}".encode(), hashlib.sha256).hexdigest()
