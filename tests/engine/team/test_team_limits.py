"""Which limits of a team apply to a call, and the errors when one is reached."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import settings
from counsel.engine.store.limits import LimitRow
from counsel.engine.store.people import PersonRecord
from counsel.engine.store.records import BudgetState, RateState
from counsel.engine.team import limits
from counsel.engine.team.limits import TeamLimits
from counsel.errors import InvalidArgument, NotFound
from counsel.people import Person

ADA = Person("p_ada", "Ada", "member", ("dev",))
BOSS = Person("p_boss", "Boss", "admin")
NOW = 1_000_000_000.0  # 2001-09-09T01:46:40Z
ROWS = [
    LimitRow("group", "dev", month=50.0, at_once=3),
    LimitRow("group", "ops", day=1.0),
    LimitRow("person", "p_ada", day=5.0, per_minute=2, shown="Ada"),
    LimitRow("person", "p_bob", day=6.0, shown="Bob"),
    LimitRow("provider", "openai", day=7.0),
]


class Store:
    def __init__(self, rows: list[LimitRow]) -> None:
        self.rows, self.reads = rows, 0
        self.limits = self
        self.people = SimpleNamespace(listed=self.everyone, named=self.named)

    async def listed(self) -> list[LimitRow]:
        self.reads += 1
        return self.rows

    async def budget_states(self, limits_: list[Any]) -> list[BudgetState]:
        return [BudgetState(spent=2.0, reserved=0.5) for _ in limits_]

    async def everyone(self) -> list[PersonRecord]:
        return [PersonRecord(ADA, 0.0, None)]

    async def named(self, folded_name: str) -> PersonRecord | None:
        return PersonRecord(ADA, 0.0, None) if folded_name == "ada" else None


def new_limits(*rows: LimitRow) -> tuple[TeamLimits, Any]:
    store: Any = Store(list(rows or ROWS))
    return TeamLimits(store, lambda: NOW), store


async def test_limits_of_the_person_their_groups_and_the_provider() -> None:
    table, _ = new_limits()
    budgets, rates = await table.of_call(ADA, "openai")
    assert [budget.name for budget in budgets] == ["month:group:dev", "day:person:Ada", "day:provider:openai"]
    assert [rate.name for rate in rates] == ["at_once:group:dev", "minute:person:Ada"]
    assert [budget.name for budget in (await table.of_call(ADA, "xai"))[0]] == [
        "month:group:dev", "day:person:Ada"
    ]  # fmt: skip
    assert len((await table.of_call(ADA, None))[0]) == 3
    month, day, _ = budgets
    assert (day.usd, day.since, day.until) == (5.0, 999_993_600.0, 1_000_080_000.0)
    assert (month.since, month.until) == (999_302_400.0, 1_001_894_400.0)
    assert (day.title, month.title) == ("the day's budget of Ada", "the month's budget of the group dev")
    assert "counsel people limit Ada --day USD" in day.remedy
    assert "counsel people limit --group dev --month USD" in month.remedy
    record = day.stored(0.5)
    assert (record.usd, record.since, record.share, record.person) == (5.0, day.since, 0.5, "p_ada")


async def test_the_table_is_read_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: now))
    table, store = new_limits()
    for at, reads in ((10.0, 1), (10.9, 1), (11.0, 2)):
        now = at
        await table.rows()
        assert store.reads == reads
    table.read_again()
    await table.rows()
    assert store.reads == 3


async def test_what_is_left_of_each_budget() -> None:
    table, _ = new_limits()
    rows = await table.report(ADA)
    assert [row["budget"] for row in rows] == ["month:group:dev", "day:person:Ada", "day:provider:openai"]
    group, person, provider = rows
    assert (person["person"], person["group"], person["provider"]) == ("Ada", None, None)
    assert (group["group"], group["person"], provider["provider"]) == ("dev", None, "openai")
    assert (person["limit_usd"], person["spent_usd"], person["reserved_usd"], person["left_usd"]) == (
        5,
        2,
        0.5,
        2.5,
    )
    assert person["since"] == "2001-09-09T00:00:00+00:00"
    assert person["until"] == "2001-09-10T00:00:00+00:00"
    assert len(await table.report(BOSS)) == 5, "an admin sees everyone's"
    (entry,) = await new_limits(LimitRow("person", "p_ada", day=1.0))[0].report(ADA)
    assert entry["left_usd"] == 0.0
    assert entry["person"] == "p_ada"


@pytest.mark.parametrize(("frees", "wait"), [(NOW + 12.34, 12.3), (NOW - 5, 1.0), (None, 60.0)])
async def test_too_many_calls_in_a_minute(frees: float | None, wait: float) -> None:
    _, rates = await new_limits()[0].of_call(ADA, "openai")
    error = rates[1].error(RateState(count=2, frees=frees), NOW)
    assert error.message == "Ada may make 2 calls a minute, and 2 began in the last minute. Nothing was sent."
    assert error.fields["retry_after"] == wait
    assert (error.fields["limit"], error.fields["most"], error.fields["count"]) == ("minute:person:Ada", 2, 2)
    assert f"again in {wait:.0f} s" in str(error.hint)
    assert error.fields["until"].startswith("2001-09-09T01:4")


async def test_a_person_who_may_make_no_calls_is_not_told_to_wait() -> None:
    row = LimitRow("person", "p_ada", per_minute=0, at_once=0, shown="Ada Lovelace")
    _, rates = await new_limits(row)[0].of_call(ADA, "openai")
    for rate in rates:
        error = rate.error(RateState(count=0, frees=None), NOW)
        assert error.message == "Ada Lovelace may make no calls. Nothing was sent."
        assert error.retry_after is None
        assert "people limit 'Ada Lovelace'" in str(error.hint)


async def test_too_many_calls_at_the_same_time() -> None:
    _, rates = await new_limits()[0].of_call(ADA, "openai")
    error = rates[0].error(RateState(count=3, frees=None), NOW)
    assert error.message.startswith("The group dev may have 3 calls running at the same time, and has 3 now.")
    assert error.fields["retry_after"] == 5.0
    assert "people limit --group dev" in str(error.hint)


async def checked_limit(kind: Any, name: str, **fields: Any) -> LimitRow:
    _, store = new_limits()
    amounts = {"day": None, "month": None, "per_minute": None, "at_once": None, **fields}
    return await limits.new_row(store, settings.load({"HOME": "/nowhere"}), kind=kind, name=name, **amounts)


async def test_a_limit_is_for_someone_who_exists() -> None:
    by_name = await checked_limit(
        "person", "ADA", day=0.0, month=3.0, per_minute=0, at_once=limits.MOST_CALLS
    )
    assert by_name == LimitRow("person", "p_ada", 0.0, 3.0, 0, limits.MOST_CALLS, "Ada")
    assert (await checked_limit("person", "p_ada")).name == "p_ada"
    assert (await checked_limit("group", " Dev ")).name == "dev"
    assert (await checked_limit("provider", "OpenAI")).name == "openai"
    with pytest.raises(NotFound, match="no provider 'nobody'"):
        await checked_limit("provider", "nobody")
    with pytest.raises(NotFound, match="no person"):
        await checked_limit("person", "bob")


@pytest.mark.parametrize(
    "wrong",
    [
        {"day": -0.01},
        {"month": math.inf},
        {"month": math.nan},
        {"per_minute": -1},
        {"at_once": limits.MOST_CALLS + 1},
    ],
)
async def test_invalid_amounts_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        await checked_limit("group", "dev", **wrong)
