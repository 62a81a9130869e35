"""A person of a team, and what the roles may do. One-person mode has no people: there `Caller.person` is None."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from counsel.lazy_dataclass import dataclass

Role: TypeAlias = Literal["admin", "member", "read-only"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Person:
    """`id` never changes and is what everything that a person owns is stored under; `name` is for people to read."""

    id: str
    name: str
    role: Role = "member"
    groups: tuple[str, ...] = ()

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    @property
    def may_ask(self) -> bool:
        return self.role != "read-only"


# Whoever has COUNSEL_TOKEN of the server's own environment.
OPERATOR = Person("operator", "operator", "admin")


def owners_seen_by(person: str) -> tuple[str, ...]:
    """Whose work a person sees: their own. The operator also sees what belongs to nobody ("").

    That is the work of the server before it had people, and of servers of an earlier release during an upgrade: they were
    asked with the same COUNSEL_TOKEN.
    """
    return (person, "") if person == OPERATOR.id else (person,)
