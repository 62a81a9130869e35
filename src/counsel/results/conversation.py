"""A conversation's messages, and what is stored beside each: of a question its files and settings, of an answer who gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias, cast

from counsel import json_reader as read
from counsel.lazy_dataclass import dataclass
from counsel.results.consensus import Totals
from counsel.results.parts import AnswerMetadata, AnswerSummary, Source, listed, without_empty
from counsel.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDetails:
    sources: tuple[Source, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)  # those that the caller chose, by name
    files_sent: Mapping[str, str] = field(default_factory=dict)  # by path and range: the hash of the lines
    document: dict[str, object] | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        return without_empty(
            sources=listed(self.sources), settings=self.settings, files_sent=dict(self.files_sent)
        )

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> QuestionDetails:
        return cls(
            sources=tuple(map(Source.from_json, read.parts(shown, "sources"))),
            settings=read.part(shown, "settings"),
            files_sent=cast("dict[str, str]", read.part(shown, "files_sent")),
            document=shown,
        )


@dataclass(frozen=True, slots=True)
class Incomplete:
    """How a job ended before all of its models had answered."""

    status: str
    answered: tuple[str, ...] | None = None  # of a consensus
    unanswered: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"partial": True, "status": self.status}
        if self.answered is not None:
            shown |= {"answered": list(self.answered), "unanswered": list(self.unanswered)}
        return shown

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Incomplete:
        answered = read.texts(shown, "answered") if "answered" in shown else None
        return cls(read.text(shown, "status"), answered, read.texts(shown, "unanswered"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDetails:
    answer: AnswerMetadata | None = None  # of a single model
    incomplete: Incomplete | None = None
    totals: Totals | None = None  # of a consensus, or of a job that did not complete
    members: tuple[AnswerSummary, ...] = ()  # of a consensus: those that answered
    has_thinking: bool = False  # of a single model; the job's events have it
    document: dict[str, object] | None = field(default=None, repr=False)

    @property
    def model(self) -> str | None:
        return self.answer.model if self.answer else None

    @property
    def spent(self) -> AnswerMetadata | Totals | None:
        return self.totals or self.answer

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        shown: dict[str, object] = {}
        for part in (self.answer, self.incomplete, self.totals):
            if part is not None:
                shown |= part.to_json()
        return shown | without_empty(models=listed(self.members), has_thinking=self.has_thinking)

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> AnswerDetails:
        return cls(
            answer=AnswerMetadata.from_json(shown) if "model" in shown else None,
            incomplete=Incomplete.from_json(shown) if shown.get("partial") else None,
            totals=Totals.from_json(shown) if "cost_complete" in shown else None,
            members=tuple(map(AnswerSummary.from_json, read.parts(shown, "models"))),
            has_thinking=bool(shown.get("has_thinking")),
            document=shown,
        )


MessageDetails: TypeAlias = QuestionDetails | AnswerDetails


def details_from_json(role: str, shown: dict[str, object]) -> MessageDetails:
    return QuestionDetails.from_json(shown) if role == "user" else AnswerDetails.from_json(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    role: str
    content: str
    at: str
    images: int = 0
    details: MessageDetails = field(default_factory=QuestionDetails)

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"role": self.role, "content": self.content, "at": self.at}
        return shown | without_empty(images=self.images, metadata=self.details.to_json())

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> HistoryMessage:
        role = read.text(shown, "role")
        return cls(
            role=role,
            content=read.text(shown, "content"),
            at=read.text(shown, "at"),
            images=read.integer(shown, "images"),
            details=details_from_json(role, read.part(shown, "metadata")),
        )
