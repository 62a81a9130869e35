"""Stored people and their tokens, and what the engine asks the store about them. PostgreSQL only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from counsel.engine.store.protocol import Pending
from counsel.lazy_dataclass import dataclass
from counsel.people import Person, Role

CHANGED = "people"  # `Store.wait_for_change` wakes on it when any process changes a person or a token


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token without its secret, of which only a hash is stored."""

    id: str
    label: str
    created: float
    expires: float | None  # None: never
    used: float | None  # the last time, to the minute; None: never


@dataclass(frozen=True, slots=True)
class PersonRecord:
    person: Person
    created: float
    disabled: float | None  # since when
    tokens: tuple[TokenRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who sent a request, and with which token."""

    person: Person
    token: str  # the token's id
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class PersonUsage:
    """What one person's calls used in a period, without what they asked."""

    person: str  # an id; "": calls that belong to nobody in the team
    name: str  # "" for an id that belongs to no person
    calls: int
    failed: int
    input: int
    output: int
    cost: float
    unpriced: int  # calls whose cost is not known
    last: float


class PeopleStore(Protocol):
    """Names are compared without case, by their `folded` form."""

    async def listed(self) -> list[PersonRecord]:
        """All people by name, each with the tokens that have not expired."""

    async def usage(self, since: float) -> list[PersonUsage]:
        """The usage of everyone who made calls since then, the most expensive first."""

    async def named(self, folded_name: str) -> PersonRecord | None: ...

    async def signed_in(self, sha: str) -> SignedIn | None:
        """The person whose token has this hash, unless it has expired or the person is disabled."""

    async def still_valid(self, tokens: Collection[str]) -> set[str]:
        """The ids of tokens that are still valid."""

    def add(self, person: Person, folded_name: str, token: TokenRecord, sha: str) -> Pending[bool]:
        """False: the name is taken."""

    def change(
        self,
        person: str,
        *,
        role: Role | None = None,
        groups: Sequence[str] | None = None,
        keep_admin: bool = True,
    ) -> Pending[bool]:
        """False, without a change: the change would leave no admin."""

    def set_disabled(self, person: str, at: float | None, *, keep_admin: bool = True) -> Pending[bool]:
        """False, without a change: this is the last admin."""

    def add_token(
        self, person: str, token: TokenRecord, sha: str, *, others_end: float | None
    ) -> Pending[None]:
        """`others_end`: when the person's other tokens end, at the latest; None: they stay."""

    def end_token(self, token: str) -> Pending[bool]: ...

    def mark_used(self, token: str, at: float) -> Pending[None]: ...
