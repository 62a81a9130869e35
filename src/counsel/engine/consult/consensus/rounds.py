"""One round of a consensus: all models at once, or one after another.

A model that fails or is slow does not delay the others; the result names it and the reason.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from counsel import size_limits
from counsel.engine import results
from counsel.engine.consult import position, prompts, structured
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation, Step
from counsel.engine.consult.consensus import anonymous, vote
from counsel.engine.consult.consensus.members import Participant
from counsel.engine.consult.routes import Route
from counsel.engine.context import conversation, tokens
from counsel.engine.context.conversation import History
from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Store
from counsel.errors import Cancelled, CounselError, Internal, SchemaMismatch, TimedOut
from counsel.lazy_dataclass import dataclass
from counsel.types import Call, Turn

log = logging.getLogger("counsel.consensus")
GRACE = 120.0  # seconds that the last model gets after all others have finished


@dataclass(frozen=True, slots=True)
class Failure:
    participant: Participant
    phase: str
    error: CounselError


Ask = Callable[[Participant], Awaitable[Reply]]


def key_of(number: int) -> str:
    """The prefix of a round's keys in the store: `initial`, `refined`, `refined2`."""
    return {1: "initial", 2: "refined"}.get(number) or f"refined{number - 1}"


class Rounds:
    def __init__(
        self, consultation: Consultation, cache: AnswerCache, store: Store, history: History
    ) -> None:
        self._consultation = consultation
        self._job = consultation.job
        self._cache = cache
        self._store = store
        self._history = history
        self._finished = 0
        self._members = consultation.job.members
        self._limit = float(consultation.job.caller.settings.model_limit_seconds)

    async def run(
        self, number: int, participants: list[Participant], before: Mapping[str, Reply]
    ) -> tuple[dict[str, Reply], list[Failure]]:
        """Run one round. `before`: each model's last answer."""
        phase = "initial" if number == 1 else "refined"
        self._consultation.live.phase(phase)
        self._finished = 0
        self._consultation.progress(0)
        latest = dict(before)

        async def ask(participant: Participant) -> Reply:
            return await self._answer(number, participant, latest)

        if self._job.task.order != "sequential":
            return await self.ask_all(participants, phase, ask, key_of(number))
        replies: dict[str, Reply] = {}
        failures: list[Failure] = []
        for participant in participants:
            reply, new_failures = await self.ask_all([participant], phase, ask, key_of(number))
            replies |= reply
            latest |= reply
            failures += new_failures
        return replies, failures

    async def ask_all(
        self, participants: list[Participant], phase: str, ask: Ask, key: str
    ) -> tuple[dict[str, Reply], list[Failure]]:
        """Ask all at once. The round ends when all have finished, or the last one has used up its grace period."""
        tasks = {
            asyncio.create_task(self._ask_and_count(participant, phase, ask, key)): participant
            for participant in participants
        }
        self._members.tasks = {participant.slot: task for task, participant in tasks.items()}
        self._consultation.plan_round(self._members.tasks)
        try:
            await self._wait(set(tasks))
        finally:
            self._members.tasks = {}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        replies: dict[str, Reply] = {}
        failures: list[Failure] = []
        for task, participant in tasks.items():
            if task.cancelled():
                failures.append(Failure(participant, phase, self._failure_with_usage(participant, _too_slow)))
            elif isinstance(outcome := task.result(), CounselError):
                failures.append(Failure(participant, phase, outcome))
            else:
                replies[participant.slot] = outcome
        return replies, failures

    async def _wait(self, pending: set[asyncio.Task[Reply | CounselError]]) -> None:
        total = len(pending)
        grace: float | None = None
        while pending:
            timeout = None if grace is None else max(0.0, grace - time.monotonic())
            done, pending = await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done and grace is not None:
                return
            if total > 1 and len(pending) == 1 and grace is None:
                grace = time.monotonic() + GRACE

    def _failure_with_usage(
        self, participant: Participant, failure: Callable[[Participant, str], CounselError]
    ) -> CounselError:
        """The failure of an interrupted call, with its text so far and what it used."""
        slot = participant.slot
        error = failure(participant, self._consultation.live.slots[slot].text())
        if used := self._consultation.spent.get(slot):
            results.charge(error, used)
        return error

    async def _ask_and_count(
        self, participant: Participant, phase: str, ask: Ask, key: str
    ) -> Reply | CounselError:
        try:
            outcome = await self._outcome(participant, phase, ask, key)
        except asyncio.CancelledError:
            if participant.slot not in self._members.cancelled:
                raise
            outcome = self._failure_with_usage(participant, _cancelled)
        if isinstance(outcome, CounselError):
            self._consultation.live.refuse(participant.slot, phase, outcome)
        if phase != "verdict":
            self._finished += 1
            self._consultation.progress(self._finished)
        return outcome

    async def _outcome(
        self, participant: Participant, phase: str, ask: Ask, key: str
    ) -> Reply | CounselError:
        """The member's reply, or its failure. A cancelled member is not asked; an earlier answer still counts."""
        slot = participant.slot
        if slot not in self._members.cancelled or await self._consultation.stored_reply(f"{key}:{slot}"):
            return await _reply_or_error(participant, ask)
        live, text = self._consultation.live, self._members.texts.pop(slot, "")
        live.begin(slot, phase)
        live.text(slot, text)
        failure = _cancelled(participant, text)
        live.fail(slot, failure)
        return failure

    # ── one answer ───────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, number: int, participant: Participant, latest: Mapping[str, Reply]) -> Reply:
        call = await self._compose(participant)
        if number == 1:
            call = self._after_others(call, participant, latest)
        else:
            call = self._with_answers(call, number, participant, latest)
        if (number > 1 or latest) and (model := participant.route.model):
            call = replace(call, tokens=tokens.check_window(call, model))
        return await self._ask(number, participant, call)

    async def _compose(self, participant: Participant) -> Call:
        job = self._job
        call = await conversation.compose_async(job, self._history, participant.route, self._store)
        part = prompts.part(participant.role, participant.stance)
        if part:
            call = replace(call, system=f"{call.system}\n\n{part}" if call.system else part)
        return (
            vote.with_choices(call, job.task.choices, job.id, participant.slot) if job.task.choices else call
        )

    def _after_others(self, call: Call, participant: Participant, latest: Mapping[str, Reply]) -> Call:
        """At a round table, the question with the answers given so far."""
        if not latest:
            return call
        answers = self._answers_for(1, participant, latest)
        *earlier, question = call.turns
        text = prompts.after_others(question.text, answers)
        return replace(call, turns=(*earlier, replace(question, text=text)))

    def _with_answers(
        self, call: Call, number: int, participant: Participant, latest: Mapping[str, Reply]
    ) -> Call:
        """The question, the model's own answer, then all answers and the request to refine its own."""
        own = latest[participant.slot]
        answers = self._answers_for(number, participant, latest)
        last = prompts.CHOOSE_AGAIN if self._job.task.choices else position.REQUEST
        request = prompts.refine(answers, self._job.task.feedback_prompt, last)
        turns = (*call.turns, Turn("assistant", own.text), Turn("user", request))
        return replace(call, turns=turns, session=own.session or call.session)

    def _answers_for(self, number: int, participant: Participant, latest: Mapping[str, Reply]) -> list[str]:
        texts = self.texts(latest)
        texts_of_others = (text for slot, text in texts.items() if slot != participant.slot)
        size_limits.check_answers(texts_of_others, self._job.caller.settings)
        order = anonymous.letters(self._job.id, f"{participant.slot} {number}", texts)
        return list(anonymous.blocks(texts, order, participant.slot))

    def texts(self, replies: Mapping[str, Reply]) -> dict[str, str]:
        """The answers as other models read them."""
        if not self._job.task.choices:
            return {slot: reply.text for slot, reply in replies.items()}
        return {slot: vote.pick(reply).text for slot, reply in replies.items()}

    async def _ask(self, number: int, participant: Participant, call: Call) -> Reply:
        choices = self._job.task.choices
        step = Step(
            f"{key_of(number)}:{participant.slot}",
            participant.slot,
            "initial" if number == 1 else "refined",
            self._limit,
            states_position=number > 1 and not choices,
            is_json=bool(choices),
        )
        call = with_output_limit(participant.route, call)
        variant = participant.label if participant.is_repeated else ""
        reply = await self._cache.ask(self._consultation, step, participant.route, call, variant)
        if not choices:
            return reply

        def normalize(answer: str) -> str:
            return vote.with_exact_choice(answer, choices)

        try:
            return await structured.valid_reply(
                self._consultation, step, participant.route, call, reply, normalize=normalize
            )
        except SchemaMismatch as error:
            raise _no_choice(participant, error) from None


def with_output_limit(route: Route, call: Call) -> Call:
    """The call with the model's own output limit for a consensus, if the catalog has one."""
    limit = route.model.options.get("consensus_output") if route.model else None
    return replace(call, max_output=limit) if limit else call


async def _reply_or_error(participant: Participant, ask: Ask) -> Reply | CounselError:
    if participant.error:
        return participant.error
    try:
        return await ask(participant)
    except CounselError as error:
        return error
    except Exception as error:  # a bug that one model triggers fails only that model
        log.exception("asking %s failed", participant.label)
        return Internal(
            f"Asking {participant.label} failed because of an internal error ({type(error).__name__})."
        )


def _no_choice(participant: Participant, mismatch: SchemaMismatch) -> SchemaMismatch:
    """The mismatch in the caller's terms: callers know their choices, not our schema."""
    error = SchemaMismatch(
        f"{participant.label} picked none of the choices, even when asked again.",
        hint="Word the choices differently, or ask another model.",
    )
    error.fields = mismatch.fields
    return error


def _too_slow(participant: Participant, partial: str) -> TimedOut:
    return TimedOut(
        f"{participant.label} was still answering {GRACE:.0f} s after all others had finished.",
        hint="Ask it alone, or lower its effort.",
        model=participant.label,
        partial=partial or None,
    )


def _cancelled(participant: Participant, partial: str) -> Cancelled:
    return Cancelled(f"{participant.label} was cancelled.", model=participant.label, partial=partial or None)
