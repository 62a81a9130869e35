"""What `counsel jobs` and `counsel cancel` say about one job, line by line, and how they follow it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from counsel.cli import documents, jobs
from counsel.cli.terminal import times
from counsel.cli.terminal.stopped import Stopped
from counsel.errors import Cancelled, CounselError, UpstreamError
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent, Wait
from counsel.results import Accepted, AnswerMetadata, Cancellation, ChatResult, Continuation, JobStatus
from counsel.results.conversation import HistoryMessage
from counsel.results.jobs import ModelState
from counsel.types import Usage

Output = pytest.CaptureFixture[str]
JOB = "job_01234567-89ab-4000-8000-000000000000"


def job(**fields: Any) -> JobStatus:
    values: dict[str, Any] = {
        "id": "mine", "job_id": JOB, "status": "processing", "tool": "chat", "models": ("gpt-5",), "completed": 0,
        "total": 1, "elapsed_seconds": 4.0, "started_at": "2026-11-18T12:00:00.000Z", "status_line": "",
    }  # fmt: skip
    return JobStatus(**(values | fields))


def result(text: str = "Hello", **metadata: Any) -> ChatResult:
    usual = {
        "usage": Usage(input=10, output=5),
        "cost_usd": None,
        "response_time_ms": 5,
        "finish_reason": "stop",
    }
    about = AnswerMetadata(model="gpt-5", provider="openai", **{**usual, **metadata})
    return ChatResult(
        content=text,
        continuation=Continuation(id="mine", provider="openai", model="gpt-5"),
        metadata=about,
        job_id=JOB,
    )


def state(slot: str, status: Any, text: str = "", **fields: Any) -> ModelState:
    return ModelState(slot=slot, model=f"model {slot}", status=status, text=text, **fields)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "running for 4.0 s"),
        ({"total": 3, "completed": 2}, "running for 4.0 s, 2 of 3 answered"),
        ({"total": 2, "completed": 0, "elapsed_seconds": 90.0}, "running for 90 s, 0 of 2 answered"),
        ({"status": "completed", "total": 3, "completed": 3}, "done after 4.0 s"),
        ({"status": "completed_with_errors"}, "partly done after 4.0 s"),
        ({"status": "paused"}, "paused after 4.0 s"),
    ],
)
def test_how_far_a_job_is(fields: dict[str, Any], line: str) -> None:
    assert jobs._progress(job(**fields)) == line


def details(**fields: Any) -> dict[str, str]:
    rows = list(jobs._details(job(**fields)))
    return {name or value.partition(" ")[0]: value for name, value in rows}


def test_the_lines_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "local", lambda _: "noon")
    monkeypatch.setattr(times, "ago", lambda _: "1 h ago")
    assert details(title="Two\n words") == {
        "job": JOB, "status": "running for 4.0 s", "model": "gpt-5", "started": "noon (1 h ago)", "conversation": "mine",
        "title": "Two words",
    }  # fmt: skip
    waiting = details(waiting_for=Wait("slot", "a free slot"), models=("a", "b"), tool="consensus", total=2)
    assert waiting["waits"] == "waits for a free slot"
    assert waiting["model"] == "a, b"
    states = (state("0", "processing"), state("1", "completed"), state("2", "failed"))
    assert list(jobs._details(job(models_status=states)))[2:5] == [
        ("", "model 0: answering"), ("", "model 1: answered"), ("", "model 2: failed")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({"cost_usd": 0.5}, ""),
        ({"status": "completed", "cost_usd": 0.5}, "$0.5000"),
        ({"status": "completed", "cost_usd": 0.5, "cost_complete": False}, "$0.5000+"),
        ({"status": "completed"}, "?"),
        ({"status": "failed"}, ""),
        ({"status": "cancelled"}, ""),
        ({"status": "failed", "cost_usd": 0.5}, "$0.5000"),
        ({"status": "completed_with_errors"}, "?"),
    ],
)
def test_what_a_job_has_cost(fields: dict[str, Any], cost: str) -> None:
    assert jobs._cost(job(**fields)) == cost
    line = details(**fields).get("cost")
    if cost.endswith("+"):
        assert line == f"{cost} (+: at least; some prices are unknown)"
    else:
        assert line == (cost or None)


@pytest.mark.parametrize(
    ("usage", "cost", "expected"),
    [(Usage(input=1), 0.25, 0.25), (Usage(input=1), None, None), (Usage(), 0.25, 0.25), (Usage(), 0.0, None)],
)
def test_the_cost_of_an_answer_without_usage_is_not_known(
    usage: Usage, cost: float | None, expected: float | None
) -> None:
    status = jobs._with_outcome(job(status="completed", result=result(usage=usage, cost_usd=cost)))
    assert (status.model, status.provider, status.cost_usd) == ("gpt-5", "openai", expected)


def test_a_failure_has_its_own_cost() -> None:
    error = UpstreamError("broken", cost_usd=0.5)
    assert jobs._with_outcome(job(status="failed", error=error)).cost_usd == 0.5
    assert jobs._with_outcome(job()).cost_usd is None


def shown(capsys: Output, status: JobStatus) -> tuple[str, str]:
    jobs._show(status)
    streams = capsys.readouterr()
    return streams.out, streams.err


def test_an_answer_goes_to_stdout_and_everything_else_to_stderr(capsys: Output) -> None:
    out, err = shown(capsys, job(status="completed", result=result()))
    assert out == "Hello\n"
    assert f"job           {JOB}\n" in err
    assert "--follow" not in err


def test_a_running_job_shows_its_text_so_far_and_how_to_follow_it(capsys: Output) -> None:
    out, err = shown(capsys, job(models_status=(state("0", "processing", "Hel"),)))
    assert out == "Hel\n"
    assert err.endswith("`counsel jobs 01234567 --follow` shows the rest as it arrives.\n")


def test_the_whole_conversation_is_shown_instead_of_the_answer(capsys: Output) -> None:
    history = (
        HistoryMessage(role="user", content="hi", at="2026-11-18T12:00:00.000Z"),
        HistoryMessage(role="assistant", content="Hello", at="2026-11-18T12:00:01.000Z"),
    )
    out, _ = shown(capsys, job(status="completed", result=result("last"), history=history))
    assert out == "── user\nhi\n\n── assistant\nHello\n\n"


def test_a_failed_job_shows_what_had_arrived_and_then_its_failure(capsys: Output) -> None:
    failed = job(status="failed", error=UpstreamError("broken", partial="Hel"))
    with pytest.raises(UpstreamError):
        jobs._show(failed)
    assert capsys.readouterr().out == "Hel\n"
    out, _ = shown(capsys, job(status="cancelled", error=Cancelled("stopped", partial="Hel")))
    assert out == "Hel\n", "a cancelled job is what somebody wanted"


def test_a_consensus_that_did_not_complete_shows_each_model_that_has_text(capsys: Output) -> None:
    states = (state("0", "completed", "Yes."), state("1", "cancelled", partial="N"))
    out, _ = shown(capsys, job(status="cancelled", tool="consensus", models_status=states))
    assert "## model 0" in out
    assert "Yes." in out
    assert "## model 1 (partial: cancelled)" in out
    out, _ = shown(capsys, job(tool="consensus", models_status=(state("0", "processing", "Y"),)))
    assert out == "Y\n"


class EngineStub:
    """An engine with one job."""

    def __init__(self, status: JobStatus, outcome: ChatResult | CounselError) -> None:
        self._status, self._outcome = status, outcome
        self.waits = 0

    async def status(self, _: str) -> JobStatus:
        return self._status

    async def wait(self, _: str) -> ChatResult:
        self.waits += 1
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    async def follow(self, _: str) -> AsyncGenerator[JobEvent]:
        yield event_from(1, 0.0, "text", "0", {"text": "Hello", "offset": 0, "phase": "answer"})


async def followed(engine: Any, *, as_json: bool = False) -> None:
    await jobs._follow_until_interrupted(engine, JOB, stream=False, as_json=as_json)


async def test_a_job_that_has_ended_is_shown_at_once(capsys: Output) -> None:
    engine = EngineStub(job(status="completed", result=result()), result())
    await followed(engine)
    assert (capsys.readouterr().out, engine.waits) == ("Hello\n", 0)


async def test_a_running_job_is_followed_with_its_title(capsys: Output) -> None:
    await followed(EngineStub(job(title="Tides"), result()))
    streams = capsys.readouterr()
    assert streams.out == "Hello\n"
    assert streams.err.startswith(f"job {JOB}: Tides\n")
    await followed(EngineStub(job(models=("a", "b")), result()))
    assert capsys.readouterr().err.startswith(f"job {JOB}: a +1\n")


async def test_for_a_program_the_end_is_waited_for_whatever_it_is(capsys: Output) -> None:
    for outcome in (result(), UpstreamError("broken")):
        engine = EngineStub(job(), outcome)
        await followed(engine, as_json=True)
        assert engine.waits == 1
    assert capsys.readouterr().out == ""


async def test_ctrl_c_while_following_says_that_the_job_continues(capsys: Output) -> None:
    engine = EngineStub(job(), result())

    async def stopped(_: str) -> ChatResult:
        raise asyncio.CancelledError

    engine.wait = stopped  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        await followed(engine, as_json=True)
    assert "The job continues: `counsel jobs 01234567` shows it, `counsel cancel 01234567` stops it." in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("fields", "member", "message"),
    [
        ({"member": "1"}, "1", f"Stopped model 1 of {JOB}; the others continue."),
        ({"member": "1"}, "gpt-5", f"Stopped gpt-5 of {JOB}; the others continue."),
        ({"cancelled_at": "2026"}, "", f"Stopped {JOB}."),
        (
            {"status": "processing"},
            "",
            f"Asked the process that runs {JOB} to stop it; no reply yet.",
        ),
        ({"status": "completed"}, "", f"Nothing to stop: {JOB} is done."),
        ({"status": "odd"}, "", f"Nothing to stop: {JOB} is odd."),
    ],
)
def test_what_became_of_a_cancellation(fields: dict[str, Any], member: str, message: str) -> None:
    outcome = Cancellation(**{"status": "cancelled", "message": "", "job_id": JOB, **fields})
    assert jobs._outcome(outcome, member) == message
    assert documents.cancelled(outcome, message)["message"] == message


def test_an_empty_list_says_how_to_begin(capsys: Output) -> None:
    from counsel.results import JobList

    jobs._list(JobList(()), as_json=False)
    assert "No jobs yet. `counsel ask … --background` starts one." in capsys.readouterr().err
    jobs._list(JobList((job(),)), as_json=True)
    (row,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (row["id"], row["conversation"], row["completed"], row["total"]) == (JOB, "mine", 0, 1)


@pytest.mark.parametrize(
    ("fields", "brief", "expected"),
    [
        ({"model": "claude-sonnet-4-5-20250929", "provider": "anthropic"}, True, "claude-sonnet-4-5"),
        ({"model": "openai/gpt-5", "provider": "openai"}, True, "gpt-5"),
        ({"model": "gpt-5", "provider": "openai"}, False, "openai/gpt-5"),
        ({"models": ("a", "b", "c")}, True, "a +2"),
        ({"models": ("a", "b")}, False, "a, b"),
        ({"models": ("a",)}, True, "a"),
    ],
)
def test_the_models_of_a_job(fields: dict[str, Any], brief: bool, expected: str) -> None:
    assert jobs._models(job(**fields), brief=brief) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"waiting_for": Wait("keys", "its keys"), "total": 2}, "waiting"),
        ({"total": 2, "completed": 1}, "running 1/2"),
        ({}, "running"),
        ({"status": "completed", "total": 2, "completed": 2}, "done"),
    ],
)
def test_the_state_in_the_list(fields: dict[str, Any], expected: str) -> None:
    assert jobs._state(job(**fields)) == expected


# ── documents for programs ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("metadata", "tokens", "cost"),
    [
        ({"cost_usd": 0.25}, (10, 5), 0.25),
        ({"cost_usd": 0.0}, (10, 5), 0.0),
        ({"usage": Usage(), "cost_usd": 0.0}, (None, None), None),
        ({"usage": Usage(), "cost_usd": 0.25}, (None, None), 0.25),
    ],
)
def test_the_document_of_an_answer(metadata: dict[str, Any], tokens: Any, cost: float | None) -> None:
    document = documents.answer(result(**metadata))
    assert (document["id"], document["conversation"], document["content"]) == (JOB, "mine", "Hello")
    assert (document["model"], document["provider"]) == ("gpt-5", "openai")
    assert (document["input_tokens"], document["output_tokens"]) == tokens
    assert document["cost_usd"] == cost


def test_the_document_of_a_job_has_its_answer_or_its_failure() -> None:
    done = documents.status(job(status="completed", result=result()))
    assert (done["id"], done["status"], done["content"]) == (JOB, "completed", "Hello")
    failed = documents.status(
        job(status="failed", error=UpstreamError("broken", status=500), models_status=(state("0", "failed"),))
    )
    assert (failed["status"], failed["http_status"], failed["error"]) == ("failed", 500, "broken")
    assert failed["models_status"] == [{"slot": "0", "model": "model 0", "status": "failed", "text": ""}]


@pytest.mark.parametrize(("status", "expected"), [(None, "processing"), ("new", "new")])
def test_the_document_of_a_background_job_has_no_line_for_agents(status: Any, expected: str) -> None:
    accepted = Accepted(content="⏳ working", continuation=Continuation(id="mine", status=status), job_id=JOB)
    document = documents.accepted(accepted)
    assert (document["id"], document["conversation"], document["status"]) == (JOB, "mine", expected)
    assert "content" not in document


def test_an_error_in_the_words_of_the_command_line() -> None:
    error = UpstreamError("broken", job_id=JOB, continuation_id="mine", hint="Raise max_cost_usd.")
    document = documents.error(error)
    assert (document["id"], document["conversation"], document["error"]) == (JOB, "mine", "broken")
    assert "continuation_id" not in document
    bare = documents.error(UpstreamError("broken"))
    assert "id" not in bare
    assert "conversation" not in bare


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (0, "just now"), (-60, "just now"), (4.9, "just now"), (5.5, "5 s ago"), (59.5, "59 s ago"), (60.5, "1 min ago"),
        (3_599.5, "59 min ago"), (3_600.5, "1 h ago"), (86_399.5, "23 h ago"), (86_400.5, "1 day ago"),
        (2 * 86_400 + 1, "2 days ago"), (60 * 86_400 - 1, "59 days ago"),
    ],
)  # fmt: skip
def test_how_long_ago(age: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 10_000_000.0)
    assert times.ago(10_000_000.0 - age) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.84, "0.8 s"), (9.94, "9.9 s"), (10, "10 s"), (599, "599 s"), (600, "10 min"), (10_799, "180 min"),
        (10_800, "3.0 h"), (19_800, "5.5 h"),
    ],
)  # fmt: skip
def test_how_long_it_took(duration: float, text: str) -> None:
    assert times.took(duration) == text


def test_a_date_says_more_about_an_old_job() -> None:
    assert times.ago(times.seconds("2001-02-03T12:00:00.000Z")) == "2001-02-03"
