"""Servers that never stop sending: what they send is limited, and the model is told."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import UpstreamError
from counsel.requests import ChatRequest
from counsel.servers import message_limits
from fake.proxy import FakeProxy
from fake.raw import RawServer

# Shakes hands over stdio and lists one tool, whose result never ends.
ENDLESS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    tool = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    info = {"name": "e", "version": "1"}
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [tool], "nextCursor": "again"},
    }.get(request["method"])
    if request["method"] == "tools/call":
        sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "result": "')
        while True:
            sys.stdout.write("x" * 1_000_000)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result or {}}), flush=True)
"""


async def test_a_tool_with_an_endless_answer_is_cut_off_and_the_model_answers(
    shared_tools: Any, tmp_path: Path
) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    shared_tools.claude(notes={"command": sys.executable, "args": [str(script)]})
    shared_tools.fake.script(tool_calls=[{"name": "notes__t", "arguments": {}}], vendor="openai-responses")
    job = await shared_tools.engine.submit(
        ChatRequest(prompt="hi", model="gpt-5", tools=("notes",)), shared_tools.caller()
    )
    result = (await shared_tools.engine.wait(job)).to_json()
    assert [call["ok"] for call in result["metadata"]["tool_calls"]] == [False]


async def test_an_endless_or_compressed_http_body_is_refused(
    shared_tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_limits, "MOST_BODY", 1_000_000)
    for head in ("", "content-encoding: gzip\r\n"):
        async with RawServer(itertools.repeat(b" " * 10_000), kind="application/json", head=head) as server:
            shared_tools.claude(notes={"type": "http", "url": f"{server.url}/mcp"})
            job = await shared_tools.engine.submit(
                ChatRequest(prompt="hi", model="gpt-5", tools=("notes",)), shared_tools.caller()
            )
            with pytest.raises(UpstreamError, match="notes"):
                await shared_tools.engine.wait(job)
            assert server.sent < 20_000_000


async def test_a_server_is_reached_through_the_callers_proxy(shared_tools: Any) -> None:
    async with FakeProxy(("127.0.0.1", 9), refuse=502) as proxy:
        shared_tools.claude(notes={"type": "http", "url": "http://mcp.example/mcp"})
        sender = shared_tools.caller(HTTP_PROXY=proxy.url)
        job = await shared_tools.engine.submit(
            ChatRequest(prompt="hi", model="gpt-5", tools=("notes",)), sender
        )
        with pytest.raises(UpstreamError, match="notes"):
            await shared_tools.engine.wait(job)
        assert "POST http://mcp.example/mcp" in proxy.requests
