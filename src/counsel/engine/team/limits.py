"""Which limits of a team apply to a call: those of its person, the person's groups, and the provider."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from counsel import budgets
from counsel.engine.history.documents import BudgetReport
from counsel.engine.store.limits import Kind, LimitRow
from counsel.engine.store.records import BudgetLimit, RateLimit, RateState
from counsel.errors import InvalidArgument, NotFound, RateLimited
from counsel.lazy_dataclass import dataclass
from counsel.models.catalog import Catalog
from counsel.people import Person
from counsel.settings.values import Period
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store
    from counsel.settings import Settings

FRESH_SECONDS = 1.0  # after this time a changed limit applies everywhere
RETRY_SECONDS = (
    5.0  # seconds after which a client may try again if it waits for the end of a call, which is unknown
)
MOST_CALLS = 1_000_000
_PERIODS: tuple[Period, ...] = ("day", "month")


@dataclass(frozen=True, slots=True)
class TeamBudget:
    """A budget of a day or a month."""

    row: LimitRow
    period: Period
    usd: float
    since: float
    until: float

    def stored(self, share: float = 1.0) -> BudgetLimit:
        return BudgetLimit(self.usd, self.since, share=share, **_subject(self.row))

    @property
    def name(self) -> str:
        return f"{self.period}:{self.row.kind}:{_display_name(self.row)}"

    @property
    def title(self) -> str:
        return f"the {self.period}'s budget of {_of(self.row)}"

    @property
    def remedy(self) -> str:
        return f"ask an admin to raise it (`counsel people limit {_arguments(self.row)} --{self.period} USD`)"


@dataclass(frozen=True, slots=True)
class TeamRate:
    """A limit of calls per minute, or at the same time."""

    row: LimitRow
    stored: RateLimit

    @property
    def name(self) -> str:
        return f"{self.stored.per}:{self.row.kind}:{_display_name(self.row)}"

    def error(self, state: RateState, now: float) -> RateLimited:
        if not self.stored.max_calls:  # waiting does not help, so clients must not retry automatically
            remedy = f"an admin can raise the limit (`counsel people limit {_arguments(self.row)}`)."
            return RateLimited(
                f"{_capital(_of(self.row))} may make no calls. Nothing was sent.",
                hint=_capital(remedy),
                limit=self.name,
                most=0,
                count=state.count,
            )
        limit = counted(self.stored.max_calls, "call")
        if self.stored.per == "minute":
            frees = now + 60 if state.frees is None else state.frees
            wait = max(1.0, frees - now)
            reason = f"{_of(self.row)} may make {limit} a minute, and {state.count} began in the last minute"
            advice = f"Try again in {wait:.0f} s"
        else:
            wait = RETRY_SECONDS
            reason = f"{_of(self.row)} may have {limit} running at the same time, and has {state.count} now"
            advice = "Try again when one of them has ended"
        moment = datetime.fromtimestamp(now + wait, UTC)
        return RateLimited(
            f"{_capital(reason)}. Nothing was sent.",
            hint=f"{advice}, or ask an admin to raise the limit (`counsel people limit {_arguments(self.row)}`).",
            retry_after=round(wait, 1),
            limit=self.name,
            most=self.stored.max_calls,
            count=state.count,
            until=moment.isoformat(timespec="seconds"),
        )


class TeamLimits:
    """The table of limits, read at most once per second."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._rows: list[LimitRow] = []
        self._read_at = float("-inf")

    def read_again(self) -> None:
        """Make the next call read the table."""
        self._read_at = float("-inf")

    async def rows(self) -> list[LimitRow]:
        now = time.monotonic()
        if now - self._read_at >= FRESH_SECONDS:
            self._rows, self._read_at = await self._store.limits.listed(), now
        return self._rows

    async def of_call(self, person: Person, provider: str | None) -> tuple[list[TeamBudget], list[TeamRate]]:
        """The limits of a person's call to a provider; None: those of all providers, and all of the person."""
        rows = [row for row in await self.rows() if applies(row, person, provider)]
        now = self._clock()
        return [limit for row in rows for limit in _budgets(row, now)], [
            rate for row in rows for rate in _rates(row)
        ]

    async def report(self, person: Person) -> list[BudgetReport]:
        """What is left of each budget that applies to a person; an admin sees all budgets."""
        rows = await self.rows()
        visible_rows = rows if person.is_admin else [row for row in rows if applies(row, person, None)]
        limits = [limit for row in visible_rows for limit in _budgets(row, self._clock())]
        states = await self._store.budget_states([limit.stored() for limit in limits])
        return [
            {
                "budget": limit.name,
                "period": limit.period,
                "provider": limit.row.name if limit.row.kind == "provider" else None,
                "person": _display_name(limit.row) if limit.row.kind == "person" else None,
                "group": limit.row.name if limit.row.kind == "group" else None,
                "limit_usd": limit.usd,
                "spent_usd": round(state.spent, 6),
                "reserved_usd": round(state.reserved, 6),
                "left_usd": round(max(0.0, limit.usd - state.spent - state.reserved), 6),
                "since": datetime.fromtimestamp(limit.since, UTC).isoformat(),
                "until": datetime.fromtimestamp(limit.until, UTC).isoformat(),
            }
            for limit, state in zip(limits, states, strict=True)
        ]


def applies(row: LimitRow, person: Person, provider: str | None) -> bool:
    if row.kind == "person":
        return row.name == person.id
    if row.kind == "group":
        return row.name in person.groups
    return provider is None or row.name == provider


async def new_row(
    store: Store,
    settings: Settings,
    *,
    kind: Kind,
    name: str,
    day: float | None,
    month: float | None,
    per_minute: int | None,
    at_once: int | None,
) -> LimitRow:
    """A new row for the table. Raises `NotFound` or `InvalidArgument` for an unknown subject or a bad number."""
    id_, display_name = await _subject_of(store, settings, kind, name)
    for amount in (day, month):
        if amount is not None and not (math.isfinite(amount) and amount >= 0):
            raise InvalidArgument("A budget must be a number of US dollars, 0 or more.")
    for count in (per_minute, at_once):
        if count is not None and not 0 <= count <= MOST_CALLS:
            raise InvalidArgument(f"A number of calls must be from 0 to {MOST_CALLS:,}.")
    return LimitRow(kind, id_, day, month, per_minute, at_once, display_name)


async def _subject_of(store: Store, settings: Settings, kind: Kind, name: str) -> tuple[str, str]:
    from counsel.engine.team.people import names
    from counsel.engine.team.people.directory import Directory

    if kind == "group":
        group = names.group(name)
        return group, group
    if kind == "provider":
        provider_names = [row.provider.name for row in Catalog.load(settings).providers()]
        if name.lower() not in provider_names:
            raise NotFound(
                f"There is no provider {name[:80]!r}.", hint="`counsel models` lists them with their models."
            )
        return name.lower(), name.lower()
    directory = Directory(store.people)
    for record in await directory.listed():
        if record.person.id == name:
            return record.person.id, record.person.name
    person = (await directory.find(name)).person
    return person.id, person.name


def _budgets(row: LimitRow, now: float) -> Iterator[TeamBudget]:
    for period in _PERIODS:
        usd = row.day if period == "day" else row.month
        if usd is not None:
            yield TeamBudget(row, period, usd, *budgets.bounds(period, now, UTC))


def _rates(row: LimitRow) -> Iterator[TeamRate]:
    if row.per_minute is not None:
        yield TeamRate(row, RateLimit("minute", row.per_minute, **_subject(row)))
    if row.at_once is not None:
        yield TeamRate(row, RateLimit("at_once", row.at_once, **_subject(row)))


def _subject(row: LimitRow) -> dict[str, str]:
    return {row.kind: row.name}


def _display_name(row: LimitRow) -> str:
    return row.shown or row.name


def _of(row: LimitRow) -> str:
    return _display_name(row) if row.kind == "person" else f"the {row.kind} {row.name}"


def _arguments(row: LimitRow) -> str:
    return shlex.quote(_display_name(row)) if row.kind == "person" else f"--{row.kind} {row.name}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
