"""A panel is asked every question: each is a job with its share of the budget, and failures end it."""

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


def answered(cost: float | None = 0.25, *failed: dict[str, Any]) -> ConsensusResult:
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


class Engine:
    def __init__(self, *outcomes: ConsensusResult | BaseException) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[Any] = []
        self.cancelled: list[str] = []

    async def submit(self, request: object, caller: object) -> str:
        self.requests.append(request)
        return f"job_{len(self.requests)}"

    async def wait(self, job: str) -> ConsensusResult:
        outcome = self.outcomes.pop(0) if self.outcomes else answered()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def cancel(self, job: str) -> None:
        self.cancelled.append(job)


async def evaluated(
    engine: Engine, *, most: float | None = None, at_once: int = 1, panel: Panel | None = None, count: int = 6
) -> tuple[Evaluation, list[Trial | Failed]]:
    done: list[Trial | Failed] = []
    some: Any = engine
    caller: Any = SimpleNamespace()
    panel = panel or Panel(("gpt-5", "gpt-5", "o3"), "opus")
    evaluation = Evaluation(some, caller, panel, most, done.append)
    await evaluation.ask_all(QUESTIONS[:count], at_once)
    return evaluation, done


async def test_each_question_is_a_job_of_its_own() -> None:
    engine = Engine()
    evaluation, done = await evaluated(engine, count=2, at_once=3)
    assert [each.question.id for each in done] == ["0", "1"]
    assert evaluation.stop_reason is None
    request = engine.requests[0]
    assert (request.prompt, request.models, request.choices) == (
        "question 0",
        ("gpt-5", "gpt-5", "o3"),
        ("a", "b"),
    )
    assert (request.refine, request.judge, request.max_cost_usd) == ("always", "opus", None)
    assert request.check_models, "a misspelt model is no member that is never right"
    await evaluated(engine, count=1, panel=Panel(("o3",), None, refine=False))
    assert (engine.requests[-1].refine, engine.requests[-1].judge) == ("never", None)


async def test_each_may_spend_its_share_of_what_is_left() -> None:
    broken = UpstreamError("It broke.", cost_usd=0.5)
    engine = Engine(answered(1.0), answered(None), broken, answered(100.0))
    await evaluated(engine, most=4.0, at_once=2, count=5)
    shares = [request.max_cost_usd for request in engine.requests]
    assert shares[0] == 2.0
    assert sorted(shares[1:], reverse=True) == shares[1:]
    assert shares[-1] <= 1.25


async def test_questions_at_once_cannot_spend_more_than_the_limit_together() -> None:
    class Held(Engine):
        async def wait(self, job: str) -> ConsensusResult:
            outcome = await waiting[int(job.removeprefix("job_")) - 1]
            return answered(outcome)

    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[float]] = [loop.create_future() for _ in range(4)]
    engine = Held()
    running = asyncio.create_task(evaluated(engine, most=1.0, at_once=2, count=4))
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
    class Dear(Engine):
        async def wait(self, job: str) -> ConsensusResult:
            if self.requests[int(job.removeprefix("job_")) - 1].max_cost_usd < 0.6:
                raise BudgetExceeded("It needs more.", budget="job")
            return answered(0.125)

    engine = Dear()
    evaluation, done = await evaluated(engine, most=1.0, at_once=4, count=6)
    assert [type(each) for each in done] == [Trial] * 4 + [Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded), "four have cost half of the limit"
    assert [request.max_cost_usd for request in engine.requests[4:]] == [1.0, 0.875, 0.75, 0.625, 0.5]


@pytest.mark.parametrize("phase", ["initial", "refined"])
async def test_an_answer_that_lacks_members_for_lack_of_money_is_no_measurement(phase: str) -> None:
    lost = {
        "model": "o3",
        "phase": phase,
        "error": "It needs more.",
        "code": "BUDGET_EXCEEDED",
        "budget": "job",
    }
    engine = Engine(answered(0.5, lost))
    evaluation, done = await evaluated(engine, most=1.0)
    assert [type(each) for each in done] == [Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded)
    crowded = Engine(answered(0.5, lost))
    evaluation, done = await evaluated(crowded, most=1.0, at_once=2, count=2)
    assert [type(each) for each in done] == [Trial, Trial]
    assert crowded.requests[-1].max_cost_usd == 0.25, "what it had cost before counts"


async def test_a_few_questions_share_the_whole_limit() -> None:
    engine = Engine()
    await evaluated(engine, most=1.0, at_once=4, count=1)
    assert engine.requests[0].max_cost_usd == 1.0


async def test_a_panel_that_cannot_be_asked_ends_it_at_once() -> None:
    class Refusing(Engine):
        async def submit(self, request: object, caller: object) -> str:
            self.requests.append(request)
            raise refusals.pop(0)

    refusals: list[CounselError] = [ContextLengthExceeded("It is too long."), ModelNotFound("There is none.")]
    evaluation, done = await evaluated(Refusing())
    assert isinstance(evaluation.stop_reason, ModelNotFound), (
        "a question that is too long says nothing of the others"
    )
    assert len(done) == 2


async def test_a_budget_that_is_used_up_ends_it() -> None:
    engine = Engine(answered(), BudgetExceeded("Nothing is left."))
    evaluation, done = await evaluated(engine)
    assert [type(each) for each in done] == [Trial, Failed]
    assert isinstance(evaluation.stop_reason, BudgetExceeded)
    assert len(engine.requests) == 2


async def test_three_failures_in_a_row_end_it_and_fewer_do_not() -> None:
    def broken() -> CounselError:
        return UpstreamError("It broke.")

    evaluation, done = await evaluated(Engine(broken(), broken(), answered(), broken(), broken(), answered()))
    assert evaluation.stop_reason is None
    assert len(done) == 6
    evaluation, done = await evaluated(Engine(broken(), broken(), last := broken()))
    assert evaluation.stop_reason is last
    assert len(done) == 3


async def test_a_finished_question_that_cannot_be_kept_is_the_error() -> None:
    def report(done: object) -> None:
        raise full

    full, engine, caller = FileNotAllowed("It cannot be written."), Engine(), SimpleNamespace()
    evaluation = Evaluation(engine, caller, Panel(("o3",), None), None, report)  # type: ignore[arg-type]
    with pytest.raises(FileNotAllowed) as caught:
        await evaluation.ask_all(QUESTIONS, 4)
    assert caught.value is full
    assert len(engine.requests) < len(QUESTIONS)


async def test_what_is_broken_off_is_cancelled() -> None:
    class Slow(Engine):
        async def wait(self, job: str) -> ConsensusResult:
            waits.set()
            await asyncio.Event().wait()
            raise AssertionError

    waits, engine = asyncio.Event(), Slow()
    running = asyncio.create_task(evaluated(engine))
    await waits.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert engine.cancelled == ["job_1"]
    failing = Engine(UpstreamError("It broke."))
    await evaluated(failing, count=1)
    assert failing.cancelled == []


def test_what_each_member_chose_cost_and_took() -> None:
    made = trial(QUESTIONS[0], answered())
    first, second, third = made.ballots
    assert (first.model, first.first, first.refined) == (
        "gpt-5",
        Choice("a", 0.125, 1.5),
        Choice("b", 0.125, 2.0),
    )
    assert (second.model, second.first, second.refined) == ("gpt-5#2", Choice(None, 0.125, 0.0), None)
    assert (third.model, third.first, third.refined) == ("o3", Choice(None), None)
    assert made.judge == Choice("a", 0.125, 0.5)
    plain = ConsensusResult.from_json({"phases": {"verdict": {"judge": "opus", "choice": "a"}}})
    assert trial(QUESTIONS[0], plain).judge == Choice("a", None)
    assert trial(QUESTIONS[0], ConsensusResult.from_json({})).judge is None
