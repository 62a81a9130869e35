"""`GET /api/events`: many jobs and the list of jobs through one connection, resumed by cursors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from counsel.http.api import event_stream
from counsel.http.api.documents.events import STREAM
from counsel.http.api.event_cursor import Cursor
from counsel.job_events import JobDone, JobEvent, TextAdded
from fake import FakeAPI, FakeProcess
from support import openapi
from support.api_client import Api, in_process, running

WORDS = "".join(f"word{number} " for number in range(40))


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    async with in_process(tmp_path, fake_api) as client:
        yield client


@asynccontextmanager
async def follow(api: Api, *jobs: str, **query: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    params = [*(("job", job) for job in jobs), *query.items()]
    async with api.session.get("/api/events", params=params) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        yield messages_of(answer)


async def messages_of(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Each message's name and data."""
    name = ""
    async for line in answer.content:
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        if line.startswith(b"data: "):
            data = json.loads(line[6:])
            openapi.validate(data, {"$ref": f"#/components/schemas/{STREAM[name].__name__}"})
            if name == "job":
                openapi.check_event(data["event"])
            yield name, data


async def ask(api: Api, prompt: str, **more: Any) -> str:
    body = {"prompt": prompt, "model": "gpt-5", "mode": "background", **more}
    status, job = await api.post("/api/jobs", body)
    assert status == 202
    return str(job["job_id"])


class Client:
    """What a page stores about the jobs that it follows: no word may arrive twice or be missing."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.cursors: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    def receive(self, data: Any) -> None:
        event, key = data["event"], (data["job"], data["event"]["slot"])
        self.cursors[data["job"]] = data["cursor"]
        if event["kind"] == "text":
            assert event["data"]["offset"] == len(self.texts.get(key, ""))
            self.texts[key] = self.texts.get(key, "") + event["data"]["text"]
        elif event["kind"] == "model_started":
            self.texts[key] = ""
        elif event["kind"] == "restarted":
            self.texts[key] = self.texts[key][: event["data"]["offset"]]
        elif event["kind"] in {"done", "failed", "cancelled"}:
            self.ended[data["job"]] = event["kind"]

    def jobs(self) -> list[str]:
        return [f"{job}~{cursor}" for job, cursor in self.cursors.items()]


async def test_several_jobs_share_one_stream_and_are_resumed_by_their_cursors(
    api: Api, fake_api: FakeAPI
) -> None:
    fake_api.script(text=WORDS, deltas=40, gate="g", gate_after=20, times=None)
    jobs = [await ask(api, f"question {number}") for number in range(3)]
    client = Client()
    async with follow(api, *jobs) as messages:
        async for name, data in messages:
            assert name == "job"
            client.receive(data)
            if len(client.texts) == 3 and all("word10 " in text for text in client.texts.values()):
                break
    fake_api.open_gate("g")
    async with follow(api, *client.jobs()) as messages:
        async for _, data in messages:
            client.receive(data)
    assert client.ended == dict.fromkeys(jobs, "done")
    assert list(client.texts.values()) == [WORDS] * 3
    async with follow(api, *client.jobs()) as messages:  # all is over: each job's end, once more
        again = [data["event"]["kind"] async for _, data in messages]
    assert again == ["done"] * 3
    late = Client()
    async with follow(api, f"{jobs[0]}~", jobs[1]) as messages:  # from the start
        async for _, data in messages:
            late.receive(data)
    assert list(late.texts.values()) == [WORDS] * 2


async def test_an_unknown_job_is_gone_and_the_others_are_followed(api: Api) -> None:
    job = await ask(api, "hello")
    async with follow(api, "job_nothing", job) as messages:
        events = [message async for message in messages]
    assert [data for name, data in events if name == "gone"] == [{"job": "job_nothing"}]
    assert events[-1][1]["event"]["kind"] == "done"


async def test_the_list_begins_with_the_newest_and_has_each_change(api: Api, fake_api: FakeAPI) -> None:
    first = await ask(api, "earlier")
    await api.end(first)
    async with follow(api, jobs="1") as messages:
        assert [job["job_id"] for job in (await job_list(messages))["jobs"]] == [first]
        fake_api.script(gate="g")
        job = await ask(api, "later")
        states = [await state_of(messages, job)]
        fake_api.open_gate("g")
        while states[-1] != "completed":
            states.append(await state_of(messages, job))
        assert states[0] == "processing"
        await api.delete(f"/api/jobs/{first}")
        while (message := await anext(messages))[0] != "gone":
            assert message[0] == "jobs"
        assert message[1] == {"job": first}


async def job_list(messages: AsyncIterator[tuple[str, Any]]) -> Any:
    name, data = await anext(messages)
    assert name == "jobs"
    return data


async def state_of(messages: AsyncIterator[tuple[str, Any]], job: str) -> str:
    """The job's status in the next list that contains it."""
    while True:
        for row in (await job_list(messages))["jobs"]:
            if row["job_id"] == job:
                return str(row["status"])


async def test_a_job_in_the_list_says_what_it_cost_once_it_has_ended(api: Api, fake_api: FakeAPI) -> None:
    fake_api.script(gate="g")
    job = await ask(api, "later")
    async with follow(api, jobs="1") as messages:
        (running_job,) = (await job_list(messages))["jobs"]
        assert "cost_usd" not in running_job
        fake_api.open_gate("g")
        while (rows := (await job_list(messages))["jobs"])[0]["status"] != "completed":
            pass
    _, document = await api.get(f"/api/jobs/{job}")
    assert rows[0]["cost_usd"] == document["result"]["metadata"]["cost_usd"] > 0
    assert (rows[0]["model"], rows[0]["provider"]) == ("gpt-5", "openai")
    _, page = await api.get("/api/jobs")
    assert page["jobs"] == rows


async def test_an_empty_list_is_reported_too(api: Api) -> None:
    async with follow(api, jobs="1") as messages:
        assert await job_list(messages) == {"jobs": []}


async def test_a_job_that_runs_while_many_newer_ones_come_is_reported_at_its_end(
    api: Api, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "NEWEST", 1)
    fake_api.script(contains="slow", gate="g")
    slow = await ask(api, "slow")
    await api.end(await ask(api, "quick"))
    async with follow(api, jobs="1") as messages:
        assert slow in {job["job_id"] for job in (await job_list(messages))["jobs"]}
        fake_api.open_gate("g")
        while await state_of(messages, slow) != "completed":
            pass


async def test_the_stream_outlives_a_killed_server(tmp_path: Path, fake_process: FakeProcess) -> None:
    fake_process.script(text=WORDS, deltas=40, hang_after=20)
    client = Client()
    async with running(tmp_path, fake_process) as api:
        job = await ask(api, "hello")
        try:
            async with follow(api, job, jobs="1") as messages:
                async for name, data in messages:
                    if name == "job":
                        client.receive(data)
                    if "word10 " in client.texts.get((job, "0"), "") and api.process.returncode is None:
                        api.process.kill()
        except aiohttp.ClientError:
            pass
        await api.process.communicate()
    fake_process.script(text=WORDS.upper(), deltas=40, times=None)
    async with running(tmp_path, fake_process) as api, follow(api, *client.jobs()) as messages:
        async for _, data in messages:
            client.receive(data)
    assert client.texts == {(job, "0"): WORDS.upper()}
    assert client.ended == {job: "done"}


async def test_the_stream_ends_in_order_when_the_server_stops(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(hang_after=0, times=None)
    async with running(tmp_path, fake_process) as api:
        job = await ask(api, "hello")
        async with follow(api, job, jobs="1") as messages:
            await anext(messages)
            api.process.terminate()
            async with asyncio.timeout(60):
                rest = [message async for message in messages]
    assert not any(data["event"]["kind"] == "cancelled" for name, data in rest if name == "job")


async def test_what_cannot_be_followed_is_refused(api: Api) -> None:
    for query in [
        [],
        [("job", "a"), ("job", "a~3")],
        [("job", "a~nonsense")],
        [("job", ",".join(f"job{number}" for number in range(101)))],
        [("jobs", "maybe")],
    ]:
        async with api.session.get("/api/events", params=query) as answer:
            assert (answer.status, (await answer.json())["code"]) == (400, "INVALID_ARGUMENT"), query


# ── a client that does not read ──────────────────────────────────────────────────────────────────────


class EndlessEngine:
    """An engine whose jobs say the same long text again and again."""

    def __init__(self) -> None:
        self.sent = 0

    async def events(self, job_id: str) -> AsyncGenerator[JobEvent]:
        for number in range(200):
            self.sent += 1
            yield TextAdded(1, 0.0, "0", "x" * 10_000, 10_000 * number, "answer")
        yield JobDone(2, 0.0, "", "completed")

    def job_changes(self, newest: int) -> Any:
        raise AssertionError


async def test_a_slow_client_holds_up_reading_and_loses_nothing() -> None:
    engine = EndlessEngine()
    jobs = {f"job{number}": Cursor() for number in range(20)}
    stream = event_stream.stream(engine, jobs, asyncio.Event(), jobs=False)
    first = await anext(stream)
    for _ in range(100):  # the readers could continue
        await asyncio.sleep(0)
    most = event_stream.LARGEST_BATCH // 10_000 + 1
    assert engine.sent <= 2 * (most + len(jobs))
    lines = first + "".join([chunk async for chunk in stream])
    assert lines.count('"kind":"text"') == 20 * 200
    assert lines.count('"kind":"done"') == 20
