"""A laptop and a team's server as real processes: login, `counsel stdio`, kill -9, tokens that end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from counsel.job_events import TextAdded
from counsel.requests import ChatRequest
from fake import FakeAPI
from support.api_client import environment
from support.laptop import login
from support.serve_process import serve
from support.stdio_client import StdioClient, daemon_ends, kill_daemon, process_ends
from support.team import join, laptop
from support.team_server import OPERATOR, TeamServer, serving

pytestmark = pytest.mark.thorough  # left out of `make check`


async def until(client: StdioClient, is_error: bool, **arguments: Any) -> Any:
    """A daemon reads a changed login within a second."""
    async with asyncio.timeout(30):
        while True:
            result = await client.call("chat", model="gpt-5", prompt="again", **arguments)
            if bool(result.get("isError")) == is_error:
                return result
            await asyncio.sleep(0.1)


async def test_an_agent_on_a_laptop_notices_nothing(
    team: TeamServer, fake_api: FakeAPI, database: str, tmp_path: Path
) -> None:
    await team.person("Ann")
    variables = environment(tmp_path, fake_api.v1)
    process, url, _ = await serve(
        tmp_path / "second", **{**variables, "COUNSEL_TOKEN": OPERATOR, "COUNSEL_DATABASE": database}
    )
    home = tmp_path / "laptop"
    home.mkdir()
    own_key = {"OPENAI_API_KEY": "sk-own-laptop-key-000000000000", "OPENAI_BASE_URL": fake_api.v1}
    try:
        assert "as Ann (member)" in await login(home, url, team.tokens["Ann"])
        async with StdioClient(
            home, command=[sys.executable, "-m", "counsel", "stdio"], env=own_key
        ) as client:
            await client.initialize()
            assert await client.text("hello", model="gpt-5") == "gpt-5 says: hello"

            # kill -9 in the middle: the front sends the call again to a new daemon, and that to the server
            fake_api.script(text="paid once", deltas=2, gate="slow", gate_after=1)
            call = client.begin("chat", model="gpt-5", prompt="slow")
            await fake_api.wait_for(contains="slow", state="answering", deltas=1)
            await process_ends(kill_daemon(home))
            fake_api.open_gate("slow")
            answer = (await asyncio.wait_for(call, 60))["result"]
            assert answer["structuredContent"]["content"] == "paid once"
            requests = [request for request in fake_api.calls if request.text == "slow"]
            assert len(requests) == 1, "the answer came from the server's job"
            keys = {request.headers["authorization"] for request in fake_api.calls}
            assert keys == {f"Bearer {variables['OPENAI_API_KEY']}"}

            # a token that was ended stops at once; a new one is used without a restart
            new_token = await team.people.rotate("Ann")
            failure = await until(client, is_error=True)
            assert failure["structuredContent"]["code"] == "AUTHENTICATION_FAILED"
            assert "counsel login" in str(failure)
            await login(home, url, new_token.secret)
            await until(client, is_error=False)
            await team.people.change("Ann", role="read-only")
            refusal = await until(client, is_error=True)
            assert "read-only" in str(refusal)
    finally:
        process.terminate()
        await process.wait()
        await asyncio.wait_for(daemon_ends(home), 30)


async def test_an_answer_that_is_begun_again_by_another_server_arrives_whole(
    fake_api: FakeAPI, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The laptop's own server lives on; the one that ran the call is gone, and a third one asks the vendor again."""
    monkeypatch.delenv("COUNSEL_DATABASE")
    async with laptop(tmp_path / "laptop") as own:
        monkeypatch.setenv("COUNSEL_DATABASE", database)
        monkeypatch.setenv("COUNSEL_CONCURRENCY", "0")  # it only answers requests
        (tmp_path / "front").mkdir()
        async with serving(tmp_path / "front", fake_api, database) as front:
            monkeypatch.delenv("COUNSEL_CONCURRENCY")
            await front.person("Ann")
            await join(own.home, front.address, front.tokens["Ann"])
            fake_api.script(text="broken off", deltas=2, gate="never", gate_after=1)
            (tmp_path / "first").mkdir()
            async with serving(tmp_path / "first", fake_api, database):
                job = await own.engine.submit(ChatRequest(prompt="hello", model="gpt-5"), own.caller())
                async for event in own.engine.follow(job):
                    if isinstance(event, TextAdded):
                        break
            (tmp_path / "second").mkdir()
            async with serving(tmp_path / "second", fake_api, database):
                async with asyncio.timeout(60):
                    answer = await own.engine.wait(job)
    assert answer.content == "gpt-5 says: hello"
    assert [request.text for request in fake_api.calls] == ["hello", "hello"]
