"""A team's server in this process, and laptops that have joined it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from counsel import settings, team_login
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.models import team
from counsel.models.transport import Transport
from fake import FakeAPI
from support.api_client import TOKEN, Api, in_process
from support.v1 import address, vendors


@asynccontextmanager
async def server(folder: Path, fake: FakeAPI, **env: str) -> AsyncIterator[Api]:
    folder.mkdir(exist_ok=True)
    async with in_process(folder, fake, **{**vendors(fake), **env}) as api:
        yield api


async def join(home: Path, url: str, token: str = TOKEN) -> dict[str, Any]:
    """What `counsel login` does."""
    transport = Transport()
    try:
        about = await team.ask(transport, team_login.TeamLogin(url, token), {})
    finally:
        await transport.close()
    team_login.write(home, url, token, about)
    return dict(about)


class Laptop:
    def __init__(self, engine: Engine, home: Path, env: dict[str, str]) -> None:
        self.engine, self.home, self.env = engine, home, env

    def caller(self) -> Caller:
        return Caller(client="test", cwd=self.home, settings=settings.load(self.env))

    async def ask(self, request: Any) -> Any:
        return await self.engine.wait(await self.engine.submit(request, self.caller()))


@asynccontextmanager
async def laptop(folder: Path, **env: str) -> AsyncIterator[Laptop]:
    home = folder / "counsel"
    home.mkdir(parents=True, exist_ok=True)
    variables = {"HOME": str(folder), "COUNSEL_HOME": str(home), **env}
    engine = await open_engine(home)
    try:
        yield Laptop(engine, home, variables)
    finally:
        await engine.close()


__all__ = ["Laptop", "address", "join", "laptop", "server"]
