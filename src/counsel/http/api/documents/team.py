"""People, their tokens and the audit log as the API shows them."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from counsel.engine.store.audit import Action
from counsel.people import Role


class Token(TypedDict):
    """A token without its secret, which is shown only once."""

    id: str
    label: str
    created_at: Annotated[str, "ISO 8601, UTC."]
    expires_at: str | None
    used_at: Annotated[str | None, "When the token was last used, to the minute."]


class Person(TypedDict):
    id: str
    name: str
    role: Role
    groups: list[str]
    created_at: Annotated[str, "ISO 8601, UTC."]
    disabled_at: Annotated[str | None, "When the person was disabled; null: they can sign in."]
    tokens: list[Token]


class People(TypedDict):
    people: list[Person]


class AddPerson(TypedDict):
    name: str
    role: NotRequired[Role]
    groups: NotRequired[list[str]]
    days: NotRequired[Annotated[int, "Days until the token expires. Default: never."]]


class ChangePerson(TypedDict, total=False):
    role: Role
    groups: list[str]
    disabled: bool
    force: Annotated[bool, "Do it even if this is the last admin."]


class RotateToken(TypedDict, total=False):
    days: Annotated[int, "Days until the new token expires. Default: never."]
    overlap: Annotated[int, "Seconds for which the person's other tokens keep working. Default: 0."]


class AddToken(TypedDict, total=False):
    days: int
    label: Annotated[str, "What the token is for, such as a machine's name."]


class NewToken(TypedDict):
    """The only answer that contains a token."""

    id: Annotated[str, "The person's id."]
    name: str
    role: Role
    groups: list[str]
    token_id: str
    expires_at: str | None
    token: str


class PersonUsed(TypedDict):
    person: Annotated[str, "The person's id; empty: calls of nobody on the team."]
    name: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    cost_complete: Annotated[bool, "false: some prices are unknown."]
    last_at: Annotated[str, "ISO 8601, UTC."]


class TeamUsage(TypedDict):
    """Most expensive first."""

    people: list[PersonUsed]


class Audited(TypedDict):
    at: Annotated[str, "ISO 8601, UTC."]
    person: Annotated[str, "The person's id; empty: an unknown sender."]
    name: str
    token: Annotated[str, "The token's id."]
    address: str
    action: Action
    object: Annotated[str, "The job, conversation, person or path that the action was about."]
    detail: str


class AuditLog(TypedDict):
    """Newest first."""

    records: list[Audited]
