"""`POST /api/jobs`: questions over HTTP, and following their jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fake import FakeAPI, FakeProcess
from support import planted
from support.api_client import Api, in_process, messages, running


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    async with in_process(tmp_path, fake_api) as client:
        yield client


def question(prompt: str = "hello", **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "model": "gpt-5", **more}


# ── three ways to get an answer ──────────────────────────────────────────────────────────────────────


async def test_a_question_is_answered_with_the_result_and_its_usage(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.md").write_text("seven")
    body = question("read", files=["notes.md"], project=str(project), reasoning_effort="low")
    async with api.session.post("/api/jobs", json=body) as answer:
        assert answer.status == 200
        reply = await answer.json()
        assert answer.headers["Location"] == f"/api/jobs/{reply['job_id']}"
    assert "seven" in reply["content"]
    assert reply["metadata"]["usage"]["output_tokens"] > 0
    more = question("again", continuation_id=reply["continuation"]["id"])
    assert (await api.post("/api/jobs", more))[1]["continuation"]["messageCount"] == 4
    assert fake_api.calls[0].body["reasoning"]["effort"] == "low"


async def test_several_models_make_a_consensus(api: Api) -> None:
    body = {"prompt": "which?", "models": ["gpt-5", {"model": "o3"}]}
    status, reply = await api.post("/api/jobs", body)
    assert (status, reply["status"], reply["refined_responses"]) == (200, "consensus_complete", 2)
    assert [answer["model"] for answer in reply["phases"]["initial"]] == ["gpt-5", "o3"]
    status, reply = await api.post("/api/jobs", {**body, "enable_cross_feedback": False})
    assert (status, reply["phases"]["refined"]) == (200, [])


async def test_a_diff_is_reviewed(api: Api, fake_api: FakeAPI) -> None:
    entry = planted.finding("app.py", 1, "high", "Wrong", "It was right before.")
    fake_api.script(contains="Review this change", text=json.dumps({"findings": [entry]}), times=None)
    diff = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    body = {"diff": diff, "models": ["gpt-5", "o3"], "prompt": "numbers", "about": "my change"}
    status, reply = await api.post("/api/jobs", body)
    assert (status, reply["status"], reply["about"]) == (200, "review_complete", "my change")
    assert [(finding["title"], finding["status"]) for finding in reply["findings"]] == [("Wrong", "agreed")]
    assert "Look especially at: numbers" in fake_api.calls[0].text
    status, document = await api.get(f"/api/jobs/{reply['job_id']}")
    assert (document["tool"], document["result"]["findings"]) == ("review", reply["findings"])
    status, error = await api.post("/api/jobs", {**body, "files": ["x"]})
    assert (status, error["code"]) == (400, "INVALID_ARGUMENT")


async def test_a_consensus_may_be_refused_before_any_model_is_asked(api: Api, fake_api: FakeAPI) -> None:
    body = {"prompt": "which?", "models": ["gpt-5", "nothing-1", "nothing-2"], "check_models": True}
    status, error = await api.post("/api/jobs", body)
    assert (status, error["code"]) == (404, "MODEL_NOT_FOUND")
    assert [(row["model"], row["code"]) for row in error["failed"]] == [
        ("nothing-1", "MODEL_NOT_FOUND"),
        ("nothing-2", "MODEL_NOT_FOUND"),
    ]
    assert fake_api.calls == []


async def test_a_running_consensus_shows_what_was_asked_and_the_first_answers(
    api: Api, fake_api: FakeAPI
) -> None:
    fake_api.script(model="o3", contains="refined answer", gate="g", gate_after=1)
    body = {"prompt": "Which of the two?\n\nSay why.", "models": ["gpt-5", "o3"], "reasoning_effort": "low"}
    _, job = await api.post("/api/jobs", {**body, "mode": "background"})
    await fake_api.wait_for(model="o3", contains="refined answer", deltas=1)
    path = f"/api/jobs/{job['job_id']}?question=1"
    _, document = await api.get(path)
    assert document["question"] == {
        **body,
        "files": [],
        "images": 0,
        "enable_cross_feedback": True,
        "use_websearch": False,
    }
    assert [(row["slot"], row["phase"]) for row in document["models_status"]] == [
        ("0", "refined"),
        ("1", "refined"),
    ]
    assert all("Say why." in row["initial_response"] for row in document["models_status"])
    fake_api.open_gate("g")
    await api.end(job["job_id"])
    assert (await api.get(path))[1]["question"]["prompt"] == body["prompt"]


async def test_a_background_job_is_answered_at_once(api: Api, fake_api: FakeAPI) -> None:
    fake_api.script(gate="g")
    status, job = await api.post("/api/jobs", question(mode="background"))
    assert (status, job["status"], "result" in job) == (202, "processing", False)
    fake_api.open_gate("g")
    await api.end(job["job_id"])
    _, job = await api.get(f"/api/jobs/{job['job_id']}")
    assert (job["status"], job["result"]["content"]) == ("completed", "gpt-5 says: hello")


@pytest.mark.parametrize("way", ["mode", "accept"])
async def test_a_stream_has_the_events_and_names_its_job(api: Api, way: str) -> None:
    body = question(mode="stream") if way == "mode" else question()
    headers = {"Accept": "text/event-stream"} if way == "accept" else {}
    async with api.session.post("/api/jobs", json=body, headers=headers) as answer:
        assert answer.content_type == "text/event-stream"
        events = [event async for event in messages(answer)]
        job = events[0]["data"]["job_id"]
        assert answer.headers["Location"] == f"/api/jobs/{job}"
    assert [event["kind"] for event in events if event["kind"] != "text"] == [
        "started",
        "model_started",
        "model_finished",
        "done",
    ]
    assert appended(events) == "gpt-5 says: hello"


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────

WRONG: list[dict[str, Any]] = [
    {},
    {"prompt": ""},
    {"prompt": 7},
    {"prompt": "x", "temperature": 7},
    {"prompt": "x", "reasoning_effort": "ultra"},
    {"prompt": "x", "files": "notes.md"},
    {"prompt": "x", "temperatur": 1},
    {"prompt": "x", "model": "gpt-55"},
    {"prompt": "x", "model": "gpt-5", "files": ["/etc/passwd"]},
    {"prompt": "x", "model": "gpt-5", "continuation_id": "conv_00000000-0000-4000-8000-000000000000"},
    {"prompt": "x", "models": []},
    {"prompt": "x", "models": ["gpt-5"] * 21},
    {"prompt": "x", "models": ["gpt-5", 7]},
]


async def test_the_same_arguments_are_refused_with_the_same_message_as_over_mcp(
    api: Api, fake_api: FakeAPI
) -> None:
    info = {"name": "test", "version": "1"}
    await api.mcp("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
    for body in WRONG:
        tool = "consensus" if "models" in body else "chat"
        result = (await api.mcp("tools/call", {"name": tool, "arguments": body}))["structuredContent"]
        status, failure = await api.post("/api/jobs", body)
        assert (failure["error"], failure["code"]) == (result["error"], result["code"]), body
        assert (400 <= status < 500, failure["status"]) == (True, status)
    for body, words in [
        (question(mode="later"), "mode"),
        (question(project="relative"), "project"),
        (question(project="/nowhere/at/all"), "project"),
        (question(models=["o3"]), "model is not known"),
        (question(tool="askModel"), "tool"),
        (question(session="s"), "session"),
    ]:
        status, failure = await api.post("/api/jobs", body)
        assert (status, words in failure["error"]) == (400, True), failure
    assert fake_api.calls == []
    assert (await api.get("/api/jobs"))[1]["jobs"] == []


async def test_a_failure_says_what_to_do_and_names_its_job(api: Api, fake_api: FakeAPI) -> None:
    fake_api.script(status=401, times=None)
    status, failure = await api.post("/api/jobs", question())
    assert (status, failure["status"], failure["code"]) == (502, 502, "AUTHENTICATION_FAILED")
    assert failure["hint"]
    assert (await api.get(f"/api/jobs/{failure['job_id']}"))[1]["status"] == "failed"
    fake_api.reset()
    fake_api.script(text="one two three", cut_after=2, times=None)
    status, failure = await api.post("/api/jobs", question())
    assert (status, failure["code"], failure["partial"][:4]) == (502, "UPSTREAM_ERROR", "one ")


# ── sending again, going away ────────────────────────────────────────────────────────────────────────


async def test_the_same_idempotency_key_asks_once(api: Api, fake_api: FakeAPI) -> None:
    first, second = await asyncio.gather(
        *(api.post("/api/jobs", question(), Idempotency_Key="k1") for _ in range(2))
    )
    assert first[0] == second[0] == 200
    assert first[1]["job_id"] == second[1]["job_id"]
    status, job = await api.post("/api/jobs", question(mode="background"), Idempotency_Key="k1")
    assert (status, job["job_id"], job["status"]) == (202, first[1]["job_id"], "completed")
    assert len(fake_api.calls) == 1
    status, failure = await api.post("/api/jobs", question("another"), Idempotency_Key="k1")
    assert (status, failure["code"]) == (409, "CONFLICT")
    assert (await api.post("/api/jobs", question(), Idempotency_Key="k" * 256))[0] == 400
    with_second_key = await api.post("/api/jobs", question(), Idempotency_Key="k2")
    assert with_second_key[1]["job_id"] != first[1]["job_id"]


async def test_a_client_that_goes_away_stops_its_call_unless_it_has_a_key(
    api: Api, fake_api: FakeAPI
) -> None:
    for key, after in (({}, "cancelled"), ({"Idempotency-Key": "k"}, "completed")):
        fake_api.reset()
        fake_api.script(gate="g", gate_after=1)
        asking = asyncio.create_task(_ask(api, key))
        await fake_api.wait_for(deltas=1)
        asking.cancel()
        await asyncio.wait({asking})
        if not key:
            await fake_api.wait_for(state="disconnected")
        fake_api.open_gate("g")
        job = (await api.get("/api/jobs", limit="1"))[1]["jobs"][0]["job_id"]
        await api.end(job)
        assert (await api.get(f"/api/jobs/{job}"))[1]["status"] == after
    assert (await api.post("/api/jobs", question(), Idempotency_Key="k"))[1]["job_id"] == job


async def _ask(api: Api, headers: dict[str, str]) -> None:
    async with api.session.post("/api/jobs", json=question(), headers=headers) as answer:
        await answer.read()


async def test_one_model_of_a_consensus_is_stopped(api: Api, fake_api: FakeAPI) -> None:
    fake_api.script(model="o3", hang_after=1)
    _, job = await api.post(
        "/api/jobs", {"prompt": "which?", "models": ["gpt-5", "o3"], "mode": "background"}
    )
    path = f"/api/jobs/{job['job_id']}/cancel"
    await fake_api.wait_for(deltas=1, model="o3")
    for body in ({"member": 1}, {"member": "7"}, {"member": ""}, {"slot": "1"}):
        assert (await api.post(path, body))[0] == 400
    status, outcome = await api.post(path, {"member": "1"})
    assert (status, outcome["status"], outcome["member"]) == (200, "processing", "1")
    await api.end(job["job_id"])
    _, document = await api.get(f"/api/jobs/{job['job_id']}")
    assert document["status"] == "completed_with_errors"
    assert [(row["model"], row["code"]) for row in document["result"]["phases"]["failed"]] == [
        ("o3", "CANCELLED")
    ]


# ── following ────────────────────────────────────────────────────────────────────────────────────────


def appended(events: list[Any], text: str = "") -> str:
    """The text of a client that only appends, and cuts where an event says so: no word may arrive twice."""
    for event in events:
        if event["kind"] == "text":
            assert event["data"]["offset"] == len(text)
            text += event["data"]["text"]
        elif event["kind"] == "restarted":
            text = text[: event["data"]["offset"]]
        elif event["kind"] == "model_started":
            text = ""
    return text


WORDS = "".join(f"word{number} " for number in range(40))


async def until(stream: AsyncIterator[Any], word: str) -> list[Any]:
    """Events up to this word, or to the end. Text from before the client connected is one event."""
    events: list[Any] = []
    async for event in stream:
        events.append(event)
        if event["kind"] == "text" and word in event["data"]["text"]:
            break
    return events


@pytest.mark.parametrize("way", ["header", "query"])
async def test_a_stream_is_resumed_where_it_broke(api: Api, fake_api: FakeAPI, way: str) -> None:
    fake_api.script(text=WORDS, deltas=40, gate="g", gate_after=20)
    async with api.session.post("/api/jobs", json=question(mode="stream")) as answer:
        first = await until(messages(answer), "word3 ")
        job = answer.headers["Location"].rpartition("/")[2]
    last = first[-1]["id"]
    fake_api.open_gate("g")
    position = {"after": last} if way == "query" else {"Last-Event-ID": last}
    async with api.events(job, **position) as stream:
        more = await until(stream, "word30 ")  # broken off again
    async with api.events(job, after=more[-1]["id"]) as stream:
        rest = [event async for event in stream]
    assert appended([*first, *more, *rest]) == WORDS
    kinds = [event["kind"] for event in [*first, *more, *rest] if event["kind"] != "text"]
    assert kinds == ["started", "model_started", "model_finished", "done"]
    async with api.events(job, after=rest[-1]["id"]) as stream:  # when all is over and was seen
        assert [event["kind"] async for event in stream] == ["done"]
    async with api.events(job, after=first[-1]["id"]) as stream:  # from any earlier place
        late = [event async for event in stream]
    assert appended([*first, *late]) == WORDS


async def test_a_stream_is_resumed_after_the_server_was_killed(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(text=WORDS, deltas=40, hang_after=20)
    async with running(tmp_path, fake_process) as api:
        first: list[Any] = []
        try:
            async with api.session.post("/api/jobs", json=question(mode="stream")) as answer:
                job = answer.headers["Location"].rpartition("/")[2]
                async for event in messages(answer):
                    first.append(event)
                    if "word10 " in appended(first) and api.process.returncode is None:
                        api.process.kill()
        except aiohttp.ClientError:
            pass
        await api.process.communicate()
    fake_process.script(text=WORDS.upper(), deltas=40, times=None)
    async with running(tmp_path, fake_process) as api:
        async with api.events(job, after=first[-1]["id"]) as stream:
            rest = [event async for event in stream]
        assert appended([*first, *rest]) == WORDS.upper()
        kinds = [event["kind"] for event in rest if event["kind"] != "text"]
        assert kinds[-4:] == ["started", "model_started", "model_finished", "done"]
        async with api.events(job) as stream:  # a late client is told everything
            late = [event async for event in stream]
        assert appended(late) == WORDS.upper()


async def test_a_consensus_is_resumed_in_any_phase(api: Api, fake_api: FakeAPI) -> None:
    body = {"prompt": "which?", "models": ["gpt-5", "o3"], "mode": "stream"}
    fake_api.script(text="one two three four", deltas=4, gate="a", gate_after=2, times=None)
    async with api.session.post("/api/jobs", json=body) as answer:
        events = await until(messages(answer), "one ")
        job = answer.headers["Location"].rpartition("/")[2]
    fake_api.open_gate("a")
    texts: dict[str, str] = {}
    while events[-1]["kind"] != "done":
        async with api.events(job, after=events[-1]["id"]) as stream:
            events += await until(stream, " ")
    for slot in ("0", "1"):
        texts[slot] = appended([event for event in events if event["slot"] == slot])
    assert set(texts.values()) == {"one two three four"}
    structural = [event["seq"] for event in events if event["kind"] != "text"]
    assert structural == sorted(set(structural))
    assert [event["data"]["phase"] for event in events if event["kind"] == "model_started"] == [
        *["initial"] * 2,
        *["refined"] * 2,
    ]


async def test_an_invalid_event_id_is_refused(api: Api) -> None:
    job = (await api.post("/api/jobs", question()))[1]["job_id"]
    for value in ["x", "-1", "1~", "1~0.answer", "1~0.answer.5.zz", "9" * 30, "1" + "~0.a.1." * 2_000]:
        status, failure = await api.get(f"/api/jobs/{job}/events", after=value)
        assert (status, "after must be the id of an event" in failure["error"]) == (400, True), value
