"""A panel is asked every question: each is a job with its share of the budget, and failures end the evaluation."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.errors import (
    BudgetExceeded,
    ContextLengthExceeded,
    CounselError,
    FileNotAllowed,
    ModelNotFound,
    UpstreamError,
)
from counsel.evaluation.questions import Question
from counsel.evaluation.run import Evaluation, Failed, Panel, trial
from counsel.evaluation.scoring import Choice, Trial
from counsel.results import ConsensusResult

QUESTIONS = [Question(str(number), f"question {number}", ("a", "b"), "a") for number in range(6)]


def result_of(cost: float | None = 0.25, *failed: dict[str, Any]) -> ConsensusResult:
    def about(ms: int | None) -> dict[str, Any]:
        return {"usage": {"input_tokens": 1}, "cost_usd": 0.125, "response_time_ms": ms}

    first = [
        {"model": "gpt-5", "response": "a", "choice": "a", "metadata": about(1500)},
        {"model": "gpt-5#2", "response": "b", "metadata": about(None)},
    ]
    refined = [
        {"model": "gpt-5", "refined_response": "b", "choice": "b", "metadata": about(2000)},
        {"model": "gpt-5#2", "refined_response": None, "error": {"code": "TIMEOUT", "error": "x"}},
    ]
    return ConsensusResult.from_json(
        {
            "phases": {"initial": first, "refined": refined, "failed": failed, "verdict": {"judge": "opus", "choice": "a", "metadata": about(500)}},
            "settings": {"models_requested": ["gpt-5", "gpt-5", "o3"]},
            "metadata": {"usage": {}, "cost_usd": cost, "cost_complete": True},
        }
    )  # fmt: skip


class FakeEngine:
    def __init__(self, *outcomes: ConsensusResult | BaseException) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[Any] = []
        self.cancelled: list[str] = []

    async def submit(self, request: object, caller: object) -> str:
        self.requests.append(request)
        return f"job_{len(self.requests)}"

    async def wait(self, job: str) -> ConsensusResult:
        outcome = self.outcomes.pop(0) if self.outcomes else result_of()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def cancel(self, job: str) -> None:
        self.cancelled.append(job)


async def evaluate(
    engine: FakeEngine,
    *,
    max_cost: float | None = None,
    at_once: int = 1,
    panel: Panel | None = None,
    count: int = 6,
) -> tuple[Evaluation, list[Trial | Failed]]:
    result: list[Trial | Failed] = []
    fake_engine: Any = engine
    caller: Any = SimpleNamespace()
    panel = panel or Panel(("gpt-5", "gpt-5", "o3"), "opus")
    evaluation = Evaluation(fake_engine, caller, panel, max_cost, result.append)
    await evaluation.ask_all(QUESTIONS[:count], at_once)
    return evaluation, result


async def test_each_question_is_a_job_of_its_own() -> None:
    engine = FakeEngine()
    evaluation, result = await evaluate(engine, count=2, at_once=3)
    assert [outcome.question.id for outcome in result] == ["0", "1"]
    assert evaluation.stop_reason is None
    request = engine.requests[0]
    assert (request.prompt, request.models, request.choices) == (
        "question 0",
        ("gpt-5", "gpt-5", "o3"),
        ("a", "b"),
    )
    assert (request.refine, request.judge, request.max_cost_usd) == ("always", "opus", None)
    assert request.check_models, "a misspelt model is no member that is never right"
    await evaluate(engine, count=1, panel=Panel(("o3",), None, refine=False))
    assert (engine.requests[-1].refine, engine.requests[-1].judge) == ("never", None)


async def test_each_may_spend_its_share_of_what_is_left() -> None:
    upstream_error = UpstreamError("It broke.", cost_usd=0.5)
    engine = FakeEngine(result_of(1.0), result_of(None), upstream_error, result_of(100.0))
    await evaluate(engine, max_cost=4.0, at_once=2, count=5)
    shares = [request.max_cost_usd for request in engine.requests]
    assert shares[0] == 2.0
    assert sorted(shares[1:], reverse=True) == shares[1:]
    assert shares[-1] <= 1.25


async def test_questions_at_once_cannot_spend_more_than_the_limit_together() -> None:
    class Held(FakeEngine):
        async def wait(self, job: str) -> ConsensusResult:
            outcome = await waiting[int(job.removeprefix("job_")) - 1]
            return result_of(outcome)

    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[float]] = [loop.create_future() for _ in range(4)]
    engine = Held()
    running = asyncio.create_task(evaluate(engine, max_cost=1.0, at_once=2, count=4))
    while len(engine.requests) < 2:
        await asyncio.sleep(0)
    assert [request.max_cost_usd for request in engine.requests] == [0.5, 0.5]
    waiting[0].set_result(0.25)
    while len(engine.requests) < 3:
        await asyncio.sleep(0)
    assert engine.requests[2].max_cost_usd == 0.25, "the other question may still spend its half"
    for future in waiting[1:]:
        future.set_result(0.0)
    await running


async def test_a_question_that_needs_more_than_its_share_is_asked_alone() -> None:
    class Dear(FakeEngine):
        async def wait(self, job: str) -> ConsensusResult:
            if self.requests[int(job.removeprefix("job_")) - 1].max_cost_usd < 0.6:
                raise BudgetExceeded("It needs more.", budget="job")
            return result_of(0.125)

    engine = Dear()
    evaluation, result = await evaluate(engine, max_cost=1.0, at_once=4, count=6)
    assert [type(outcome) for outcome in result] == [Trial] * 4 + [Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded), "four have cost half of the limit"
    assert [request.max_cost_usd for request in engine.requests[4:]] == [1.0, 0.875, 0.75, 0.625, 0.5]


@pytest.mark.parametrize("phase", ["initial", "refined"])
async def test_an_answer_that_lacks_members_for_lack_of_money_is_no_measurement(phase: str) -> None:
    failure = {
        "model": "o3",
        "phase": phase,
        "error": "It needs more.",
        "code": "BUDGET_EXCEEDED",
        "budget": "job",
    }
    engine = FakeEngine(result_of(0.5, failure))
    evaluation, result = await evaluate(engine, max_cost=1.0)
    assert [type(outcome) for outcome in result] == [Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded)
    second_engine = FakeEngine(result_of(0.5, failure))
    evaluation, result = await evaluate(second_engine, max_cost=1.0, at_once=2, count=2)
    assert [type(outcome) for outcome in result] == [Trial, Trial]
    assert second_engine.requests[-1].max_cost_usd == 0.25, "earlier costs count"


async def test_a_question_without_a_verdict_for_lack_of_money_is_no_measurement() -> None:
    failure = {"judge": "opus", "error": "It needs more.", "code": "BUDGET_EXCEEDED", "budget": "job"}
    answers = {"initial": [{"model": "gpt-5", "response": "a", "choice": "a"}], "verdict": failure}
    engine = FakeEngine(ConsensusResult.from_json({"phases": answers}))
    evaluation, result = await evaluate(engine, max_cost=1.0)
    assert [type(outcome) for outcome in result] == [Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded)


async def test_a_few_questions_share_the_whole_limit() -> None:
    engine = FakeEngine()
    await evaluate(engine, max_cost=1.0, at_once=4, count=1)
    assert engine.requests[0].max_cost_usd == 1.0


async def test_a_panel_that_cannot_be_asked_ends_it_at_once() -> None:
    class Refusing(FakeEngine):
        async def submit(self, request: object, caller: object) -> str:
            self.requests.append(request)
            raise refusals.pop(0)

    refusals: list[CounselError] = [ContextLengthExceeded("It is too long."), ModelNotFound("There is none.")]
    evaluation, result = await evaluate(Refusing())
    assert isinstance(evaluation.stop_reason, ModelNotFound), (
        "a question that is too long says nothing about the others"
    )
    assert len(result) == 2


async def test_a_budget_that_is_used_up_ends_it() -> None:
    engine = FakeEngine(result_of(), BudgetExceeded("Nothing is left."))
    evaluation, result = await evaluate(engine)
    assert [type(outcome) for outcome in result] == [Trial, Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded)
    assert len(engine.requests) == 2


async def test_three_failures_in_a_row_end_it_and_fewer_do_not() -> None:
    def upstream_error() -> CounselError:
        return UpstreamError("It broke.")

    evaluation, result = await evaluate(
        FakeEngine(
            upstream_error(), upstream_error(), result_of(), upstream_error(), upstream_error(), result_of()
        )
    )
    assert evaluation.stop_reason is None
    assert len(result) == 6
    evaluation, result = await evaluate(
        FakeEngine(upstream_error(), upstream_error(), last := upstream_error())
    )
    assert evaluation.stop_reason is last
    assert len(result) == 3


async def test_a_finished_question_that_cannot_be_kept_is_the_error() -> None:
    def report(result: object) -> None:
        raise full

    full, engine, caller = FileNotAllowed("It cannot be written."), FakeEngine(), SimpleNamespace()
    evaluation = Evaluation(engine, caller, Panel(("o3",), None), None, report)  # type: ignore[arg-type]
    with pytest.raises(FileNotAllowed) as error:
        await evaluation.ask_all(QUESTIONS, 4)
    assert error.value is full
    assert len(engine.requests) < len(QUESTIONS)


async def test_what_is_broken_off_is_cancelled() -> None:
    class Slow(FakeEngine):
        async def wait(self, job: str) -> ConsensusResult:
            waits.set()
            await asyncio.Event().wait()
            raise AssertionError

    waits, engine = asyncio.Event(), Slow()
    running = asyncio.create_task(evaluate(engine))
    await waits.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert engine.cancelled == ["job_1"]
    failing = FakeEngine(UpstreamError("It broke."))
    await evaluate(failing, count=1)
    assert failing.cancelled == []


def test_what_each_member_chose_cost_and_took() -> None:
    result = trial(QUESTIONS[0], result_of())
    first, second, third = result.ballots
    assert (first.model, first.first, first.refined) == (
        "gpt-5",
        Choice("a", 0.125, 1.5),
        Choice("b", 0.125, 2.0),
    )
    assert (second.model, second.first, second.refined) == ("gpt-5#2", Choice(None, 0.125, 0.0), None)
    assert (third.model, third.first, third.refined) == ("o3", Choice(None), None)
    assert result.judge == Choice("a", 0.125, 0.5)
    plain = ConsensusResult.from_json({"phases": {"verdict": {"judge": "opus", "choice": "a"}}})
    assert trial(QUESTIONS[0], plain).judge == Choice("a", None)
    assert trial(QUESTIONS[0], ConsensusResult.from_json({})).judge is None
