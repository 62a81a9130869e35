"""From the members' findings to the review's result: who made them, who checked them, where they are, their order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.consult.review import run
from counsel.engine.consult.review.diff import FileDiff, Hunk
from counsel.engine.consult.review.findings import RawFinding
from counsel.engine.consult.review.run import CheckReply, Review, _LineCounts, _Run
from counsel.errors import Internal, ProviderUnavailable, UpstreamError
from counsel.results import ModelFailure

ADDED = FileDiff(path="new.py", status="added", hunks=(Hunk(0, 1, ("+a", "+b", "+c")),))
CHANGED = FileDiff(path="old.py", hunks=(Hunk(5, 5, ("-a", "+b")),))


def finding(slot: str = "0", **fields: Any) -> RawFinding:
    values: dict[str, Any] = {
        "file": "old.py", "line": 5, "end_line": None, "severity": "high", "title": "Title", "reason": "Reason.",
        "suggestion": "",
    }  # fmt: skip
    return RawFinding(slot=slot, **{**values, **fields})


def review(*findings: RawFinding) -> Review:
    excerpt: Any = SimpleNamespace(context=3, left_out=("large.py",))
    reply: Any = None
    return Review(reply, excerpt, findings)


def check(**verdicts: Any) -> CheckReply:
    reply: Any = None
    return CheckReply(reply, verdicts)


@pytest.fixture
def made() -> _Run:
    """A review by three members, after its calls."""
    review_: Any = _Run.__new__(_Run)
    review_._files = [ADDED, CHANGED]
    review_._panel = [SimpleNamespace(slot=slot, label=f"model {slot}") for slot in "012"]
    review_._lines = SimpleNamespace(of={"old.py": 10, "gone.py": -1}.get)
    review_._failures = []
    result: _Run = review_
    return result


@pytest.mark.parametrize(
    ("name", "line", "end", "expected"),
    [
        ("new.py", 1, 9, 3),
        ("new.py", 1, 2, 2),
        ("new.py", 3, 3, 3),
        ("new.py", 4, 9, 9),  # a line that does not exist: nothing is made up
        ("old.py", 5, 12, 10),
        ("old.py", 10, 12, 10),
        ("old.py", 11, 12, 12),
        ("old.py", 0, None, None),
        ("unknown.py", 5, 7, 7),
        ("gone.py", 5, 7, 7),
    ],
)
def test_a_finding_ends_in_its_file(
    made: _Run, name: str, line: int, end: int | None, expected: int | None
) -> None:
    assert made._end(name, line, end) == expected


def test_equal_findings_become_one_with_the_worst_ones_words(made: _Run) -> None:
    minor = finding("0", severity="low", title="Minor", line=7, suggestion="Do this.")
    worst = finding("1", severity="critical", title="Worst", line=5, end_line=6)
    result = made._finding([minor, worst], {"0": review(), "1": review(), "2": review()}, {})
    assert (result.severity, result.title, result.id) == ("critical", "Worst", minor.id)
    assert (result.line, result.end_line, result.location) == (5, 7, "diff")
    assert result.suggestion == "Do this.", "the only one that there is"
    assert [entry.model for entry in result.made_by] == ["model 0", "model 1"]
    assert (result.status, result.check) == ("unchecked", None)


@pytest.mark.parametrize(
    ("reviewers", "authors", "verdict", "status"),
    [
        ("01", "01", None, "agreed"),
        ("01", "01", "disputed", "agreed"),
        ("012", "01", None, "unchecked"),
        ("012", "01", "confirmed", "confirmed"),
        ("012", "0", "disputed", "disputed"),
        ("0", "0", None, "unchecked"),  # alone, nobody agrees
    ],
)
def test_the_status_of_a_finding(made: _Run, reviewers: str, authors: str, verdict: Any, status: str) -> None:
    group = [finding(slot) for slot in authors]
    checks = {"2": check(**{group[0].id: (verdict, "Because.")})} if verdict else {}
    result = made._finding(group, {slot: review() for slot in reviewers}, checks)
    assert result.status == status


def test_a_members_verdict_about_its_own_finding_does_not_count(made: _Run) -> None:
    group = [finding("0"), finding("1")]
    own = {"0": check(**{group[1].id: ("confirmed", "Mine.")})}
    assert made._check_for(group, own) is None
    others = {**own, "2": check(**{group[1].id: ("disputed", "No.")})}
    verdict = made._check_for(group, others)
    assert verdict is not None
    assert (verdict.model, verdict.verdict, verdict.reason) == ("model 2", "disputed", "No.")
    assert made._check_for(group, {"2": check(other=("confirmed", ""))}) is None


@pytest.mark.parametrize(
    ("places", "location"),
    [
        ([("old.py", 5), ("old.py", 10)], "diff"),
        ([("old.py", 10), ("gone.py", 1)], "outside"),
        ([("gone.py", 1)], "missing"),
        ([("old.py", 11)], "missing"),
        ([("new.py", 9)], "missing"),
    ],
)
def test_a_group_is_where_its_nearest_finding_is(
    made: _Run, places: list[tuple[str, int]], location: str
) -> None:
    group = [finding(str(slot), file=name, line=line) for slot, (name, line) in enumerate(places)]
    assert made._finding(group, {"0": review(), "1": review()}, {}).location == location


def test_each_member_has_a_row_in_order(made: _Run) -> None:
    made._failures.append(ModelFailure("model 2", "check", UpstreamError("broken")))
    reviews = {"0": review(finding(), finding(line=9)), "2": review()}
    rows = list(made._reviewers(reviews, {"0": check(F1=("confirmed", ""))}))
    assert [(row.model, row.status, row.findings, row.checked) for row in rows] == [
        ("model 0", "reviewed", 2, 1), ("model 1", "failed", 0, 0), ("model 2", "check_failed", 0, 0),
    ]  # fmt: skip
    assert (rows[0].context_lines, rows[0].left_out) == (3, ("large.py",))


def test_failures_are_kept_apart_from_answers(made: _Run) -> None:
    error = UpstreamError("broken")
    replies: dict[str, Any] = {"0": "answer", "1": error}
    assert made._without_failures(replies, "review") == {"0": "answer"}
    assert [(failure.model, failure.error) for failure in made._failures] == [("model 1", error)]


def line_counts(project: Path, root: str | None, **env: str) -> _LineCounts:
    config = settings.load({"COUNSEL_HOME": str(project.parent / "home"), **env})
    job: Any = SimpleNamespace(
        task=SimpleNamespace(review={"root": root} if root else None),
        caller=Caller("test", cwd=project, settings=config),
    )
    return _LineCounts(job)


def test_the_lines_of_a_repositorys_files_are_counted_once(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("a\nb\nc\n")
    counts = line_counts(project, str(project))
    assert counts.of("a.py") == 3
    (project / "a.py").write_text("a\n")
    assert counts.of("a.py") == 3
    assert counts.of("none.py") == -1
    assert line_counts(project, None).of("a.py") is None
    assert line_counts(project, str(project), COUNSEL_MAX_FILE_BYTES="1").of("a.py") is None, (
        "it is too large to read"
    )
    (tmp_path / "outside.py").write_text("a\n")
    assert line_counts(project, str(project)).of("../outside.py") == -1, "whether it exists is not revealed"


def test_findings_are_sorted_by_severity_and_place(made: _Run) -> None:
    entries = [
        finding(severity="low"), finding(severity="critical", line=9), finding(severity="critical", line=None),
        finding(severity="critical", line=5, file="new.py"), finding(severity="critical", line=5),
    ]  # fmt: skip
    merged = [made._finding([entry], {"0": review(), "1": review()}, {}) for entry in entries]
    assert [(entry.severity, entry.file, entry.line) for entry in sorted(merged, key=run._rank)] == [
        ("critical", "new.py", 5), ("critical", "old.py", None), ("critical", "old.py", 5), ("critical", "old.py", 9),
        ("low", "old.py", 5),
    ]  # fmt: skip
    pair = made._finding(
        [finding("0", line=9), finding("1", line=9)], {"0": review(), "1": review(), "2": review()}, {}
    )
    alone = made._finding([finding("0", line=5)], {"0": review(), "1": review()}, {})
    assert sorted([alone, pair], key=run._rank) == [pair, alone], "what more members found comes first"


@pytest.mark.parametrize(("window", "count"), [(1_000_000, 3), (10, 1)])
async def test_a_member_checks_the_worst_with_only_their_files(
    made: _Run, monkeypatch: pytest.MonkeyPatch, window: int, count: int
) -> None:
    claims = [
        finding(title="Second", severity="high"),
        finding(title="First", severity="high"),
        finding(title="Worst", severity="critical"),
    ]
    equal = sorted(claims[:2], key=lambda claim: claim.id)
    checked = [claim.title for claim in (claims[2], *equal)][:count]
    fitted: list[Any] = []

    def fit(_member: Any, files: Any, frame: str, *, needs_one: bool) -> Any:
        fitted.append((files, needs_one))
        return SimpleNamespace(text="the excerpt")

    async def ask(_member: Any, phase: str, call: Any, _read: Any) -> Any:
        return phase, call

    monkeypatch.setattr(made, "_window", lambda _: window)
    monkeypatch.setattr(made, "_fit", fit)
    monkeypatch.setattr(made, "_call", lambda _member, _part, text, _schema: text)
    monkeypatch.setattr(made, "_ask", ask)
    member: Any = made._panel[0]
    reply: Any = await made._check(member, claims)
    assert fitted == [([CHANGED], False)]
    assert (reply.reply, [claim.title for claim in claims]) == ("check", checked)
    assert "the excerpt" in reply.verdicts
    assert [title for title in ("First", "Second", "Worst") if title in reply.verdicts] == sorted(checked)


def test_a_member_that_cannot_be_asked_says_why() -> None:
    route: Any = object()
    error = ProviderUnavailable("OpenAI is not available.")
    member: Any = SimpleNamespace(label="gpt-5", route=route, error=error)
    assert run._route(member) is route
    member.route = None
    with pytest.raises(ProviderUnavailable, match="OpenAI is not available"):
        run._route(member)
    member.error = None
    with pytest.raises(Internal, match="gpt-5 has no route"):
        run._route(member)
