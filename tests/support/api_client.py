"""A client of `/api`, and servers whose providers are the fake. Every answer is compared with the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from counsel import settings
from counsel.engine.engine import Engine, open_engine
from counsel.engine.store.protocol import Store
from counsel.http import app, serve
from counsel.http.api import routes
from counsel.mcp.identity import ClientIdentity
from fake import FakeAPI, FakeProcess
from support import openapi, serve_process

if TYPE_CHECKING:
    from counsel.http.team.access import TeamAccess

TOKEN = "a-token-for-these-tests"


class Api:
    process: asyncio.subprocess.Process

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.mcp_session: dict[str, str] = {}

    async def get(self, path: str, **query: str) -> tuple[int, Any]:
        async with self.session.get(path, params=query) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(path, json=body or {}, headers=fields) as answer:
            return answer.status, await answer.json()

    async def delete(self, path: str) -> tuple[int, Any]:
        async with self.session.delete(path) as answer:
            return answer.status, await answer.json()

    async def ask(self, prompt: str, **arguments: Any) -> Any:
        """`chat` over /mcp."""
        params = {"name": "chat", "arguments": {"prompt": prompt, "model": "gpt-5", **arguments}}
        return (await self.mcp("tools/call", params))["structuredContent"]

    async def mcp(self, method: str, params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Accept": "application/json, text/event-stream", **self.mcp_session}
        async with self.session.post("/mcp", json=message, headers=headers) as answer:
            self.mcp_session = {"Mcp-Session-Id": answer.headers.get("Mcp-Session-Id", "")} | self.mcp_session
            return (await answer.json())["result"]

    @asynccontextmanager
    async def events(
        self, job: str, *, after: str | None = None, **headers: str
    ) -> AsyncIterator[AsyncIterator[Any]]:
        query = {} if after is None else {"after": after}
        async with self.session.get(f"/api/jobs/{job}/events", headers=headers, params=query) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/event-stream"
            yield messages(answer)

    async def end(self, job: str) -> None:
        """Wait until the job has ended."""
        async with self.events(job) as coming:
            async for _ in coming:
                pass


async def messages(answer: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    """The events of a stream, each with its `id`."""
    cursor = ""
    async for line in answer.content:
        if line.startswith(b"id: "):
            cursor = line[4:].decode().strip()
        if line.startswith(b"data: "):
            event = json.loads(line[6:])
            openapi.check_event(event)
            yield event | {"id": cursor}


@asynccontextmanager
async def in_process(folder: Path, fake: FakeAPI, **env: str) -> AsyncIterator[Api]:
    """The server and its engine in this process, which saves starting two processes."""
    variables = {**environment(folder, fake.v1), **env}
    config = settings.load(variables)
    engine = await open_engine(config.home)
    open_at: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    identity = ClientIdentity(env=config.own_env, cwd=Path.cwd())
    table = routes.routes(engine, config, identity)
    team = team_access(engine, TOKEN) if engine.is_team else None
    application = app.build(
        engine, config, host="127.0.0.1", secret=TOKEN, routes=table, identity=identity, team=team
    )
    server = serve.Server(application, "127.0.0.1", 0, lambda _, port: open_at.set_result(port))
    serving = asyncio.ensure_future(server.serve())
    try:
        async with client(f"http://127.0.0.1:{await open_at}") as session:
            yield Api(session)
    finally:
        server.should_exit = True
        await serving
        if team is not None:
            team.close()
        await engine.close(keep=True)


def team_access(engine: Engine, operator_token: str) -> TeamAccess:
    """People by their tokens, on a team's server."""
    from counsel.http.team.access import TeamAccess

    async def store() -> Store:
        return engine.store

    return TeamAccess(store, operator_token)


def client(address: str) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return aiohttp.ClientSession(address, headers=headers, middlewares=(openapi.checked,))


def environment(folder: Path, vendor: str) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "CLIENT_CWD": str(folder),
        "COUNSEL_HOME": str(folder / "counsel"),
        "COUNSEL_TOKEN": TOKEN,
        "OPENAI_API_KEY": "sk-test-openai-0000000000000000",
        "OPENAI_BASE_URL": vendor,
    }


@asynccontextmanager
async def running(folder: Path, fake: FakeProcess, **env: str) -> AsyncIterator[Api]:
    """The server in a process of its own, on a free port; the same folder again has the same database."""
    variables = {**environment(folder, fake.v1), **env}
    process, address, _ = await serve_process.serve(folder, **variables)
    try:
        async with client(address) as session:
            api = Api(session)
            api.process = process
            yield api
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()
