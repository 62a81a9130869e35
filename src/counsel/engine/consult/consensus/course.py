"""The course of a consensus: first answers, a verdict or a count of votes, and further rounds if requested."""

from __future__ import annotations

from typing import Literal, cast

from counsel.engine import results
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation
from counsel.engine.consult.consensus import anonymous, judge, members
from counsel.engine.consult.consensus.judge import Judge
from counsel.engine.consult.consensus.outcome import Course, model_failure
from counsel.engine.consult.consensus.rounds import Rounds
from counsel.engine.consult.routes import Router
from counsel.engine.context import conversation, unchanged_files
from counsel.engine.jobs.running import Outcome
from counsel.engine.store.protocol import Store
from counsel.requests import Refine
from counsel.results import Ended, Refinement

_ROUNDS = 2  # unless the caller says otherwise


async def run(consultation: Consultation, router: Router, store: Store, cache: AnswerCache) -> Outcome:
    job = consultation.job
    history = await conversation.load(store, job)
    job.task = unchanged_files.without_unchanged(job.task, history.messages)
    history = anonymous.history(history)
    rounds = Rounds(consultation, cache, store, history)
    course = Course(job, members.of_job(job, router))
    for member in course.participants:
        consultation.live.slots[member.slot].model = member.label
    await _run_round(course, rounds, course.participants)
    if not course.rounds[0]:
        raise results.all_failed([model_failure(failure) for failure in course.failures])
    judge_member = judge.participant(job, router)
    judge_ = Judge(judge_member, consultation, rounds, store, history) if judge_member else None
    refinement = await _refine(course, rounds, judge_)
    if judge_ and len(course.latest) == 1 < len(course.participants):
        course.skip_judge(judge_.participant)
    elif judge_ and course.judgement is None:
        based_on: Literal["initial", "refined"] = "refined" if len(course.rounds) > 1 else "initial"
        course.judgement = await judge_.compare(course.participants, course.latest, based_on)
    return course.outcome(refinement)


async def _run_round(course: Course, rounds: Rounds, participants: list[members.Participant]) -> None:
    replies, failures = await rounds.run(
        len(course.rounds) + 1, participants, course.latest if course.rounds else {}
    )
    course.rounds.append(replies)
    course.failures += failures


async def _refine(course: Course, rounds: Rounds, judge_: Judge | None) -> Refinement:
    task = course.job.task
    mode, limit = cast(Refine, task.refines), task.rounds or _ROUNDS
    if mode == "never" or len(course.rounds[0]) < 2:
        return Refinement(mode, 1, "never")
    if mode == "disagreement" and limit > 1 and (end := await _agreement(course, judge_)):
        return Refinement(mode, 1, end)
    while len(course.rounds) < limit:
        await _run_round(course, rounds, course.answered)
        if not course.rounds[-1]:  # no model could refine its answer
            course.rounds.pop()
            break
        if end := _end_reason(course, mode):
            return Refinement(mode, len(course.rounds), end)
    return Refinement(mode, len(course.rounds), "limit")


async def _agreement(course: Course, judge_: Judge | None) -> Ended | None:
    """Why the first answers need no second round: equal votes or, without choices, a judge that sees no
    contradictions."""
    if course.job.task.choices:
        return None if course.votes_differ() else "agreement"
    if judge_ is None:
        return None
    course.judgement = await judge_.compare(course.participants, course.latest, "initial")
    verdict = course.judgement.verdict
    if verdict.error:  # no known difference
        return "never"
    return None if verdict.contradictions else "agreement"


def _end_reason(course: Course, mode: Refine) -> Ended | None:
    if not course.may_have_changed():
        return "unchanged"
    if mode == "disagreement" and course.job.task.choices and not course.votes_differ():
        return "agreement"
    return None
