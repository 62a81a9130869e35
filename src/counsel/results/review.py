"""The outcome of a review: merged findings of several models, each checked by a model that did not make it."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias, TypedDict, cast

from counsel import json_reader as read
from counsel.lazy_dataclass import dataclass
from counsel.results.consensus import ModelFailure, Totals
from counsel.results.parts import Continuation, json_list, without_empty
from counsel.types import Json

ReviewStatus: TypeAlias = Literal["review_complete", "review_partial"]
Severity: TypeAlias = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
# agreed: all members made it. unchecked: there was no other member to check it, or that member failed.
FindingStatus: TypeAlias = Literal["agreed", "confirmed", "unsure", "unchecked", "disputed"]
STATUSES: tuple[FindingStatus, ...] = ("agreed", "confirmed", "unsure", "unchecked", "disputed")
# diff: at a changed line or near it. outside: elsewhere. missing: there is no such file or line.
Location: TypeAlias = Literal["diff", "outside", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFinding:
    """A finding as one member made it."""

    model: str
    severity: Severity
    title: str
    reason: str
    suggestion: str

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "severity": self.severity,
            "title": self.title,
            "reason": self.reason,
            "suggestion": self.suggestion,
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> MemberFinding:
        return cls(
            model=read.text(document, "model"),
            severity=cast("Severity", read.text(document, "severity", "medium")),
            title=read.text(document, "title"),
            reason=read.text(document, "reason"),
            suggestion=read.text(document, "suggestion"),
        )


Verdict: TypeAlias = Literal["confirmed", "disputed", "unsure"]


@dataclass(frozen=True, slots=True)
class Check:
    """The opinion of a member that did not make the finding."""

    model: str
    verdict: Verdict
    reason: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "verdict": self.verdict, "reason": self.reason}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Check:
        return cls(
            read.text(document, "model"),
            cast("Verdict", read.text(document, "verdict", "unsure")),
            read.text(document, "reason"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    id: str
    file: str
    line: int | None  # None: the finding is about the whole file
    end_line: int | None
    severity: Severity  # the worst of its members' severities
    status: FindingStatus
    location: Location
    title: str
    reason: str
    suggestion: str
    made_by: tuple[MemberFinding, ...]
    check: Check | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(maker.model for maker in self.made_by)

    @property
    def stands(self) -> bool:
        """Whether the finding counts: nobody disputed it, and its place exists."""
        return self.status != "disputed" and self.location != "missing"

    @property
    def place(self) -> str:
        if self.line is None:
            return self.file
        span = f"-{self.end_line}" if self.end_line and self.end_line > self.line else ""
        return f"{self.file}:{self.line}{span}"

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "file": self.file,
            "line": self.line,
            "end_line": self.end_line,
            "severity": self.severity,
            "status": self.status,
            "location": self.location,
            "title": self.title,
            "reason": self.reason,
            "suggestion": self.suggestion,
            "found_by": list(self.models),
            "made_by": json_list(self.made_by),
            "check": self.check.to_json() if self.check else None,
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Finding:
        return cls(
            id=read.text(document, "id"),
            file=read.text(document, "file"),
            line=read.integer_or_none(document, "line"),
            end_line=read.integer_or_none(document, "end_line"),
            severity=cast("Severity", read.text(document, "severity", "medium")),
            status=cast("FindingStatus", read.text(document, "status", "unchecked")),
            location=cast("Location", read.text(document, "location", "diff")),
            title=read.text(document, "title"),
            reason=read.text(document, "reason"),
            suggestion=read.text(document, "suggestion"),
            made_by=tuple(map(MemberFinding.from_json, read.parts(document, "made_by"))),
            check=Check.from_json(read.part(document, "check")) if document.get("check") else None,
        )


# failed: it made no review. check_failed: it reviewed, but did not check the others' findings.
ReviewerStatus: TypeAlias = Literal["reviewed", "check_failed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """A member, what it did, and how much of the change it was sent."""

    model: str
    status: ReviewerStatus = "reviewed"
    findings: int = 0
    checked: int = 0
    context_lines: int | None = None  # unchanged lines around each change; None: all that were collected
    left_out: tuple[str, ...] = ()  # files that did not fit its window

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "status": self.status,
            "findings": self.findings,
            "checked": self.checked,
            "context_lines": self.context_lines,
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Reviewer:
        return cls(
            model=read.text(document, "model"),
            status=cast("ReviewerStatus", read.text(document, "status", "reviewed")),
            findings=read.integer(document, "findings"),
            checked=read.integer(document, "checked"),
            context_lines=read.integer_or_none(document, "context_lines"),
            left_out=read.texts(document, "left_out"),
        )


class LeftOutFile(TypedDict):
    file: str
    reason: str


def _left_out_file(document: dict[str, object]) -> LeftOutFile:
    return {"file": read.text(document, "file"), "reason": read.text(document, "reason")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    status: ReviewStatus
    about: str  # what was compared
    files: tuple[str, ...]  # the reviewed files
    left_out: tuple[LeftOutFile, ...]  # files that were sent to no member
    findings: tuple[Finding, ...]  # worst first
    reviewers: tuple[Reviewer, ...]
    failed: tuple[ModelFailure, ...]
    continuation: Continuation
    metadata: Totals
    job_id: str
    title: str | None = None
    export: str | None = None
    final_summary: str | None = None
    document: dict[str, object] | None = field(default=None, repr=False)

    @property
    def content(self) -> str:
        from counsel.results import review_text  # rarely needed

        return review_text.text(self)

    def worst(self, severity: str, *, disputed: bool = False) -> tuple[Finding, ...]:
        """Findings of this severity or worse that stand; with `disputed`, also the disputed ones."""
        limit = SEVERITIES.index(severity)
        return tuple(
            finding
            for finding in self.findings
            if SEVERITIES.index(finding.severity) <= limit
            and (finding.stands or (disputed and finding.location != "missing"))
        )

    def to_json(self) -> Json:
        if self.document is not None and "content" in self.document:
            return self.document
        return {**(self.document or self._to_dict()), "content": self.content}

    def to_row(self) -> dict[str, object]:
        """The document as it is stored."""
        return self._to_dict()

    def _to_dict(self) -> dict[str, object]:
        return {
            "status": self.status,
            "about": self.about,
            "files": list(self.files),
            "left_out": list(self.left_out),
            "findings": json_list(self.findings),
            "reviewers": json_list(self.reviewers),
            "failed": json_list(self.failed),
            "continuation": self.continuation.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **without_empty(title=self.title, export=self.export, final_summary=self.final_summary),
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> ReviewResult:
        return cls(
            status=cast("ReviewStatus", read.text(document, "status", "review_complete")),
            about=read.text(document, "about"),
            files=read.texts(document, "files"),
            left_out=tuple(map(_left_out_file, read.parts(document, "left_out"))),
            findings=tuple(map(Finding.from_json, read.parts(document, "findings"))),
            reviewers=tuple(map(Reviewer.from_json, read.parts(document, "reviewers"))),
            failed=tuple(map(ModelFailure.from_json, read.parts(document, "failed"))),
            continuation=Continuation.from_json(read.part(document, "continuation")),
            metadata=Totals.from_json(read.part(document, "metadata")),
            job_id=read.text(document, "job_id"),
            title=read.text_or_none(document, "title"),
            export=read.text_or_none(document, "export"),
            final_summary=read.text_or_none(document, "final_summary"),
            document=document,
        )
