"""Budgets are enforced: what a call can cost is reserved before it is sent, and settled afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from counsel import Counsel
from counsel.caller import Caller
from counsel.engine.consult import budget
from counsel.engine.consult.budget import JobBudget
from counsel.engine.engine import Engine, open_engine
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.ownership import Ownership
from counsel.engine.store.model import Task
from counsel.engine.store.records import BudgetLimit, ReservationRequest
from counsel.errors import BudgetExceeded, Cancelled, CounselError
from counsel.models.catalog import Catalog
from counsel.requests import ChatRequest, ConsensusRequest
from counsel.types import Call, Turn
from fake import FakeAPI
from support.asking import ask, until_text
from support.database import change

# 1,000 output tokens cost a cent; input is free. One call can cost a cent at most.
CONFIG = """
[models.penny]
provider = "openai"
output = 1000
input_price = 0
output_price = 10
efforts = { style = "none", minimal = "", low = "", medium = "", high = "", max = "" }
[models.other]
provider = "anthropic"
output = 1000
input_price = 0
output_price = 10
efforts = { style = "none", minimal = "", low = "", medium = "", high = "", max = "" }
[providers.ollama]
base_url = "http://127.0.0.1:11434/v1"
"""
CENT = 0.01


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "config.toml").write_text(CONFIG)


async def state(engine: Engine, **fields: Any) -> tuple[float, float]:
    await engine.store.flush()
    (state,) = await engine.store.budget_states([BudgetLimit(1.0, 0.0, **fields)])
    return round(state.spent, 6), round(state.reserved, 6)


def usage_script(tokens: int, **fields: Any) -> dict[str, Any]:
    return {"usage": {"input": 10, "output": tokens}, "times": None, **fields}


async def test_a_call_beyond_the_days_budget_is_refused_with_the_numbers_before_anything_is_sent(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(**usage_script(600))
    caller_ = caller(COUNSEL_BUDGET_DAY="0.012")
    await ask(engine, caller_, model="penny")
    with pytest.raises(BudgetExceeded) as excinfo:
        await ask(engine, caller_, model="penny")
    error = excinfo.value
    assert (error.budget, error.limit_usd, error.spent_usd, error.reserved_usd, error.needed_usd) == (
        "day",
        0.012,
        0.006,
        0.0,
        CENT,
    )
    assert error.until
    assert "COUNSEL_BUDGET_DAY" in (error.hint or "")
    assert len(fake_api.calls) == 1
    assert await state(engine) == (0.006, 0.0)


async def test_the_reservation_is_the_limit_sent_to_the_vendor(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await ask(engine, caller(), model="gpt-5")
    await ask(engine, caller(COUNSEL_BUDGET_DAY="100"), model="gpt-5")
    await ask(engine, caller(), model="gpt-5", max_cost_usd=0.2)
    for model in ("sonnet", "gemini-2.5-flash", "grok-4"):
        await ask(engine, caller(), model=model, max_cost_usd=0.2)
    free, day, job, anthropic, google, xai = (request.body for request in fake_api.calls)
    assert "max_output_tokens" not in free
    assert day["max_output_tokens"] == 64_000
    assert 15_000 < job["max_output_tokens"] < 20_000, "what 20 cents allow at 10 dollars per million"
    assert 10_000 < anthropic["max_tokens"] < 13_400
    assert 10_000 < google["generationConfig"]["maxOutputTokens"] <= 65_536
    assert 10_000 < xai["max_tokens"] < 13_400
    assert await state(engine) == ((await state(engine))[0], 0.0)


async def test_an_answer_that_ends_at_its_reservation_says_so(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(finish="length", times=None)
    result = await ask(engine, caller(), model="gpt-5", max_cost_usd=0.2)
    assert any("by max_cost_usd" in notice["text"] for notice in result["metadata"]["notices"])
    result = await ask(engine, caller(), model="penny", max_cost_usd=0.2)
    assert not result["metadata"].get("notices")


async def test_a_jobs_limit_covers_its_retries_and_corrections(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """The first answer does not match the schema, and the budget does not cover a second one."""
    fake_api.script(**usage_script(900, text="no JSON"))
    schema = {"type": "object", "required": ["a"]}
    with pytest.raises(BudgetExceeded) as excinfo:
        await ask(engine, caller(), model="penny", schema=schema, max_cost_usd=0.015)
    assert (excinfo.value.budget, excinfo.value.spent_usd) == ("job", 0.009)
    assert len(fake_api.calls) == 1


async def test_an_attempt_that_cost_nothing_does_not_use_up_a_limit(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=500, times=1)
    await ask(engine, caller(), model="penny", max_cost_usd=CENT)
    assert len(fake_api.calls) == 2


async def test_a_broken_stream_and_a_cancelled_call_are_counted(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    caller_ = caller(COUNSEL_BUDGET_DAY="1", COUNSEL_MAX_ATTEMPTS="1")
    fake_api.script(text="x" * 4_000, deltas=4, cut_after=3, times=1)
    with pytest.raises(CounselError):
        await ask(engine, caller_, model="penny")
    broken, reserved = await state(engine)
    assert (broken > 0.005, reserved) == (True, 0.0)
    fake_api.script(text="x" * 4_000, deltas=4, hang_after=3, times=1)
    job = await engine.submit(ChatRequest(prompt="hello", model="penny"), caller_)
    await until_text(engine, job)
    assert (await state(engine)) == (broken, CENT)
    await engine.cancel(job)
    with pytest.raises(Cancelled):
        await engine.wait(job)
    both, reserved = await state(engine)
    assert (both > broken, reserved) == (True, 0.0)


async def test_a_call_without_reported_usage_is_counted_by_an_estimate(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="x" * 2_000, usage={"input": 0, "output": 0}, times=None)
    await ask(engine, caller(COUNSEL_BUDGET_DAY="1"), model="penny")
    assert await state(engine) == (0.005, 0.0)


async def test_providers_have_budgets_of_their_own(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, home: Path
) -> None:
    (home / "config.toml").write_text(CONFIG + "[budgets.openai]\nday = 0.005\n")
    with pytest.raises(BudgetExceeded) as excinfo:
        await ask(engine, caller(), model="penny")
    assert (excinfo.value.budget, excinfo.value.provider) == ("day:openai", "openai")
    await ask(engine, caller(), model="other")
    await ask(engine, caller(COUNSEL_BUDGET_DAY_OPENAI="1"), model="penny")
    with pytest.raises(BudgetExceeded) as excinfo:
        await ask(engine, caller(COUNSEL_BUDGET_MONTH_ANTHROPIC="0"), model="other")
    assert excinfo.value.budget == "month:anthropic"
    assert len(fake_api.calls) == 2


async def test_an_amount_that_cannot_be_read_allows_nothing(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    for env in ({"COUNSEL_BUDGET_DAY": "five"}, {"COUNSEL_BUDGET_DAY_OPENAI": "-1"}):
        caller_ = caller(**env)
        assert "nothing is spent" in caller_.settings.problems[0]
        with pytest.raises(BudgetExceeded):
            await ask(engine, caller_, model="penny")
    assert not fake_api.calls


async def test_a_model_without_a_price_is_refused_where_a_budget_applies(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await ask(engine, caller(), model="openai/unheard-of")
    with pytest.raises(BudgetExceeded) as excinfo:
        await ask(engine, caller(COUNSEL_BUDGET_DAY="5"), model="openai/unheard-of")
    assert "input_price and output_price" in (excinfo.value.hint or "")
    assert len(fake_api.calls) == 1


async def test_models_on_this_machine_cost_nothing(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, home: Path
) -> None:
    (home / "config.toml").write_text(f'[providers.ollama]\nbase_url = "{fake_api.v1}"\n')
    result = await ask(engine, caller(COUNSEL_BUDGET_DAY="0"), model="ollama/qwen3")
    assert result["metadata"]["cost_usd"] == 0


async def test_auto_continues_with_a_provider_that_the_budget_covers(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    env = {"COUNSEL_AUTO_ORDER": "penny,other", "COUNSEL_BUDGET_DAY_OPENAI": "0"}
    result = await ask(engine, caller(**env), model="auto")
    assert result["metadata"]["model"] == "other"
    assert result["metadata"]["passed_over"][0]["code"] == "BUDGET_EXCEEDED"


async def test_simultaneous_calls_together_stay_within_the_budget(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(**usage_script(1_000, gate="all", gate_after=0))
    caller_ = caller(COUNSEL_BUDGET_MONTH="0.05")
    asking = [asyncio.create_task(ask(engine, caller_, model="penny")) for _ in range(12)]
    await fake_api.wait_for(count=5)
    while sum(task.done() for task in asking) < 7:
        await asyncio.sleep(0.01)
    fake_api.open_gate("all")
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert sum(isinstance(outcome, BudgetExceeded) for outcome in outcomes) == 7
    assert len(fake_api.calls) == 5
    assert await state(engine) == (0.05, 0.0)


async def test_the_member_of_a_council_that_the_budget_does_not_cover_fails_by_name(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """This is decided for all members before the first is asked: in any order of arrival, the third is refused."""
    members = ("penny", "other", "penny")
    request = ConsensusRequest(prompt="hello", models=members, enable_cross_feedback=False, max_cost_usd=0.02)
    result = (await engine.wait(await engine.submit(request, caller()))).to_json()
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["code"]) == ("penny#2", "BUDGET_EXCEEDED")
    assert sorted(request.model for request in fake_api.calls) == ["other", "penny"]


async def test_members_of_a_council_get_equal_shares_of_its_limit(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    request = ConsensusRequest(
        prompt="hello", models=("gpt-5", "gpt-5", "gpt-5"), enable_cross_feedback=False, max_cost_usd=0.3
    )
    result = (await engine.wait(await engine.submit(request, caller()))).to_json()
    assert result["status"] == "consensus_complete"
    limits = {request.body["max_output_tokens"] for request in fake_api.calls}
    assert len(limits) == 1
    assert 9_000 < limits.pop() <= 10_000


async def test_a_limit_covers_every_round_of_a_council(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(**usage_script(1_000))
    request = ConsensusRequest(prompt="hello", models=("penny", "other"), max_cost_usd=0.03)
    result = (await engine.wait(await engine.submit(request, caller()))).to_json()
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["phase"], failure["code"]) == ("other", "refined", "BUDGET_EXCEEDED")
    assert len(fake_api.calls) == 3
    assert await state(engine) == (0.03, 0.0)


async def test_a_resumed_job_counts_a_finished_call_once(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """The second member hangs and the engine stops; another engine asks only that member again, within one limit."""
    fake_api.script(hang_after=1, times=1, model="other")
    fake_api.script(**usage_script(1_000))
    first = await open_engine(home)
    request = ConsensusRequest(
        prompt="hello", models=("penny", "other"), enable_cross_feedback=False, max_cost_usd=0.025
    )
    job = await first.submit(request, caller(), background=True)
    await fake_api.wait_for(deltas=1, model="other")
    while not await first.store.has_replies(job):
        await asyncio.sleep(0.01)
    await first.close()
    second = await open_engine(home)
    second.register_caller(caller())
    result = (await second.wait(job)).to_json()
    assert result["status"] == "consensus_complete"
    assert [request.model for request in fake_api.calls].count("penny") == 1
    spent, reserved = await state(second, job=job)
    assert (0.02 <= spent <= 0.025, reserved) == (True, 0.0)
    await second.close()


async def test_without_a_budget_nothing_is_reserved(
    engine: Engine, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a budget was looked at")

    for name in ("reserve", "settle", "drop_reservations", "open_reservations", "budget_states"):
        monkeypatch.setattr(type(engine.store), name, forbidden)
    await ask(engine, caller(), model="penny")


async def dead_owner(engine: Engine) -> str:
    """An owner that `engine` knows to be dead."""
    if engine.store.team is None:
        dead = Ownership(engine.home / "run" / "owners")
        dead.release()
        return dead.name
    await change(engine, "INSERT INTO owners (name, seen) VALUES ('dead', now() - interval '1 hour')")
    await may_judge(engine)
    return "dead"


async def may_judge(engine: Engine) -> None:
    """In its first seconds, a team's server considers no process dead."""
    async with asyncio.timeout(60):
        while not engine.runner.ownership.may_judge():
            await asyncio.sleep(0.05)


async def test_money_that_another_call_has_just_freed_is_granted(
    engine: Engine, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls are refused because of a dead process; the other one frees its reservations first."""
    await engine.store.reserve([a_request("gone")], 0.0)
    drop = engine.store.drop_reservations

    async def freed_meanwhile() -> list[Any]:
        await drop(ids=["gone"])
        return []

    monkeypatch.setattr(engine.store, "open_reservations", freed_meanwhile)
    result = await ask(engine, caller(COUNSEL_BUDGET_DAY="0.25"), model="penny")
    assert result["content"]


def a_request(owner: str) -> ReservationRequest:
    return ReservationRequest(
        id=owner,
        owner=owner,
        job="job",
        provider="openai",
        model="penny",
        input_usd=0.25,
        usd_per_token=0.0,
        min_output=1,
        fair_output=1,
        max_output=1,
        limits=(BudgetLimit(1.0, 0.0),),
    )


async def test_reservations_of_dead_processes_are_freed_before_a_call_is_refused(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await engine.store.reserve([a_request(await dead_owner(engine))], 0.0)
    caller_ = caller(COUNSEL_BUDGET_DAY="0.255")
    assert (await ask(engine, caller_, model="penny"))["content"]
    await engine.store.reserve([a_request(engine.runner.ownership.name)], 0.0)
    with pytest.raises(BudgetExceeded):
        await ask(engine, caller_, model="penny", prompt="again")


async def test_a_report_leaves_out_reservations_of_dead_processes(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    caller_ = caller(COUNSEL_BUDGET_DAY="1")
    dead = await dead_owner(engine)
    requests = [a_request(owner) for owner in (dead, engine.runner.ownership.name)]
    await engine.store.reserve(requests, 0.0)
    (day,) = await engine.budget_report(caller_.settings)
    assert (day["limit_usd"], day["spent_usd"], day["reserved_usd"], day["left_usd"]) == (1, 0, 0.25, 0.75)
    async with Counsel(env={"COUNSEL_HOME": str(engine.home), "COUNSEL_BUDGET_DAY": "1"}) as python:
        async with asyncio.timeout(60):  # in its first seconds, a team's server considers no process dead
            while await python.budgets() != [day]:
                await asyncio.sleep(0.1)


async def test_a_new_day_has_its_whole_budget(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(**usage_script(1_000))
    caller_ = caller(COUNSEL_BUDGET_DAY="0.01")
    await ask(engine, caller_, model="penny")
    with pytest.raises(BudgetExceeded) as excinfo:
        await ask(engine, caller_, model="penny")
    begins = datetime.fromisoformat(excinfo.value.until or "").timestamp()
    engine.budgets.clock = lambda: begins - 0.5
    with pytest.raises(BudgetExceeded):
        await ask(engine, caller_, model="penny")
    engine.budgets.clock = lambda: begins
    await ask(engine, caller_, model="penny")
    assert len(fake_api.calls) == 2


async def test_titles_and_summaries_are_paid_from_the_budget_too(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    env = {"ENABLE_RESPONSE_SUMMARIZATION": "true", "SUMMARIZATION_MODEL": "other"}
    result = await ask(engine, caller(**env, COUNSEL_BUDGET_DAY_ANTHROPIC="0"), model="penny")
    assert result["content"] == "penny says: hello"
    assert [request.model for request in fake_api.calls] == ["penny"]
    fake_api.script(status=500, model="other", times=None)
    await ask(engine, caller(**env, COUNSEL_BUDGET_DAY="1", COUNSEL_MAX_ATTEMPTS="1"), model="penny")
    while (await state(engine))[1]:
        await asyncio.sleep(0.01)


async def test_a_member_that_never_reserves_does_not_hold_up_the_others(
    engine: Engine, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ROUND_SECONDS", 0.0)
    job = Job(
        "job", "conversation", Task(tool="consensus", prompt="", text="", models=()), caller(), False, 0.0
    )
    job.task = replace(job.task, max_cost_usd=1.0)
    of_job = JobBudget(engine.budgets, job)
    late = asyncio.create_task(asyncio.Event().wait())
    of_job.plan({"0": late, "1": late})
    model = Catalog.load(job.caller.settings).lookup("penny")
    reservation = await of_job.call("0").reserve(Call((Turn("user", "hello"),)), model)
    assert reservation is not None
    assert reservation.output_limit == 1_000
    late.cancel()


class BudgetsStub:
    """Grants everything, and records what was decided together."""

    def __init__(self) -> None:
        self.decided: list[list[str]] = []
        self.dropped: list[str] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.store = self

    async def reserve(self, requests: Any) -> list[Any]:
        self.decided.append([request.id for request in requests])
        await self.gate.wait()
        if self.error:
            raise self.error
        return [f"granted {request.id}" for request in requests]

    def drop_reservations(self, *, ids: list[str]) -> None:
        self.dropped += ids


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_round_decides_once_in_the_order_of_its_models_and_leaves_no_timer() -> None:
    stub: Any = BudgetsStub()
    round_ = budget.Round(stub, {"0", "1", "2", "10"})
    waiting = {slot: asyncio.create_task(round_.reserve(slot, a_request(slot))) for slot in ("10", "2", "1")}
    await steps()
    assert stub.decided == [], "one is missing"
    timer = round_._timer
    assert timer is not None
    assert not timer.cancelled()
    round_.leave("0")
    await steps()
    assert stub.decided == [["1", "2", "10"]]
    assert timer.cancelled()
    round_.leave("0")
    waiting["2"].cancel()
    await steps()
    stub.gate.set()
    outcomes: list[Any] = [await waiting["1"], await waiting["10"]]
    assert outcomes == ["granted 1", "granted 10"]
    assert stub.dropped == ["2"], "its model was cancelled meanwhile"
    again: Any = await round_.reserve("1", a_request("later"))
    assert again == "granted later", "a second call is decided about alone"
    assert stub.decided[1:] == [["later"]]


async def test_every_model_of_a_round_learns_that_nothing_could_be_reserved() -> None:
    stub: Any = BudgetsStub()
    stub.error = ValueError("the database is away")
    stub.gate.set()
    round_ = budget.Round(stub, {"0", "1", "2"})
    waiting = [asyncio.create_task(round_.reserve(slot, a_request(slot))) for slot in ("0", "1")]
    await steps()
    waiting[0].cancel()
    round_.leave("2")
    with pytest.raises(ValueError, match="the database is away"):
        await waiting[1]


@pytest.mark.parametrize(
    ("name", "quoted"), [("gpt-5", "gpt-5"), ("a_b", "a_b"), ("o3.1", '"o3.1"'), ("ollama/x", '"ollama/x"')]
)
def test_a_models_name_in_the_configuration(name: str, quoted: str) -> None:
    assert budget._quoted(name) == quoted
