"""The outcome of a consensus: the judge's comparison, the vote, how often the answers were refined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias, cast

from counsel import json_reader as read
from counsel.errors import CounselError, from_dict
from counsel.lazy_dataclass import dataclass
from counsel.results.parts import AnswerMetadata, listed, without_empty

Ended: TypeAlias = Literal["limit", "unchanged", "agreement", "never"]
BasedOn: TypeAlias = Literal["initial", "refined"]
RefineMode: TypeAlias = Literal["always", "disagreement", "never"]


@dataclass(frozen=True, slots=True)
class Held:
    """A position in a contradiction, and who holds it."""

    models: tuple[str, ...]
    position: str

    def to_json(self) -> dict[str, object]:
        return {"models": list(self.models), "position": self.position}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Held:
        return cls(read.texts(shown, "models"), read.text(shown, "position"))


@dataclass(frozen=True, slots=True)
class Contradiction:
    topic: str
    positions: tuple[Held, ...]

    def to_json(self) -> dict[str, object]:
        return {"topic": self.topic, "positions": listed(self.positions)}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Contradiction:
        return cls(read.text(shown, "topic"), tuple(map(Held.from_json, read.parts(shown, "positions"))))


@dataclass(frozen=True, slots=True)
class PartialCoverage:
    point: str
    models: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"point": self.point, "models": list(self.models)}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> PartialCoverage:
        return cls(read.text(shown, "point"), read.texts(shown, "models"))


@dataclass(frozen=True, slots=True)
class UniqueInsight:
    model: str
    insight: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "insight": self.insight}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> UniqueInsight:
        return cls(read.text(shown, "model"), read.text(shown, "insight"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVerdict:
    """The judge's comparison; or, with `error`, why there is none."""

    judge: str
    based_on: BasedOn = "initial"
    consensus: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    partial_coverage: tuple[PartialCoverage, ...] = ()
    unique_insights: tuple[UniqueInsight, ...] = ()
    blind_spots: tuple[str, ...] = ()
    failed_models: tuple[str, ...] = ()
    recommendation: str = ""
    choice: str | None = None  # of the choices that were offered
    metadata: AnswerMetadata | None = None  # of its call; None: of a release that did not report it
    error: CounselError | None = None

    def to_json(self) -> dict[str, object]:
        if self.error is not None:
            return {**self.error.copy(partial=False).as_dict(), "judge": self.judge}
        return {
            "judge": self.judge,
            "based_on": self.based_on,
            "consensus": list(self.consensus),
            "contradictions": listed(self.contradictions),
            "partial_coverage": listed(self.partial_coverage),
            "unique_insights": listed(self.unique_insights),
            "blind_spots": list(self.blind_spots),
            "failed_models": list(self.failed_models),
            "recommendation": self.recommendation,
            **without_empty(choice=self.choice),
            **({"metadata": self.metadata.to_json()} if self.metadata else {}),
        }

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> JudgeVerdict:
        if "error" in shown:
            return cls(judge=read.text(shown, "judge"), error=from_dict(shown))
        return cls(
            judge=read.text(shown, "judge"),
            based_on=cast("BasedOn", read.text(shown, "based_on", "initial")),
            consensus=read.texts(shown, "consensus"),
            contradictions=tuple(map(Contradiction.from_json, read.parts(shown, "contradictions"))),
            partial_coverage=tuple(map(PartialCoverage.from_json, read.parts(shown, "partial_coverage"))),
            unique_insights=tuple(map(UniqueInsight.from_json, read.parts(shown, "unique_insights"))),
            blind_spots=read.texts(shown, "blind_spots"),
            failed_models=read.texts(shown, "failed_models"),
            recommendation=read.text(shown, "recommendation"),
            choice=read.text_or_none(shown, "choice"),
            metadata=AnswerMetadata.from_json(read.part(shown, "metadata"))
            if shown.get("metadata")
            else None,
        )


@dataclass(frozen=True, slots=True)
class Ballot:
    model: str
    choice: str
    reason: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "choice": self.choice, "reason": self.reason}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Ballot:
        return cls(read.text(shown, "model"), read.text(shown, "choice"), read.text(shown, "reason"))


@dataclass(frozen=True, slots=True)
class Minority:
    choice: str
    models: tuple[str, ...]
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"choice": self.choice, "models": list(self.models), "reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Minority:
        return cls(read.text(shown, "choice"), read.texts(shown, "models"), read.texts(shown, "reasons"))


@dataclass(frozen=True, slots=True)
class VoteFailure:
    model: str
    code: str
    error: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "code": self.code, "error": self.error}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> VoteFailure:
        return cls(read.text(shown, "model"), read.text(shown, "code"), read.text(shown, "error"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    choices: tuple[str, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    majority: str | None = None  # the choice with the most votes; None: a tie, or no vote
    tied: tuple[str, ...] = ()
    agreement: float = 0.0  # the leading choice's share of the valid votes
    votes: tuple[Ballot, ...] = ()
    minority: tuple[Minority, ...] = ()
    failed: tuple[VoteFailure, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "choices": list(self.choices),
            "counts": dict(self.counts),
            "majority": self.majority,
            "tied": list(self.tied),
            "agreement": self.agreement,
            "votes": listed(self.votes),
            "minority": listed(self.minority),
            "failed": listed(self.failed),
        }

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Vote:
        return cls(
            choices=read.texts(shown, "choices"),
            counts=cast("dict[str, int]", read.part(shown, "counts")),
            majority=read.text_or_none(shown, "majority"),
            tied=read.texts(shown, "tied"),
            agreement=read.number(shown, "agreement"),
            votes=tuple(map(Ballot.from_json, read.parts(shown, "votes"))),
            minority=tuple(map(Minority.from_json, read.parts(shown, "minority"))),
            failed=tuple(map(VoteFailure.from_json, read.parts(shown, "failed"))),
        )


@dataclass(frozen=True, slots=True)
class Refinement:
    """How often the answers were refined, and why it ended there."""

    mode: RefineMode
    rounds: int  # that were held, the first one included
    ended: Ended

    def to_json(self) -> dict[str, object]:
        return {"mode": self.mode, "rounds": self.rounds, "ended": self.ended}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Refinement:
        mode = cast("RefineMode", read.text(shown, "mode", "always"))
        ended = cast("Ended", read.text(shown, "ended", "limit"))
        return cls(mode, read.integer(shown, "rounds", 1), ended)


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """A model's answer in a round between the first and its last one."""

    model: str
    text: str
    changed: bool | None
    choice: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "response": self.text,
            **without_empty(choice=self.choice),
            "changed": self.changed,
        }

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> RoundAnswer:
        return cls(
            read.text(shown, "model"),
            read.text(shown, "response"),
            read.flag_or_none(shown, "changed"),
            read.text_or_none(shown, "choice"),
        )


@dataclass(frozen=True, slots=True)
class MiddleRound:
    round: int
    answers: tuple[RoundAnswer, ...]

    def to_json(self) -> dict[str, object]:
        return {"round": self.round, "answers": listed(self.answers)}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> MiddleRound:
        return cls(
            read.integer(shown, "round", 2), tuple(map(RoundAnswer.from_json, read.parts(shown, "answers")))
        )
