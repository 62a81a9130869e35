"""A laptop's daemon whose server is stopped, killed and restarted in the middle of an answer; all real processes."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake import FakeAPI
from support.laptop import login
from support.provider_keys import keys
from support.stdio_client import StdioClient, daemon_ends
from support.tcp_proxy import TcpProxy
from team.fleet import TOKEN, Fleet

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.xdist_group("postgres")]
LONGEST = 180.0  # seconds, on a busy machine


async def test_an_answer_arrives_whole_when_its_server_is_stopped_and_when_it_is_killed_and_started_again(
    tmp_path: Path, postgres_server: PostgresServer, fake_api: FakeAPI
) -> None:
    home = tmp_path / "laptop"
    home.mkdir()
    with postgres_server.migrated() as url:
        async with Fleet(tmp_path, url, keys(fake_api) | {"COUNSEL_DRAIN_SECONDS": "0"}) as fleet:
            first, second = fleet.add("serve", "first"), fleet.add("serve", "second")
            await fleet.start()
            async with TcpProxy(first.port) as proxy:
                await login(home, proxy.url, TOKEN)
                command = [sys.executable, "-m", "counsel", "stdio"]
                try:
                    async with StdioClient(home, command=command) as client:
                        await client.initialize()
                        call = await half_answered(client, fake_api, "stopped")
                        proxy.target = second.port
                        first.signal(signal.SIGTERM)
                        await expect_answer(call, "stopped")

                        call = await half_answered(client, fake_api, "killed")
                        await second.kill()
                        await second.start()  # on the same port: meanwhile connections are refused
                        await expect_answer(call, "killed")
                finally:
                    await asyncio.wait_for(daemon_ends(home), 60)
    prompts = [request.text for request in fake_api.calls]
    assert prompts == [
        "stopped",
        "stopped",
        "killed",
        "killed",
    ]  # the first of each was cut off with its server


async def half_answered(client: StdioClient, fake: FakeAPI, prompt: str) -> Any:
    """A call whose first words have reached the laptop."""
    fake.script(gate="never", gate_after=2, deltas=4)
    call = client.begin("chat", model="gpt-5", prompt=prompt)
    await fake.wait_for(contains=prompt, deltas=2)
    return call


async def expect_answer(call: Any, prompt: str) -> None:
    response = await asyncio.wait_for(call, LONGEST)
    assert response["result"]["structuredContent"]["content"] == f"gpt-5 says: {prompt}", response
