"""The outcome of a consensus: the judge's comparison, the vote, and how often the answers were refined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias, cast

from counsel import json_reader as read
from counsel.errors import CounselError, from_dict
from counsel.lazy_dataclass import dataclass
from counsel.results.parts import AnswerMetadata, json_list, without_empty

Ended: TypeAlias = Literal["limit", "unchanged", "agreement", "never"]
BasedOn: TypeAlias = Literal["initial", "refined"]
RefineMode: TypeAlias = Literal["always", "disagreement", "never"]


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a contradiction, and the models that hold it."""

    models: tuple[str, ...]
    position: str

    def to_json(self) -> dict[str, object]:
        return {"models": list(self.models), "position": self.position}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Position:
        return cls(read.texts(document, "models"), read.text(document, "position"))


@dataclass(frozen=True, slots=True)
class Contradiction:
    topic: str
    positions: tuple[Position, ...]

    def to_json(self) -> dict[str, object]:
        return {"topic": self.topic, "positions": json_list(self.positions)}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Contradiction:
        return cls(
            read.text(document, "topic"), tuple(map(Position.from_json, read.parts(document, "positions")))
        )


@dataclass(frozen=True, slots=True)
class PartialCoverage:
    point: str
    models: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"point": self.point, "models": list(self.models)}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> PartialCoverage:
        return cls(read.text(document, "point"), read.texts(document, "models"))


@dataclass(frozen=True, slots=True)
class UniqueInsight:
    model: str
    insight: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "insight": self.insight}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> UniqueInsight:
        return cls(read.text(document, "model"), read.text(document, "insight"))


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
    choice: str | None = None  # one of the choices that the caller offered
    metadata: AnswerMetadata | None = None  # of the judge's call; None: from a release that did not report it
    error: CounselError | None = None

    def to_json(self) -> dict[str, object]:
        if self.error is not None:
            return {**self.error.copy(partial=False).as_dict(), "judge": self.judge}
        return {
            "judge": self.judge,
            "based_on": self.based_on,
            "consensus": list(self.consensus),
            "contradictions": json_list(self.contradictions),
            "partial_coverage": json_list(self.partial_coverage),
            "unique_insights": json_list(self.unique_insights),
            "blind_spots": list(self.blind_spots),
            "failed_models": list(self.failed_models),
            "recommendation": self.recommendation,
            **without_empty(choice=self.choice),
            **({"metadata": self.metadata.to_json()} if self.metadata else {}),
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> JudgeVerdict:
        if "error" in document:
            return cls(judge=read.text(document, "judge"), error=from_dict(document))
        return cls(
            judge=read.text(document, "judge"),
            based_on=cast("BasedOn", read.text(document, "based_on", "initial")),
            consensus=read.texts(document, "consensus"),
            contradictions=tuple(map(Contradiction.from_json, read.parts(document, "contradictions"))),
            partial_coverage=tuple(map(PartialCoverage.from_json, read.parts(document, "partial_coverage"))),
            unique_insights=tuple(map(UniqueInsight.from_json, read.parts(document, "unique_insights"))),
            blind_spots=read.texts(document, "blind_spots"),
            failed_models=read.texts(document, "failed_models"),
            recommendation=read.text(document, "recommendation"),
            choice=read.text_or_none(document, "choice"),
            metadata=AnswerMetadata.from_json(read.part(document, "metadata"))
            if document.get("metadata")
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
    def from_json(cls, document: dict[str, object]) -> Ballot:
        return cls(read.text(document, "model"), read.text(document, "choice"), read.text(document, "reason"))


@dataclass(frozen=True, slots=True)
class Minority:
    choice: str
    models: tuple[str, ...]
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"choice": self.choice, "models": list(self.models), "reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Minority:
        return cls(
            read.text(document, "choice"), read.texts(document, "models"), read.texts(document, "reasons")
        )


@dataclass(frozen=True, slots=True)
class VoteFailure:
    model: str
    code: str
    error: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "code": self.code, "error": self.error}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> VoteFailure:
        return cls(read.text(document, "model"), read.text(document, "code"), read.text(document, "error"))


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
            "votes": json_list(self.votes),
            "minority": json_list(self.minority),
            "failed": json_list(self.failed),
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Vote:
        return cls(
            choices=read.texts(document, "choices"),
            counts=cast("dict[str, int]", read.part(document, "counts")),
            majority=read.text_or_none(document, "majority"),
            tied=read.texts(document, "tied"),
            agreement=read.number(document, "agreement"),
            votes=tuple(map(Ballot.from_json, read.parts(document, "votes"))),
            minority=tuple(map(Minority.from_json, read.parts(document, "minority"))),
            failed=tuple(map(VoteFailure.from_json, read.parts(document, "failed"))),
        )


@dataclass(frozen=True, slots=True)
class Refinement:
    """How often the answers were refined, and why there were no more rounds."""

    mode: RefineMode
    rounds: int  # including the first one
    ended: Ended

    def to_json(self) -> dict[str, object]:
        return {"mode": self.mode, "rounds": self.rounds, "ended": self.ended}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Refinement:
        mode = cast("RefineMode", read.text(document, "mode", "always"))
        reason = cast("Ended", read.text(document, "ended", "limit"))
        return cls(mode, read.integer(document, "rounds", 1), reason)


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """A model's answer in a round between the first and the model's last one."""

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
    def from_json(cls, document: dict[str, object]) -> RoundAnswer:
        return cls(
            read.text(document, "model"),
            read.text(document, "response"),
            read.flag_or_none(document, "changed"),
            read.text_or_none(document, "choice"),
        )


@dataclass(frozen=True, slots=True)
class MiddleRound:
    round: int
    answers: tuple[RoundAnswer, ...]

    def to_json(self) -> dict[str, object]:
        return {"round": self.round, "answers": json_list(self.answers)}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> MiddleRound:
        return cls(
            read.integer(document, "round", 2),
            tuple(map(RoundAnswer.from_json, read.parts(document, "answers"))),
        )
