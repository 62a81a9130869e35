"""Asks a panel every question, a few at a time, within a budget. Each question is its own job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from itertools import chain

from counsel.caller import Caller
from counsel.errors import BudgetExceeded, ContextLengthExceeded, CounselError
from counsel.evaluation.questions import Question
from counsel.evaluation.scoring import Ballot, Choice, Trial
from counsel.lazy_dataclass import dataclass
from counsel.requests import ConsensusRequest, Engine
from counsel.results import AnswerMetadata, ConsensusResult
from counsel.results.parts import labels

_FAILURES_IN_A_ROW = 3  # after these, more questions would fail, too


@dataclass(frozen=True, slots=True)
class Panel:
    models: tuple[str, ...]
    judge: str | None
    refine: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    question: Question
    error: CounselError


Report = Callable[[Trial | Failed], None]


class Evaluation:
    """`report` is called with the result of each question."""

    def __init__(
        self, engine: Engine, caller: Caller, panel: Panel, max_cost_usd: float | None, report: Report
    ) -> None:
        self._engine, self._caller, self._panel, self._report = engine, caller, panel, report
        self._remaining_usd = max_cost_usd
        self._running: dict[Question, float] = {}  # and what each may spend
        self._failures: list[CounselError] = []
        self._postponed: list[Question] = []
        self.stop_reason: CounselError | None = None  # why the remaining questions were not asked

    async def ask_all(self, questions: Collection[Question], at_once: int) -> None:
        waiting = iter(questions)
        await self._ask_some(waiting, min(at_once, len(questions)))
        if self._postponed and self.stop_reason is None:
            await self._ask_some(chain(self._postponed, waiting), 1)

    async def _ask_some(self, waiting: Iterator[Question], at_once: int) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(self._ask_next(waiting, at_once))
        except ExceptionGroup as errors:  # such as a finished question that cannot be stored
            raise errors.exceptions[0] from None

    async def _ask_next(self, waiting: Iterator[Question], at_once: int) -> None:
        for question in waiting:
            if self.stop_reason is not None:
                return
            try:
                result = await self._ask(question, at_once)
            except CounselError as error:
                if at_once > 1 and isinstance(error, BudgetExceeded) and error.budget == "job":
                    self._postponed.append(question)  # asked alone, it may spend all that is left
                    return
                self._record_failure(question, error)
            else:
                self._failures.clear()
                self._report(trial(question, result))

    async def _ask(self, question: Question, at_once: int) -> ConsensusResult:
        share = self._share(at_once)
        self._running[question] = share or 0.0
        try:
            return await self._submit_and_wait(question, share)
        finally:
            del self._running[question]

    def _share(self, at_once: int) -> float | None:
        """A question's share of the money that no running question may spend: together they stay within the limit."""
        if self._remaining_usd is None:
            return None
        return max(0.0, self._remaining_usd - sum(self._running.values())) / (at_once - len(self._running))

    async def _submit_and_wait(self, question: Question, share: float | None) -> ConsensusResult:
        request = ConsensusRequest(
            prompt=question.text,
            models=self._panel.models,
            choices=question.choices,
            refine="always" if self._panel.refine else "never",
            judge=self._panel.judge,
            max_cost_usd=share,
            check_models=True,
        )
        try:
            job = await self._engine.submit(request, self._caller)
        except ContextLengthExceeded:
            raise
        except CounselError as error:  # the panel cannot be asked: every question would fail
            self.stop_reason = self.stop_reason or error
            raise
        try:
            result = await self._engine.wait(job)
        except CounselError as error:
            self._spend(error.cost_usd)
            raise
        except BaseException:
            await self._engine.cancel(job)
            raise
        assert isinstance(result, ConsensusResult)
        self._spend(result.metadata.cost_usd)
        if refusal := _budget_error(result):
            raise refusal
        return result

    def _spend(self, cost_usd: float | None) -> None:
        if self._remaining_usd is not None:
            self._remaining_usd = max(0.0, self._remaining_usd - (cost_usd or 0.0))

    def _record_failure(self, question: Question, error: CounselError) -> None:
        self._failures.append(error)
        if isinstance(error, BudgetExceeded) or len(self._failures) >= _FAILURES_IN_A_ROW:
            self.stop_reason = self.stop_reason or error
        self._report(Failed(question, error))


def _budget_error(result: ConsensusResult) -> BudgetExceeded | None:
    """The error of a member that was not asked because of its cost: a result without it compares nothing."""
    errors = [failure.error for failure in result.failed]
    if result.verdict and result.verdict.error:
        errors.append(result.verdict.error)
    return next((error for error in errors if isinstance(error, BudgetExceeded)), None)


def trial(question: Question, result: ConsensusResult) -> Trial:
    """The trial of a question. A failed member has no choice, and no way of asking is charged for its failed calls."""
    first_answers = {answer.model: answer for answer in result.initial}
    refined_answers = {answer.model: answer for answer in result.refined if answer.metadata}
    ballots = tuple(
        Ballot(
            name,
            _choice(first_answers[name].choice, first_answers[name].metadata)
            if name in first_answers
            else Choice(None),
            _choice(refined_answers[name].choice, refined_answers[name].metadata)
            if name in refined_answers
            else None,
        )
        for name in labels(result.settings.models_requested)
    )
    verdict = result.verdict
    judge = _choice(verdict.choice, verdict.metadata) if verdict else None
    return Trial(question, ballots, judge)


def _choice(choice: str | None, metadata: AnswerMetadata | None) -> Choice:
    if metadata is None:
        return Choice(choice, None)
    return Choice(choice, metadata.cost_usd, (metadata.response_time_ms or 0) / 1000)
