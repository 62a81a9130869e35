"""Sessions of a team's console: in the database, so that any server accepts the cookie, and an end takes effect
everywhere.

The cookie holds 256 random bits, the database their hash. A session ends twelve hours after its last use, seven days
after it began, when the person signs out or is disabled, or when the token that it began with ends.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from counsel.engine.store.people import SignedIn
from counsel.engine.store.sessions import NewSession, SessionRecord, SessionStore
from counsel.errors import AuthenticationFailed
from counsel.http.console.sessions import IDLE_SECONDS, LONGEST_SECONDS, TOUCH_SECONDS
from counsel.lazy_dataclass import dataclass
from counsel.people import OPERATOR, Person

MOST = 20  # per person; the least recently used one is deleted for a new one
COOKIE = "counsel_team_session"
SESSION_PREFIX = "s_"  # of a session's id


@dataclass(frozen=True, slots=True)
class TeamSession:
    id: str
    person: Person
    expires_at: float
    origin: str = ""  # the id of the token with which it began, if any
    project = ""  # a team does not see the server's folders

    @property
    def signed_in(self) -> SignedIn:
        return SignedIn(self.person, self.id, self.expires_at)

    def is_over(self) -> bool:
        """Never: `TeamAccess` ends the session's requests instead."""
        return False


class TeamSessions:
    cookie = COOKIE

    def __init__(
        self, store: SessionStore, operator_token: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._operator = f"operator {hashed(operator_token)}" if operator_token else ""
        self._clock = clock

    async def find(self, value: str) -> TeamSession | None:
        now = self._clock()
        record = await self._store.find(hashed(value), now)
        person = self._person(record) if record else None
        if record is None or person is None:
            return None
        expires = min(record.began + LONGEST_SECONDS, now + IDLE_SECONDS)
        if now - record.used > TOUCH_SECONDS:
            self._store.touch(record.id, now, expires)
        return TeamSession(record.id, person, expires, record.origin)

    async def start(self, person: Person, origin: str) -> str:
        """Start the session of a person who has just signed in; return the cookie's value."""
        value, now = secrets.token_urlsafe(32), self._clock()
        await self._store.start(
            NewSession(
                id=f"{SESSION_PREFIX}{secrets.token_hex(8)}",
                sha=hashed(value),
                person=person.id,
                origin=self._operator if person.id == OPERATOR.id else origin,
                began=now,
                expires=now + IDLE_SECONDS,
            ),
            max_sessions=MOST,
        )
        return value

    async def end(self, session: TeamSession) -> None:
        await self._store.end(session.id)

    def _person(self, record: SessionRecord) -> Person | None:
        """The operator's sessions end with the token that they began with."""
        if record.person is not None:
            return record.person
        same = bool(self._operator) and hmac.compare_digest(record.origin, self._operator)
        return OPERATOR if same else None


def hashed(value: str) -> str:
    return hashlib.sha256(value.encode(errors="replace")).hexdigest()


def wrong_token() -> AuthenticationFailed:
    return AuthenticationFailed(
        "This token is not valid.", hint="An admin can make a new one: counsel people rotate NAME."
    )
