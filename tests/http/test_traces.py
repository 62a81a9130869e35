"""Traces: from the client's own span over the request and the job to each call, also when another server continues
it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counsel import settings, tracing
from fake import FakeAPI
from support import api_client
from support.otlp_receiver import Receiver, receiving

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
PROMPT = "the secret plan of the northern office"


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    async with receiving() as new_receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", new_receiver.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        yield new_receiver
        await asyncio.to_thread(tracing.close)


def begin() -> None:
    tracing.setup(settings.load({"COUNSEL_HOME": "/nowhere", "COUNSEL_TRACES": "1"}))


async def test_one_trace_from_the_client_to_each_call_without_prompts(
    tmp_path: Path, fake_api: FakeAPI, receiver: Receiver
) -> None:
    begin()
    fake_api.script(status=401, model="gpt-5-mini", times=None)
    async with api_client.in_process(tmp_path, fake_api) as api:
        body = {"prompt": PROMPT, "models": ["gpt-5", "gpt-5-mini"], "enable_cross_feedback": False}
        status, _ = await api.post("/api/jobs", body, traceparent=TRACEPARENT, X_Request_ID="abc-1")
        assert status == 200
        await api.get("/health")
    await asyncio.to_thread(tracing.close)
    (request,) = receiver.named("POST /api/jobs")
    (job,) = receiver.named("job consensus")
    calls = {span.attributes["gen_ai.request.model"]: span for span in receiver.named("chat ")}
    assert len(receiver.spans) == 4, [span.name for span in receiver.spans]
    assert {span.trace for span in receiver.spans} == {TRACE}
    assert (request.parent, job.parent) == (PARENT, request.id)
    assert {span.parent for span in calls.values()} == {job.id}
    assert (request.attributes["http.response.status_code"], request.service) == (200, "counsel")
    assert job.attributes["counsel.request.id"] == "abc-1"
    success, failure = calls["gpt-5"], calls["gpt-5-mini"]
    assert success.name == "chat gpt-5"
    assert success.attributes["gen_ai.provider.name"] == "openai"
    assert success.attributes["gen_ai.operation.name"] == "chat"
    assert success.attributes["gen_ai.usage.output_tokens"] > 0
    assert success.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert (failure.failed, failure.attributes["error.type"]) == (True, "AUTHENTICATION_FAILED")
    assert "northern" not in str(receiver.spans)
    assert "sk-test" not in str(receiver.spans)


async def test_content_is_recorded_only_by_the_conventions_own_variable(
    tmp_path: Path, fake_api: FakeAPI, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    begin()
    async with api_client.in_process(tmp_path, fake_api) as api:
        await api.post("/api/jobs", {"prompt": PROMPT, "model": "gpt-5"})
    await asyncio.to_thread(tracing.close)
    (call,) = receiver.named("chat gpt-5")
    assert PROMPT in call.attributes["gen_ai.input.messages"]
    assert "says" in call.attributes["gen_ai.output.messages"]


async def test_a_job_that_another_server_continues_stays_in_its_trace(
    tmp_path: Path, fake_api: FakeAPI, receiver: Receiver
) -> None:
    begin()
    fake_api.script(text="never", gate="never", gate_after=1)
    async with api_client.in_process(tmp_path, fake_api) as first:
        body = {"prompt": "wait", "model": "gpt-5", "mode": "background"}
        _, job = await first.post("/api/jobs", body, traceparent=TRACEPARENT)
        await fake_api.wait_for(state="answering", deltas=1)
    async with api_client.in_process(tmp_path, fake_api) as second:
        await second.end(job["job_id"])
    await asyncio.to_thread(tracing.close)
    (request,) = receiver.named("POST /api/jobs")
    jobs = {span.attributes["counsel.job.attempt"]: span for span in receiver.named("job chat")}
    assert [jobs[1].parent, jobs[2].parent] == [request.id, request.id]
    assert {span.trace for span in jobs.values()} == {TRACE}
    assert receiver.named("chat gpt-5")[-1].parent == jobs[2].id


def test_nothing_is_imported_where_traces_are_off(tmp_path: Path) -> None:
    code = (
        "import sys; from counsel import settings, tracing; import counsel.http.app, counsel.engine.engine;"
        "tracing.setup(settings.load()); assert not tracing.is_on();"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))])"
    )
    env = {"COUNSEL_HOME": str(tmp_path), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
