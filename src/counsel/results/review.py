"""The outcome of a review: findings of several models, merged, each checked by a model that did not make it."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias, TypedDict, cast

from counsel import json_reader as read
from counsel.lazy_dataclass import dataclass
from counsel.results.consensus import ModelFailure, Totals
from counsel.results.parts import Continuation, listed, without_empty
from counsel.types import Json

ReviewStatus: TypeAlias = Literal["review_complete", "review_partial"]
Severity: TypeAlias = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low", "info")
# agreed: all members made it. unchecked: there was no other member to check it, or that one failed.
FindingStatus: TypeAlias = Literal["agreed", "confirmed", "unsure", "unchecked", "disputed"]
STATUSES: tuple[FindingStatus, ...] = ("agreed", "confirmed", "unsure", "unchecked", "disputed")
# diff: at a changed line or near it. outside: elsewhere. missing: there is no such file or line.
Location: TypeAlias = Literal["diff", "outside", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBy:
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
    def from_json(cls, shown: dict[str, object]) -> MadeBy:
        return cls(
            model=read.text(shown, "model"),
            severity=cast("Severity", read.text(shown, "severity", "medium")),
            title=read.text(shown, "title"),
            reason=read.text(shown, "reason"),
            suggestion=read.text(shown, "suggestion"),
        )


Verdict: TypeAlias = Literal["confirmed", "disputed", "unsure"]


@dataclass(frozen=True, slots=True)
class Check:
    """What a member that did not make the finding says about it."""

    model: str
    verdict: Verdict
    reason: str

    def to_json(self) -> dict[str, object]:
        return {"model": self.model, "verdict": self.verdict, "reason": self.reason}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Check:
        return cls(
            read.text(shown, "model"),
            cast("Verdict", read.text(shown, "verdict", "unsure")),
            read.text(shown, "reason"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    id: str
    file: str
    line: int | None  # None: it is about the whole file
    end_line: int | None
    severity: Severity  # the worst that a member gave
    status: FindingStatus
    location: Location
    title: str
    reason: str
    suggestion: str
    made_by: tuple[MadeBy, ...]
    check: Check | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(maker.model for maker in self.made_by)

    @property
    def stands(self) -> bool:
        """It counts: nobody disputed it, and its place exists."""
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
            "made_by": listed(self.made_by),
            "check": self.check.to_json() if self.check else None,
        }

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Finding:
        return cls(
            id=read.text(shown, "id"),
            file=read.text(shown, "file"),
            line=read.integer_or_none(shown, "line"),
            end_line=read.integer_or_none(shown, "end_line"),
            severity=cast("Severity", read.text(shown, "severity", "medium")),
            status=cast("FindingStatus", read.text(shown, "status", "unchecked")),
            location=cast("Location", read.text(shown, "location", "diff")),
            title=read.text(shown, "title"),
            reason=read.text(shown, "reason"),
            suggestion=read.text(shown, "suggestion"),
            made_by=tuple(map(MadeBy.from_json, read.parts(shown, "made_by"))),
            check=Check.from_json(read.part(shown, "check")) if shown.get("check") else None,
        )


# failed: it made no review. check_failed: it reviewed, and did not check the others' findings.
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
    def from_json(cls, shown: dict[str, object]) -> Reviewer:
        return cls(
            model=read.text(shown, "model"),
            status=cast("ReviewerStatus", read.text(shown, "status", "reviewed")),
            findings=read.integer(shown, "findings"),
            checked=read.integer(shown, "checked"),
            context_lines=read.integer_or_none(shown, "context_lines"),
            left_out=read.texts(shown, "left_out"),
        )


class LeftOutFile(TypedDict):
    file: str
    reason: str


def _left_out(shown: dict[str, object]) -> LeftOutFile:
    return {"file": read.text(shown, "file"), "reason": read.text(shown, "reason")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    status: ReviewStatus
    about: str  # what was compared
    files: tuple[str, ...]  # that were reviewed
    left_out: tuple[LeftOutFile, ...]  # that no member was sent
    findings: tuple[Finding, ...]  # the worst first
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
        from counsel.results import review_text  # few results are reviews

        return review_text.text(self)

    def worst(self, severity: str, *, disputed: bool = False) -> tuple[Finding, ...]:
        """Findings of this severity or worse that stand; with `disputed`, also those that were disputed."""
        most = SEVERITIES.index(severity)
        return tuple(
            finding
            for finding in self.findings
            if SEVERITIES.index(finding.severity) <= most
            and (finding.stands or (disputed and finding.location != "missing"))
        )

    def to_json(self) -> Json:
        if self.document is not None and "content" in self.document:
            return self.document
        return {**(self.document or self._shown()), "content": self.content}

    def to_row(self) -> dict[str, object]:
        """As it is stored."""
        return self._shown()

    def _shown(self) -> dict[str, object]:
        return {
            "status": self.status,
            "about": self.about,
            "files": list(self.files),
            "left_out": list(self.left_out),
            "findings": listed(self.findings),
            "reviewers": listed(self.reviewers),
            "failed": listed(self.failed),
            "continuation": self.continuation.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **without_empty(title=self.title, export=self.export, final_summary=self.final_summary),
        }

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> ReviewResult:
        return cls(
            status=cast("ReviewStatus", read.text(shown, "status", "review_complete")),
            about=read.text(shown, "about"),
            files=read.texts(shown, "files"),
            left_out=tuple(map(_left_out, read.parts(shown, "left_out"))),
            findings=tuple(map(Finding.from_json, read.parts(shown, "findings"))),
            reviewers=tuple(map(Reviewer.from_json, read.parts(shown, "reviewers"))),
            failed=tuple(map(ModelFailure.from_json, read.parts(shown, "failed"))),
            continuation=Continuation.from_json(read.part(shown, "continuation")),
            metadata=Totals.from_json(read.part(shown, "metadata")),
            job_id=read.text(shown, "job_id"),
            title=read.text_or_none(shown, "title"),
            export=read.text_or_none(shown, "export"),
            final_summary=read.text_or_none(shown, "final_summary"),
            document=shown,
        )
