"""Deltas that arrive together are decoded together; the answer is the same as if each were decoded alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from counsel import strict_json
from counsel.models.transport import Transport
from counsel.models.wires import WIRES
from counsel.models.wires.openai_responses_reader import ResponsesReader
from counsel.types import Call, Endpoint, Event, Model, Provider, Text, Turn

NAME = "response.output_text.delta"


@pytest.fixture(autouse=True)
def with_msgspec(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name in ("_quick_decode", "_quick_encode"):
            patch.setattr(strict_json, name, None)
        strict_json.accelerate()
        yield


def delta(text: str, **more: Any) -> str:
    fields = {"type": NAME, "item_id": "m", "output_index": 0, "content_index": 0, "delta": text}
    return json.dumps({**fields, **more})


def texts(deltas: list[str]) -> tuple[str | None, list[str]]:
    """The deltas after a first one, read together and one by one."""
    together, single = (WIRES["openai_responses"].reader(streams_tools=False) for _ in range(2))
    for reader in (together, single):
        reader.feed(NAME, delta("first "))
    events = [event for data in deltas for event in single.feed(NAME, data)]
    return together.text_of(deltas), [event.delta for event in events if isinstance(event, Text)]


def test_deltas_of_one_message_are_one_text() -> None:
    deltas = [delta(piece) for piece in ("Wäre ", "es ", "", "😀", '"\\n\n')]
    together, single = texts(deltas)
    assert together == "".join(single) == 'Wäre es 😀"\\n\n'


@pytest.mark.parametrize(
    "odd",
    [
        delta("x", output_index=1),
        delta("x", content_index=1),
        delta("x", type="response.refusal.delta"),
        delta("x", delta=None),
        '{"delta": "x"}',
        delta("\ud83d"),  # half an emoji
        f"{delta('x')},{delta('y')}",
        "{",
        "",
    ],
)
def test_deltas_are_read_one_by_one_if_one_of_them_is_different(odd: str) -> None:
    reader = WIRES["openai_responses"].reader(streams_tools=False)
    reader.feed(NAME, delta("first "))
    assert reader.text_of([delta("a"), odd, delta("b")]) is None


def test_nothing_is_joined_before_the_first_delta_nor_without_msgspec(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = WIRES["openai_responses"].reader(streams_tools=False)
    assert reader.text_of([delta("a"), delta("b")]) is None
    reader.feed(NAME, delta("first "))
    monkeypatch.setattr(strict_json, "_quick_decode", None)
    assert reader.text_of([delta("a"), delta("b")]) is None


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_readers_of_other_apis_are_fed_one_by_one(wire: str) -> None:
    reader = WIRES[wire].reader(streams_tools=False)
    if reader.delta_event is None:
        assert reader.text_of(["{}"]) is None
    else:
        assert wire == "openai_responses"


async def test_an_answer_that_arrives_in_one_read_is_fed_in_few_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [delta("word ") for _ in range(40)]
    response = {"model": "gpt-5", "status": "completed", "output": [], "usage": {"input_tokens": 1}}
    events.append(json.dumps({"type": "response.completed", "response": response}))
    names = [NAME] * 40 + ["response.completed"]
    stream_bytes = "".join(
        f"event: {name}\ndata: {data}\n\n" for name, data in zip(names, events, strict=True)
    ).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head % len(stream_bytes) + stream_bytes)
        await writer.drain()
        writer.close()

    fed: list[str] = []
    feed = ResponsesReader.feed

    def counted(reader: ResponsesReader, name: str, data: str) -> list[Event]:
        fed.append(name)
        return feed(reader, name, data)

    monkeypatch.setattr(ResponsesReader, "feed", counted)
    provider = Provider("openai", "OpenAI", "openai_responses", "")
    transport = Transport()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        endpoint = Endpoint(provider, url, "k")
        call = Call((Turn("user", "hello"),))
        stream = transport.stream(call, Model("gpt-5", "openai", "gpt-5"), endpoint)
        texts = [event.delta async for event in stream if isinstance(event, Text)]
        await transport.close()
    assert "".join(texts) == "word " * 40
    assert len(fed) <= 3
