"""Budgets, rate limits and own keys of a team, over HTTP and across servers: what is refused is not sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.consult.test_budget import CONFIG
from fake import FakeAPI
from support.api_client import Api
from support.team_server import OPERATOR, TeamServer, serving

pytestmark = pytest.mark.thorough  # left out of `make check`

PENNY = {"prompt": "hello", "model": "penny"}
SECRET = "a-secret-key-for-peoples-own-keys-0123"
OWN = "sk-own-key-of-ann-0123456789"


@pytest.fixture
async def servers(tmp_path: Path, fake_api: FakeAPI, database: str) -> AsyncIterator[list[TeamServer]]:
    async with AsyncExitStack() as stack:
        started_servers = []
        for n in range(3):
            home = tmp_path / f"server-{n}" / "counsel"
            home.mkdir(parents=True, mode=0o700)
            (home / "config.toml").write_text(CONFIG)
            server = serving(home.parent, fake_api, database, COUNSEL_SECRET_KEY=SECRET)
            started_servers.append(await stack.enter_async_context(server))
        yield started_servers


async def put(api: Api, path: str, body: Any) -> tuple[int, Any]:
    async with api.session.put(path, json=body) as answer:
        return answer.status, await answer.json()


async def set_limit(servers: list[TeamServer], kind: str, name: str, **values: Any) -> None:
    operator = await servers[0].client(OPERATOR)
    status, row = await put(operator, "/api/team/limits", {"kind": kind, "name": name, **values})
    assert status == 200, row
    for server in servers:
        server.engine.budgets.team.read_again()  # instead of a second later


async def test_of_200_calls_over_three_servers_a_budget_for_40_sends_40(
    servers: list[TeamServer], fake_api: FakeAPI
) -> None:
    """A call may cost a cent, and costs one."""
    await servers[0].person("Ann")
    clients = [await server.client(servers[0].tokens["Ann"], server.address) for server in servers]
    await set_limit(servers, "person", "Ann", day_usd=0.40)
    fake_api.script(usage={"input": 10, "output": 1_000}, times=None)
    answers = await asyncio.gather(*(clients[n % 3].post("/api/jobs", PENNY) for n in range(200)))
    assert Counter(status for status, _ in answers) == {200: 40, 402: 160}
    assert len(fake_api.requests) == 40
    failure = next(body for status, body in answers if status == 402)
    assert (failure["code"], failure["budget"], failure["limit_usd"]) == (
        "BUDGET_EXCEEDED",
        "day:person:Ann",
        0.4,
    )
    assert failure["until"]
    _, report = await clients[1].get("/api/usage")
    (budget,) = report["budgets"]
    assert (budget["person"], budget["spent_usd"], budget["left_usd"]) == ("Ann", 0.4, 0.0)
    bob = await servers[1].person("Bob")
    assert (await bob.post("/api/jobs", PENNY))[0] == 200, "others are not concerned"
    assert (await bob.get("/api/usage"))[1]["budgets"] == []


async def test_too_many_calls_a_minute_are_refused_in_each_apis_own_words(
    servers: list[TeamServer], fake_api: FakeAPI
) -> None:
    ann = await servers[0].person("Ann", groups=("ops",))
    await set_limit(servers, "group", "ops", per_minute=2)
    second_client = await servers[1].client(servers[0].tokens["Ann"], servers[1].address)
    assert [(await api.post("/api/jobs", PENNY))[0] for api in (ann, second_client)] == [200, 200]
    status, failure = await ann.post("/api/jobs", PENNY)
    assert (status, failure["code"], failure["limit"]) == (429, "RATE_LIMIT_EXCEEDED", "minute:group:ops")
    assert (failure["most"], failure["count"]) == (2, 2)
    assert 0 < failure["retry_after"] <= 60
    message = {"role": "user", "content": "hello"}
    for path, body in (
        ("/v1/chat/completions", {"model": "penny", "messages": [message]}),
        ("/v1/messages", {"model": "penny", "max_tokens": 100, "messages": [message]}),
    ):
        async with second_client.session.post(path, json=body) as answer:
            document = await answer.json()
            assert answer.status == 429, document
            assert 0 < int(answer.headers["retry-after"]) <= 60
            assert document["error"]["type"] in {"requests", "rate_limit_error"}
    assert len(fake_api.requests) == 2


async def test_calls_at_once_are_limited_across_servers(servers: list[TeamServer], fake_api: FakeAPI) -> None:
    ann = await servers[0].person("Ann")
    await set_limit(servers, "provider", "openai", at_once=1)
    second_client = await servers[1].client(servers[0].tokens["Ann"], servers[1].address)
    fake_api.script(gate="one", gate_after=0)
    running = asyncio.ensure_future(ann.post("/api/jobs", PENNY))
    await fake_api.wait_for(count=1)
    status, failure = await second_client.post("/api/jobs", PENNY)
    assert (status, failure["limit"]) == (429, "at_once:provider:openai")
    fake_api.open_gate("one")
    assert (await running)[0] == 200
    assert (await second_client.post("/api/jobs", PENNY))[0] == 200


async def test_admins_set_limits_and_members_see_their_own(servers: list[TeamServer]) -> None:
    server = servers[0]
    ann, bob = await server.person("Ann", groups=("ops",)), await server.person("Bob")
    await set_limit(servers, "person", "Bob", day_usd=1)
    await set_limit(servers, "group", "ops", month_usd=5, at_once=3)
    assert (await put(ann, "/api/team/limits", {"kind": "person", "name": "Ann", "day_usd": 9}))[0] == 403
    assert [row["shown"] for row in (await ann.get("/api/team/limits"))[1]["limits"]] == ["ops"]
    assert [row["shown"] for row in (await bob.get("/api/team/limits"))[1]["limits"]] == ["Bob"]
    operator = await server.client(OPERATOR)
    assert len((await operator.get("/api/team/limits"))[1]["limits"]) == 2
    for body in (
        {"kind": "person", "name": "nobody"},
        {"kind": "provider", "name": "nobody"},
        {"kind": "group", "name": "no group"},
        {"kind": "person", "name": "Bob", "day_usd": -1},
        {"kind": "person", "name": "Bob", "at_once": 1.5},
    ):
        assert (await put(operator, "/api/team/limits", body))[0] in {400, 404}, body
    await set_limit(servers, "person", "Bob")
    assert (await bob.get("/api/team/limits"))[1]["limits"] == []


async def test_a_limit_is_shown_and_logged_with_all_its_values(team: TeamServer) -> None:
    operator = await team.client(OPERATOR)
    await team.person("Ann", groups=("ops",))
    values = {"day_usd": 1.5, "month_usd": 20.0, "per_minute": 3, "at_once": 2}
    limits = [
        ("provider", "openai", values, "limits: day 1.5, month 20, per minute 3, at once 2"),
        ("group", "ops", {"month_usd": 0.0}, "limits: month 0"),
        ("group", "ops", {}, "limits: none"),
    ]
    for kind, name, some, words in limits:
        status, row = await put(operator, "/api/team/limits", {"kind": kind, "name": name, **some})
        assert status == 200
        assert row == {"kind": kind, "name": name, "shown": name, **dict.fromkeys(values), **some}
        record = (await operator.get("/api/team/audit"))[1]["records"][0]
        assert (record["name"], record["action"], record["object"]) == ("operator", "people changed", name)
        assert words in str(record)


async def test_a_persons_own_key_is_sent_for_their_calls_on_every_server(
    servers: list[TeamServer], fake_api: FakeAPI, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = await servers[0].person("Ann"), await servers[0].person("Bob")
    status, document = await put(ann, "/api/team/keys/openai", {"key": OWN})
    assert status == 200
    assert OWN not in str(document)
    assert [row["provider"] for row in document["keys"] if row["stored_at"]] == ["openai"]
    assert not [row for row in (await bob.get("/api/team/keys"))[1]["keys"] if row["stored_at"]]
    second_client = await servers[1].client(servers[0].tokens["Ann"], servers[1].address)
    for api in (ann, second_client, bob):
        assert (await api.post("/api/jobs", PENNY))[0] == 200
    keys = [request.headers["authorization"].removeprefix("Bearer ") for request in fake_api.requests]
    assert keys == [OWN, OWN, "sk-test-openai-0000000000000000"]
    fake_api.script(status=401)
    _, failure = await ann.post("/api/jobs", PENNY)
    assert OWN not in str(failure)
    assert "your own key" in failure["hint"]
    fake_api.script(status=401)
    assert "whoever runs it" in (await bob.post("/api/jobs", PENNY))[1]["hint"]
    assert OWN not in caplog.text
    async with ann.session.delete("/api/team/keys/openai") as answer:
        assert answer.status == 200
    assert (await second_client.post("/api/jobs", PENNY))[0] == 200
    assert fake_api.requests[-1].headers["authorization"] == "Bearer sk-test-openai-0000000000000000"


async def test_a_provider_for_which_only_a_person_has_a_key_is_offered_to_them(
    servers: list[TeamServer],
) -> None:
    ann, bob = await servers[0].person("Ann"), await servers[0].person("Bob")
    assert (await put(ann, "/api/team/keys/anthropic", {"key": "sk-ant-own-key-of-ann-00000"}))[0] == 200
    second_client = await servers[1].client(servers[0].tokens["Ann"])
    for api, is_offered in ((ann, True), (second_client, True), (bob, False)):
        models = (await api.get("/api/models", provider="anthropic"))[1]["models"]
        assert any(row["available"] for row in models) is is_offered
        assert any("claude" in row["id"] for row in (await api.get("/v1/models"))[1]["data"]) is is_offered
        laptop = (await api.get("/v1/counsel"))[1]
        assert ("anthropic" in [row["name"] for row in laptop["providers"]]) is is_offered
