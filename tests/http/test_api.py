"""`/api` and `/metrics` of a real `counsel serve` process, whose providers are the fake."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from yarl import URL

from counsel.agents.definitions import ASKABLE
from fake import FakeProcess
from support.api_client import Api, running


@pytest.fixture
async def api(tmp_path: Path, fake_process: FakeProcess) -> AsyncIterator[Api]:
    async with running(tmp_path, fake_process) as client:
        info = {"name": "test", "version": "1"}
        await client.mcp(
            "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        )
        yield client


async def test_jobs_from_the_list_to_the_last_event(api: Api, fake_process: FakeProcess) -> None:
    fake_process.script(text="one two three", gate="half", gate_after=1)
    reply = await api.ask("count", **{"async": True})
    job = reply["job_id"]
    status, page = await api.get("/api/jobs", limit="5")
    assert (status, [row["job_id"] for row in page["jobs"]]) == (200, [job])
    async with api.events(job) as events:
        kinds, text = [], ""
        async for event in events:
            kinds.append(event["kind"])
            if event["kind"] == "text":
                text = text[: event["data"]["offset"]] + event["data"]["text"]
                fake_process.open_gate("half")
    assert text == "one two three"
    assert kinds[0] == "started"
    assert kinds[-1] == "done"
    status, document = await api.get(f"/api/jobs/{job}", history="1")
    assert (status, document["status"]) == (200, "completed")
    assert [message["content"] for message in document["history"]] == ["count", "one two three"]
    async with api.events(reply["continuation"]["id"]) as events:
        replay = [event async for event in events]
    assert replay[-1]["kind"] == "done"
    async with api.events(job, **{"Last-Event-ID": replay[-2]["id"]}) as events:
        assert [event["seq"] async for event in events] == [replay[-1]["seq"]]


async def test_discarded_text_is_marked_as_discarded(api: Api, fake_process: FakeProcess) -> None:
    fake_process.script(
        text="void1 void2 void3", error="overloaded", error_after=2, gate="fail", gate_after=1
    )
    fake_process.script(text="good1 good2 good3")
    job = (await api.ask("count", model="auto", **{"async": True}))["job_id"]
    texts, text = [], ""
    async with api.events(job) as events:
        async for event in events:
            if event["kind"] in {"text", "restarted"}:
                text = text[: event["data"]["offset"]] + event["data"].get("text", "")
                texts.append(text)
                fake_process.open_gate("fail")
            if event["kind"] == "restarted":
                data = event["data"]
    assert texts[:3] == ["void1 ", "void1 void2 ", ""]
    assert text == "good1 good2 good3"
    first, second = [call["model"] for call in fake_process.calls][:2]
    assert (data["model"], data["next"], data["reason"]) == (first, second, "failed")
    assert data["code"] == "PROVIDER_UNAVAILABLE"
    async with api.events(job) as events:  # when all is over
        replay = [event async for event in events]
    assert [event["data"]["text"] for event in replay if event["kind"] == "text"] == [text]
    _, document = await api.get(f"/api/jobs/{job}", history="1")
    assert [message["content"] for message in document["history"]] == ["count", text]


async def test_a_running_job_is_cancelled(api: Api, fake_process: FakeProcess) -> None:
    fake_process.script(hang_after=1)
    job = (await api.ask("wait", **{"async": True}))["job_id"]
    await asyncio.to_thread(fake_process.wait_for, deltas=1)
    async with api.events(job) as events:
        assert (await anext(events))["kind"] == "started"
        status, reply = await api.post(f"/api/jobs/{job}/cancel")
        assert (status, reply["status"]) == (200, "cancelled")
        assert [event["kind"] async for event in events][-1] == "cancelled"
    await asyncio.to_thread(fake_process.wait_for, state="disconnected")


async def test_the_front_ends_during_an_open_stream(api: Api, fake_process: FakeProcess) -> None:
    fake_process.script(hang_after=1)
    job = (await api.ask("wait", **{"async": True}))["job_id"]
    async with api.events(job) as events:
        assert (await anext(events))["kind"] == "started"
        api.process.terminate()
        assert [event["kind"] async for event in events][-1] not in {"done", "failed", "cancelled"}
    _, output = await api.process.communicate()
    assert api.process.returncode == 0
    assert b"ERROR" not in output


async def test_models_that_can_be_asked_and_their_usage(api: Api, fake_process: FakeProcess) -> None:
    fake_process.script(usage={"input": 1000, "output": 50})
    await api.ask("hello")
    fake_process.script(status=401, times=None)
    await api.ask("hello")
    status, models = await api.get("/api/models")
    available = {row["id"]: row["available"] for row in models["models"]}
    assert (status, available["gpt-5"], available["gemini-2.5-flash"]) == (200, True, False)
    assert {row["provider"] for row in (await api.get("/api/models", provider="openai"))[1]["models"]} == {
        "openai"
    }
    status, agents = await api.get("/api/agents")
    assert (status, len(agents["agents"])) == (200, len(ASKABLE))
    status, usage = await api.get("/api/usage", by="provider", seconds="3600")
    assert (status, usage["total"]["calls"], usage["total"]["input_tokens"]) == (200, 2, 1000)
    assert usage["total"]["errors"] == {"AUTHENTICATION_FAILED": 1}
    assert usage["budgets"] == []
    async with api.session.get("/metrics") as answer:
        assert answer.content_type == "text/plain"
        text = await answer.text()
    assert 'counsel_input_tokens_total{provider="openai",model="gpt-5"} 1000' in text
    assert 'counsel_errors_total{provider="openai",model="gpt-5",code="AUTHENTICATION_FAILED"} 1' in text


async def test_an_image_is_uploaded(api: Api, tmp_path: Path) -> None:
    project = tmp_path / "a project"
    project.mkdir()
    params = {"project": str(project)}

    async def upload(body: bytes, **query: str) -> tuple[int, Any]:
        async with api.session.post("/api/images", data=io.BytesIO(body), params=query) as answer:
            return answer.status, await answer.json()

    picture = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(picture, "PNG")
    status, stored_image = await upload(picture.getvalue(), **params)
    assert (status, stored_image["media_type"], stored_image["width"], stored_image["height"]) == (
        200,
        "image/png",
        4,
        3,
    )
    assert Path(stored_image["path"]).parent == project / ".counsel" / "assets"
    assert await asyncio.to_thread(Path(stored_image["path"]).read_bytes) == picture.getvalue()
    for body, query, code in (
        (b"<svg onload='x()'/>", params, 400),
        (b"", params, 400),
        (picture.getvalue() + b"x" * 11_000_000, params, 413),
        (picture.getvalue(), {"project": "relative"}, 400),
    ):
        assert (await upload(body, **query))[0] == code
    assert len(list(project.rglob("*.*"))) == 3  # the picture, the store's .gitignore and .counsel itself


async def test_servers_and_skills_have_routes(api: Api) -> None:
    status, listing = await api.get("/api/servers")
    assert (status, listing["servers"], listing["problems"]) == (200, [], [])
    status, skills = await api.get("/api/skills", agent="gemini")
    assert (status, "skills" in skills) == (200, True)


async def test_failures_are_json_with_a_fitting_status(api: Api) -> None:
    for path, status, code in [
        ("/api/jobs/job_00000000-0000-4000-8000-000000000000", 404, "NOT_FOUND"),
        ("/api/jobs/job_00000000-0000-4000-8000-000000000000/events", 404, "NOT_FOUND"),
        ("/api/jobs?limit=-1", 400, "INVALID_ARGUMENT"),
        ("/api/jobs?limit=9999", 400, "INVALID_ARGUMENT"),
        ("/api/usage?by=moon", 400, "INVALID_ARGUMENT"),
        ("/api/models?provider=nobody", 400, "INVALID_ARGUMENT"),
        ("/api/servers/nobody", 404, "NOT_FOUND"),
        ("/api/nowhere", 404, "NOT_FOUND"),
        ("/nowhere", 404, "NOT_FOUND"),
        ("/api/skills/show", 400, "INVALID_ARGUMENT"),
    ]:
        actual, document = await api.get(path)
        assert (path, actual, document["code"]) == (path, status, code)
        assert document["error"]
    assert (await api.post("/api/jobs/nobody/cancel"))[0] == 404


@pytest.mark.parametrize("name", ["people", "me", "usage", "audit", "limits", "keys"])
async def test_a_server_without_a_team_says_so(api: Api, name: str) -> None:
    status, document = await api.get(f"/api/team/{name}")
    assert (status, document["error"]) == (404, "This server has no team.")


@pytest.mark.parametrize("path", ["/api/servers", "/api/skills/share"])
async def test_hostile_bodies_are_refused(api: Api, path: str) -> None:
    for body, status in [
        (b"[" * 100_000, 400),
        (b'{"name": "\xff"}', 400),
        (b"[]", 400),
        (b'{"name": "' + b"x" * 2_000_000, 413),
    ]:
        async with api.session.post(path, data=io.BytesIO(body)) as answer:
            assert (body[:12], answer.status) == (body[:12], status)
            assert "body" in (await answer.json())["error"]


async def test_nothing_without_the_token(api: Api) -> None:
    for path in ("/metrics", "/api/jobs", "/api/models", "/api/servers", "/api/skills", "/api/nowhere"):
        async with api.session.get(path, headers={"Authorization": "Bearer no"}) as answer:
            assert answer.status == 401
            assert (await answer.json())["code"] == "AUTHENTICATION_FAILED"


WRONG = [
    "limit=007",
    "limit=" + "0" * 5_000 + "5",
    "limit=%D9%A3",
    "limit=%2B5",
    "limit=-1",
    "limit=5.0",
    "limit=1e3",
    "limit=",
    "limit=5%00",
    "limit=" + "9" * 5_000,
    "limit=5&limit=6",
    "&".join(f"x{number}=1" for number in range(200)),
]
NO_NUMBERS = ["x", "-1", "1" * 5_000, "0" * 5_000, "1.5", "\u00b2", str(2**70)]


async def test_what_is_wrong_in_an_address_is_named(api: Api) -> None:
    for query in WRONG:
        async with api.session.get(URL(f"/api/jobs?{query}", encoded=True)) as answer:
            document = await answer.json()
            assert (answer.status, document["code"]) == (400, "INVALID_ARGUMENT"), query[:30]
            assert "limit" in document["error"] or "parameters" in document["error"]
            assert len(document["error"]) < 500
    assert (await api.get("/api/jobs"))[0] == 200


async def test_a_last_event_id_that_is_not_a_number_is_named(api: Api) -> None:
    await api.ask("hello")
    job = (await api.get("/api/jobs"))[1]["jobs"][0]["job_id"]
    for value in NO_NUMBERS:
        async with api.session.get(f"/api/jobs/{job}/events", headers={"Last-Event-ID": value}) as answer:
            assert answer.status == 400, value[:30]
            assert "Last-Event-ID" in (await answer.json())["error"]
    async with api.session.get(f"/api/jobs/{job}?history=maybe") as answer:
        assert answer.status == 400


async def test_files_named_over_http_stay_in_the_callers_folder(api: Api, fake_process: FakeProcess) -> None:
    for name in ("/etc/hostname", "..", "../*"):
        failure = await api.ask("Why?", files=[name])
        assert failure["code"] == "FILE_NOT_ALLOWED", name
    assert fake_process.calls == []


async def test_long_answers_are_compressed_for_those_who_accept_it(api: Api) -> None:
    sizes = []
    for encoding in ("gzip", "identity"):
        async with api.session.get("/api/models", headers={"Accept-Encoding": encoding}) as answer:
            assert (await answer.json())["models"]
            assert answer.headers.get("Content-Encoding") == ("gzip" if encoding == "gzip" else None)
            sizes.append(int(answer.headers["Content-Length"]))
    assert sizes[0] * 4 < sizes[1]
    async with api.session.get("/health", headers={"Accept-Encoding": "gzip"}) as answer:
        assert "Content-Encoding" not in answer.headers
