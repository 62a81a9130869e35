"""What a client reads is what the vendor said: refusals stay refusals, and citations stay with the words they
belong to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support import v1_views
from support.v1 import V1, served

CLAUDE = "claude-sonnet-4-6"
ASK: Any = [{"role": "user", "content": "x"}]


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


# ── a refusal without words: Anthropic's older models give no `stop_details` ─────────────────────────


@pytest.mark.parametrize("text", ["", "Well,"], ids=["nothing", "partial"])
async def test_a_refusal_without_words_is_no_complete_answer(v1: V1, fake_api: FakeAPI, text: str) -> None:
    fake_api.script(finish="filtered", text=text, times=None)
    plain = await v1.openai.chat.completions.create(model=CLAUDE, messages=ASK)
    from_stream = await v1_views.chat_stream(v1.openai, model=CLAUDE, messages=ASK)
    assert plain.choices[0].finish_reason == "content_filter"
    assert from_stream["choices"][0]["finish_reason"] == "content_filter"
    response = await v1.openai.responses.create(model=CLAUDE, input="x")
    async with v1.openai.responses.stream(model=CLAUDE, input="x") as stream:
        last_event: Any = [event async for event in stream][-1]
    for document in (response, last_event.response, await v1.openai.responses.retrieve(response.id)):
        assert (document.status, document.incomplete_details.reason) == ("incomplete", "content_filter")


# ── citations ────────────────────────────────────────────────────────────────────────────────────────

# Claude cites a part of a sentence in a block of its own.
TEXTS: list[tuple[str, list[str]]] = [
    ("The answer is ", []),
    ("Berlin", ["a", "b"]),
    (" and ", []),
    ("Paris", ["c"]),
    (".", []),
]


def _citation(text: str) -> dict[str, Any]:
    return {
        "type": "char_location", "cited_text": text, "document_index": 0, "document_title": "D",
        "start_char_index": 0, "end_char_index": 3, "file_id": None,
    }  # fmt: skip


def _claudes_answer() -> str:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": CLAUDE, "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 3, "output_tokens": 1}}}
    ]
    for index, (text, notes) in enumerate(TEXTS):
        block = {"type": "text", "text": "", **({"citations": []} if notes else {})}
        deltas = [{"type": "citations_delta", "citation": _citation(note)} for note in notes]
        deltas += [{"type": "text_delta", "text": piece} for piece in (text[:2], text[2:]) if piece]
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _blocks(message: Any) -> list[tuple[str, list[str]]]:
    return [(block.text, [note.cited_text for note in block.citations or ()]) for block in message.content]


async def test_citations_stay_with_the_words_that_they_belong_to(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(raw=_claudes_answer(), times=None)
    ask: Any = {"model": CLAUDE, "max_tokens": 99, "messages": ASK}
    with_key = {**ask, "extra_headers": {"Idempotency-Key": "one"}}
    for arguments in (ask, with_key, with_key):  # the last one reads the stored answer
        async with v1.anthropic.messages.stream(**arguments) as stream:
            assert _blocks(await stream.get_final_message()) == TEXTS
    assert _blocks(await v1.anthropic.messages.create(**ask)) == TEXTS
    async with v1.anthropic_vendor.messages.stream(**ask) as stream:
        assert _blocks(await stream.get_final_message()) == TEXTS


async def test_text_with_another_vendors_citations_is_one_message(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(raw=_claudes_answer(), times=None)
    full_text = "".join(text for text, _ in TEXTS)
    plain: Any = await v1.openai.responses.create(model=CLAUDE, input="x")
    async with v1.openai.responses.stream(model=CLAUDE, input="x") as stream:
        from_stream: Any = await stream.get_final_response()
    later: Any = await v1.openai.responses.retrieve(from_stream.id)
    for response in (plain, from_stream, later):
        (message,) = response.output
        assert [part.text for part in message.content] == [full_text]
    assert later.output[0].id == from_stream.output[0].id
    chat = await v1.openai.chat.completions.create(model=CLAUDE, messages=ASK)
    assert chat.choices[0].message.content == full_text


# ── phases: OpenAI's models comment on what they do before they answer ───────────────────────────────

MESSAGES = [("Looking.", "commentary"), ("Berlin.", "final_answer")]


def _message(number: int, text: str, phase: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    head = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    return {**head, "content": [part], "phase": phase}


def _openais_answer() -> str:
    items = [_message(number, *message) for number, message in enumerate(MESSAGES)]
    events: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        open_item = {**item, "content": [], "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": number, "item": open_item})
        delta = {"item_id": item["id"], "content_index": 0, "delta": MESSAGES[number][0], "logprobs": []}
        events.append({"type": "response.output_text.delta", "output_index": number, **delta})
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "r", "object": "response", "status": "completed", "model": "gpt-5", "usage": usage}
    events.append({"type": "response.completed", "response": {**response, "output": items}})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


async def test_messages_keep_their_phases_which_the_client_sends_back(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(raw=_openais_answer(), times=None)
    ask: Any = {"model": "gpt-5", "input": "x"}
    with_key = {**ask, "extra_headers": {"Idempotency-Key": "one"}}
    answers: list[Any] = [await v1.openai.responses.create(**ask)]
    for arguments in (ask, with_key, with_key):  # the last one reads the stored answer
        async with v1.openai.responses.stream(**arguments) as stream:
            answers.append(await stream.get_final_response())
    answers.append(await v1.openai.responses.retrieve(answers[-1].id))
    for answer in answers:
        phases = [(item.content[0].text.strip(), item.phase) for item in answer.output]
        assert phases == MESSAGES
    turns: Any = [item.model_dump(exclude_none=True) for item in answers[0].output]
    await v1.openai.responses.create(model="gpt-5", input=[*turns, {"role": "user", "content": "y"}])
    assert [item.get("phase") for item in fake_api.calls[-1].body["input"]] == [
        "commentary",
        "final_answer",
        None,
    ]
    chat = await v1.openai.chat.completions.create(model="gpt-5", messages=ASK)
    assert chat.choices[0].message.content == "Looking.\n\nBerlin."
    claudes: Any = {"model": "gpt-5", "max_tokens": 9, "messages": ASK}
    async with v1.anthropic.messages.stream(**claudes) as claude:
        from_stream = await claude.get_final_message()
    for message in (from_stream, await v1.anthropic.messages.create(**claudes)):
        assert _blocks(message) == [("Looking.\n\nBerlin.", [])]
