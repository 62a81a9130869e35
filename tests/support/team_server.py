"""A team's server in this process, on a real PostgreSQL, with people who have tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from counsel import settings
from counsel.engine.engine import Engine, open_engine
from counsel.engine.team.people.directory import Directory
from counsel.http import app, serve
from counsel.http.api import routes
from fake import FakeAPI
from support.api_client import Api, environment, team_access

OPERATOR = "the-operators-token-for-these-tests"


class TeamServer:
    """`person(NAME)` is a client with its own token."""

    def __init__(self, engine: Engine, address: str, stack: AsyncExitStack) -> None:
        self.engine = engine
        self.address = address
        self.people = Directory(engine.store.people)
        self.tokens: dict[str, str] = {}
        self._stack = stack

    async def person(self, name: str, role: str = "member", groups: tuple[str, ...] = ()) -> Api:
        token = await self.people.add(name, role, groups)
        self.tokens[name] = token.secret
        return await self.client(token.secret)

    async def client(self, token: str, address: str = "", **headers: str) -> Api:
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        session = aiohttp.ClientSession(address or self.address, headers={**authorization, **headers})
        return Api(await self._stack.enter_async_context(session))


@asynccontextmanager
async def serving(folder: Path, fake: FakeAPI, url: str, **env: str) -> AsyncIterator[TeamServer]:
    """COUNSEL_DATABASE of this process must be `url`, because the engine opens that store."""
    variables = {
        **environment(folder, fake.v1),
        "COUNSEL_TOKEN": OPERATOR,
        "COUNSEL_DATABASE": url,
        **env,
    }
    config = settings.load(variables)
    engine = await open_engine(config.home)
    access = team_access(engine, OPERATOR)
    open_at: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    table = routes.routes(engine, config)
    application = app.build(engine, config, host="127.0.0.1", secret=OPERATOR, routes=table, team=access)
    server = serve.Server(application, "127.0.0.1", 0, lambda _, port: open_at.set_result(port))
    running = asyncio.ensure_future(server.serve())
    async with AsyncExitStack() as stack:
        try:
            yield TeamServer(engine, f"http://127.0.0.1:{await open_at}", stack)
        finally:
            server.should_exit = True
            await running
            access.close()
            await engine.close(keep=True)
