"""A conversation's messages and their details: a question's files and settings, an answer's model and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias, cast

from counsel import json_reader as read
from counsel.lazy_dataclass import dataclass
from counsel.results.consensus import Totals
from counsel.results.parts import AnswerMetadata, AnswerSummary, Source, json_list, without_empty
from counsel.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDetails:
    sources: tuple[Source, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)  # those that the caller chose
    files_sent: Mapping[str, str] = field(default_factory=dict)  # path and range -> hash of the lines
    document: dict[str, object] | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        return without_empty(
            sources=json_list(self.sources), settings=self.settings, files_sent=dict(self.files_sent)
        )

    @classmethod
    def from_json(cls, document: dict[str, object]) -> QuestionDetails:
        return cls(
            sources=tuple(map(Source.from_json, read.parts(document, "sources"))),
            settings=read.part(document, "settings"),
            files_sent=cast("dict[str, str]", read.part(document, "files_sent")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Incomplete:
    """How a job ended before all of its models had answered."""

    status: str
    answered: tuple[str, ...] | None = None  # of a consensus
    unanswered: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {"partial": True, "status": self.status}
        if self.answered is not None:
            document |= {"answered": list(self.answered), "unanswered": list(self.unanswered)}
        return document

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Incomplete:
        answered = read.texts(document, "answered") if "answered" in document else None
        return cls(read.text(document, "status"), answered, read.texts(document, "unanswered"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDetails:
    answer: AnswerMetadata | None = None  # of a single model
    incomplete: Incomplete | None = None
    totals: Totals | None = None  # of a consensus, or of a job that did not complete
    members: tuple[AnswerSummary, ...] = ()  # the models of a consensus that answered
    has_thinking: bool = False  # of a single model; the thinking itself is in the job's events
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
        document: dict[str, object] = {}
        for part in (self.answer, self.incomplete, self.totals):
            if part is not None:
                document |= part.to_json()
        return document | without_empty(models=json_list(self.members), has_thinking=self.has_thinking)

    @classmethod
    def from_json(cls, document: dict[str, object]) -> AnswerDetails:
        return cls(
            answer=AnswerMetadata.from_json(document) if "model" in document else None,
            incomplete=Incomplete.from_json(document) if document.get("partial") else None,
            totals=Totals.from_json(document) if "cost_complete" in document else None,
            members=tuple(map(AnswerSummary.from_json, read.parts(document, "models"))),
            has_thinking=bool(document.get("has_thinking")),
            document=document,
        )


MessageDetails: TypeAlias = QuestionDetails | AnswerDetails


def details_from_json(role: str, document: dict[str, object]) -> MessageDetails:
    return QuestionDetails.from_json(document) if role == "user" else AnswerDetails.from_json(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    role: str
    content: str
    at: str
    images: int = 0
    details: MessageDetails = field(default_factory=QuestionDetails)

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {"role": self.role, "content": self.content, "at": self.at}
        return document | without_empty(images=self.images, metadata=self.details.to_json())

    @classmethod
    def from_json(cls, document: dict[str, object]) -> HistoryMessage:
        role = read.text(document, "role")
        return cls(
            role=role,
            content=read.text(document, "content"),
            at=read.text(document, "at"),
            images=read.integer(document, "images"),
            details=details_from_json(role, read.part(document, "metadata")),
        )
