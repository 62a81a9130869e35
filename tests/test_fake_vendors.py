"""The fake of the vendors' APIs, on which the other tests rely. tests/models/oracles/ checks its formats with the
vendors' SDKs."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from fake import FakeAPI, FakeProcess, marked

ASK: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-chat": (
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "TEXT"}]},
    ),
    "openai-responses": ("/v1/responses", {"model": "m", "input": "TEXT"}),
    "anthropic": (
        "/v1/messages?beta=true",
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "TEXT"}]},
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "TEXT"}]}]},
    ),
}


def ask(fake: FakeAPI, vendor: str, text: str = "hello", *, stream: bool = False) -> tuple[str, Any]:
    path, body = ASK[vendor]
    document = json.loads(json.dumps(body).replace('"TEXT"', json.dumps(text)))
    if vendor == "gemini":
        path = path.replace(":generate", ":streamGenerate") + "?alt=sse" if stream else path
    elif stream:
        document["stream"] = True
    return fake.url + path, document


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.parametrize("vendor", ASK)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_echo_and_record(
    fake_api: FakeAPI, http: aiohttp.ClientSession, vendor: str, stream: bool
) -> None:
    fake_api.script(deltas=1)
    url, body = ask(fake_api, vendor, stream=stream)
    async with http.post(url, json=body) as response:
        text = await response.text()
    assert response.status == 200
    assert all(word in text for word in ("m says", "hello"))
    assert ("data: " in text) is stream
    assert (fake_api.last.vendor, fake_api.last.model, fake_api.last.text) == (vendor, "m", "hello")
    assert fake_api.last.body == body


@pytest.mark.parametrize("vendor", ASK)
async def test_errors_have_the_vendors_status_and_shape(
    fake_api: FakeAPI, http: aiohttp.ClientSession, vendor: str
) -> None:
    fake_api.script(status=429, retry_after=7)
    url, body = ask(fake_api, vendor)
    async with http.post(url, json=body) as response:
        document = await response.json()
    assert response.status == 429
    assert response.headers["retry-after"] == "7"
    assert document["error"]["message"]
    async with http.post(url, json=body) as response:
        assert response.status == 200, "a scripted behaviour is used once"


async def test_marker_in_the_prompt_wins_over_the_script(
    fake_api: FakeAPI, http: aiohttp.ClientSession
) -> None:
    fake_api.script(text="scripted")
    url, body = ask(fake_api, "anthropic", f"please {marked(text='marked', thinking='hm')}")
    async with http.post(url, json=body) as response:
        blocks = (await response.json())["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert blocks[1]["text"] == "marked"


@pytest.mark.parametrize("vendor", ASK)
async def test_tool_calls_then_text(fake_api: FakeAPI, http: aiohttp.ClientSession, vendor: str) -> None:
    fake_api.script(
        times=None, tool_calls=[{"name": "look", "arguments": {"at": "sky"}}], text="done looking"
    )
    url, body = ask(fake_api, vendor)
    async with http.post(url, json=body) as response:
        assert "look" in await response.text()
    _answer_the_tool(vendor, body)
    async with http.post(url, json=body) as response:
        text = await response.text()
    assert "done looking" in text
    assert "sky" not in text


def _answer_the_tool(vendor: str, body: dict[str, Any]) -> None:
    if vendor == "openai-chat":
        body["messages"] += [
            {"role": "assistant", "tool_calls": [{"id": "1"}]},
            {"role": "tool", "tool_call_id": "1", "content": "blue"},
        ]
    elif vendor == "openai-responses":
        body["input"] = [
            {"role": "user", "content": body["input"]},
            {"type": "function_call", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "blue"},
        ]
    elif vendor == "anthropic":
        body["messages"] += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "blue"}]},
        ]
    else:
        body["contents"] += [
            {"role": "model", "parts": [{"functionCall": {"name": "look"}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]},
        ]


async def test_a_client_that_goes_away_is_seen(fake_api: FakeAPI, http: aiohttp.ClientSession) -> None:
    fake_api.script(hang_after=1)
    url, body = ask(fake_api, "openai-chat", stream=True)
    response = await http.post(url, json=body)
    await fake_api.wait_for(deltas=1)
    assert fake_api.open_connections == 1
    response.close()
    (request,) = await fake_api.wait_for(state="disconnected")
    assert request.deltas == 1
    assert fake_api.log.open_calls == 0


async def test_gates_hold_an_answer_until_opened(fake_api: FakeAPI, http: aiohttp.ClientSession) -> None:
    fake_api.script(gate="go", gate_after=1, deltas=2, text="ab")
    url, body = ask(fake_api, "openai-chat", stream=True)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(_text(http, url, body))
        await fake_api.wait_for(deltas=1)
        assert not reading.done()
        fake_api.open_gate("go")
    assert "[DONE]" in reading.result()


async def _text(http: aiohttp.ClientSession, url: str, body: Any) -> str:
    async with http.post(url, json=body) as response:
        return await response.text()


async def test_cut_streams(fake_api: FakeAPI, http: aiohttp.ClientSession) -> None:
    fake_api.script(cut_after=1)
    fake_api.script(cut_after=1, cut="end")
    url, body = ask(fake_api, "anthropic", stream=True)
    with pytest.raises(aiohttp.ClientPayloadError):
        await _text(http, url, body)
    text = await _text(http, url, body)
    assert text.count("text_delta") == 1
    assert "message_stop" not in text


async def test_keys_are_checked_when_asked_to(fake_api: FakeAPI, http: aiohttp.ClientSession) -> None:
    fake_api.keys = {"good"}
    url, body = ask(fake_api, "anthropic")
    async with http.post(url, json=body, headers={"x-api-key": "bad"}) as response:
        assert response.status == 401
    async with http.post(url, json=body, headers={"x-api-key": "good"}) as response:
        assert response.status == 200


async def test_splits_cut_through_characters(fake_api: FakeAPI, http: aiohttp.ClientSession) -> None:
    fake_api.script(text="größer 🦉", split=[1, 2], newline="\r\n")
    url, body = ask(fake_api, "openai-chat", stream=True)
    text = await _text(http, url, body)
    pieces = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in pieces if p["choices"]) == "größer 🦉"


async def test_waiting_in_vain_says_what_was_seen(fake_api: FakeAPI, http: aiohttp.ClientSession) -> None:
    await _text(http, *ask(fake_api, "gemini"))
    with pytest.raises(TimeoutError, match=r"0 of 1 .*generateContent"):
        await fake_api.wait_for(vendor="anthropic", timeout=0.05)


def test_as_a_process(fake_process: FakeProcess) -> None:
    fake_process.script(text="from afar", contains="hello")
    fake_process.set(models=["a", "b"])
    assert fake_process.state["calls"] == 0
    path, body = ASK["anthropic"]
    request = urllib.request.Request(
        fake_process.url + path, json.dumps(body).replace("TEXT", "hello").encode()
    )
    with urllib.request.urlopen(request) as response:
        assert json.load(response)["content"][0]["text"] == "from afar"
    with urllib.request.urlopen(fake_process.v1 + "/models") as response:
        assert [model["id"] for model in json.load(response)["data"]] == ["a", "b"]
    (record,) = fake_process.wait_for(vendor="anthropic", state="finished")
    assert record["path"] == "/v1/messages"
    with pytest.raises(ValueError, match="unknown fields: nonsense"):
        fake_process.script(nonsense=1)
