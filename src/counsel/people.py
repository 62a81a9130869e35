"""A person of a team, and what the roles may do. Without a team there are no people: `Caller.person` is None."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from counsel.errors import NotPermitted
from counsel.lazy_dataclass import dataclass

Role: TypeAlias = Literal["admin", "member", "read-only"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Person:
    """`id` never changes: everything that a person owns is stored under it. `name` is for display."""

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

    def refuse_if_read_only(self, action: str) -> None:
        """Raise `NotPermitted` if the person's role does not allow the action, such as `share conversations`."""
        if not self.may_ask:
            raise NotPermitted(
                f"{self.name} has read-only access and cannot {action}.",
                hint="An admin can change the role: `counsel people change NAME --role member`.",
            )


# Anyone who has the COUNSEL_TOKEN of the server's own environment.
OPERATOR = Person("operator", "operator", "admin")


def owners_seen_by(person: str) -> tuple[str, ...]:
    """The owners whose work a person sees: themselves; the operator also sees work that belongs to nobody ("").

    That is work from the time before the server had people, and from servers of an earlier release during an upgrade;
    both were asked with the same COUNSEL_TOKEN.
    """
    return (person, "") if person == OPERATOR.id else (person,)
