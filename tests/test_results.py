"""Results for programs: read back from JSON, as SARIF, as GitHub's commands; and amounts for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counsel import amounts
from counsel.errors import NotFound
from counsel.results import LeftOutFile, review_formats
from counsel.results.answers import Accepted
from counsel.results.jobs import Cancellation, JobList, JobStatus, JobSummary, ModelState
from counsel.results.parts import Continuation
from counsel.results.review import Finding, ReviewResult
from counsel.types import Usage

SUMMARY: dict[str, Any] = {
    "id": "conv_1",
    "job_id": "job_1",
    "status": "failed",
    "tool": "chat",
    "models": ["gpt-5"],
    "progress": {"completed": 1, "total": 3, "percentage": 33},
    "elapsed_seconds": 2.5,
    "started_at": "2026-01-01T00:00:00Z",
    "completed_at": "2026-01-01T00:00:02Z",
    "title": "t",
    "summary": "s",
}
STATE: dict[str, Any] = {
    "slot": "0",
    "model": "gpt-5",
    "status": "failed",
    "phase": "initial",
    "text": "so far",
    "error": NotFound("no", hint="look").as_dict(),
    "partial": "so",
    "initial_response": "first",
}

# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_in_a_list_is_read_back() -> None:
    summary = JobSummary.from_json(SUMMARY)
    assert summary.to_json() == SUMMARY
    assert (summary.completed, summary.total, summary.is_open) == (1, 3, False)
    assert summary.cost_complete
    assert summary.outcome() == {}
    rich = {**SUMMARY, "model": "gpt-5", "provider": "openai", "cost_usd": 0.0, "cost_complete": False}
    assert JobSummary.from_json(rich).outcome() == {
        "model": "gpt-5", "provider": "openai", "cost_usd": 0.0, "cost_complete": False
    }  # fmt: skip
    empty = JobSummary.from_json({})
    assert (empty.status, empty.is_open, empty.completed, empty.total) == ("processing", True, 0, 0)
    assert empty.to_json()["progress"] == {"completed": 0, "total": 0, "percentage": 0}
    jobs: dict[str, Any] = {"content": {"jobs": [SUMMARY]}}
    assert JobList.from_json(jobs).to_json() == jobs
    assert JobList.from_json(jobs).jobs == (summary,)


def test_a_models_state_is_read_back() -> None:
    state = ModelState.from_json(STATE)
    assert state.to_json() == STATE
    assert isinstance(state.error, NotFound)
    assert ModelState.from_json({}).status == "waiting"
    assert ModelState.from_json({}).error is None


def test_a_jobs_status_is_read_back() -> None:
    history = [{"role": "user", "content": "why?", "at": "2026", "images": 2}]
    content = {
        **SUMMARY, "models_status": [STATE], "error": STATE["error"], "final_summary": "f", "history": history,
        "status_line": "line", "result": {"content": "answer", "job_id": "job_1"},
    }  # fmt: skip
    status = JobStatus.from_json({"content": content})
    assert status.to_json() == {"content": content}
    assert isinstance(status.error, NotFound)
    assert status.models_status is not None
    assert [state.to_json() for state in status.models_status] == [STATE]
    assert status.result is not None
    assert status.result.content == "answer"
    assert status.history is not None
    assert [message.to_json() for message in status.history] == history
    assert (status.status_line, status.final_summary) == ("line", "f")
    plain = JobStatus.from_json({"content": SUMMARY})
    assert (plain.models_status, plain.result, plain.error, plain.history) == (None, None, None, None)


def test_a_cancellation_is_read_back() -> None:
    content = {
        "status": "cancelled", "message": "m", "job_id": "j", "elapsed_seconds": 1.5, "cancelled_at": "2026",
        "member": "1",
    }  # fmt: skip
    assert Cancellation.from_json({"content": content}).to_json() == {"content": content}
    document = {"status": "completed", "message": "m", "job_id": "j"}
    assert Cancellation.from_json({"content": document}).to_json() == {"content": document}


def test_what_a_background_call_answers_is_read_back() -> None:
    continuation = Continuation(id="conv_1")
    accepted = Accepted(content="c", continuation=continuation, job_id="j", models=("a", "b"), note="n")
    document = accepted.to_json()
    assert document["metadata"] == {"total_models": 2, "successful_models": 0, "models_list": "a,b"}
    assert document["async_execution"] is True
    again = Accepted.from_json(document)
    assert (again.content, again.job_id, again.models, again.note) == ("c", "j", ("a", "b"), "n")
    assert again.continuation.id == "conv_1"
    assert again.to_json() == document
    alone = Accepted(content="c", continuation=continuation, job_id="j").to_json()
    assert "metadata" not in alone
    assert Accepted.from_json(alone).models is None


# ── reviews ──────────────────────────────────────────────────────────────────────────────────────────


def finding(number: int, **fields: Any) -> dict[str, Any]:
    maker = {"model": "gpt-5", "title": "t", "reason": "r"}
    return {
        "id": f"f{number}", "file": "a b.py", "line": 3, "end_line": 5, "severity": "high", "status": "confirmed",
        "location": "diff", "title": f"title {number}", "reason": "why", "suggestion": "", "made_by": [maker], **fields,
    }  # fmt: skip


CHECK = {"model": "opus", "verdict": "wrong", "reason": "It is not."}
REVIEW: dict[str, Any] = {
    "findings": [
        finding(1, severity="critical", suggestion="do it"),
        finding(2, severity="medium", line=7, end_line=None),
        finding(3, severity="low", line=None, end_line=None),
        finding(4, severity="high", status="disputed", check=CHECK),
        finding(5, severity="info", location="missing"),
        finding(6, severity="high", line=9, end_line=2),
    ],
    "about": "main…topic",
    "job_id": "job_1",
    "reviewers": [{"model": "gpt-5", "findings": 6}],
    "failed": [{"model": "haiku", "error": "It is, busy: 100%\nnow", "code": "RATE_LIMITED"}],
    "left_out": [{"file": "x.lock", "reason": "it is a lock file"}],
}


def review() -> ReviewResult:
    return ReviewResult.from_json(REVIEW)


def test_findings_of_a_severity_or_worse() -> None:
    def ids(severity: str, **fields: bool) -> list[str]:
        return [finding.id for finding in review().worst(severity, **fields)]

    assert ids("critical") == ["f1"]
    assert ids("high") == ["f1", "f6"]
    assert ids("high", disputed=True) == ["f1", "f4", "f6"]
    assert ids("low") == ["f1", "f2", "f3", "f6"]
    assert ids("info", disputed=True) == ["f1", "f2", "f3", "f4", "f6"], "one without a place never counts"


def test_a_text_of_a_large_review_names_some_files_and_counts_the_others() -> None:
    """The text becomes a turn of the conversation, which is sent with the next question. The document has all names."""
    result = review()
    reviewers = (replace(result.reviewers[0], left_out=tuple(f"m{n}.py" for n in range(2_000))),)
    left_out = tuple(LeftOutFile(file=f"{n}.lock", reason="it is a lock file") for n in range(1_500))
    large = replace(result, reviewers=reviewers, left_out=left_out, document=None)
    assert "m19.py and 1,980 others." in " ".join(large.content.split())
    assert "Not reviewed: 19.lock: it is a lock file.\nNot reviewed: 1,480 other files." in large.content
    assert "m20.py" not in large.content
    assert "20.lock" not in large.content
    document: Any = large.to_json()
    assert len(document["reviewers"][0]["left_out"]) == 2_000
    few = replace(result, left_out=left_out[:20]).content
    assert few.count("Not reviewed: ") == 20


def test_where_a_finding_is() -> None:
    places = [Finding.from_json(entry).place for entry in REVIEW["findings"]]
    assert places == ["a b.py:3-5", "a b.py:7", "a b.py", "a b.py:3-5", "a b.py:3-5", "a b.py:9"]


def test_a_review_as_sarif() -> None:
    document: Any = review_formats.sarif(review())
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [
        "review/critical", "review/high", "review/medium", "review/low"
    ]  # fmt: skip
    assert [rule["defaultConfiguration"]["level"] for rule in rules] == [
        "error",
        "error",
        "warning",
        "note",
    ]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    failure, missing = (entry["message"]["text"] for entry in invocation["toolExecutionNotifications"])
    assert "haiku" in failure
    assert missing.startswith("a b.py:3-5 does not exist: title 5\n\nwhy")
    first, second, third, fourth, sixth = run["results"]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("review/critical", 0, "error")
    assert first["message"]["text"] == "title 1\n\nwhy\n\nFix: do it\n\nFound by gpt-5 (confirmed)."
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b.py"}, "region": {"startLine": 3, "endLine": 5}}
    assert second["locations"][0]["physicalLocation"]["region"] == {"startLine": 7, "endLine": 7}
    assert "region" not in third["locations"][0]["physicalLocation"]
    assert fourth["suppressions"] == [{"kind": "external", "justification": "It is not."}]
    assert fourth["properties"]["check"] == CHECK
    assert "Checked by opus: wrong." in fourth["message"]["text"]
    assert "suppressions" not in first
    assert "check" not in first["properties"]
    assert sixth["locations"][0]["physicalLocation"]["region"] == {"startLine": 9, "endLine": 9}
    assert run["properties"] == {
        "about": "main…topic", "jobId": "job_1", "reviewers": ["gpt-5"], "leftOut": REVIEW["left_out"]
    }  # fmt: skip


def test_a_review_as_githubs_commands() -> None:
    first, second, third, fourth, fifth, _, failure = review_formats.github(review())
    assert first.startswith(
        "::error file=a b.py,line=3,endLine=5,title=critical (confirmed)::title 1%0A%0Awhy"
    )
    assert second.startswith("::warning file=a b.py,line=7,endLine=7,")
    assert third.startswith("::notice file=a b.py,title=low")
    assert fourth.startswith("::notice file="), "nobody should stop for a disputed one"
    assert fifth.startswith("::notice title=info")
    assert failure.startswith("::warning title=counsel review::")
    assert "100%25 now" in failure
    entry = finding(1, file="a:b,c.py")
    (line,) = review_formats.github(ReviewResult.from_json({**REVIEW, "findings": [entry], "failed": []}))
    assert "file=a%3Ab%2Cc.py," in line


# ── amounts ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("usd", "complete", "expected"),
    [
        (None, True, "?"),
        (0.0, True, "$0"),
        (0.0, False, "?"),
        (0.00009, True, "<$0.0001"),
        (0.0001, True, "$0.0001"),
        (0.01, False, "$0.0100+"),
        (0.99, True, "$0.9900"),
        (1.0, True, "$1.00"),
        (1234.5, False, "$1,234.50+"),
    ],
)
def test_how_costs_are_written(usd: float | None, complete: bool, expected: str) -> None:
    assert amounts.dollars(usd, complete=complete) == expected


def test_tokens_and_costs_of_a_call() -> None:
    assert amounts.tokens(Usage()) == "? tokens"
    assert amounts.tokens(Usage(input=1200, output=340)) == "1,200 → 340 tokens"
    assert amounts.tokens(Usage(input=1200, output=340, estimated=True)) == "~1,200 → ~340 tokens"
    assert amounts.cost(Usage(), 0.0) == "?"
    assert amounts.cost(Usage(), 0.5) == "$0.5000"
    assert amounts.cost(Usage(input=1), 0.0) == "$0"


@pytest.mark.parametrize(
    ("number", "reports", "calls", "brief", "expected"),
    [
        (0, 0, 0, False, "0"),
        (0, 0, 2, False, "?"),
        (1200, 2, 2, False, "1,200"),
        (1200, 1, 2, False, "1,200+"),
        (999, 1, 1, True, "999"),
        (1000, 1, 1, True, "1K"),
        (1_234_567, 1, 2, True, "1.235M+"),
        (2_000_000_000, 1, 1, True, "2G"),
    ],
)
def test_sums_of_tokens(number: int, reports: int, calls: int, brief: bool, expected: str) -> None:
    assert amounts.count(number, reports=reports, calls=calls, brief=brief) == expected


@pytest.mark.parametrize(
    ("provider", "name", "expected"),
    [
        ("openai", "gpt-5", "openai/gpt-5"),
        ("openai", "openai/gpt-5", "openai/gpt-5"),
        ("codex", "codex", "codex"),
        ("codex", "codex:fast", "codex:fast"),
        ("", "gpt-5", "gpt-5"),
    ],
)
def test_a_model_with_its_provider(provider: str, name: str, expected: str) -> None:
    assert amounts.model(provider, name) == expected
