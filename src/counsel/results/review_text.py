"""A review as text for people: the summary, then the findings, worst first, then what was not reviewed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from counsel.results.review import Finding, LeftOutFile, ReviewResult
from counsel.text import counted

WIDTH = 80
_MOST_FILES = 20  # files that are named; the JSON document lists all
_MARKS = {
    "outside": "outside the change",
    "missing": "no such file or line",
}


def text(result: ReviewResult, width: int = WIDTH) -> str:
    blocks = [_summary(result, width)]
    blocks += [_failure(line.line(), width) for line in result.failed]
    blocks += ["\n".join(_finding(finding, width)) for finding in result.findings]
    if gaps := "\n".join(_gaps(result, width)):
        blocks.append(gaps)
    return "\n\n".join(blocks)


def _summary(result: ReviewResult, width: int) -> str:
    if not result.reviewers:
        return _wrapped(f"Nothing to review: {result.about}.", width)
    models = ", ".join(reviewer.model for reviewer in result.reviewers if reviewer.status != "failed")
    findings = counted(len(result.findings), "finding") if result.findings else "No findings"
    disputed_count = sum(finding.status == "disputed" for finding in result.findings)
    note = f" ({disputed_count} disputed)" if disputed_count else ""
    files = counted(len(result.files), "file")
    return _wrapped(f"{findings}{note} in {files}: {result.about}. Reviewed by {models}.", width)


def _finding(finding: Finding, width: int) -> Iterator[str]:
    marks = [finding.status, *filter(None, [_MARKS.get(finding.location)])]
    yield from textwrap.wrap(
        f"{finding.severity.upper()}  {finding.place}  ({', '.join(marks)})",
        width,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )
    yield _wrapped(finding.title, width, "  ")
    if finding.reason and finding.reason != finding.title:
        yield _wrapped(finding.reason, width, "  ")
    if finding.suggestion:
        yield _wrapped(f"Fix: {finding.suggestion}", width, "  ")
    yield _wrapped(f"Found by {', '.join(finding.models)}{_severities(finding)}.", width, "  ")
    if check := finding.check:
        reason = f" {check.reason}" if check.reason else ""
        yield _wrapped(f"{check.model} checked it: {check.verdict}.{reason}", width, "  ")


def _severities(finding: Finding) -> str:
    """Each member's severity, if they disagree about it."""
    if len({maker.severity for maker in finding.made_by}) == 1:
        return ""
    return f" ({', '.join(f'{maker.model}: {maker.severity}' for maker in finding.made_by)})"


def _gaps(result: ReviewResult, width: int) -> Iterator[str]:
    for line in not_reviewed(result.left_out):
        yield _wrapped(line, width)
    for reviewer in result.reviewers:
        if reviewer.left_out:
            names, more = ", ".join(reviewer.left_out[:_MOST_FILES]), len(reviewer.left_out) - _MOST_FILES
            names += f" and {counted(more, 'other')}" if more > 0 else ""
            yield _wrapped(f"Not sent to {reviewer.model}, for lack of space: {names}.", width)
        elif reviewer.context_lines is not None:
            lines = counted(reviewer.context_lines, "line")
            yield _wrapped(f"{reviewer.model} was sent only {lines} around each change.", width)


def not_reviewed(left_out: Sequence[LeftOutFile]) -> Iterator[str]:
    for entry in left_out[:_MOST_FILES]:
        yield f"Not reviewed: {entry['file']}: {entry['reason']}."
    if (more := len(left_out) - _MOST_FILES) > 0:
        yield f"Not reviewed: {counted(more, 'other file')}."


def _failure(line: str, width: int) -> str:
    return _wrapped(line, width)


def _wrapped(paragraphs: str, width: int, indent: str = "") -> str:
    """Wrap each paragraph by itself. A word that is longer than a line is not broken: it may be a path."""
    lines: list[str] = []
    for paragraph in paragraphs.strip().splitlines():
        paragraph_lines = textwrap.wrap(
            paragraph,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += paragraph_lines or [""]
    return "\n".join(lines)
