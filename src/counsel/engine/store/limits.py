"""Stored limits of people, groups and providers. PostgreSQL only."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from counsel.engine.store.protocol import Pending
from counsel.lazy_dataclass import dataclass

Kind: TypeAlias = Literal["person", "group", "provider"]


@dataclass(frozen=True, slots=True)
class LimitRow:
    """None: no limit of that kind. Money is in US dollars, for calendar days and months in UTC."""

    kind: Kind
    name: str  # a person's id, a group's or a provider's name
    day: float | None = None
    month: float | None = None
    per_minute: int | None = None
    at_once: int | None = None
    shown: str = ""  # the name to display: a person's name, else `name`

    @property
    def is_empty(self) -> bool:
        return (self.day, self.month, self.per_minute, self.at_once) == (None, None, None, None)


class LimitStore(Protocol):
    async def listed(self) -> list[LimitRow]:
        """All limits, by kind and name."""

    def set(self, row: LimitRow) -> Pending[None]:
        """Replace the limit; an empty one removes it."""
