"""The answers of several models, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import cast

from counsel import json_reader as read
from counsel.errors import CounselError, from_dict
from counsel.lazy_dataclass import dataclass
from counsel.results import fences, verdict_text
from counsel.results.parts import (
    PHASE_NAMES,
    AnswerMetadata,
    Continuation,
    Phase,
    Verdict,
    json_list,
    usage_from_json,
    usage_to_json,
    without_empty,
)
from counsel.results.verdict import JudgeVerdict, MiddleRound, Refinement, Vote
from counsel.types import Json, Usage


@dataclass(frozen=True, slots=True)
class InitialAnswer:
    model: str  # `gpt-5#2`: the second of that name
    text: str
    metadata: AnswerMetadata
    choice: str | None = None  # one of the choices that the caller offered

    def to_json(self) -> dict[str, object]:
        usage = self.metadata.usage
        numbers = {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "response_time": self.metadata.response_time_ms,
        }
        return {
            "model": self.model,
            "status": "success",
            "response": self.text,
            **without_empty(choice=self.choice),
            "metadata": {**self.metadata.to_json(), **numbers},
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> InitialAnswer:
        metadata = AnswerMetadata.from_json(read.part(document, "metadata"))
        return cls(
            read.text(document, "model"),
            read.text(document, "response"),
            metadata,
            read.text_or_none(document, "choice"),
        )


@dataclass(frozen=True, slots=True)
class RefinedAnswer:
    """A model's refined answer; or, with `error`, why there is none."""

    first: InitialAnswer
    text: str | None
    metadata: AnswerMetadata | None
    error: CounselError | None = None
    changed: bool | None = None  # whether the model changed its position; None: it did not say
    round: int = 2
    choice: str | None = None

    @property
    def model(self) -> str:
        return self.first.model

    def to_json(self, *, repeat: bool = True) -> dict[str, object]:
        """The answer's document; with `repeat=False`, without the first answer."""
        first: dict[str, object] = {"initial_response": self.first.text} if repeat else {}
        if self.metadata is None:
            error = self.error.as_dict() if self.error else None
            return {
                "model": self.model,
                "status": "failed",
                **first,
                "refined_response": None,
                "error": error,
            }
        before, after = self.first.metadata, self.metadata
        totals = {
            "total_response_time": (before.response_time_ms or 0) + (after.response_time_ms or 0),
            "total_input_tokens": before.usage.input + after.usage.input,
            "total_output_tokens": before.usage.output + after.usage.output,
        }
        return {
            "model": self.model,
            "status": "success",
            **first,
            "refined_response": self.text,
            **without_empty(choice=self.choice),
            "changed": self.changed,
            "round": self.round,
            "metadata": {**after.to_json(), **totals},
        }

    @classmethod
    def from_json(cls, document: dict[str, object], first: InitialAnswer) -> RefinedAnswer:
        metadata = (
            AnswerMetadata.from_json(read.part(document, "metadata")) if "metadata" in document else None
        )
        error = from_dict(read.part(document, "error")) if document.get("error") else None
        return cls(
            first,
            read.text_or_none(document, "refined_response"),
            metadata,
            error,
            read.flag_or_none(document, "changed"),
            read.integer(document, "round", 2),
            read.text_or_none(document, "choice"),
        )


@dataclass(frozen=True, slots=True)
class ModelFailure:
    model: str
    phase: Phase
    error: CounselError

    def to_json(self) -> dict[str, object]:
        return {**self.error.as_dict(), "model": self.model, "status": "failed", "phase": self.phase}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> ModelFailure:
        return cls(
            read.text(document, "model"),
            cast("Phase", read.text(document, "phase", "initial")),
            from_dict(document),
        )

    def brief(self) -> str:
        """The model and its error, for a list of several failures."""
        message = self.error.message.rstrip(".")
        return message if message.startswith(f"{self.model} ") else f"{self.model}: {message}"

    def line(self) -> str:
        phase = PHASE_NAMES.get(self.phase, self.phase)
        message = " ".join(str(self.error).split())  # a vendor may write several lines
        return f"⚠ {self.model} failed in the {phase}: [{self.error.code}] {message}"


@dataclass(frozen=True, slots=True)
class ConsensusSettings:
    enable_cross_feedback: bool
    temperature: float
    models_requested: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "enable_cross_feedback": self.enable_cross_feedback,
            "temperature": self.temperature,
            "models_requested": list(self.models_requested),
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> ConsensusSettings:
        models = read.texts(document, "models_requested")
        return cls(
            read.flag(document, "enable_cross_feedback", default=True),
            read.number(document, "temperature"),
            models,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """The tokens and cost of a job, including its failed calls."""

    usage: Usage
    cost_usd: float | None
    cost_complete: bool  # False: some price is not known
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "usage": usage_to_json(self.usage),
            "cost_usd": self.cost_usd,
            "cost_complete": self.cost_complete,
            **without_empty(warnings=list(self.warnings)),
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Totals:
        cost = read.number_or_none(document, "cost_usd")
        usage = usage_from_json(read.part(document, "usage"), cost)
        return cls(
            usage, cost, read.flag(document, "cost_complete", default=True), read.texts(document, "warnings")
        )

    @classmethod
    def of(cls, usages: Sequence[Usage]) -> Totals:
        costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
        total = round(sum(costs), 8) if costs else None
        usage = Usage(
            input=sum(usage.input for usage in usages),
            output=sum(usage.output for usage in usages),
            cost_usd=total,
            estimated=any(usage.estimated for usage in usages),
        )
        return cls(usage, total, len(costs) == len(usages))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusResult:
    status: Verdict
    models_consulted: int
    initial: tuple[InitialAnswer, ...]
    refined: tuple[RefinedAnswer, ...]
    failed: tuple[ModelFailure, ...]
    continuation: Continuation
    settings: ConsensusSettings
    metadata: Totals
    job_id: str
    rounds: tuple[MiddleRound, ...] = ()  # those between the first and the last one
    verdict: JudgeVerdict | None = None
    vote: Vote | None = None
    refinement: Refinement | None = None  # None: from a release that did not report it
    title: str | None = None
    export: str | None = None
    final_summary: str | None = None
    document: dict[str, object] | None = field(default=None, repr=False)

    @property
    def refined_count(self) -> int:
        return sum(answer.text is not None for answer in self.refined)

    @property
    def answers(self) -> dict[str, str]:
        """Each model's last answer."""
        last = {answer.model: answer.text for answer in self.initial}
        return last | {answer.model: answer.text for answer in self.refined if answer.text}

    @property
    def content(self) -> str:
        """The result as one text: failures first, then the outcome, then the answers."""
        parts = [failure.line() for failure in self.failed]
        if len(self.answers) == 1 and self.models_consulted > 1:
            parts.append("Only one model answered: this is its opinion, not a consensus.")
        parts += verdict_text.sections(self.verdict, self.vote)
        parts += [f"## {model}\n\n{fences.closed(text)}" for model, text in self.answers.items()]
        return "\n\n".join(parts)

    def to_json(self) -> Json:
        if self.document is None:
            return self._to_dict(repeat=True)
        return self.document if "content" in self.document else self._from_row(self.document)

    def to_row(self) -> dict[str, object]:
        """The document as it is stored: nothing twice, so that long answers do not fill the disk."""
        return self._to_dict(repeat=False)

    def _to_dict(self, *, repeat: bool) -> dict[str, object]:
        return {
            "status": self.status,
            "models_consulted": self.models_consulted,
            "successful_initial_responses": len(self.initial),
            "failed_responses": sum(failure.phase == "initial" for failure in self.failed),
            "refined_responses": self.refined_count,
            **({"content": self.content} if repeat else {}),
            "phases": {
                "initial": json_list(self.initial),
                "refined": [answer.to_json(repeat=repeat) for answer in self.refined],
                "failed": json_list(self.failed),
                **({"rounds": json_list(self.rounds)} if self.rounds else {}),
                **({"verdict": self.verdict.to_json()} if self.verdict else {}),
            },
            **({"vote": self.vote.to_json()} if self.vote else {}),
            **({"refinement": self.refinement.to_json()} if self.refinement else {}),
            "continuation": self.continuation.to_json(),
            "settings": self.settings.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **without_empty(title=self.title, export=self.export, final_summary=self.final_summary),
        }

    def _from_row(self, row: dict[str, object]) -> dict[str, object]:
        """The stored document, completed with what `to_row` leaves out."""
        first = {answer.model: answer.text for answer in self.initial}
        phases = read.part(row, "phases")
        refined_answers = [
            {**entry, "initial_response": first.get(read.text(entry, "model"))}
            for entry in read.parts(phases, "refined")
        ]
        return {**row, "phases": {**phases, "refined": refined_answers}, "content": self.content}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> ConsensusResult:
        phases = read.part(document, "phases")
        initial = tuple(map(InitialAnswer.from_json, read.parts(phases, "initial")))
        first = {answer.model: answer for answer in initial}
        return cls(
            status=cast("Verdict", read.text(document, "status", "consensus_complete")),
            models_consulted=read.integer(document, "models_consulted"),
            initial=initial,
            refined=tuple(
                RefinedAnswer.from_json(
                    entry, first.get(read.text(entry, "model")) or InitialAnswer.from_json(entry)
                )
                for entry in read.parts(phases, "refined")
            ),
            failed=tuple(map(ModelFailure.from_json, read.parts(phases, "failed"))),
            continuation=Continuation.from_json(read.part(document, "continuation")),
            settings=ConsensusSettings.from_json(read.part(document, "settings")),
            metadata=Totals.from_json(read.part(document, "metadata")),
            job_id=read.text(document, "job_id"),
            rounds=tuple(map(MiddleRound.from_json, read.parts(phases, "rounds"))),
            verdict=JudgeVerdict.from_json(read.part(phases, "verdict")) if phases.get("verdict") else None,
            vote=Vote.from_json(read.part(document, "vote")) if document.get("vote") else None,
            refinement=Refinement.from_json(read.part(document, "refinement"))
            if document.get("refinement")
            else None,
            title=read.text_or_none(document, "title"),
            export=read.text_or_none(document, "export"),
            final_summary=read.text_or_none(document, "final_summary"),
            document=document,
        )
