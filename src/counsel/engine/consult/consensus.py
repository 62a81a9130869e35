"""`consensus`: asks several models at once; each then reads the others' answers and refines its own.

A model that fails or is slow does not hold up the others: the result names it and the reason.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace

from counsel import size_limits
from counsel.engine import results
from counsel.engine.consult import chat, prompts
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.routes import Route, Router
from counsel.engine.context import conversation, tokens, unchanged_files
from counsel.engine.context.conversation import History
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.running import Outcome
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.errors import Cancelled, CounselError, Internal, InvalidArgument, TimedOut, UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.results import (
    AnswerDetails,
    AnswerSummary,
    ConsensusResult,
    ConsensusSettings,
    Continuation,
    InitialAnswer,
    ModelFailure,
    Phase,
    RefinedAnswer,
    Verdict,
)
from counsel.types import Call, Turn

log = logging.getLogger("counsel.consensus")
GRACE = 120.0  # seconds for the last model after all others are done


@dataclass(frozen=True, slots=True)
class Participant:
    """One model of the round; `label` distinguishes two of the same model."""

    slot: str
    label: str
    route: Route | None
    refused: CounselError | None = None
    role: str = ""
    stance: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    participant: Participant
    phase: Phase
    error: CounselError


Ask = Callable[[Participant], Awaitable[Reply]]


def labels(models: tuple[str, ...]) -> list[str]:
    """`gpt-5`, `gpt-5#2` …"""
    seen: Counter[str] = Counter()
    named = []
    for model in models:
        seen[model] += 1
        named.append(model if seen[model] == 1 else f"{model}#{seen[model]}")
    return named


def slot_of(models: tuple[str, ...], member: str) -> str:
    """The slot of a member: `1`, or its name (`gpt-5`, `gpt-5#2`)."""
    names = labels(models)
    slots = [str(number) for number in range(len(models))]
    if member in names:
        return str(names.index(member))
    if member in slots:
        return member
    known = ", ".join(f"{slot} ({name})" for slot, name in zip(slots, names, strict=True))
    raise InvalidArgument(f"The job has no model {member[:80]!r}.", hint=f"Its models: {known}.")


async def run(consultation: Consultation, router: Router, store: Store, cache: AnswerCache) -> Outcome:
    job = consultation.job
    history = await conversation.load(store, job)
    job.task = unchanged_files.without_known(job.task, history.messages)
    round_ = Round(consultation, cache, store, history)
    participants = [
        _participant(slot, label, model, router, job) for slot, (label, model) in enumerate(_named(job))
    ]
    for participant in participants:
        consultation.live.slots[participant.slot].model = participant.label
    consultation.live.phase("initial")
    initial, failures = await round_.ask_all(participants, "initial", round_.first)
    if not initial:
        raise _all_failed(failures)
    refined: Mapping[str, Reply] = {}
    if job.task.cross_feedback and len(initial) > 1:
        consultation.live.phase("refined")
        answered = [participant for participant in participants if participant.slot in initial]
        refined, lost = await round_.ask_all(
            answered, "refined", lambda participant: round_.second(participant, answered, initial)
        )
        failures = [*failures, *lost]
    return _outcome(job, participants, initial, refined, failures)


def _named(job: Job) -> list[tuple[str, str]]:
    return list(zip(labels(job.task.models), job.task.models, strict=True))


def _participant(slot: int, label: str, model: str, router: Router, job: Job) -> Participant:
    role = job.task.roles[slot] if job.task.roles else ""
    stance = job.task.stances[slot] if job.task.stances else ""
    try:
        return Participant(str(slot), label, router.route(model, job.caller), None, role, stance)
    except CounselError as error:
        return Participant(str(slot), label, None, error)


class Round:
    def __init__(
        self, consultation: Consultation, cache: AnswerCache, store: Store, history: History
    ) -> None:
        self._consultation = consultation
        self._cache = cache
        self._store = store
        self._history = history
        self._done = 0
        self._members = consultation.job.members
        self._limit = float(consultation.job.caller.settings.model_limit_seconds)

    async def ask_all(
        self, participants: list[Participant], phase: Phase, ask: Ask
    ) -> tuple[dict[str, Reply], list[Failure]]:
        """Ask all at once; the round closes when all are done, or the last have had their grace."""
        self._done = 0
        self._consultation.progress(0)
        tasks = {
            asyncio.create_task(self._counted(participant, phase, ask)): participant
            for participant in participants
        }
        self._members.tasks = {participant.slot: task for task, participant in tasks.items()}
        self._consultation.plan_round(self._members.tasks)
        try:
            await self._close(set(tasks))
        finally:
            self._members.tasks = {}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        replies: dict[str, Reply] = {}
        failures: list[Failure] = []
        for task, participant in tasks.items():
            if task.cancelled():
                failures.append(Failure(participant, phase, self._charged(participant, _too_slow)))
            elif isinstance(outcome := task.result(), CounselError):
                failures.append(Failure(participant, phase, outcome))
            else:
                replies[participant.slot] = outcome
        return replies, failures

    async def _close(self, pending: set[asyncio.Task[Reply | CounselError]]) -> None:
        everyone = len(pending)
        grace: float | None = None
        while pending:
            until = None if grace is None else max(0.0, grace - time.monotonic())
            done, pending = await asyncio.wait(pending, timeout=until, return_when=asyncio.FIRST_COMPLETED)
            if not done and grace is not None:
                return
            if everyone > 1 and len(pending) == 1 and grace is None:
                grace = time.monotonic() + GRACE

    def _charged(
        self, participant: Participant, failure: Callable[[Participant, str], CounselError]
    ) -> CounselError:
        """The failure of a call that was broken off, with its text so far and what it used."""
        slot = participant.slot
        error = failure(participant, self._consultation.live.slots[slot].text())
        if used := self._consultation.spent.get(slot):
            results.charge(error, used)
        return error

    async def _counted(self, participant: Participant, phase: Phase, ask: Ask) -> Reply | CounselError:
        try:
            outcome = await self._outcome(participant, phase, ask)
        except asyncio.CancelledError:
            if participant.slot not in self._members.cancelled:
                raise
            outcome = self._charged(participant, _cancelled)
        if isinstance(outcome, CounselError):
            self._consultation.live.refuse(participant.slot, phase, outcome)
        self._done += 1
        self._consultation.progress(self._done)
        return outcome

    async def _outcome(self, participant: Participant, phase: Phase, ask: Ask) -> Reply | CounselError:
        """A member that was cancelled is not asked; what it had answered before counts."""
        slot = participant.slot
        if slot not in self._members.cancelled:
            return await _reply_or_error(participant, ask)
        if reply := await self._consultation.remembered(f"{phase}:{slot}"):
            return self._consultation.recall(Step(f"{phase}:{slot}", slot, phase), reply)
        live, text = self._consultation.live, self._members.texts.pop(slot, "")
        live.begin(slot, phase)
        live.text(slot, text)
        failure = _cancelled(participant, text)
        live.fail(slot, failure)
        return failure

    async def first(self, participant: Participant) -> Reply:
        return await self._ask(participant, "initial", await self._compose(participant))

    async def second(
        self, participant: Participant, answered: list[Participant], initial: Mapping[str, Reply]
    ) -> Reply:
        """The question, the model's own answer, then the others' answers and the request to refine it."""
        others = [(other.label, initial[other.slot].text) for other in answered if other is not participant]
        size_limits.check_answers((text for _, text in others), self._consultation.job.caller.settings)
        request = prompts.refine(others, self._consultation.job.task.feedback_prompt)
        own = initial[participant.slot]
        call = await self._compose(participant)
        call = replace(call, turns=(*call.turns, Turn("assistant", own.text), Turn("user", request)))
        if own.session:
            call = replace(call, session=own.session)
        if model := _route(participant).model:
            call = replace(call, tokens=tokens.check_window(call, model))
        return await self._ask(participant, "refined", call)

    async def _compose(self, participant: Participant) -> Call:
        job = self._consultation.job
        call = await conversation.compose_async(job, self._history, _route(participant), self._store)
        part = prompts.part(participant.role, participant.stance)
        return replace(call, system=f"{call.system}\n\n{part}" if call.system else part) if part else call

    async def _ask(self, participant: Participant, phase: str, call: Call) -> Reply:
        step = Step(f"{phase}:{participant.slot}", participant.slot, phase, self._limit)
        route = _route(participant)
        if route.model and (most := route.model.options.get("consensus_output")):
            call = replace(call, max_output=most)
        return await self._cache.through(self._consultation, step, route, call)


async def _reply_or_error(participant: Participant, ask: Ask) -> Reply | CounselError:
    if participant.refused:
        return participant.refused
    try:
        return await ask(participant)
    except CounselError as error:
        return error
    except Exception as error:  # a bug that one model triggers fails only that model
        log.exception("asking %s failed", participant.label)
        return Internal(
            f"Asking {participant.label} failed because of an internal error ({type(error).__name__})."
        )


def _route(participant: Participant) -> Route:
    if participant.route is None:
        raise participant.refused or Internal(f"{participant.label} has no route.")
    return participant.route


def _too_slow(participant: Participant, partial: str) -> TimedOut:
    return TimedOut(
        f"{participant.label} was still answering {GRACE:.0f} s after all others were done.",
        hint="Ask it alone, or lower its effort.",
        model=participant.label,
        partial=partial or None,
    )


def _cancelled(participant: Participant, partial: str) -> Cancelled:
    return Cancelled(f"{participant.label} was cancelled.", model=participant.label, partial=partial or None)


def _all_failed(failures: list[Failure]) -> CounselError:
    if len(failures) == 1:
        return failures[0].error
    messages = "; ".join(
        f"{failure.participant.label}: {failure.error.message.rstrip('.')}" for failure in failures
    )
    shown = [_failed(failure).to_json() for failure in failures]
    return UpstreamError(
        f"All {len(failures)} models failed: {messages}.",
        hint="Fix the first failure, or ask other models.",
        failed=shown,
    )


# ── the result ───────────────────────────────────────────────────────────────────────────────────────


def _outcome(
    job: Job,
    participants: list[Participant],
    initial: Mapping[str, Reply],
    refined: Mapping[str, Reply],
    failures: list[Failure],
) -> Outcome:
    first = {
        participant.slot: _initial(participant, initial[participant.slot])
        for participant in participants
        if participant.slot in initial
    }
    errors = [failure.error for failure in failures]
    result = ConsensusResult(
        status=_verdict(participants, initial, failures),
        models_consulted=len(participants),
        initial=tuple(first.values()),
        refined=tuple(_refined(first, refined, failures)),
        failed=tuple(map(_failed, failures)),
        continuation=Continuation(id=job.conversation),
        settings=ConsensusSettings(
            job.task.cross_feedback,
            0.2 if job.task.temperature is None else job.task.temperature,
            job.task.models,
        ),
        metadata=results.totals([*initial.values(), *refined.values()], errors),
        job_id=job.id,
    )
    answers = {slot: refined.get(slot) or initial[slot] for slot in first}
    details = AnswerDetails(totals=result.metadata, members=tuple(_members(participants, answers)))
    return Outcome(
        status="completed_with_errors" if failures else "completed",
        result=result,
        messages=chat.turn(job, result.content, details),
        completed=len(participants),
        text=result.content,
    )


def _members(participants: list[Participant], answers: Mapping[str, Reply]) -> Iterator[AnswerSummary]:
    """The models that answered, for the conversation: a chat that continues it stays with one of them."""
    for participant in participants:
        if reply := answers.get(participant.slot):
            yield AnswerSummary(
                model=participant.route.name if participant.route else participant.label,
                provider=reply.provider,
                usage=reply.usage,
                cost_usd=reply.usage.cost_usd,
                response_time_ms=reply.ms,
                finish_reason=reply.finish_reason,
            )


def _verdict(
    participants: list[Participant], initial: Mapping[str, Reply], failures: list[Failure]
) -> Verdict:
    if len(initial) == 1 and len(participants) > 1:
        return "no_consensus"
    return "consensus_partial" if failures else "consensus_complete"


def _initial(participant: Participant, reply: Reply) -> InitialAnswer:
    return InitialAnswer(participant.label, reply.text, results.metadata(reply))


def _refined(
    first: Mapping[str, InitialAnswer], refined: Mapping[str, Reply], failures: list[Failure]
) -> Iterator[RefinedAnswer]:
    lost = {failure.participant.slot: failure.error for failure in failures if failure.phase == "refined"}
    for slot, before in first.items():
        if reply := refined.get(slot):
            yield RefinedAnswer(before, reply.text, results.metadata(reply))
        elif slot in lost:
            yield RefinedAnswer(before, None, None, lost[slot])


def _failed(failure: Failure) -> ModelFailure:
    return ModelFailure(failure.participant.label, failure.phase, failure.error)
