"""A caller's proxy over every interface: clients of one daemon, the shell, `serve`, `--standalone`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from fake import FakeProcess
from fake.proxy import FakeProxy
from support.serve_process import serve
from support.stdio_client import SHORT_LIVED, StdioClient, daemon_pid

pytestmark = pytest.mark.slow  # left out of `make check`

COUNSEL = [sys.executable, "-m", "counsel"]
KEYS = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": "http://api.example/v1"}
ASKED = "POST http://api.example/v1/responses"


@asynccontextmanager
async def proxy_to(fake: FakeProcess, credentials: str = "") -> AsyncIterator[Any]:
    address = urlsplit(fake.url)
    assert address.hostname is not None
    assert address.port is not None
    async with FakeProxy((address.hostname, address.port), credentials) as proxy:
        yield proxy


async def over_http(base: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    init = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    chat = {"name": "chat", "arguments": {"prompt": "hello", "model": "gpt-5"}}
    async with aiohttp.ClientSession(headers=headers) as session:
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": init}
        async with session.post(f"{base}/mcp", json=opening) as response:
            name = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": chat}
        async with session.post(f"{base}/mcp", json=call, headers=name) as response:
            return await response.text()


def all_files(home: Path) -> bytes:
    return b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())


async def test_clients_of_one_daemon_each_use_their_own_proxy(home: Path, fake_process: FakeProcess) -> None:
    async with (
        proxy_to(fake_process, "me:first-password") as first,
        proxy_to(fake_process, "you:second-password") as second,
        StdioClient(home, command=[*COUNSEL, "stdio"], env=KEYS, HTTP_PROXY=first.url) as my_client,
        StdioClient(home, command=[*COUNSEL, "stdio"], env=KEYS, all_proxy=second.url) as your_client,
        StdioClient(home, command=[*COUNSEL, "stdio"], env=KEYS, COUNSEL_MAX_ATTEMPTS="1") as direct_client,
        StdioClient(
            home,
            command=[*COUNSEL, "stdio"],
            env=KEYS,
            http_proxy="http://me:wr0ng-one@" + first.url.partition("@")[2],
        ) as wrong_client,
    ):
        for client in (my_client, your_client, direct_client, wrong_client):
            await client.initialize()
        for client in (my_client, your_client, my_client):
            answer = await client.call("chat", prompt="hello", model="gpt-5")
            assert answer["structuredContent"]["content"] == "gpt-5 says: hello"
        assert (first.requests, second.requests) == ([ASKED, ASKED], [ASKED])
        direct = (await direct_client.call("chat", prompt="hello", model="gpt-5"))["structuredContent"]
        assert direct["code"] == "PROVIDER_UNAVAILABLE"
        assert "proxy" not in direct["error"]
        refusal = (await wrong_client.call("chat", prompt="hello", model="gpt-5"))["structuredContent"]
        assert (
            f"the proxy 127.0.0.1:{first.port} (http_proxy) requires a user and a password"
            in refusal["error"]
        )
        assert daemon_pid(home) is not None
    content = all_files(home)
    for password in (b"first-password", b"second-password", b"wr0ng-one"):
        assert password not in content


@pytest.mark.parametrize("options", [(), ("--standalone",)], ids=["daemon", "standalone"])
async def test_the_shells_proxy_is_used(
    home: Path, fake_process: FakeProcess, options: tuple[str, ...]
) -> None:
    async with proxy_to(fake_process, "me:my-password") as proxy:
        process = await asyncio.create_subprocess_exec(
            *COUNSEL,
            *("ask", "hello", "-m", "gpt-5", *options),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "COUNSEL_HOME": str(home),
                **SHORT_LIVED,
                **KEYS,
            }
            | {"http_proxy": proxy.url, "NO_PROXY": "other.example"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        messages, _ = await asyncio.wait_for(process.communicate(), 60)
        assert messages == b"gpt-5 says: hello\n"
        assert proxy.requests == [ASKED]


async def test_a_standalone_client_and_serve_use_their_own(home: Path, fake_process: FakeProcess) -> None:
    async with proxy_to(fake_process) as proxy:
        async with StdioClient(
            home, command=[*COUNSEL, "stdio", "--standalone"], env=KEYS, HTTP_PROXY=proxy.url
        ) as client:
            await client.initialize()
            answer = await client.call("chat", prompt="hello", model="gpt-5")
            assert answer["structuredContent"]["content"] == "gpt-5 says: hello"
        process, base, _ = await serve(home, **KEYS, HTTP_PROXY=proxy.url)
        text = await over_http(base, (home / "token").read_text())
        process.terminate()
        await process.wait()
        assert "gpt-5 says: hello" in text, text
        assert proxy.requests == [ASKED, ASKED]


async def test_a_job_that_continues_uses_the_proxy_of_its_caller(
    home: Path, fake_process: FakeProcess
) -> None:
    """The daemon dies; the next one goes on with the job when its client, with the same proxy, is back."""
    fake_process.script(gate="go", times=1)
    async with (
        proxy_to(fake_process) as callers_proxy,
        proxy_to(fake_process) as strangers_proxy,
        StdioClient(home, command=[*COUNSEL, "stdio"], env=KEYS, HTTP_PROXY=strangers_proxy.url) as stranger,
        StdioClient(home, command=[*COUNSEL, "stdio"], env=KEYS, HTTP_PROXY=callers_proxy.url) as client,
    ):
        await client.initialize()
        await stranger.initialize()
        call = asyncio.ensure_future(client.call("chat", prompt="hello", model="gpt-5"))
        await asyncio.to_thread(fake_process.wait_for, contains="hello")
        pid = daemon_pid(home)
        assert pid is not None
        os.kill(pid, 9)
        answer = await asyncio.wait_for(call, 60)
        assert answer["structuredContent"].get("content") == "gpt-5 says: hello", answer
        assert (callers_proxy.requests, strangers_proxy.requests) == ([ASKED, ASKED], [])
