"""What `model` may be below `/v1`: `auto`, an agent, a consensus; and calls that are sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from fake import FakeAPI
from support.council import NAMES
from support.v1 import V1, served

USER: dict[str, Any] = {"role": "user", "content": "hello"}
CALL: Any = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
LOOP: Any = [
    USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "x"}
]  # fmt: skip
TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


async def test_auto_asks_the_next_model_when_one_fails(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(error="auth")
    for stream in (False, True):
        fake_api.script(error="auth")
        answer: Any = await v1.openai.chat.completions.create(model="auto", messages=[USER], stream=stream)
        if stream:
            chunks = [chunk async for chunk in answer]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        else:
            text = answer.choices[0].message.content
            assert answer.counsel["passed_over"][0]["code"] == "AUTHENTICATION_FAILED"
        assert text.endswith("says: hello")


async def test_after_the_first_word_of_a_stream_no_other_model_is_asked(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text="one two three", error="unavailable", error_after=1)
    stream = await v1.openai.chat.completions.create(model="auto", messages=[USER], stream=True)
    with pytest.raises(openai.APIError):
        _ = [chunk async for chunk in stream]
    assert len(fake_api.calls) == 1


async def test_auto_picks_a_model_that_can_take_the_request(v1: V1, fake_api: FakeAPI) -> None:
    await v1.openai.chat.completions.create(model="auto", messages=[USER], tools=TOOLS)
    assert fake_api.calls[0].body["tools"]


async def test_a_chain_of_names_is_tried_in_its_order(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(error="auth", model="gpt-5")
    answer: Any = await v1.openai.chat.completions.create(
        model="gpt-5, claude-sonnet-4-6", messages=[USER], tools=TOOLS
    )
    assert answer.choices[0].message.content == "claude-sonnet-4-6 says: hello"
    assert [row["model"] for row in answer.counsel["passed_over"]] == ["gpt-5"]
    fake_api.script(error="server", model="gpt-5", times=None)
    fake_api.script(error="overloaded", model="claude", times=None)
    for path, body in (("/v1/chat/completions", {}), ("/v1/messages", {"max_tokens": 9})):
        ask = {"model": "gpt-5, claude-sonnet-4-6", "messages": [USER], **body}
        status, reply = await v1.post(path, ask)
        assert (
            status,
            reply["error"]["message"].count("openai: "),
            reply["error"]["message"].count("anthropic: "),
        ) == (503, 1, 1)
    fake_api.reset()
    status, _ = await v1.post("/v1/chat/completions", {"model": "gpt-5, nothing", "messages": [USER]})
    assert status == 404
    assert not fake_api.calls


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_only_what_the_answering_model_does_not_take_is_reported(
    v1: V1, fake_api: FakeAPI, stream: bool
) -> None:
    fake_api.script(error="server", model="gpt-5", times=None)
    ask = {"messages": [USER], "temperature": 0.5, "top_p": 0.5, "verbosity": "low", "stream": stream}
    ask["model"] = "gpt-5,gemini-2.5-pro"  # the first one takes no temperature
    async with v1.session.post("/v1/chat/completions", json=ask) as answer:
        await answer.read()
        assert (answer.status, answer.headers["x-counsel-ignored"]) == (200, "verbosity")


async def test_an_agent_does_not_take_a_clients_tools(v1: V1) -> None:
    for change, words in (
        ({"tools": TOOLS}, "agent"),
        ({"messages": LOOP}, "must be the user's"),
        ({"messages": [USER, {"role": "assistant", "content": "yo"}]}, "must be the user's"),
        ({"messages": [{"role": "user", "content": " "}]}, "its last message is empty"),
    ):
        body = {"model": "codex", "messages": [USER], **change}
        status, reply = await v1.post("/v1/chat/completions", body)
        assert (status, words in reply["error"]["message"]) == (400, True)


async def test_a_consensus_streams_progress_as_reasoning_and_then_the_answers(
    v1: V1, fake_api: FakeAPI
) -> None:
    model = "consensus:gpt-5, claude-sonnet-4-6"
    messages: Any = [
        {"role": "system", "content": "Be short."},
        USER,
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "which?"},
    ]
    answer = (await v1.openai.chat.completions.create(model=model, messages=messages)).choices[0].message
    assert answer.content
    assert all(name in answer.content for name in ("## gpt-5", "## claude-sonnet-4-6"))
    request = str(fake_api.calls[0].body)
    assert all(text in request for text in ("hello", "yes?", "which?", "Be short."))
    async with v1.anthropic.messages.stream(
        model=model, max_tokens=99, messages=[{"role": "user", "content": "which?"}]
    ) as stream:
        final = await stream.get_final_message()
        headers = stream.response.headers
    thinking, text = final.content
    assert thinking.type == "thinking"
    assert "gpt-5 has answered" in thinking.thinking
    assert text.type == "text"
    assert "## claude-sonnet-4-6" in text.text
    assert headers["x-counsel-ignored"] == "max_tokens"


@pytest.mark.parametrize("model", ["consensus:gpt-5,claude-sonnet-4-6,gpt-5", "consensus"])
async def test_a_consensus_reads_no_names_in_answers_that_the_client_sends_back(
    v1: V1, fake_api: FakeAPI, model: str
) -> None:
    fake_api.script(text="Plain words.", times=None)
    first = await v1.openai.chat.completions.create(model=model, messages=[USER])
    text = first.choices[0].message.content or ""
    assert "## gpt-" in text
    fake_api.log.requests.clear()
    own_words = "## gpt-5 and others"
    messages: Any = [
        USER,
        {"role": "assistant", "content": text},
        USER,
        {"role": "assistant", "content": own_words},
        USER,
    ]
    await v1.openai.chat.completions.create(model=model, messages=messages)
    assert fake_api.calls
    for call in fake_api.calls:
        request = str({name: value for name, value in call.body.items() if name != "model"})
        assert "## Answer A\\n\\nPlain words." in request
        assert own_words in request, "a model's own words stay"
        assert not [name for name in NAMES if name in request.replace(own_words, "").lower()]


async def test_a_consensus_over_responses(v1: V1, fake_api: FakeAPI) -> None:
    model = "consensus:gpt-5, claude-sonnet-4-6"
    search: Any = [{"type": "web_search"}]
    async with v1.openai.responses.stream(model=model, input="which?", tools=search) as stream:
        final: Any = await stream.get_final_response()
    reasoning, message = final.output
    assert "gpt-5 has answered" in reasoning.summary[0].text
    assert "## claude-sonnet-4-6" in message.content[0].text
    assert all("web_search" in str(call.body["tools"]) for call in fake_api.calls[:2])


@pytest.mark.parametrize(
    "model",
    [
        "gpt-5",
        "claude-sonnet-4-6",
        "gemini-2.5-pro",
        "deepseek-chat",
        "auto",
        "codex",
        "consensus",
        "gpt-5, opus",
    ],
)
async def test_tokens_are_counted_for_every_vendor(v1: V1, fake_api: FakeAPI, model: str) -> None:
    messages: Any = [{"role": "user", "content": "four words or so " * 100}]
    count = await v1.anthropic.messages.count_tokens(model=model, messages=messages)
    assert 400 <= count.input_tokens <= 2_000
    assert fake_api.calls == []


async def test_a_consensus_refuses_what_it_cannot_do(v1: V1, fake_api: FakeAPI) -> None:
    ask = {"model": "consensus:gpt-5,claude-sonnet-4-6", "messages": [USER]}
    picture = {"type": "image_url", "image_url": {"url": "https://pictures.example/a.png"}}
    with_url = {"messages": [{"role": "user", "content": [{"type": "text", "text": "this?"}, picture]}]}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"tools": TOOLS}, "does not take tools"),
        ({"messages": LOOP}, "does not take tool calls"),
        ({"messages": [USER, {"role": "assistant", "content": "yo"}]}, "must be the user's"),
        ({"response_format": {"type": "json_object"}}, "does not take a response format"),
        (with_url, "does not take images by their URLs"),
    ]
    for change, words in changes:
        status, failure = await v1.post("/v1/chat/completions", {**ask, **change})
        assert (status, words in failure["error"]["message"]) == (400, True), failure
    status, _ = await v1.post("/v1/chat/completions", {**ask, "model": "consensus:gpt-5,nothing"})
    assert status == 404
    assert fake_api.calls == []


# ── calls that are sent twice ────────────────────────────────────────────────────────────────────────


async def test_the_same_key_gives_the_same_answer_and_nothing_is_asked_twice(
    v1: V1, fake_api: FakeAPI
) -> None:
    body = {"model": "gpt-5", "messages": [USER]}
    key = {"Idempotency_Key": "a"}
    both = await asyncio.gather(*(v1.post("/v1/chat/completions", body, **key) for _ in range(2)))
    again = await v1.post("/v1/chat/completions", body, **key)
    names = {reply["id"] for _, reply in (*both, again)}
    assert ([status for status, _ in (*both, again)], len(names)) == ([200, 200, 200], 1)
    assert len(fake_api.calls) == 1
    changed_body = {**body, "temperature": 1}
    assert (await v1.post("/v1/chat/completions", changed_body, **key))[0] == 409
    assert (await v1.post("/v1/chat/completions", body, Idempotency_Key=" "))[0] == 400
    stream_body: Any = {**body, "stream": True}
    async with v1.session.post(
        "/v1/chat/completions", json=stream_body, headers={"Idempotency-Key": "b"}
    ) as answer:
        first = await answer.read()
    async with v1.session.post(
        "/v1/chat/completions", json=stream_body, headers={"Idempotency-Key": "b"}
    ) as answer:
        assert b"[DONE]" in first
        assert b"gpt-5 says: hello" in await answer.read(), "as one piece: it had ended"
    assert len(fake_api.calls) == 2


async def test_a_client_with_a_key_may_disconnect_and_come_back(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text="one two three", gate="g", gate_after=1)
    body = {"model": "gpt-5", "messages": [USER], "stream": True}
    key = {"Idempotency-Key": "c"}
    async with v1.session.post("/v1/chat/completions", json=body, headers=key) as answer:
        await answer.content.readany()
    fake_api.open_gate("g")
    async with v1.session.post("/v1/chat/completions", json=body, headers=key) as answer:
        assert b"[DONE]" in await answer.read()
    assert len(fake_api.calls) == 1


async def test_messages_are_stored_only_where_something_needs_them(
    v1: V1, fake_api: FakeAPI, tmp_path: Path
) -> None:
    secret = "a very particular sentence " * 10
    messages: Any = [{"role": "user", "content": secret}]
    await v1.openai.chat.completions.create(model="gpt-5", messages=messages)
    await v1.openai.responses.create(model="gpt-5", input=secret, store=False)
    async with v1.session.get("/api/conversations") as answer:
        assert (await answer.json())["conversations"] == []
    async with v1.session.get("/api/jobs") as answer:
        jobs = (await answer.json())["jobs"]
    assert [job["tool"] for job in jobs] == ["completion", "completion"]
    for job in jobs:
        async with v1.session.get(f"/api/jobs/{job['job_id']}?question=1") as answer:
            assert len((await answer.json())["question"]["prompt"]) <= 80


async def test_a_silent_model_is_bridged_by_comments(
    v1: V1, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.http.v1.stream.KEEPALIVE", 0.05)
    for path, comment in (("/v1/chat/completions", b": keep-alive"), ("/v1/messages", b"event: ping")):
        fake_api.script(gate=path)
        body = {"model": "gpt-5", "messages": [USER], "stream": True, "max_tokens": 10}
        async with v1.session.post(path, json=body) as answer:
            assert answer.status == 200
            data = b""
            while comment not in data:
                data += (part := await answer.content.readany())
                assert part, "the stream has ended"
            fake_api.open_gate(path)
            assert b"says: hello" in data + await answer.read()
