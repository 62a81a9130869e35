"""The MCP SDK's own client with the front, standalone and HTTP, in every revision that it supports."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp.client import session as sdk_session
from mcp.types import TextContent, TextResourceContents

from counsel.front.prompts import PROMPTS
from counsel.front.protocol import HANDSHAKE
from support.sdk_transport import INTERFACES, transport

pytestmark = pytest.mark.slow
REVISIONS = [*HANDSHAKE, "2026-07-28", "auto"]


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_sdks_client_works_in_every_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interface: str, revision: str
) -> None:
    if revision in HANDSHAKE:
        monkeypatch.setattr(sdk_session, "LATEST_HANDSHAKE_VERSION", revision)
    mode = "legacy" if revision in HANDSHAKE else revision
    async with transport(interface, tmp_path) as streams, Client(streams, mode=mode) as client:
        assert client.protocol_version == ("2026-07-28" if revision == "auto" else revision)
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][:2] == ["chat", "consensus"]
        result = await client.call_tool("chat", {"prompt": "echo hello"})  # checked against the outputSchema
        assert result.structured_content["content"] == "echo hello"
        failure = await client.call_tool("chat", {"prompt": "p", "temperature": 9})
        assert failure.is_error
        assert failure.structured_content["code"] == "INVALID_ARGUMENT"
        resource = await client.read_resource("counsel://jobs/conv_1/text")
        content = resource.contents[0]
        assert isinstance(content, TextResourceContents)
        assert "echo hello" in content.text
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == list(PROMPTS)
        prompt_text = (await client.get_prompt("plan", {"task": "Add a cache."})).messages[0].content
        assert isinstance(prompt_text, TextContent)
        assert "Add a cache." in prompt_text.text
        assert len((await client.list_resources()).resources) == 1
        with pytest.raises(MCPError):
            await client.call_tool("nope", {})


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdks_client_gets_progress(tmp_path: Path, interface: str, mode: str) -> None:
    reports: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)
        (tmp_path / "now").touch()

    async with transport(interface, tmp_path) as streams, Client(streams, mode=mode) as client:
        result = await client.call_tool(
            "chat", {"prompt": f"slowly {tmp_path / 'now'}"}, progress_callback=progress
        )
        assert result.structured_content["content"] == "slowly done"
    assert reports[0] == "so far"


@pytest.mark.parametrize(
    ("interface", "revision"), [("front", "legacy"), ("front", "2026-07-28"), ("http", "legacy")]
)
async def test_a_call_that_the_sdk_stops_waiting_for_continues(
    tmp_path: Path, interface: str, revision: str
) -> None:
    """Not over HTTP in 2026-07-28, where closing the stream cancels."""
    async with transport(interface, tmp_path) as streams, Client(streams, mode=revision) as client:
        await client.call_tool("chat", {"prompt": "echo the daemon runs"})
        with pytest.raises(MCPError, match=r"(?i)timed out"):
            await client.call_tool("chat", {"prompt": "hang"}, read_timeout_seconds=1)
        await client.call_tool("chat", {"prompt": "echo by now the cancellation was handled"})
        status = await client.call_tool("check_status", {"continuation_id": "conv_2"})
        assert status.structured_content["content"]["status"] == "processing"
