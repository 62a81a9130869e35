"""What a consensus came to: the judge's comparison, the vote, how often the answers were refined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from counsel.errors import CounselError, from_dict
from counsel.lazy_dataclass import dataclass
from counsel.results.parts import AnswerMetadata, listed, without_empty
from counsel.types import Json

Ended: TypeAlias = Literal["limit", "unchanged", "agreement", "never"]


@dataclass(frozen=True, slots=True)
class Held:
    """A position in a contradiction, and who holds it."""

    models: tuple[str, ...]
    position: str

    def to_json(self) -> dict[str, object]:
        return {"models": list(self.models), "position": self.position}

    @classmethod
    def from_json(cls, shown: Json) -> Held:
        return cls(tuple(shown.get("models", ())), shown.get("position", ""))


@dataclass(frozen=True, slots=True)
class Contradiction:
    topic: str
    positions: tuple[Held, ...]

    def to_json(self) -> dict[str, object]:
        return {"topic": self.topic, "positions": listed(self.positions)}

    @classmethod
    def from_json(cls, shown: Json) -> Contradiction:
        return cls(shown.get("topic", ""), tuple(map(Held.from_json, shown.get("positions", ()))))


@dataclass(frozen=True, slots=True)
class PartialCoverage:
    point: str
    models: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"point": self.point, "models": list(self.models)}

    @classmethod
    def from_json(cls, shown: Json) -> PartialCoverage:
        return cls(shown.get("point", ""), tuple(shown.get("models", ())))


@dataclass(frozen=True, slots=True)
class UniqueInsight:
    model: str
    insight: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "insight": self.insight}

    @classmethod
    def from_json(cls, shown: Json) -> UniqueInsight:
        return cls(shown.get("model", ""), shown.get("insight", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVerdict:
    """The judge's comparison; or, with `error`, why there is none."""

    judge: str
    based_on: Literal["initial", "refined"] = "initial"
    consensus: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    partial_coverage: tuple[PartialCoverage, ...] = ()
    unique_insights: tuple[UniqueInsight, ...] = ()
    blind_spots: tuple[str, ...] = ()
    failed_models: tuple[str, ...] = ()
    recommendation: str = ""
    choice: str | None = None  # of the choices that were offered
    metadata: AnswerMetadata | None = None  # of its call; None: of a release that did not tell
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
    def from_json(cls, shown: Json) -> JudgeVerdict:
        if "error" in shown:
            return cls(judge=shown.get("judge", ""), error=from_dict(shown))
        return cls(
            judge=shown.get("judge", ""),
            based_on=shown.get("based_on", "initial"),
            consensus=tuple(shown.get("consensus", ())),
            contradictions=tuple(map(Contradiction.from_json, shown.get("contradictions", ()))),
            partial_coverage=tuple(map(PartialCoverage.from_json, shown.get("partial_coverage", ()))),
            unique_insights=tuple(map(UniqueInsight.from_json, shown.get("unique_insights", ()))),
            blind_spots=tuple(shown.get("blind_spots", ())),
            failed_models=tuple(shown.get("failed_models", ())),
            recommendation=shown.get("recommendation", ""),
            choice=shown.get("choice"),
            metadata=AnswerMetadata.from_json(shown["metadata"]) if shown.get("metadata") else None,
        )


@dataclass(frozen=True, slots=True)
class Ballot:
    model: str
    choice: str
    reason: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "choice": self.choice, "reason": self.reason}

    @classmethod
    def from_json(cls, shown: Json) -> Ballot:
        return cls(shown.get("model", ""), shown.get("choice", ""), shown.get("reason", ""))


@dataclass(frozen=True, slots=True)
class Minority:
    choice: str
    models: tuple[str, ...]
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"choice": self.choice, "models": list(self.models), "reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, shown: Json) -> Minority:
        return cls(shown.get("choice", ""), tuple(shown.get("models", ())), tuple(shown.get("reasons", ())))


@dataclass(frozen=True, slots=True)
class VoteFailure:
    model: str
    code: str
    error: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "code": self.code, "error": self.error}

    @classmethod
    def from_json(cls, shown: Json) -> VoteFailure:
        return cls(shown.get("model", ""), shown.get("code", ""), shown.get("error", ""))


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
    def from_json(cls, shown: Json) -> Vote:
        return cls(
            choices=tuple(shown.get("choices", ())),
            counts=shown.get("counts", {}),
            majority=shown.get("majority"),
            tied=tuple(shown.get("tied", ())),
            agreement=shown.get("agreement", 0.0),
            votes=tuple(map(Ballot.from_json, shown.get("votes", ()))),
            minority=tuple(map(Minority.from_json, shown.get("minority", ()))),
            failed=tuple(map(VoteFailure.from_json, shown.get("failed", ()))),
        )


@dataclass(frozen=True, slots=True)
class Refinement:
    """How often the answers were refined, and why it ended there."""

    mode: Literal["always", "disagreement", "never"]
    rounds: int  # that were held, the first one included
    ended: Ended

    def to_json(self) -> dict[str, object]:
        return {"mode": self.mode, "rounds": self.rounds, "ended": self.ended}

    @classmethod
    def from_json(cls, shown: Json) -> Refinement:
        return cls(shown.get("mode", "always"), shown.get("rounds", 1), shown.get("ended", "limit"))


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
    def from_json(cls, shown: Json) -> RoundAnswer:
        return cls(
            shown.get("model", ""), shown.get("response", ""), shown.get("changed"), shown.get("choice")
        )


@dataclass(frozen=True, slots=True)
class MiddleRound:
    round: int
    answers: tuple[RoundAnswer, ...]

    def to_json(self) -> dict[str, object]:
        return {"round": self.round, "answers": listed(self.answers)}

    @classmethod
    def from_json(cls, shown: Json) -> MiddleRound:
        return cls(shown.get("round", 2), tuple(map(RoundAnswer.from_json, shown.get("answers", ()))))
