"""What a refusal for lack of budget says: which budget, what is left of it, and what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from counsel.engine.consult import budget
from counsel.engine.consult.budget import Limit
from counsel.engine.store.records import BudgetLimit, BudgetState, NotGranted
from counsel.errors import BudgetExceeded
from counsel.types import Model

MODEL = Model("gpt-5", "openai", "gpt-5")
MIDNIGHT = datetime(2026, 11, 19).astimezone().timestamp()
DAY = Limit(BudgetLimit(2.0, 0.0), "day", "the day's budget", "raise COUNSEL_BUDGET_DAY", MIDNIGHT)
JOB = Limit(BudgetLimit(0.5, 0.0, job="job_1"), "job", "max_cost_usd", "raise max_cost_usd")


def refusal(limit: Limit, spent: float, reserved: float) -> BudgetExceeded:
    return budget._exceeded(MODEL, limit, NotGranted(0, BudgetState(spent, reserved), 0.75))


def test_a_days_budget_that_is_used_up() -> None:
    error = refusal(DAY, 1.5, 0.25)
    assert error.message == (
        "The day's budget of $2.00 does not allow a call to gpt-5: $0.2500 is left ($1.50 spent, $0.2500 reserved for running "
        "calls), and the call needs $0.7500."
    )
    assert error.hint == (
        "Nothing was sent to it. Wait until 2026-11-19 00:00, raise COUNSEL_BUDGET_DAY, ask a cheaper model, or send less."
    )
    assert (error.budget, error.limit_usd, error.spent_usd, error.reserved_usd, error.needed_usd) == (
        "day", 2.0, 1.5, 0.25, 0.75
    )  # fmt: skip
    assert error.until is not None
    assert datetime.fromisoformat(error.until).timestamp() == MIDNIGHT
    assert (error.provider, error.model) == ("openai", "gpt-5")


def test_a_jobs_limit_has_no_end_and_its_own_name() -> None:
    error = refusal(JOB, 0.625, 0.0)
    assert error.message == (
        "max_cost_usd of $0.5000 does not allow a call to gpt-5: $0 is left ($0.6250 spent), and the call needs $0.7500."
    )
    assert error.hint == "Nothing was sent to it. Raise max_cost_usd, ask a cheaper model, or send less."
    assert error.until is None


@pytest.mark.parametrize(
    ("name", "table"), [("gpt-5", "models.gpt-5"), ("a_b", "models.a_b"), ("gpt-5.1", 'models."gpt-5.1"')]
)
def test_a_model_without_a_price_says_where_to_write_it(name: str, table: str) -> None:
    error = budget._no_price(replace(MODEL, id=name), DAY)
    assert error.message == f"{name} was not asked: its price is unknown, and the day's budget applies."
    assert f"to [{table}] or [providers.openai] in config.toml" in (error.hint or "")
    assert (error.budget, error.limit_usd) == ("day", 2.0)
