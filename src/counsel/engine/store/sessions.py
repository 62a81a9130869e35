"""Sessions of a team's console, and sign-ins with an issuer, as they are stored. PostgreSQL only."""

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
    person: str  # the id, or that of the operator
    origin: str  # what it depends on: a token's id, a hash of the operator's token, or the issuer
    began: float
    expires: float


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Of a person who is not disabled. `person` is None for the operator, who is not in the table of people."""

    id: str
    person: Person | None
    origin: str
    began: float
    used: float
    expires: float


@dataclass(frozen=True, slots=True)
class Subject:
    """Someone whom an issuer knows, and who they are here."""

    issuer: str
    subject: str
    folded: str  # the verified e-mail address as a person's name; "": none
    new: Person | None  # is added if no person is known by that name; None: nobody is added


class SessionStore(Protocol):
    """Every end of a session wakes all servers (`people.CHANGED`)."""

    async def find(self, sha: str, now: float) -> SessionRecord | None:
        """The session, unless it is over, its person disabled, or the token that it came from was ended."""

    async def still_valid(self, sessions: Collection[str], now: float) -> set[str]:
        """Those of the ids that are not over."""

    def start(self, session: NewSession, *, most: int) -> Pending[None]:
        """And delete what is over; a person's oldest makes room beyond `most`."""

    def touch(self, session: str, used: float, expires: float) -> Pending[None]: ...

    def end(self, session: str) -> Pending[bool]: ...

    def begin_sign_in(self, state: str, now: float, expires: float) -> Pending[None]:
        """A browser is sent to the issuer; the answer may arrive at another server."""

    def take_sign_in(self, state: str, now: float) -> Pending[bool]:
        """True once, and before it expires."""

    def identify(self, subject: Subject, now: float) -> Pending[Person | None]:
        """The person who has signed in; None: nobody may, or the person is disabled."""
