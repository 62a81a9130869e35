"""`/login/oidc` sends a browser to the issuer, `/login/callback` signs it in when it returns, at whichever server.

One random value in the browser's cookie is what the state, the nonce and PKCE's verifier are derived from; the database
only has a hash of the state, once. So an answer counts in the browser that asked, once, within ten minutes.
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
from counsel.http.team.admission import admitted
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
SECONDS = 600  # to sign in at the issuer
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
        browser = secrets.token_urlsafe(32)
        state = _derived(browser, "state")
        try:
            url = await self._issuer.authorization_url(
                state=state, nonce=_derived(browser, "nonce"), verifier=_derived(browser, "verifier")
            )
            now = self._clock()
            await self._store.begin_sign_in(hashed(state), now, now + SECONDS)
        except (SignInFailed, StoreError) as error:
            return self._failed(error)
        response = RedirectResponse(url, 303, headers=_PRIVATE)
        # Lax: the issuer's redirect is a navigation from another site, and must bring this cookie along
        self._set_cookie(response, COOKIE, browser, SECONDS, strict=False)
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
        browser = self._browser(request, query.get("state", ""))
        if not await self._store.take_sign_in(hashed(query["state"]), self._clock()):
            raise SignInFailed("expired", "this sign-in was used, or took too long")
        if "error" in query:
            word = query["error"]
            known = word if word.isascii() and word.isprintable() and len(word) < 60 else "no reason"
            raise SignInFailed("refused", f"the issuer refused ({known})")
        await self._issuer.check_answer(query.get("iss"))
        code = query.get("code", "")
        if not 0 < len(code) <= LONGEST_CODE:
            raise SignInFailed("invalid", "the issuer sent no code")
        identity = await self._issuer.identity(
            code, nonce=_derived(browser, "nonce"), verifier=_derived(browser, "verifier")
        )
        return await admitted(identity, self._issuer.config, self._store, self._people)

    def _browser(self, request: Request, state: str) -> str:
        """The cookie to which this state belongs: no other page can sign this browser in."""
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


def _derived(browser: str, purpose: str) -> str:
    return hmac.new(
        browser.encode(errors="replace"), f"counsel {purpose}".encode(), hashlib.sha256
    ).hexdigest()
