"""A job's text on its two ways to the client: written at once, or through the queue when the client is slow."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import aclosing
from typing import Any, cast

import pytest

from counsel.engine.jobs.events import Live
from counsel.http.auth import Message
from counsel.http.team.ending import Ending
from counsel.http.v1.api import Api, ApiRequest
from counsel.http.v1.chat import ChatCompletions
from counsel.http.v1.messages import Messages
from counsel.http.v1.responses import RESPONSES
from counsel.http.v1.stream import Stream
from counsel.requests import CompletionRequest
from counsel.types import Turn


class Client:
    """A connection that takes chunks at some times, and whose `send` waits at others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.received = b""
        self.at_once = 0

    def takes_chunk(self) -> bool:
        return self.random.random() < 0.7

    def write_chunk(self, data: bytes) -> None:
        self.at_once += 1
        self.received += data

    async def send(self, message: Message) -> None:
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        self.received += message.get("body", b"")


def deltas(data: bytes) -> str:
    """The text of a stream of any of the three APIs."""
    text = ""
    for line in data.decode().splitlines():
        event: Any = json.loads(line[6:]) if line.startswith("data: {") else {}
        if "choices" in event:
            text += event["choices"][0]["delta"].get("content") or ""
        elif event.get("type") == "response.output_text.delta":
            text += event["delta"]
        elif event.get("type") == "content_block_delta":
            text += event["delta"].get("text", "")
    return text


@pytest.mark.parametrize(
    "api", [ChatCompletions(), Messages(), RESPONSES], ids=["chat", "messages", "responses"]
)
async def test_no_text_is_lost_or_moved_whichever_way_it_goes(api: Api) -> None:
    for seed in range(20):
        client, chance = Client(seed), random.Random(seed)
        live = Live("job_1", ("gpt-5",))
        request = CompletionRequest(model="gpt-5", turns=(Turn("user", "q"),))
        stream = Stream(
            api, ApiRequest(completion=request, stream=True), "job_1", client.send, [], chunks=client
        )

        async def follow(live: Live = live, stream: Stream = stream) -> None:
            async with aclosing(cast(Any, live.follow(stream.push))) as events:
                async for event in events:
                    await stream.add(event)

        live.begin("0", "answer")
        task = asyncio.create_task(follow())
        words = [f"word{number} " for number in range(200)]
        for word in words:
            live.text("0", word)
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
        live.done("completed")
        await task
        stream.close()
        assert deltas(client.received) == "".join(words)
        assert client.at_once > 10


async def test_no_chunk_passes_a_token_that_has_ended() -> None:
    client = Client(0)
    client.takes_chunk = lambda: True  # type: ignore[method-assign]

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    ending = Ending("/v1/messages", receive, client.send, client)
    assert ending.takes_chunk()
    ending.end()
    assert not ending.takes_chunk()
    assert not Ending("/v1/messages", receive, client.send).takes_chunk()
