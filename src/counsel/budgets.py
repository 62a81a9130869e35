"""Budgets from the settings: which limits apply to a call, and the period of each.

Periods are calendar days and months in this machine's time zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from counsel.settings import Settings
from counsel.settings.values import Period, env_name


class PeriodBudget(NamedTuple):
    """A daily or monthly budget in its current period."""

    period: Period
    provider: str  # "": all
    usd: float
    since: float
    until: float
    source: str

    @property
    def name(self) -> str:
        return f"{self.period}:{self.provider}" if self.provider else self.period

    @property
    def title(self) -> str:
        """The budget's name in sentences."""
        return f"the {self.period}'s budget" + (f" for {self.provider}" if self.provider else "")

    @property
    def setting(self) -> str:
        """The variable that a person changes to raise it."""
        variable = f"COUNSEL_BUDGET_{self.period.upper()}"
        return f"{variable}_{env_name(self.provider)}" if self.provider else variable


def apply(settings: Settings) -> bool:
    """Whether there is any daily or monthly budget."""
    return bool(settings.budget_day or settings.budget_month or settings.provider_budgets)


def current(
    settings: Settings, now: float, *, provider: str | None = None, zone: tzinfo | None = None
) -> list[PeriodBudget]:
    """All budgets, or those that apply to calls to one provider. `zone`: None for this machine's time zone."""
    return [
        budget
        for budget in _all(settings, now, zone)
        if provider is None or not budget.provider or env_name(budget.provider) == env_name(provider)
    ]


def _all(settings: Settings, now: float, zone: tzinfo | None) -> Iterator[PeriodBudget]:
    both: tuple[tuple[Period, str], ...] = (("day", settings.budget_day), ("month", settings.budget_month))
    for period, text in both:
        if text:
            source = settings.source(f"budget_{period}")
            yield PeriodBudget(period, "", float(text), *bounds(period, now, zone), source)
    for row in settings.provider_budgets:
        yield PeriodBudget(row.period, row.provider, row.usd, *bounds(row.period, now, zone), row.source)


def bounds(period: Period, now: float, zone: tzinfo | None = None) -> tuple[float, float]:
    """The beginning of this day or month, and of the next one."""
    today = datetime.fromtimestamp(now, zone).date()
    if period == "day":
        return _midnight(today, zone), _midnight(today + timedelta(days=1), zone)
    first = today.replace(day=1)
    return _midnight(first, zone), _midnight((first + timedelta(days=32)).replace(day=1), zone)


def _midnight(day: date, zone: tzinfo | None) -> float:
    """The midnight at which a day begins: where the clocks skip it, that moment; where it occurs twice, the first."""
    return datetime.combine(day, time(), zone).timestamp()
