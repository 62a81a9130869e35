"""Daily and monthly budgets begin at midnight in the machine's time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from counsel import budgets, settings

BERLIN, SANTIAGO, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("America/Santiago"), ZoneInfo("Asia/Kolkata")


def moment_in(zone: tzinfo, *moment: int) -> float:
    return datetime(*moment, tzinfo=zone).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize("zone", [UTC, BERLIN, KOLKATA])
def test_a_day_begins_at_midnight(zone: tzinfo) -> None:
    first, second, third = (moment_in(zone, 2026, 11, day) for day in (15, 16, 17))
    assert budgets.bounds("day", second - 0.001, zone) == (first, second)
    assert budgets.bounds("day", second, zone) == (second, third)


def test_a_month_ends_with_its_last_day() -> None:
    for year, month, following in ((2026, 2, (2026, 3)), (2028, 2, (2028, 3)), (2026, 12, (2027, 1))):
        since, until = moment_in(BERLIN, year, month, 1), moment_in(BERLIN, *following, 1)
        assert budgets.bounds("month", since, BERLIN) == (since, until)
        assert budgets.bounds("month", until - 0.001, BERLIN) == (since, until)
        assert budgets.bounds("month", until, BERLIN)[0] == until


def test_days_with_a_change_of_the_clock_have_23_and_25_hours() -> None:
    lengths = []
    for day in ((2026, 3, 29), (2026, 10, 25)):
        since, until = budgets.bounds("day", moment_in(BERLIN, *day, 12), BERLIN)
        lengths.append(timedelta(seconds=until - since) / timedelta(hours=1))
    assert lengths == [23, 25]


def test_a_midnight_that_the_clocks_skip_is_the_moment_at_which_they_do() -> None:
    """In Chile 00:00 becomes 01:00."""
    since, until = budgets.bounds("day", moment_in(SANTIAGO, 2026, 9, 6, 12), SANTIAGO)
    assert datetime.fromtimestamp(since, UTC) == datetime(2026, 9, 6, 4, tzinfo=UTC)
    assert until - since == 23 * 3600
    assert budgets.bounds("day", since - 1, SANTIAGO)[1] == since, "no second belongs to two days, or to none"


def load(home: Path, **env: str) -> settings.Settings:
    return settings.load({"COUNSEL_HOME": str(home), **env})


def test_budgets_come_from_the_environment_and_config_toml(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        'budget_month = 50\n[budgets.openai]\nday = 5\nmonth = "$20"\n[budgets.my-proxy]\nday = 1\n'
    )
    settings = load(tmp_path, COUNSEL_BUDGET_DAY="2.50", COUNSEL_BUDGET_DAY_MY_PROXY="3")
    assert settings.problems == ()
    rows = {(row.name, row.usd) for row in budgets.current(settings, 0.0)}
    assert rows == {
        ("day", 2.5),
        ("month", 50.0),
        ("day:openai", 5.0),
        ("month:openai", 20.0),
        ("day:my-proxy", 3.0),
    }
    of_google = {row.name for row in budgets.current(settings, 0.0, provider="google")}
    assert of_google == {"day", "month"}
    assert {row.name for row in budgets.current(settings, 0.0, provider="my-proxy")} == {
        "day",
        "month",
        "day:my-proxy",
    }
    assert not budgets.apply(load(tmp_path / "other"))


@pytest.mark.parametrize("text", ["five", "-1", "nan", "inf", "1e999", "5 EUR"])
def test_an_amount_that_cannot_be_read_is_nothing_and_says_so(tmp_path: Path, text: str) -> None:
    settings = load(tmp_path, COUNSEL_BUDGET_DAY=text, COUNSEL_BUDGET_MONTH_XAI=text)
    assert [row.usd for row in budgets.current(settings, 0.0)] == [0.0, 0.0]
    assert sum("nothing is spent" in problem for problem in settings.problems) == 2
