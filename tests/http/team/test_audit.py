"""The audit log: who did what, when; without prompts unless the team wants them, and for admins only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support.api_client import Api
from support.team_browser import TeamBrowser
from support.team_server import OPERATOR, TeamServer, serving

SECRET = "the word is xylophone"


async def records(team: TeamServer, **query: str) -> list[Any]:
    admin = await team.client(OPERATOR)
    status, document = await admin.get("/api/team/audit", **query)
    assert status == 200
    rows: list[Any] = document["records"]
    return rows


async def ask(api: Api) -> Any:
    return (await api.post("/api/jobs", {"prompt": SECRET, "model": "gpt-5"}))[1]


async def test_the_log_says_who_did_what_from_where_without_prompts(team: TeamServer) -> None:
    admin = await team.client(OPERATOR)
    person = (await admin.post("/api/team/people", {"name": "Ann"}))[1]
    ann = await team.client(person["token"])
    conversation = (await ask(ann))["continuation"]["id"]
    await ann.post(f"/api/conversations/{conversation}/share")
    await ann.post(f"/api/conversations/{conversation}/unshare")
    job = (await ann.get("/api/jobs"))[1]["jobs"][0]["job_id"]
    await ann.post(f"/api/jobs/{job}/cancel")
    await ann.delete(f"/api/conversations/{conversation}")
    assert (await ann.get("/api/settings"))[0] == 403
    assert (await ann.get("/api/team/people"))[0] == 403
    assert (await (await team.client("csl_" + "x" * 43)).get("/api/jobs"))[0] == 401
    rows = list(reversed(await records(team)))
    assert [(row["name"], row["action"], row["object"]) for row in rows] == [
        ("operator", "signed in", ""),
        ("operator", "people changed", "Ann"),
        ("Ann", "signed in", ""),
        ("Ann", "asked", job),
        ("Ann", "shared", conversation),
        ("Ann", "unshared", conversation),
        ("Ann", "cancelled", job),
        ("Ann", "deleted", conversation),
        ("Ann", "refused", "GET /api/settings"),
        ("Ann", "refused", "GET /api/team/people"),
        ("", "refused", ""),
    ]
    assert {row["address"] for row in rows} == {"127.0.0.1"}
    assert {row["token"] for row in rows if row["name"] == "Ann"} == {person["token_id"]}
    assert "xylophone" not in str(rows)
    assert person["token"] not in str(rows)
    assert {row["name"] for row in await records(team, person="ann")} == {"Ann"}


async def test_the_log_names_all_models_of_a_consensus(team: TeamServer) -> None:
    api = await team.person("Ann")
    body = {"prompt": SECRET, "models": ["gpt-5", {"model": "o3"}], "mode": "background"}
    assert (await api.post("/api/jobs", body))[0] == 202
    (row,) = [row for row in await records(team) if row["action"] == "asked"]
    assert row["detail"].startswith("gpt-5, o3 through ")


async def test_members_do_not_read_the_audit_log(team: TeamServer) -> None:
    for role in ("member", "read-only"):
        api = await team.person(role, role)
        assert (await api.get("/api/team/audit"))[0] == 403


async def test_prompts_are_stored_where_the_team_wants_that(
    tmp_path: Path, fake_api: FakeAPI, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNSEL_AUDIT_PROMPTS", "1")
    async with serving(tmp_path, fake_api, database) as team:
        await ask(await team.person("Ann"))
        (row,) = [row for row in await records(team) if row["action"] == "asked"]
        assert SECRET in row["detail"]


async def test_what_was_noted_is_there_after_a_clean_end_and_expires(
    tmp_path: Path, fake_api: FakeAPI, database: str
) -> None:
    import psycopg

    async with serving(tmp_path, fake_api, database) as team:
        job = await (await team.person("Ann")).post(
            "/api/jobs", {"prompt": SECRET, "model": "gpt-5", "mode": "background"}
        )
    with psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute("SELECT object FROM counsel.audit WHERE action = 'asked'").fetchone()
        assert row == (job[1]["job_id"],)
        connection.execute("UPDATE counsel.audit SET expires = 1")
    async with serving(tmp_path, fake_api, database) as team:
        await team.engine.store.sweep()
        assert [row["action"] for row in await records(team)] == ["signed in"]


async def test_signing_in_to_the_console_is_noted_with_its_address(team: TeamServer) -> None:
    await team.person("Ann")
    async with TeamBrowser(team.address) as browser:
        for key in ("csl_wrong", team.tokens["Ann"]):
            await browser.fetch("POST", "/api/session", {"key": key})
    rows = [row for row in await records(team) if row["detail"] == "console"]
    assert [(row["name"], row["action"], row["address"]) for row in rows] == [
        ("Ann", "signed in", "127.0.0.1"),
        ("", "refused", "127.0.0.1"),
    ]


async def test_strangers_do_not_fill_the_log(team: TeamServer) -> None:
    for number in range(80):
        stranger = await team.client(f"csl_{number:043}")
        assert (await stranger.get("/api/jobs"))[0] == 401
    refusals = [row for row in await records(team, limit="1000") if row["action"] == "refused"]
    assert len(refusals) == 60
    assert "more than 60 a minute" in refusals[0]["detail"]
