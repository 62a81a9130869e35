"""A review through the real engine: findings are merged, checked by others and sorted; no names are sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.consult.review import source
from counsel.engine.engine import Engine
from counsel.errors import BudgetExceeded, InvalidArgument, UpstreamError
from counsel.job_events import PhaseStarted
from counsel.requests import ConsensusRequest, ReviewRequest
from counsel.results import ReviewResult
from fake import FakeAPI
from support import planted
from support.planted import MODELS


async def run_review(
    engine: Engine, caller: Caller, models: tuple[str, ...] = MODELS, **fields: Any
) -> ReviewResult:
    change = source.from_git(caller, **fields)
    result = await engine.wait(await engine.submit(source.request(change, models), caller))
    assert isinstance(result, ReviewResult)
    return result


@pytest.fixture
def repository(project: Path) -> Path:
    return planted.repository(project)


async def test_six_planted_defects_are_found_merged_checked_and_sorted(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    planted.script(fake_api)
    result = await run_review(engine, caller())
    document = result.to_json()
    assert len(fake_api.log.requests) == 6  # three reviews, and one call per member for all of its checks
    assert document["status"] == "review_complete"
    assert [entry["severity"] for entry in document["findings"]] == [
        "critical",
        "high",
        "high",
        "medium",
        "medium",
        "medium",
        "low",
        "low",
    ]
    sql, leak = (
        document["findings"][0],
        next(entry for entry in document["findings"] if "never closed" in entry["title"]),
    )
    assert (sql["status"], sql["found_by"]) == ("agreed", list(MODELS))
    assert sql["check"] is None
    assert (leak["status"], leak["found_by"], leak["severity"]) == ("confirmed", list(MODELS[:2]), "medium")
    assert leak["check"]["model"] == "gemini-2.5-flash"
    assert planted.titles(document["findings"], "disputed") == ["time.sleep(0) blocks the event loop"]
    assert planted.titles(document["findings"], "unsure") == [
        "Mutable default argument is shared by all callers",
        "The cache has no limit",
    ]
    locations = {entry["title"]: entry["location"] for entry in document["findings"]}
    assert locations["last_page is empty for a multiple of 20 items"] == "outside"
    assert locations["The cache has no limit"] == "missing"
    assert {locations[title] for title in locations if "last_page" not in title and "cache" not in title} == {
        "diff"
    }
    assert all(
        entry["check"] is None or entry["check"]["model"] not in entry["found_by"]
        for entry in document["findings"]
    )
    assert ReviewResult.from_json(json.loads(json.dumps(document))).to_json() == document


async def test_no_member_is_sent_its_own_finding_to_check(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    planted.script(fake_api)
    await run_review(engine, caller())
    checks = {
        planted.VENDORS.index(call.vendor): json.dumps(call.body)
        for call in fake_api.calls
        if "Check these findings" in str(call.body)
    }
    assert len(checks) == 3
    own = [{entry["title"] for entry in findings} for findings in planted.FINDINGS]
    own[1].add("The opened file is never closed")  # merged with its own
    assert not [(slot, title) for slot, body in checks.items() for title in own[slot] if title in body]
    titles = {title for title in planted.VERDICTS for body in checks.values() if title in body}
    assert titles == set(planted.VERDICTS)


async def test_no_member_reads_a_name(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    planted.script(fake_api)
    await run_review(engine, caller())
    for request in fake_api.log.requests:
        body = {name: value for name, value in request.body.items() if name != "model"}
        text = json.dumps(body).lower()
        assert not [name for name in ("gpt", "sonnet", "claude", "gemini", "openai") if name in text]


async def test_a_job_that_is_read_later_is_the_same_and_continues_as_a_conversation(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    planted.script(fake_api)
    result = await run_review(engine, caller())
    status = await engine.status(result.job_id)
    assert status.tool == "review"
    assert status.id.startswith("review_")
    assert isinstance(status.result, ReviewResult)
    assert status.result.to_json()["findings"] == result.to_json()["findings"]
    (question, answer) = (await engine.status(result.job_id, full_history=True)).history or ()
    assert question.content == "Review this change: working tree against HEAD."
    assert "SQL injection" in answer.content
    phases = [event.phase async for event in engine.follow(result.job_id) if isinstance(event, PhaseStarted)]
    assert phases in ([], ["review", "check"])


async def test_a_consensus_that_continues_a_review_reads_no_name(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(vendor="anthropic", contains="Check these findings", status=401, times=None)
    planted.script(fake_api)
    user = caller()
    review = await run_review(engine, user)
    fake_api.reset()
    conversation = review.continuation.id
    request = ConsensusRequest(prompt="Which first?", models=MODELS, continuation_id=conversation)
    await engine.wait(await engine.submit(request, user))
    assert len(fake_api.calls) == 6
    for call in fake_api.calls:
        body = str({key: value for key, value in call.body.items() if key != "model"})
        assert "SQL injection through name" in body
        assert "A reviewer checked it: confirmed. all of zip" in body
        assert not [name for name in (*MODELS, "Anthropic", "Found by", "Reviewed by") if name in _ours(body)]


def _ours(prompt: str) -> str:
    """The prompt without the fake vendors' own answers, in which they name themselves."""
    return re.sub(r"(?:gpt-5|claude[\w-]+|gemini[\w.-]+) says", "", prompt)


async def test_a_member_that_fails_is_named_and_affects_no_other(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(vendor="anthropic", status=401, times=None)
    planted.script(fake_api)
    result = await run_review(engine, caller())
    assert result.status == "review_partial"
    assert [(failure.model, failure.phase) for failure in result.failed] == [("sonnet", "review")]
    rows = [(reviewer.model, reviewer.status, reviewer.findings) for reviewer in result.reviewers]
    assert rows == [("gpt-5", "reviewed", 4), ("sonnet", "failed", 0), ("gemini-2.5-flash", "reviewed", 4)]
    assert "Reviewed by\ngpt-5, gemini-2.5-flash." in result.content
    sql = result.findings[0]
    assert (sql.status, sql.models) == ("agreed", ("gpt-5", "gemini-2.5-flash"))
    assert "sonnet failed in the review" in result.content


async def test_a_check_that_fails_leaves_its_findings_unchecked(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(contains="Check these findings", status=401, times=None)
    planted.script(fake_api)
    result = await run_review(engine, caller())
    assert {failure.phase for failure in result.failed} == {"check"}
    assert {reviewer.status for reviewer in result.reviewers} == {"check_failed"}
    assert {finding.status for finding in result.findings} == {"agreed", "unchecked"}
    assert len(result.findings) == 8


async def test_all_members_failed_is_a_failure(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(status=401, times=None)
    with pytest.raises(UpstreamError, match="All 3 models failed"):
        await run_review(engine, caller())


async def test_a_budget_that_all_members_exceed_keeps_its_code(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    with pytest.raises(BudgetExceeded) as excinfo:
        await run_review(engine, caller(COUNSEL_BUDGET_DAY="0"))
    assert (excinfo.value.budget, excinfo.value.limit_usd) == ("day", 0.0)
    assert not fake_api.calls


async def test_the_same_model_reviews_twice_also_from_the_cache(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    """If both members got the same answer, its finding would be one on which all agree."""
    nothing = json.dumps({"findings": []})
    answer = json.dumps(
        {"findings": [planted.finding("store.py", 13, "high", "SQL injection", "A quote ends it.")]}
    )
    fake_api.script(text=answer)
    fake_api.script(text=nothing)
    fake_api.script(contains="Check these findings", text=planted.checks(), times=None)
    user = caller(COUNSEL_CACHE_SECONDS="60")
    for _ in range(2):
        result = await run_review(engine, user, ("gpt-5", "gpt-5"))
        assert [len(finding.made_by) for finding in result.findings] == [1]
    reviews = [call for call in fake_api.calls if "Review this change" in str(call.body)]
    assert len(reviews) == 2


async def test_a_single_reviewer_has_nobody_to_check_its_findings(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    planted.script(fake_api)
    result = await run_review(engine, caller(), ("gpt-5",))
    assert len(fake_api.log.requests) == 1
    assert {finding.status for finding in result.findings} == {"unchecked"}


async def test_an_answer_without_json_is_requested_once_more_and_then_a_failure(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(
        vendor="openai-responses", contains="Review this change", text="Looks good to me!", times=1
    )
    fake_api.script(
        vendor="openai-responses", contains="not the JSON document", text=planted.review(0), times=1
    )
    fake_api.script(vendor="anthropic", text="LGTM", times=None)
    planted.script(fake_api)
    result = await run_review(engine, caller())
    assert [reviewer.status for reviewer in result.reviewers] == ["reviewed", "failed", "reviewed"]
    assert [failure.error.code for failure in result.failed] == ["SCHEMA_MISMATCH"]


async def test_a_small_window_gets_less_context_then_fewer_files_and_the_result_says_so(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    planted.repository(project)
    planted.write(project, {"big.py": "".join(f"value_{n} = {n}\n" for n in range(30_000))})
    planted.git(project, "add", ".")
    fake_api.script(text='{"findings": []}', times=None)
    result = await run_review(engine, caller(), ("gpt-4.1", "o3"))
    reviewers = {reviewer.model: reviewer for reviewer in result.reviewers}
    assert (reviewers["gpt-4.1"].left_out, reviewers["gpt-4.1"].context_lines) == ((), None)
    assert (reviewers["o3"].left_out, reviewers["o3"].context_lines) == (("big.py",), 3)
    assert "Not sent to o3, for lack of space: big.py." in result.content


async def test_a_secret_in_a_diff_is_left_out_whoever_made_the_diff(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    diff = (
        "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
        f"--- a/conf.py\n+++ b/conf.py\n@@ -1 +0,0 @@\n-TOKEN = '{key}'\n"
        "--- a/.env\n+++ b/.env\n@@ -0,0 +1 @@\n+A=1\n"
        "--- a/../../x\n+++ b/../../x\n@@ -0,0 +1 @@\n+A=1\n"
    )
    fake_api.script(text='{"findings": []}', times=None)
    request = ReviewRequest(prompt="Review this change: mine.", diff=diff, models=("gpt-5",))
    result = await engine.wait(await engine.submit(request, caller()))
    assert isinstance(result, ReviewResult)
    assert result.files == ("app.py",)
    assert {entry["file"] for entry in result.left_out} == {"conf.py", ".env", "../../x"}
    assert key not in json.dumps([request.body for request in fake_api.log.requests])
    alone = replace(request, diff=diff[diff.index("--- a/.env") :])
    with pytest.raises(InvalidArgument, match="nothing to review"):
        await engine.submit(alone, caller())
    with pytest.raises(InvalidArgument, match="contains no files"):
        await engine.submit(replace(request, diff="hello"), caller())


async def test_a_secret_elsewhere_in_a_changed_file_keeps_it_from_being_sent(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    """The lines around the change contain part of the key, without the line by which it is recognised."""
    planted.repository(project)
    body = "".join(f"{'aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5lM7nP9rS1tV3' * 2}{at}\n" for at in range(60))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n"
    planted.write(project, {"deploy.txt": key})
    planted.git(project, "add", ".")
    planted.git(project, "commit", "-qm", "A key")
    planted.write(
        project, {"deploy.txt": key.replace("T5vW7yZ9bD1fG3hJ5lM7nP9rS1tV350\n", "x\n"), "a.py": "x = 1\n"}
    )
    planted.git(project, "add", ".")
    fake_api.script(text='{"findings": []}', times=None)
    result = await run_review(engine, caller(), ("gpt-5",), context=3)
    assert result.files == ("a.py",)
    assert [entry["file"] for entry in result.left_out] == ["deploy.txt"]
    assert "aB3dE5" not in json.dumps([request.body for request in fake_api.log.requests])


async def test_one_member_can_be_stopped_and_the_others_continue(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(vendor="anthropic", gate="never", times=None)
    planted.script(fake_api)
    user = caller()
    job = await engine.submit(source.request(source.from_git(user), MODELS), user)
    await fake_api.wait_for(vendor="anthropic")
    await engine.cancel(job, "sonnet")
    result = await engine.wait(job)
    assert isinstance(result, ReviewResult)
    assert [(failure.model, failure.error.code) for failure in result.failed] == [("sonnet", "CANCELLED")]


async def test_a_cancelled_review_keeps_the_findings_that_were_paid_for(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, repository: Path
) -> None:
    fake_api.script(vendor="anthropic", gate="never", times=None)
    planted.script(fake_api)
    user = caller()
    job = await engine.submit(source.request(source.from_git(user), MODELS), user)
    await fake_api.wait_for(vendor="openai-responses", state="finished")
    await fake_api.wait_for(vendor="anthropic")
    while (await engine.status(job)).completed < 2:
        pass
    await engine.cancel(job)
    status = await engine.status(job, full_history=True)
    assert status.status == "cancelled"
    answer = (status.history or ())[-1].content
    assert "This review was cancelled: 2 of 3 models had answered" in answer
    assert "- critical store.py:13 SQL injection through name" in answer
