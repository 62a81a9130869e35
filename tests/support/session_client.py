"""An MCP session in this process, with the engine in memory behind it, and a client's end of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from counsel.front import protocol
from counsel.mcp.identity import ClientIdentity
from counsel.mcp.jsonlines import McpLines
from counsel.mcp.session import Session
from support.fake_engine import FakeEngine

# The `_meta` of a request in the stateless revision.
ENVELOPE = {
    protocol.META_VERSION: "2026-07-28",
    protocol.META_CAPABILITIES: {},
    protocol.META_CLIENT: {"name": "claude-code", "version": "2"},
}


class SessionClient:
    """A client's end of one connection. `messages` are those that it has received."""

    def __init__(self, home: Path, **env: str) -> None:
        self.engine = FakeEngine()
        identity = ClientIdentity(env={"COUNSEL_HOME": str(home), **env}, cwd=home)
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.session = Session(self.engine, identity)
        self.lines = McpLines(self.session, self._receive)
        self.number = 0

    def _receive(self, data: bytes) -> None:
        for line in data.splitlines():
            self.messages.put_nowait(json.loads(line))

    def send(self, message: Any) -> None:
        self.lines.line(json.dumps(message).encode())

    def request(self, method: str, params: Any = None) -> int:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self.number

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def ask(self, method: str, params: Any = None) -> Any:
        self.request(method, params)
        return await self.messages.get()

    async def initialize(self, version: str = "2025-11-25", name: str = "test", **capabilities: Any) -> Any:
        info = {"name": name, "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
        answer = await self.ask("initialize", params)
        self.notify("notifications/initialized")
        return answer

    async def call(self, tool: str, arguments: Any, **meta: Any) -> Any:
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        return (await self.ask("tools/call", params))["result"]
