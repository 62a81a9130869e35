"""What one model answered, and a background job that was accepted."""

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
    export: str | None = None  # the folder
    final_summary: str | None = None
    parts: tuple[AnswerPart, ...] = ()  # of a completion: text, tool calls and reasoning, in order
    stopped_by: str | None = None  # of a completion: the stop sequence
    document: dict[str, object] | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        return {
            "content": self.content,
            "continuation": self.continuation.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **without_empty(title=self.title, export=self.export, final_summary=self.final_summary),
            **without_empty(parts=list(self.parts), stopped_by=self.stopped_by),
        }

    def to_row(self) -> dict[str, object]:
        """As it is stored."""
        return self.to_json()

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> ChatResult:
        return cls(
            content=read.text(shown, "content"),
            continuation=Continuation.from_json(read.part(shown, "continuation")),
            metadata=AnswerMetadata.from_json(read.part(shown, "metadata")),
            job_id=read.text(shown, "job_id"),
            title=read.text_or_none(shown, "title"),
            export=read.text_or_none(shown, "export"),
            final_summary=read.text_or_none(shown, "final_summary"),
            parts=tuple(map(answer_parts.from_json, read.parts(shown, "parts"))),
            stopped_by=read.text_or_none(shown, "stopped_by"),
            document=shown,
        )


Result: TypeAlias = ChatResult | ConsensusResult | ReviewResult


def result_from_json(shown: dict[str, object]) -> Result:
    if "findings" in shown:
        return ReviewResult.from_json(shown)
    return ConsensusResult.from_json(shown) if "phases" in shown else ChatResult.from_json(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a background call answers at once."""

    content: str  # the status line
    continuation: Continuation
    job_id: str
    models: tuple[str, ...] | None = None  # of a consensus that has just begun
    note: str | None = None
    document: dict[str, object] | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        shown: dict[str, object] = {
            "content": self.content,
            "continuation": self.continuation.to_json(),
            "async_execution": True,
            "job_id": self.job_id,
        }
        if self.models is not None:
            shown["metadata"] = {
                "total_models": len(self.models),
                "successful_models": 0,
                "models_list": ",".join(self.models),
            }
        return shown | without_empty(note=self.note)

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Accepted:
        models = read.text(read.part(shown, "metadata"), "models_list")
        return cls(
            content=read.text(shown, "content"),
            continuation=Continuation.from_json(read.part(shown, "continuation")),
            job_id=read.text(shown, "job_id"),
            models=tuple(models.split(",")) if models else None,
            note=read.text_or_none(shown, "note"),
            document=shown,
        )
