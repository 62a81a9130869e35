"""MCP prompts: the slash commands of agents, in every protocol revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counsel.front.prompts import PROMPTS
from counsel.front.protocol import HANDSHAKE
from counsel.mcp.tools import TOOLS
from support.session_client import SessionClient
from support.stdio_client import StdioClient

INVALID_PARAMS = -32602
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def client(tmp_path: Path) -> SessionClient:
    return SessionClient(tmp_path)


async def _text(client: SessionClient, name: str, arguments: dict[str, str]) -> str:
    reply = (await client.ask("prompts/get", {"name": name, "arguments": arguments}))["result"]
    (message,) = reply["messages"]
    assert message["role"] == "user"
    assert message["content"]["type"] == "text"
    return str(message["content"]["text"])


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_each_handshake_revision_lists_and_gets_prompts(client: SessionClient, version: str) -> None:
    reply = await client.ask(
        "initialize",
        {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    )
    assert "prompts" in reply["result"]["capabilities"]
    prompts = (await client.ask("prompts/list"))["result"]["prompts"]
    assert [prompt["name"] for prompt in prompts] == [
        "review",
        "second_opinion",
        "consensus",
        "plan",
        "debug",
    ]
    assert all(("title" in prompt) == (version >= "2025-06-18") for prompt in prompts)
    assert "Why is it slow?" in await _text(client, "debug", {"problem": "Why is it slow?"})


async def test_the_stateless_revision_lists_and_gets_prompts(client: SessionClient) -> None:
    result = (await client.ask("prompts/list", {"_meta": STATELESS}))["result"]
    assert len(result["prompts"]) == 5
    assert result["resultType"] == "complete"
    params = {"name": "review", "arguments": {"base": "main"}, "_meta": STATELESS}
    reply = (await client.ask("prompts/get", params))["result"]
    assert "counsel review 'main' --json" in reply["messages"][0]["content"]["text"]


async def test_arguments_appear_where_they_belong(client: SessionClient) -> None:
    await client.initialize()
    everything = {"base": "v1.0", "focus": "locks", "models": "opus, @panel"}
    review = await _text(client, "review", everything)
    assert "counsel review 'v1.0' -m 'opus, @panel' --json" in review
    assert "against 'v1.0'" in review
    assert "Look especially at: locks." in review
    plain = await _text(client, "review", {})
    assert "`counsel review --json`" in plain
    assert '["auto"]' in plain
    braces = await _text(client, "consensus", {"question": "Is {models} or VALUE a {name}?"})
    assert "Is {models} or VALUE a {name}?" in braces
    quotes = await _text(client, "review", {"base": "it's", "focus": "what's new"})
    assert "counsel review 'it'\\''s' --json" in quotes
    assert "Look especially at: what's new." in quotes


async def test_every_prompt_names_tools_that_exist_and_leaves_no_gap(client: SessionClient) -> None:
    await client.initialize()
    for name, prompt in PROMPTS.items():
        arguments = {argument: f"<{argument}>" for argument, _, _ in prompt.arguments}
        required_arguments = {argument: "x" for argument, _, is_required in prompt.arguments if is_required}
        full, least = await _text(client, name, arguments), await _text(client, name, required_arguments)
        assert all(value in full for value in arguments.values()), name
        for text in (full, least):
            assert "{" not in text
            assert "VALUE" not in text
            assert len(text) < 1_400
            assert any(f"`{tool}` tool" in text for tool in TOOLS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"name": "nope"}, "Unknown prompt: nope"),
        ({}, "Unknown prompt"),
        ({"name": 7}, "Unknown prompt"),
        ({"name": "plan"}, "plan needs task"),
        ({"name": "plan", "arguments": {"task": "  "}}, "plan needs task"),
        ({"name": "plan", "arguments": {"task": 7}}, "must be strings: task"),
        ({"name": "plan", "arguments": ["task"]}, "arguments must be an object"),
        (
            {"name": "plan", "arguments": {"task": "x", "speed": "y"}},
            "plan takes these arguments: task",
        ),
    ],
)
async def test_a_bad_name_or_argument_is_an_error_of_json_rpc(
    client: SessionClient, params: dict[str, Any], message: str
) -> None:
    await client.initialize()
    error = (await client.ask("prompts/get", params))["error"]
    assert error["code"] == INVALID_PARAMS
    assert message in error["message"]
    assert len((await client.ask("prompts/list"))["result"]["prompts"]) == 5


async def test_prompts_need_no_daemon(home: Path) -> None:
    (home / "run").write_text("a file where the folder should be")
    (home / "run").chmod(0o600)
    async with StdioClient(home) as client:
        await client.initialize()
        assert len((await client.ask("prompts/list"))["prompts"]) == 5
        reply = await client.ask("prompts/get", {"name": "plan", "arguments": {"task": "A cache"}})
        assert "A cache" in reply["messages"][0]["content"]["text"]
