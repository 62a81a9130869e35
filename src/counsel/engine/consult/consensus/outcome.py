"""The result of a consensus, from the replies of its rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import cast

from counsel.engine import results
from counsel.engine.consult import chat
from counsel.engine.consult.consensus import vote
from counsel.engine.consult.consensus.judge import Judgement
from counsel.engine.consult.consensus.members import Participant
from counsel.engine.consult.consensus.rounds import Failure
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.running import Outcome
from counsel.engine.store.model import Reply
from counsel.errors import CounselError
from counsel.lazy_dataclass import dataclass
from counsel.results import (
    AnswerDetails,
    AnswerSummary,
    ConsensusResult,
    ConsensusSettings,
    Continuation,
    InitialAnswer,
    MiddleRound,
    ModelFailure,
    Phase,
    RefinedAnswer,
    Refinement,
    RoundAnswer,
    Verdict,
    Vote,
)


@dataclass(slots=True)
class Course:
    """The progress of a consensus. `rounds` has the replies of each round by slot, from the first round on."""

    job: Job
    participants: list[Participant]
    rounds: list[dict[str, Reply]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    judgement: Judgement | None = None
    warnings: tuple[str, ...] = ()

    @property
    def latest(self) -> dict[str, Reply]:
        """Each model's last answer, in the order of the members."""
        last = {slot: reply for replies in self.rounds for slot, reply in replies.items()}
        return {member.slot: last[member.slot] for member in self.participants if member.slot in last}

    @property
    def answered(self) -> list[Participant]:
        """The members that answered in the last round."""
        return [member for member in self.participants if member.slot in self.rounds[-1]]

    def has_changed(self, number: int, slot: str) -> bool | None:
        """Whether a model changed its position in this round, by its choice or its own statement; None: unknown."""
        reply = self.rounds[number - 1][slot]
        if self.job.task.choices:
            return vote.pick(reply).choice != vote.pick(self._previous_reply(number, slot)).choice
        return None if reply.position is None else reply.position == "changed"

    def _previous_reply(self, number: int, slot: str) -> Reply:
        return next(replies[slot] for replies in reversed(self.rounds[: number - 1]) if slot in replies)

    def may_have_changed(self) -> bool:
        """Whether a model changed its position in the last round, or did not say."""
        number = len(self.rounds)
        return any(self.has_changed(number, slot) is not False for slot in self.rounds[-1])

    def votes_differ(self) -> bool:
        return len({vote.pick(reply).choice for reply in self.latest.values()}) > 1

    def skip_judge(self, judge: Participant) -> None:
        (member,) = (member for member in self.participants if member.slot in self.latest)
        self.warnings += (
            f"The judge {judge.label} was not asked: only {member.label} answered, so there is nothing to compare.",
        )

    def text(self, reply: Reply) -> str:
        return vote.pick(reply).text if self.job.task.choices else reply.text

    def choice(self, reply: Reply) -> str | None:
        return vote.pick(reply).choice if self.job.task.choices else None

    # ── the result ───────────────────────────────────────────────────────────────────────────────────

    def outcome(self, refinement: Refinement) -> Outcome:
        job, initial = self.job, self.rounds[0]
        first = {
            member.slot: InitialAnswer(
                member.label,
                self.text(initial[member.slot]),
                results.metadata(initial[member.slot]),
                self.choice(initial[member.slot]),
            )
            for member in self.participants
            if member.slot in initial
        }
        result = ConsensusResult(
            status=self._status(),
            models_consulted=len(self.participants),
            initial=tuple(first.values()),
            refined=tuple(self._refined(first)),
            failed=tuple(map(model_failure, self.failures)),
            continuation=Continuation(id=job.conversation),
            settings=ConsensusSettings(
                refinement.mode != "never",
                0.2 if job.task.temperature is None else job.task.temperature,
                job.task.models,
            ),
            metadata=replace(results.totals(self._replies(), self._errors()), warnings=self.warnings),
            job_id=job.id,
            rounds=tuple(self._middle()),
            verdict=self.judgement.verdict if self.judgement else None,
            vote=self._vote(),
            refinement=refinement,
        )
        details = AnswerDetails(totals=result.metadata, members=tuple(self._members()))
        return Outcome(
            status="completed_with_errors" if self.failures else "completed",
            result=result,
            messages=chat.turn(job, result.content, details),
            completed=len(self.participants),
            text=result.content,
        )

    def _replies(self) -> Iterator[Reply]:
        for replies in self.rounds:
            yield from replies.values()
        if self.judgement and self.judgement.reply:
            yield self.judgement.reply

    def _errors(self) -> Iterator[CounselError]:
        yield from (failure.error for failure in self.failures)
        if self.judgement and self.judgement.error:
            yield self.judgement.error

    def _status(self) -> Verdict:
        if len(self.rounds[0]) == 1 and len(self.participants) > 1:
            return "no_consensus"
        return "consensus_partial" if self.failures else "consensus_complete"

    def _refined(self, first: Mapping[str, InitialAnswer]) -> Iterator[RefinedAnswer]:
        errors = {
            failure.participant.slot: failure.error for failure in self.failures if failure.phase == "refined"
        }
        for slot, first_answer in first.items():
            numbers = [number for number in range(len(self.rounds), 1, -1) if slot in self.rounds[number - 1]]
            if numbers:
                reply, has_changed = self.rounds[numbers[0] - 1][slot], self.has_changed(numbers[0], slot)
                yield RefinedAnswer(
                    first_answer,
                    self.text(reply),
                    results.metadata(reply),
                    None,
                    has_changed,
                    numbers[0],
                    self.choice(reply),
                )
            elif slot in errors:
                yield RefinedAnswer(first_answer, None, None, errors[slot])

    def _middle(self) -> Iterator[MiddleRound]:
        """The rounds between the first and the last one."""
        for number in range(2, len(self.rounds)):
            replies = self.rounds[number - 1]
            yield MiddleRound(
                number,
                tuple(
                    RoundAnswer(
                        member.label,
                        self.text(replies[member.slot]),
                        self.has_changed(number, member.slot),
                        self.choice(replies[member.slot]),
                    )
                    for member in self.participants
                    if member.slot in replies
                ),
            )

    def _vote(self) -> Vote | None:
        choices = self.job.task.choices
        if not choices:
            return None
        picks = {slot: vote.pick(reply) for slot, reply in self.latest.items()}
        errors = {failure.participant.slot: failure.error for failure in self.failures}
        return vote.count(choices, self.participants, picks, errors)

    def _members(self) -> Iterator[AnswerSummary]:
        """The models that answered. Stored with the conversation: a chat that continues it stays with one of them."""
        latest = self.latest
        for member in self.participants:
            if reply := latest.get(member.slot):
                yield AnswerSummary(
                    model=member.target.name if member.target else member.label,
                    provider=reply.provider,
                    usage=reply.usage,
                    cost_usd=reply.usage.cost_usd,
                    response_time_ms=reply.ms,
                    finish_reason=reply.finish_reason,
                )


def model_failure(failure: Failure) -> ModelFailure:
    return ModelFailure(failure.participant.label, cast(Phase, failure.phase), failure.error)
