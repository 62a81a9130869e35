"""A review for other programs: SARIF 2.1.0 for code scanning, and workflow commands, which GitHub shows in the code."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from counsel import __version__
from counsel.results.review import Finding, ReviewResult, Severity

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
# GitHub sorts code scanning alerts by this number (CVSS-like, 0 to 10).
_SCORES: dict[Severity, str] = {
    "critical": "9.5",
    "high": "8.0",
    "medium": "5.0",
    "low": "3.0",
    "info": "0.0",
}
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


# ── SARIF ────────────────────────────────────────────────────────────────────────────────────────────


def sarif(result: ReviewResult) -> dict[str, object]:
    """One run, with a rule for each severity. Findings whose file or line does not exist become notifications: GitHub
    refuses a whole file if one result has no location (github/codeql-action#2459)."""
    findings = [finding for finding in result.findings if finding.location != "missing"]
    severities = {finding.severity for finding in findings}
    rules = [severity for severity in _LEVELS if severity in severities]
    run: dict[str, object] = {
        "tool": {
            "driver": {
                "name": "counsel review",
                "version": __version__,
                "rules": [_rule(severity) for severity in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": level, "message": {"text": text}} for level, text in _notifications(result)
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules.index(finding.severity)) for finding in findings],
        "properties": {
            "about": result.about,
            "jobId": result.job_id,
            "reviewers": [reviewer.model for reviewer in result.reviewers if reviewer.status != "failed"],
            "leftOut": list(result.left_out),
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _notifications(result: ReviewResult) -> Iterator[tuple[str, str]]:
    for failure in result.failed:
        yield "warning", failure.line()
    for finding in result.findings:
        if finding.location == "missing":
            yield "note", f"{finding.place} does not exist: {_message(finding)}"


def _rule(severity: Severity) -> dict[str, object]:
    return {
        "id": f"review/{severity}",
        "name": f"Review{severity.capitalize()}",
        "shortDescription": {"text": f"A finding of severity {severity} by a panel of models."},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {"security-severity": _SCORES[severity], "tags": ["review"]},
    }


def _result(finding: Finding, rule: int) -> dict[str, object]:
    document: dict[str, object] = {
        "locations": [_location(finding)],
        "ruleId": f"review/{finding.severity}",
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "partialFingerprints": {"counselFinding/v1": finding.id},
        "properties": {
            "status": finding.status,
            "location": finding.location,
            "foundBy": list(finding.models),
            **({"check": finding.check.to_json()} if finding.check else {}),
        },
    }
    if finding.status == "disputed" and finding.check:
        # Code scanning shows suppressed results as dismissed.
        document["suppressions"] = [
            {"kind": "external", "justification": finding.check.reason or "Disputed."}
        ]
    return document


def _location(finding: Finding) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": quote(finding.file)}}
    if finding.line is not None:
        place["region"] = {
            "startLine": finding.line,
            "endLine": max(finding.line, finding.end_line or finding.line),
        }
    return {"physicalLocation": place}


def _message(finding: Finding) -> str:
    fix = f"Fix: {finding.suggestion}" if finding.suggestion else ""
    return "\n\n".join(part for part in (finding.title, finding.reason, fix, _about(finding)) if part)


def _about(finding: Finding) -> str:
    check = f" Checked by {finding.check.model}: {finding.check.verdict}." if finding.check else ""
    return f"Found by {', '.join(finding.models)} ({finding.status}).{check}"


# ── GitHub workflow commands ─────────────────────────────────────────────────────────────────────────


def github(result: ReviewResult) -> list[str]:
    """One line per finding; disputed findings are notices."""
    lines = [_annotation(finding) for finding in result.findings]
    return lines + [f"::warning title=counsel review::{_data(failure.line())}" for failure in result.failed]


def _annotation(finding: Finding) -> str:
    command = "notice" if finding.status == "disputed" else _COMMANDS[_LEVELS[finding.severity]]
    title = f"{finding.severity} ({finding.status})"
    properties = {"title": title}
    if finding.location != "missing":
        properties = {"file": finding.file, **_lines(finding), **properties}
    document = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {document}::{_data(_message(finding))}"


def _lines(finding: Finding) -> dict[str, str]:
    if finding.line is None:
        return {}
    return {"line": str(finding.line), "endLine": str(max(finding.line, finding.end_line or finding.line))}


def _data(text: str) -> str:
    """Escape a command's message like GitHub's own toolkit, so that nothing in it can begin another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
