"""Stored sessions of a team's console, and sign-ins with an issuer. PostgreSQL only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from counsel.engine.store.protocol import Pending
from counsel.lazy_dataclass import dataclass
from counsel.people import Person


@dataclass(frozen=True, slots=True)
class NewSession:
    id: str
    sha: str  # of the secret in the browser's cookie
    person: str  # an id, or the operator's
    origin: str  # what it depends on: a token's id, a hash of the operator's token, or the issuer
    began: float
    expires: float


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session of someone who is not disabled. `person` is None for the operator, who has no row among the people."""

    id: str
    person: Person | None
    origin: str
    began: float
    used: float
    expires: float


@dataclass(frozen=True, slots=True)
class Subject:
    """An identity that an issuer verified, and the person that it belongs to."""

    issuer: str
    subject: str
    folded: str  # the verified e-mail address as a person's name; "": none
    new: Person | None  # added if no person has that name; None: nobody is added


class SessionStore(Protocol):
    """Ending a session wakes all servers (`people.CHANGED`)."""

    async def find(self, sha: str, now: float) -> SessionRecord | None:
        """The session, unless it has expired, its person is disabled, or the token that it came from was ended."""

    async def still_valid(self, sessions: Collection[str], now: float) -> set[str]:
        """The ids whose sessions have not ended."""

    def start(self, session: NewSession, *, max_sessions: int) -> Pending[None]:
        """Store it, delete expired ones, and of a person's sessions beyond `max_sessions` the least recently used."""

    def touch(self, session: str, used: float, expires: float) -> Pending[None]: ...

    def end(self, session: str) -> Pending[bool]: ...

    def begin_sign_in(self, state: str, now: float, expires: float) -> Pending[None]:
        """Store that a browser was sent to the issuer: the answer may arrive at another server."""

    def take_sign_in(self, state: str, now: float) -> Pending[bool]:
        """True only the first time, and before it expires."""

    def identify(self, subject: Subject, now: float) -> Pending[Person | None]:
        """The person who has signed in; None: nobody here has this identity, or the person is disabled."""
