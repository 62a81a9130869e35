"""Tokens of people: who gets in, with which role, and that a token that ends stops everywhere at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from counsel.engine.store.records import StoreError
from counsel.errors import Conflict, InvalidArgument
from fake import FakeAPI
from support.team_server import OPERATOR, TeamServer, serving


async def status(api: Any, path: str = "/api/jobs") -> int:
    async with api.session.get(path) as answer:
        return int(answer.status)


async def test_people_get_in_by_their_token_as_bearer_or_as_api_key(team: TeamServer, tmp_path: Path) -> None:
    ann = await team.person("Ann")
    assert await status(ann) == 200
    assert await status(await team.client("", x_api_key=team.tokens["Ann"])) == 401  # no such header
    assert await status(await team.client("", **{"x-api-key": team.tokens["Ann"]})) == 200
    assert await status(await team.client(OPERATOR)) == 200
    for wrong in ("", "csl_", "csl_" + "x" * 43, "x" * 43, team.tokens["Ann"][:-1], "csl_" + "y" * 5000):
        assert await status(await team.client(wrong)) == 401
    assert not (tmp_path / "counsel" / "token").exists()
    assert await status(await team.client(""), "/health") == 200


async def test_tokens_are_stored_as_hashes_only(team: TeamServer, database: str) -> None:
    import psycopg

    await team.person("Ann")
    with psycopg.connect(database) as connection:
        tables = [row[0] for row in connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'counsel'"
        )]  # fmt: skip
        for table in tables:
            rows = connection.execute(f"SELECT t::text FROM counsel.{table} t".encode()).fetchall()
            assert not [row for row in rows if team.tokens["Ann"] in row[0] or "csl_" in row[0]], table


async def test_names_are_unique_without_case_bounded_and_printable(team: TeamServer) -> None:
    await team.person("Ännchen")
    for name in ("ännchen", "ÄNNCHEN", " Ännchen ", "A\u0308nnchen"):
        with pytest.raises(Conflict):
            await team.people.add(name)
    for wrong in ("", " ", "x" * 65, "a\nb", "a\x1b[31m", "a\u202eb", "a\u200bb", "operator", "OPERATOR"):
        with pytest.raises(InvalidArgument):
            await team.people.add(wrong)
    with pytest.raises(InvalidArgument):
        await team.people.add("Bob", groups=["no group"])
    with pytest.raises(InvalidArgument):
        await team.people.add("Bob", "king")


async def test_a_read_only_person_looks_but_does_not_ask(team: TeamServer, fake_api: FakeAPI) -> None:
    rita = await team.person("Rita", "read-only")
    assert await status(rita) == 200
    question = {"prompt": "hello", "model": "gpt-5"}
    assert (await rita.post("/api/jobs", question))[0] == 403
    message = {"role": "user", "content": "hello"}
    assert (await rita.post("/v1/chat/completions", {"model": "gpt-5", "messages": [message]}))[0] == 403
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await rita.mcp("initialize", info)
    result = await rita.mcp("tools/call", {"name": "chat", "arguments": question})
    assert result["isError"]
    assert "read-only" in str(result)
    async with rita.session.post("/api/files", params={"name": "a.txt"}, data=b"x") as answer:
        assert (answer.status, (await answer.json())["code"]) == (403, "NOT_PERMITTED")
    assert fake_api.requests == []


async def test_the_last_admin_stays_unless_it_is_forced(team: TeamServer) -> None:
    await team.people.add("Ada", "admin")
    with pytest.raises(Conflict):
        await team.people.disable("ada")
    with pytest.raises(Conflict):
        await team.people.change("Ada", role="member")
    await team.people.add("Bea", "admin")
    outcomes = await asyncio.gather(
        team.people.disable("Ada"), team.people.disable("Bea"), return_exceptions=True
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1
    await team.people.disable("Ada", force=True)
    await team.people.disable("Bea", force=True)
    assert all(record.disabled for record in await team.people.listed())


async def follow(api: Any, job: str) -> Any:
    """Open a stream of a job's events, and wait for its first line."""
    answer = await api.session.get(f"/api/jobs/{job}/events")
    assert answer.status == 200
    assert await answer.content.readline()
    return answer


async def test_a_disabled_person_is_out_everywhere_at_once(
    team: TeamServer, tmp_path: Path, fake_api: FakeAPI, database: str
) -> None:
    """On two servers: streams that run, MCP sessions, new requests. What they asked for goes on to its end."""
    ann, bob = await team.person("Ann"), await team.person("Bob")
    (tmp_path / "other").mkdir()
    async with serving(tmp_path / "other", fake_api, database) as second_server:
        second_client = await second_server.client(team.tokens["Ann"])
        fake_api.script(gate="slow", gate_after=1)
        _, job = await ann.post("/api/jobs", {"prompt": "slow", "model": "gpt-5", "mode": "background"})
        info = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        await second_client.mcp("initialize", info)
        streams = [await follow(ann, job["job_id"]), await follow(second_client, job["job_id"])]
        lists = await second_client.session.get("/api/events", params={"jobs": "1"})
        assert await lists.content.readline()
        stream_of_bob = await bob.session.get("/api/events", params={"jobs": "1"})
        await team.people.disable("ann")
        async with asyncio.timeout(30):
            for stream in (*streams, lists):
                await stream.read()  # it ends
        for api in (ann, second_client):
            assert await status(api) == 401
        with pytest.raises(KeyError):  # no result
            await second_client.mcp("tools/list", {})
        assert await status(bob) == 200
        stream_of_bob.close()
        fake_api.open_gate("slow")
        await team.engine.wait(job["job_id"])
        await team.people.enable("Ann")
        assert (await ann.get(f"/api/jobs/{job['job_id']}"))[1]["status"] == "completed"


async def test_calls_that_wait_end_with_their_token_and_say_so_in_their_apis_words(
    team: TeamServer, fake_api: FakeAPI
) -> None:
    ann = await team.person("Ann")
    fake_api.script(gate="slow", gate_after=1, times=None)
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await ann.mcp("initialize", info)
    message = {"role": "user", "content": "wait"}
    call = {"name": "chat", "arguments": {"prompt": "wait", "model": "gpt-5"}}
    calls = [
        ann.post("/v1/chat/completions", {"model": "gpt-5", "messages": [message]}),
        ann.post("/v1/messages", {"model": "gpt-5", "max_tokens": 99, "messages": [message]}),
        ann.post(
            "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, **ann.mcp_session
        ),
    ]
    waiting = [asyncio.ensure_future(call) for call in calls]
    await fake_api.wait_for(state="answering", count=3)
    await team.people.disable("Ann")
    async with asyncio.timeout(30):
        openai, anthropic, mcp = await asyncio.gather(*waiting)
        await fake_api.wait_for(state="disconnected", count=3)
    assert [status for status, _ in (openai, anthropic, mcp)] == [401, 401, 401]
    assert "no longer works" in openai[1]["error"]["message"]
    assert (anthropic[1]["type"], anthropic[1]["error"]["type"]) == ("error", "authentication_error")
    assert mcp[1]["code"] == "AUTHENTICATION_FAILED"


async def test_a_stream_that_its_token_cuts_off_does_not_look_complete(
    team: TeamServer, fake_api: FakeAPI
) -> None:
    """SDKs return what they have if a stream simply ends."""
    await team.person("Ann")
    token, message = team.tokens["Ann"], {"role": "user", "content": "wait"}
    ask: Any = {"model": "gpt-5", "stream": True}
    fake_api.script(gate="slow", gate_after=1, times=None)
    async with (
        openai.AsyncOpenAI(api_key=token, base_url=f"{team.address}/v1", max_retries=0) as first,
        anthropic.AsyncAnthropic(api_key=token, base_url=team.address, max_retries=0) as second,
    ):
        streams = [
            await first.chat.completions.create(**ask, messages=[message]),
            await first.responses.create(**ask, input="wait"),
            await second.messages.create(**ask, max_tokens=99, messages=[message]),
        ]
        for stream in streams:
            await anext(stream)  # it has begun
        await team.people.disable("Ann")
        for stream in streams:
            with pytest.raises((openai.APIError, anthropic.APIError), match="no longer works"):
                async with asyncio.timeout(30):
                    [event async for event in stream]


async def test_a_rotated_token_ends_and_with_an_overlap_ends_later(team: TeamServer) -> None:
    ann = await team.person("Ann")
    lists = await ann.session.get("/api/events", params={"jobs": "1"})
    first = await team.people.rotate("Ann", overlap=3600)
    assert await status(ann) == 200
    second = await team.people.rotate("ann")
    async with asyncio.timeout(30):
        await lists.read()
    assert await status(ann) == 401
    assert await status(await team.client(first.secret)) == 401
    assert await status(await team.client(second.secret)) == 200


async def test_strangers_do_not_learn_where_the_database_is_while_it_is_away(
    team: TeamServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> None:
        raise StoreError(
            "The PostgreSQL database counsel on db.internal cannot be used.", hint="Check the DSN."
        )

    monkeypatch.setattr(type(team.engine.store.people), "signed_in", fails)
    stranger = await team.client("csl_" + "x" * 43)
    for path in ("/api/jobs", "/v1/models", "/mcp"):
        async with stranger.session.get(path) as answer:
            text = await answer.text()
            assert answer.status == 503, path
            assert "database cannot be reached" in text
            assert "internal" not in text.replace("INTERNAL", ""), text
            assert "DSN" not in text
    assert caplog.text.count("db.internal") == 1, "the log says it once"


async def test_a_token_expires(team: TeamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    await team.person("Ann")
    token = await team.people.add_token("Ann", days=1, label="laptop")
    laptop = await team.client(token.secret)
    assert await status(laptop) == 200
    lists = await laptop.session.get("/api/events", params={"jobs": "1"})
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_401)
    async with asyncio.timeout(30):
        await lists.read()
    assert await status(laptop) == 401
