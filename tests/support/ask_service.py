"""The askModel service, and a connection to its socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from counsel.askmodel.service import AskService
from counsel.engine.engine import Engine
from counsel.front.json_messages import encode
from counsel.mcp.identity import ClientIdentity
from fake import FakeAPI


def service(
    engine: Engine, fake: FakeAPI, home: Path, session: str = "s1", agent: str | None = None, **env: str
) -> AskService:
    env = {"COUNSEL_HOME": str(home), "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake.v1, **env}
    return AskService(engine, ClientIdentity(env=env, cwd=home, agent=agent), session, home)


class SocketClient:
    """A program connected to the socket: sends raw bytes, reads lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, path: str) -> SocketClient:
        return cls(*await asyncio.open_unix_connection(path, limit=1 << 26))

    def send(self, identity: str, prompt: str = "hello", **more: Any) -> None:
        message = {"requestId": identity, "model": "gpt-5", "prompt": prompt, **more}
        self.writer.write(encode(message))

    async def line(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            message: dict[str, Any] = json.loads(await self.reader.readline())
            return message

    async def lines(self, count: int) -> dict[str, dict[str, Any]]:
        messages = [await self.line() for _ in range(count)]
        return {line["requestId"]: line for line in messages}

    def close(self) -> None:
        self.writer.close()
