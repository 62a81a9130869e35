"""The stored audit log: who did what, when. PostgreSQL only."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from counsel.engine.store.protocol import Pending
from counsel.lazy_dataclass import dataclass

Action: TypeAlias = Literal[
    "asked", "cancelled", "deleted", "shared", "unshared", "people changed", "signed in", "refused"
]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    at: float
    person: str  # an id; "": unknown
    name: str  # the person's at that time
    token: str  # its id
    address: str
    action: Action
    object: str  # a job, a conversation, a person, a path
    detail: str


class AuditStore(Protocol):
    def add(self, record: AuditRecord, expires: float) -> Pending[None]:
        """Nobody waits for it, so it shares the commit of the next write."""

    async def read(self, since: float, person: str | None, limit: int) -> list[AuditRecord]:
        """Newest first. `person`: a name in its folded form, or an id."""
