"""Jobs and conversations over HTTP: lists with filters and pages, export, deletion."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counsel import settings
from fake import FakeAPI
from support.api_client import Api, in_process


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    async with in_process(tmp_path, fake_api) as client:
        yield client


async def ask(api: Api, prompt: str, **more: Any) -> Any:
    status, reply = await api.post("/api/jobs", {"prompt": prompt, "model": "gpt-5", **more})
    assert status in {200, 202}
    return reply


async def test_jobs_are_listed_in_pages_and_by_filters(api: Api, fake_api: FakeAPI) -> None:
    jobs = [
        (await ask(api, f"question {colour} about ducks"))["job_id"] for colour in ("red", "blue", "grey")
    ]
    _, both = await api.post(
        "/api/jobs", {"prompt": "which goose?", "models": ["gpt-5", "o3"], "enable_cross_feedback": False}
    )
    fake_api.script(hang_after=0)
    running_job = await ask(api, "wait", model="o3", mode="background")
    newest_first = [running_job["job_id"], both["job_id"], *reversed(jobs)]
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page = await api.get("/api/jobs", limit="2", **cursor)
        names += [job["job_id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert names == newest_first
    for query, expected in [
        ({"status": "processing"}, newest_first[:1]),
        ({"status": "completed", "tool": "chat"}, newest_first[2:]),
        ({"tool": "consensus"}, [both["job_id"]]),
        ({"model": "o3"}, newest_first[:2]),
        ({"q": "DUCKS question blue"}, [jobs[1]]),
        ({"conversation": both["continuation"]["id"]}, [both["job_id"]]),
        ({"q": "no such words"}, []),
    ]:
        _, page = await api.get("/api/jobs", **query)
        assert [job["job_id"] for job in page["jobs"]] == expected, query
    for query in ({"cursor": "x"}, {"cursor": "eA"}, {"status": "done"}, {"satus": "failed"}):
        status, failure = await api.get("/api/jobs", **query)
        assert (status, failure["code"]) == (400, "INVALID_ARGUMENT"), query
    assert failure["hint"] == "Did you mean status?"


async def test_usage_is_grouped_and_shown_over_time(api: Api, fake_api: FakeAPI, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    await ask(api, "hello", project=str(project))
    fake_api.script(status=401)
    assert (await api.post("/api/jobs", {"prompt": "hello", "model": "gpt-5"}))[0] == 502
    _, report = await api.get("/api/usage", by="project")
    assert [(group["project"], group["calls"]) for group in report["groups"]] == [
        (str(tmp_path), 1),
        (str(project), 1),
    ]
    for by, name in [("provider", "openai"), ("client", "http"), ("tool", "chat")]:
        _, report = await api.get("/api/usage", by=by)
        assert [group[by] for group in report["groups"]] == [name]
        _, series = await api.get("/api/usage/series", by=by, seconds="600", buckets="10")
        (group,) = series["groups"]
        assert (group["name"], sum(group["calls"]), sum(group["errors"])) == (name, 2, 1)
        assert {len(values) for key, values in group.items() if key != "name"} == {10}
        assert series["step"] == pytest.approx(60)
    for query in ({"by": "day"}, {"buckets": "501"}, {"buckets": "-1"}):
        assert (await api.get("/api/usage/series", **query))[0] == 400
    _, series = await api.get("/api/usage/series", seconds="0", buckets="0")
    assert series["until"] > series["since"]


async def test_a_job_has_a_timeline(api: Api, fake_api: FakeAPI) -> None:
    fake_api.script(gate="g", gate_after=1)
    job = (await ask(api, "wait", mode="background"))["job_id"]
    async with api.events(job) as events:
        async for event in events:
            if event["kind"] == "text":
                fake_api.open_gate("g")
    _, document = await api.get(f"/api/jobs/{job}/timeline")
    assert (document["job_id"], document["started_at"] <= document["ended_at"]) == (job, True)
    assert [span["kind"] for span in document["spans"]] == ["queue", "answer", "first_word"]
    assert document["spans"][1] | {"start": 0, "end": 0} == {
        "kind": "answer",
        "slot": "0",
        "model": "gpt-5",
        "label": "answer",
        "start": 0,
        "end": 0,
        "ok": True,
    }
    assert (await api.get("/api/jobs/job_nothing/timeline"))[0] == 404


async def test_a_job_is_deleted_once_it_has_ended(api: Api, fake_api: FakeAPI) -> None:
    fake_api.script(hang_after=0)
    job = (await ask(api, "wait", mode="background"))["job_id"]
    status, failure = await api.delete(f"/api/jobs/{job}")
    assert (status, failure["code"]) == (409, "CONFLICT")
    await api.post(f"/api/jobs/{job}/cancel")
    assert await api.delete(f"/api/jobs/{job}") == (200, {"deleted": job})
    assert (await api.get(f"/api/jobs/{job}"))[0] == 404
    assert (await api.delete(f"/api/jobs/{job}"))[0] == 404
    reply = await ask(api, "hello")
    await api.delete(f"/api/jobs/{reply['job_id']}")
    _, conversation = await api.get(f"/api/conversations/{reply['continuation']['id']}")
    assert len(conversation["history"]) == 2


async def test_conversations_are_listed_searched_and_shown(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (4, 3), "red").save(picture, "PNG")
    (tmp_path / "red.png").write_bytes(picture.getvalue())
    first = await ask(api, "about ducks", images=["red.png"])
    geese = [(await ask(api, f"about geese {number}"))["continuation"]["id"] for number in range(3)]
    name = first["continuation"]["id"]
    await ask(api, "more about ducks", continuation_id=name)
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        _, page = await api.get("/api/conversations", limit="3", **cursor)
        names += [conversation["id"] for conversation in page["conversations"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert names == [name, *reversed(geese)]
    _, page = await api.get("/api/conversations", q="DUCKS more")
    assert [(row["id"], row["found"]) for row in page["conversations"]] == [
        (name, "gpt-5 says: more about ducks")
    ]
    _, page = await api.get("/api/conversations", q="geese", limit="1")
    assert page["next"]
    _, document = await api.get(f"/api/conversations/{name}")
    assert [message["content"] for message in document["history"]][::2] == ["about ducks", "more about ducks"]
    assert document["history"][0]["job_id"] == first["job_id"]
    (image,) = document["history"][0]["image_ids"]
    async with api.session.get(f"/api/images/{image}") as answer:
        assert (answer.status, answer.content_type) == (200, "image/png")
        assert await answer.read() == picture.getvalue()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for path in ("/api/images/nothing", "/api/conversations/nothing", "/api/conversations/nothing/export"):
        assert (await api.get(path))[0] == 404
    assert (await api.get("/api/conversations", cursor="nonsense"))[0] == 400


async def test_a_conversation_is_exported_and_deleted(api: Api, fake_api: FakeAPI) -> None:
    name = (await ask(api, "hello"))["continuation"]["id"]
    async with api.session.get(f"/api/conversations/{name}/export") as answer:
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}.zip"'
        archive = zipfile.ZipFile(io.BytesIO(await answer.read()))
    assert archive.read(f"{name}/1_response.txt") == b"gpt-5 says: hello"
    assert json.loads(archive.read(f"{name}/metadata.json"))["continuation_id"] == name
    fake_api.script(hang_after=0)
    job = (await ask(api, "wait", continuation_id=name, mode="background"))["job_id"]
    status, failure = await api.delete(f"/api/conversations/{name}")
    assert (status, failure["code"]) == (409, "CONFLICT")
    await api.post(f"/api/jobs/{job}/cancel")
    assert await api.delete(f"/api/conversations/{name}") == (200, {"deleted": name})
    assert (await api.get(f"/api/conversations/{name}"))[0] == 404
    assert (await api.get("/api/jobs"))[1]["jobs"] == []


async def test_settings_are_shown_with_their_sources_and_keys_by_name_only(api: Api, tmp_path: Path) -> None:
    (tmp_path / "counsel" / "config.toml").write_text('summary_model = "flash"\nnonsense = 1\n')
    status, document = await api.get("/api/settings")
    rows = {row["name"]: row for row in document["settings"]}
    assert (status, rows["summary_model"]["value"]) == (200, "flash")
    assert "config.toml" in rows["summary_model"]["source"]
    assert (rows["token"]["value"], rows["token"]["set"], rows["token"]["secret"]) == (None, True, True)
    assert (rows["max_files"]["value"], rows["max_files"]["source"]) == (100, "default")
    keys = {row["provider"]: row for row in document["keys"]}
    assert (keys["openai"]["set"], keys["anthropic"]["set"]) == (True, False)
    assert any("nonsense" in problem for problem in document["problems"])
    assert "sk-test" not in json.dumps(document)
    assert "a-token-for-these-tests" not in json.dumps(document)


async def test_every_setting_is_shown_with_what_it_may_be(api: Api) -> None:
    """The console draws its form from this."""
    rows = {row["name"]: row for row in (await api.get("/api/settings"))[1]["settings"]}
    fields = {field.name: field.metadata for field in dataclasses.fields(settings.Settings)}
    for name, row in rows.items():
        known = fields[name]
        assert (row["env"], row["description"], row["unit"]) == (
            known["env"], known["description"], known["unit"]
        )  # fmt: skip
        assert (row["minimum"], row["maximum"], row["choices"]) == (
            known["min"], known["max"], list(known["choices"])
        )  # fmt: skip
        assert row["set"] is (row["source"] != "default")
        assert row["secret"] is known["secret"]
        if known["secret"]:
            assert (row["value"], row["default"]) == (None, None)
        elif not row["set"]:
            assert row["value"] == row["default"]


async def test_a_setting_is_changed_in_the_file_and_wrong_ones_are_refused(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "counsel" / "config.toml"
    file.write_text('# mine\nsummary_model = "flash"\n')

    async def put(body: Any) -> tuple[int, Any]:
        async with api.session.put("/api/settings", json=body) as answer:
            return answer.status, await answer.json()

    status, reply = await put({"name": "summary_model", "value": "gpt-5-nano"})
    assert (status, reply["changed"], reply["setting"]["value"]) == (200, True, "gpt-5-nano")
    status, reply = await put({"name": "COUNSEL_AUTO_ORDER", "value": ["a, b", "c"]})
    assert (status, reply["setting"]["value"]) == (200, ["a, b", "c"])
    assert (await put({"name": "max_files", "value": 7}))[1]["setting"]["value"] == 7
    rows = (await api.get("/api/settings"))[1]["settings"]  # at once
    assert next(row["value"] for row in rows if row["name"] == "max_files") == 7
    assert (await put({"name": "max_files", "value": 7}))[1]["changed"] is False
    assert (await put({"name": "max_files", "value": None}))[1]["setting"]["source"] == "default"
    before = file.read_text()
    assert before.startswith("# mine\n")
    for body, code in [
        ({"name": "max_files", "value": 0}, "INVALID_ARGUMENT"),
        ({"name": "max_files", "value": "many"}, "INVALID_ARGUMENT"),
        ({"name": "max_files", "value": {"a": 1}}, "INVALID_ARGUMENT"),
        ({"name": "token", "value": "a-secret-that-is-long"}, "INVALID_ARGUMENT"),
        ({"name": "codex_api_key", "value": "a-secret-that-is-long"}, "INVALID_ARGUMENT"),
        ({"name": "max_fils", "value": 7}, "NOT_FOUND"),
        ({"value": 7}, "INVALID_ARGUMENT"),
        ({"name": "max_files", "valeu": 7}, "INVALID_ARGUMENT"),
    ]:
        status, failure = await put(body)
        assert (failure["code"], "a-secret" in json.dumps(failure)) == (code, False), body
    assert file.read_text() == before


async def test_a_panel_is_set_and_removed_and_wrong_ones_are_refused(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "counsel" / "config.toml"
    file.write_text('# mine\nsummary_model = "flash"\n')

    async def put(name: str, body: Any) -> tuple[int, Any]:
        async with api.session.put(f"/api/panels/{name}", json=body) as answer:
            return answer.status, await answer.json()

    models = ["gpt-5-nano", {"model": "opus-latest", "stance": "against"}]
    status, reply = await put("design", {"models": models})
    assert (status, reply) == (200, {"changed": True, "panels": [{"name": "design", "models": models}]})
    assert (await api.get("/api/settings"))[1]["panels"] == reply["panels"]
    content = file.read_text()
    for name, body, code in [
        ("design", {"models": ["@design"]}, "CONFIG_INVALID"),
        ("a b", {"models": ["gpt-5-nano"]}, "CONFIG_INVALID"),
        ("design", {"models": ["gpt-5-nanoo"]}, "CONFIG_INVALID"),
        ("design", {"models": []}, "INVALID_ARGUMENT"),
        ("design", {"models": "gpt-5-nano"}, "INVALID_ARGUMENT"),
        ("design", {}, "INVALID_ARGUMENT"),
    ]:
        assert (await put(name, body))[1]["code"] == code, (name, body)
    assert file.read_text() == content
    async with api.session.delete("/api/panels/design") as answer:
        assert await answer.json() == {"changed": True, "panels": []}
    assert "# mine" in file.read_text()


async def test_an_alias_is_set_and_removed_and_wrong_ones_are_refused(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "counsel" / "config.toml"
    file.write_text('# mine\nsummary_model = "flash"\n')
    before = file.read_text()

    async def put(name: str, body: Any) -> tuple[int, Any]:
        async with api.session.put(f"/api/aliases/{name}", json=body) as answer:
            return answer.status, await answer.json()

    status, reply = await put("quick", {"model": "gpt-5-nano"})
    assert (status, reply["changed"]) == (200, True)
    assert reply["aliases"] == [{"name": "quick", "target": "gpt-5-nano", "model": "gpt-5-nano"}]
    assert (await api.get("/api/models"))[1]["aliases"] == reply["aliases"]
    content = file.read_text()
    for name, body, code in [
        ("quick", {"model": "gpt-5-nanoo"}, "CONFIG_INVALID"),
        ("auto", {"model": "gpt-5-nano"}, "CONFIG_INVALID"),
        ("a/b", {"model": "gpt-5-nano"}, "CONFIG_INVALID"),
        ("quick", {}, "INVALID_ARGUMENT"),
        ("quick", {"model": 7}, "INVALID_ARGUMENT"),
        ("%20", {"model": "gpt-5-nano"}, "INVALID_ARGUMENT"),
    ]:
        assert (await put(name, body))[1]["code"] == code, (name, body)
    assert file.read_text() == content
    async with api.session.delete("/api/aliases/quick") as answer:
        assert await answer.json() == {"changed": True, "aliases": []}
    async with api.session.delete("/api/aliases/quick") as answer:
        assert (await answer.json())["changed"] is False
    assert before.strip() in file.read_text()


async def test_the_checks_of_doctor_are_data(api: Api) -> None:
    status, document = await api.get("/api/doctor")
    assert (status, {finding["area"] for finding in document["findings"]} >= {"versions", "settings"}) == (
        200,
        True,
    )
    assert "sk-test" not in json.dumps(document)
