"""The HTTP server in this process, on a free port, and a client for it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from counsel import settings
from counsel.http import app, serve
from support.fake_engine import FakeEngine

TOKEN = "a-token-for-the-tests"


@asynccontextmanager
async def served(home: Path, engine: Any = None, **env: str) -> AsyncIterator[Http]:
    config = settings.load({"COUNSEL_HOME": str(home), "COUNSEL_TOKEN": TOKEN, **env})
    engine = engine or FakeEngine()
    open_at: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    application = app.build(engine, config, host="127.0.0.1", secret=TOKEN)
    server = serve.Server(application, "127.0.0.1", 0, lambda _, port: open_at.set_result(port))
    running = asyncio.ensure_future(server.serve())
    async with aiohttp.ClientSession() as session:
        try:
            yield Http(session, await open_at, engine)
        finally:
            server.should_exit = True
            await running


class Http:
    def __init__(self, session: aiohttp.ClientSession, port: int, engine: Any) -> None:
        self.session = session
        self.port = port
        self.engine = engine
        self.base = f"http://127.0.0.1:{port}"
        self.session_headers: dict[str, str] = {}
        self.number = 0

    def headers(self, **more: str) -> dict[str, str]:
        common = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        return {
            **common,
            **self.session_headers,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }

    def post(self, message: Any, **headers: str) -> Any:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.session.post(f"{self.base}/mcp", data=io.BytesIO(body), headers=self.headers(**headers))

    def message(self, method: str, params: Any = None) -> Any:
        self.number += 1
        return {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}}

    async def ask(self, method: str, params: Any = None, **headers: str) -> Any:
        async with self.post(self.message(method, params), **headers) as response:
            return await answer(response)

    async def initialize(self, version: str = "2025-11-25", name: str = "test") -> Any:
        info = {"name": name, "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        async with self.post(self.message("initialize", params)) as response:
            reply = await answer(response)
            self.session_headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        async with self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) as response:
            assert response.status == 202
        return reply["result"]

    async def call(self, tool: str, **arguments: Any) -> Any:
        return (await self.ask("tools/call", {"name": tool, "arguments": arguments}))["result"]


async def answer(response: aiohttp.ClientResponse) -> Any:
    """A document, or the last event of a stream: a call may outlast the wait for its first event."""
    if response.content_type == "text/event-stream":
        return [event async for event in events(response)][-1]
    return await response.json()


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    async for line in response.content:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
