"""What the engine shows of its jobs: lists, questions, changes, and spans for a tracer."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel import tracing
from counsel.engine.engine import Engine
from counsel.engine.jobs.changes import JobChanges
from counsel.engine.store.records import JobFilter
from counsel.errors import Conflict, CounselError, NotFound
from counsel.requests import ChatRequest, CompletionRequest, ConsensusRequest
from counsel.tracing import span_names as names
from counsel.types import Turn
from fake import FakeAPI
from support.asking import ask

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_what_was_asked(engine: Engine, caller: Any, project: Any) -> None:
    (project / "a.py").write_text("x = 1\n")
    answer = await ask(
        engine, caller(), "why?", files=("a.py",), reasoning_effort="high", use_websearch=True
    )  # fmt: skip
    job = answer["job_id"]
    await engine.store.flush()
    question: Any = await engine.question(job)
    assert (question["prompt"], question["models"], question["images"]) == ("why?", ["gpt-5"], 0)
    assert [name.endswith("a.py") for name in question["files"]] == [True]
    assert (question["reasoning_effort"], question["use_websearch"]) == ("high", True)
    plain = await ask(engine, caller(), "how?")
    await engine.store.flush()
    assert "reasoning_effort" not in await engine.question(plain["job_id"])
    with pytest.raises(NotFound):
        await engine.question("job_none")
    with pytest.raises(NotFound):
        await engine.completion(job)
    request = CompletionRequest(model="gpt-5", turns=(Turn("user", "hi"),), stored=True)
    completion = await engine.submit(request, caller())
    await engine.wait(completion)
    stored_request, record = await engine.completion(completion)
    assert stored_request.turns == request.turns
    assert record.id == completion


async def test_roles_and_stances_of_a_question(engine: Engine, caller: Any) -> None:
    members: Any = ({"model": "gpt-5", "role": "critic", "stance": "for"}, {"model": "haiku"})
    job = await engine.submit(ConsensusRequest(prompt="which?", models=members), caller())
    await engine.wait(job)
    await engine.store.flush()
    question = await engine.question(job)
    assert question["members"] == [{"model": "gpt-5", "role": "critic", "stance": "for"}, {"model": "haiku"}]
    plain = await engine.submit(ConsensusRequest(prompt="which?", models=("gpt-5", "haiku")), caller())
    await engine.wait(plain)
    await engine.store.flush()
    assert "members" not in await engine.question(plain)


async def test_models_that_cannot_see_or_fit_a_question(
    engine: Engine, caller: Any, project: Any, home: Path
) -> None:
    home.mkdir(exist_ok=True)  # with a team's database, no folder is created
    (home / "config.toml").write_text("[models.deepseek-chat]\ncontext = 1000\noutput = 100\n")
    (project / "dot.png").write_bytes(DOT)
    request = ConsensusRequest(
        prompt="x", models=("gpt-5", "deepseek"), images=("dot.png",), check_models=True
    )
    with pytest.raises(CounselError, match="deepseek cannot see images") as excinfo:
        await engine.submit(request, caller())
    assert excinfo.value.fields["models"] == ["deepseek"]
    long = ConsensusRequest(prompt="word " * 5_000, models=("gpt-5", "deepseek"), check_models=True)
    with pytest.raises(CounselError) as excinfo:
        await engine.submit(long, caller())
    assert excinfo.value.fields["models"] == ["deepseek"]


async def test_pages_of_jobs_and_their_deletion(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    jobs = [(await ask(engine, caller(), f"question {number}"))["job_id"] for number in range(3)]
    page, cursor = await engine.jobs(2, JobFilter())
    assert [job.job_id for job in page.jobs] == jobs[:0:-1]
    rest, end = await engine.jobs(2, JobFilter(), cursor)
    assert ([job.job_id for job in rest.jobs], end) == (jobs[:1], None)
    assert [job.job_id for job in (await engine.recent(1)).jobs] == jobs[-1:]
    await engine.delete(jobs[0])
    with pytest.raises(NotFound):
        await engine.status(jobs[0])
    with pytest.raises(NotFound):
        await engine.delete(jobs[0])
    fake_api.script(gate="g")
    running = await engine.submit(ChatRequest(prompt="x", model="gpt-5"), caller(), key="call-1")
    await fake_api.wait_for(count=4)
    await engine.store.flush()
    with pytest.raises(Conflict, match="still running"):
        await engine.delete(running)
    assert {job.id for job in await engine.open_calls("call-")} == {running}
    assert await engine.open_calls("other-") == []
    assert set(await engine.keys_like("call-")) == {"call-1"}
    assert (await engine.accepted(running)).to_json()["job_id"] == running
    await engine.detach(running)
    fake_api.open_gate("g")
    await engine.wait(running)
    await engine.store.flush()
    assert await engine.open_calls("call-") == []
    assert (await engine.accepted(running)).to_json()["job_id"] == running
    record = await engine.store.job(running)
    assert record is not None
    assert record.background


async def test_changes_of_the_list_of_jobs(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    first = (await ask(engine, caller(), "one"))["job_id"]
    changes = engine.job_changes(2)

    async def until(fits: Callable[[JobChanges], bool]) -> JobChanges:
        async with asyncio.timeout(60):
            while not fits(change := await anext(changes)):
                pass
            return change

    listing = await until(lambda _: True)
    assert ([job.job_id for job in listing.jobs], listing.deleted) == ([first], ())
    fake_api.script(gate="g")
    second = await engine.submit(ChatRequest(prompt="two", model="gpt-5"), caller())
    listing = await until(lambda listing: bool(listing.jobs))
    assert [(job.job_id, job.is_open) for job in listing.jobs] == [(second, True)], (
        "without the unchanged ones"
    )
    for text in ("three", "four"):
        await ask(engine, caller(), text)
    fake_api.open_gate("g")
    await engine.wait(second)
    await engine.store.flush()
    await until(lambda listing: (second, False) in [(job.job_id, job.is_open) for job in listing.jobs])
    await engine.delete(second)
    listing = await until(lambda listing: bool(listing.deleted))
    assert listing.deleted == (second,), "the first one is only older than the newest two"


async def test_the_archive_searches_and_shows_conversations(engine: Engine, caller: Any) -> None:
    await ask(engine, caller(), "the blue whale", continuation_id="whales")
    await ask(engine, caller(), "the red fox", continuation_id="foxes")
    page = await engine.archive.page(10)
    assert {row["id"] for row in page["conversations"]} == {"whales", "foxes"}
    assert page["next"] is None
    assert all("found" not in row for row in page["conversations"])
    match: Any
    (match,) = (await engine.archive.page(10, "whale"))["conversations"]
    assert (match["id"], "whale" in match["found"]) == ("whales", True)
    contents = await engine.archive.contents("whales")
    assert any(b"blue whale" in data for data in contents.values())
    assert await engine.archive.image("0" * 64) is None
    usage = await engine.archive.usage(0.0, "model")
    assert usage["since"].startswith("1970-01-01")
    assert engine.archive.problem == engine.store.problem


async def test_models_that_cannot_take_a_question_are_all_named(engine: Engine, caller: Any) -> None:
    request = ConsensusRequest(prompt="x", models=("gtp-5", "gpt-5", "haiko"), check_models=True)
    with pytest.raises(CounselError) as excinfo:
        await engine.submit(request, caller())
    assert excinfo.value.fields["models"] == ["gtp-5", "haiko"]
    assert [entry["model"] for entry in excinfo.value.fields["failed"]] == ["gtp-5", "haiko"]
    assert str(excinfo.value.hint).endswith("Nothing was sent.")
    assert "gtp-5" in excinfo.value.message
    assert "haiko" in excinfo.value.message


# ── spans ────────────────────────────────────────────────────────────────────────────────────────────


class Tracer:
    """Records spans."""

    def __init__(self, *, records_content: bool) -> None:
        self.records_content = records_content
        self.spans: list[Any] = []

    def start(self, name: str, kind: str, parent: str, attributes: Any) -> Any:
        span = Span(name, kind, parent, dict(attributes))
        self.spans.append(span)
        return span


class Span:
    def __init__(self, name: str, kind: str, parent: str, attributes: dict[str, Any]) -> None:
        self.name, self.kind, self.parent, self.attributes = name, kind, parent, attributes
        self.ends: list[str] = []

    @property
    def traceparent(self) -> str:
        return f"00-{'1' * 32}-{id(self) % 10**16:016d}-01"

    def set(self, attributes: Any) -> None:
        self.attributes |= attributes

    def end(self, error: str = "") -> None:
        self.ends.append(error)


@pytest.mark.parametrize("records_content", [False, True])
async def test_spans_of_a_job_and_its_call(
    engine: Engine, caller: Any, monkeypatch: pytest.MonkeyPatch, records_content: bool
) -> None:
    tracer = Tracer(records_content=records_content)
    monkeypatch.setattr(tracing, "_tracer", tracer)
    answer = await ask(engine, caller(), "why?")
    job, call = tracer.spans
    assert (job.name, job.kind, call.name, call.kind) == ("job chat", "internal", "chat gpt-5", "client")
    assert call.parent == job.traceparent
    assert (job.attributes[names.JOB], job.attributes[names.TOOL]) == (answer["job_id"], "chat")
    assert job.attributes[names.CONVERSATION] == answer["continuation"]["id"]
    assert names.PERSON not in job.attributes
    assert names.REQUEST not in job.attributes
    expected = {
        names.OPERATION: "chat",
        names.PROVIDER: "openai",
        names.REQUEST_MODEL: "gpt-5",
        names.JOB: answer["job_id"],
        names.CONVERSATION: answer["continuation"]["id"],
        names.FINISH_REASONS: ["stop"],
        names.OUTPUT_TOKENS: 3,
    }
    assert {name: call.attributes[name] for name in expected} == expected
    assert call.attributes[names.COST] > 0
    assert call.ends == [""]
    contents = [name for name in (names.INPUT, names.SYSTEM, names.OUTPUT) if name in call.attributes]
    assert len(contents) == (3 if records_content else 0)
    if records_content:
        assert json.loads(call.attributes[names.OUTPUT])[0]["parts"][0]["content"] == "gpt-5 says: why?"
        assert "why?" in call.attributes[names.INPUT]


async def test_the_span_of_a_failed_call_contains_only_the_code(
    engine: Engine, caller: Any, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = Tracer(records_content=False)
    monkeypatch.setattr(tracing, "_tracer", tracer)
    fake_api.script(error="auth", times=None)
    with pytest.raises(CounselError):
        await ask(engine, caller(), "why?")
    assert tracer.spans[1].ends == ["AUTHENTICATION_FAILED"]
