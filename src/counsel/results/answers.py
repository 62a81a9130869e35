"""One model's answer, and the reply to a background call."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from counsel import answer_parts
from counsel import json_reader as read
from counsel.answer_parts import AnswerPart
from counsel.lazy_dataclass import dataclass
from counsel.results.consensus import ConsensusResult
from counsel.results.parts import AnswerMetadata, Continuation, without_empty
from counsel.results.review import ReviewResult
from counsel.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatResult:
    content: str
    continuation: Continuation
    metadata: AnswerMetadata
    job_id: str
    title: str | None = None
    export: str | None = None  # the folder with the exported files
    final_summary: str | None = None
    parts: tuple[AnswerPart, ...] = ()  # completions: text, tool calls and reasoning, in order
    stopped_by: str | None = None  # completions: the stop sequence
    document: dict[str, object] | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        return {
            "content": self.content,
            "continuation": self.continuation.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **without_empty(
                title=self.title,
                export=self.export,
                final_summary=self.final_summary,
                parts=self.parts and list(self.parts),
                stopped_by=self.stopped_by,
            ),
        }

    def to_row(self) -> dict[str, object]:
        """The document as it is stored."""
        return self.to_json()

    @classmethod
    def from_json(cls, document: dict[str, object]) -> ChatResult:
        return cls(
            content=read.text(document, "content"),
            continuation=Continuation.from_json(read.part(document, "continuation")),
            metadata=AnswerMetadata.from_json(read.part(document, "metadata")),
            job_id=read.text(document, "job_id"),
            title=read.text_or_none(document, "title"),
            export=read.text_or_none(document, "export"),
            final_summary=read.text_or_none(document, "final_summary"),
            parts=tuple(map(answer_parts.from_json, read.parts(document, "parts"))),
            stopped_by=read.text_or_none(document, "stopped_by"),
            document=document,
        )


Result: TypeAlias = ChatResult | ConsensusResult | ReviewResult


def result_from_json(document: dict[str, object]) -> Result:
    if "findings" in document:
        return ReviewResult.from_json(document)
    return ConsensusResult.from_json(document) if "phases" in document else ChatResult.from_json(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The immediate reply to a background call."""

    content: str  # the status line
    continuation: Continuation
    job_id: str
    models: tuple[str, ...] | None = None  # of a consensus
    note: str | None = None
    document: dict[str, object] | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        document: dict[str, object] = {
            "content": self.content,
            "continuation": self.continuation.to_json(),
            "async_execution": True,
            "job_id": self.job_id,
        }
        if self.models is not None:
            document["metadata"] = {
                "total_models": len(self.models),
                "successful_models": 0,
                "models_list": ",".join(self.models),
            }
        return document | without_empty(note=self.note)

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Accepted:
        models = read.text(read.part(document, "metadata"), "models_list")
        return cls(
            content=read.text(document, "content"),
            continuation=Continuation.from_json(read.part(document, "continuation")),
            job_id=read.text(document, "job_id"),
            models=tuple(models.split(",")) if models else None,
            note=read.text_or_none(document, "note"),
            document=document,
        )
