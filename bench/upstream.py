"""A very cheap model API: prepared answers of OpenAI's two APIs, plain or streamed, after a delay.

`python bench/upstream.py` prints its port. The path has the delay in ms and the size (`/d50/v1/responses`,
`/d0s2000000/v1/chat/completions`), or the deltas per second and in total (`/live20n100/v1/responses`).
The test suite's fake vendors check much more, and would dominate a measurement.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from functools import cache
from typing import Any


class Upstream(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].decode("latin-1")
            length = int((re.search(r"(?i)content-length: *(\d+)", head) or [0, 0])[1])
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            path = head.split(" ", 2)[1]
            match = re.match(r"/d(\d+)(?:s(\d+))?/", path)
            delay, size = (int(match[1]) / 1000, int(match[2] or 0)) if match else (0.0, 0)
            is_chat = path.endswith("/chat/completions")
            if live := re.match(r"/live(\d+)n(\d+)/", path):
                self.live(1 / int(live[1]), int(live[2]), is_chat=is_chat)
                continue
            stream = b'"stream":true' in body.replace(b" ", b"")
            answer = streamed(size, is_chat=is_chat) if stream else plain(size, is_chat=is_chat)
            asyncio.get_running_loop().call_later(delay, self.reply, answer)

    def live(self, pause: float, count: int, *, is_chat: bool) -> None:
        """Stream like a model: one delta at a time, each with the time at which it was sent."""
        self.template = CHAT_DELTA if is_chat else DELTA
        self.end = b"".join(map(_event, _chat_end() if is_chat else _responses_end("")))
        self.left = count
        self.transport.write(HEAD)
        clock(pause).add(self)

    def delta(self, mark: bytes) -> bool:
        """Send one delta. Returns whether there are more."""
        self.left -= 1
        if self.transport.is_closing():
            return False
        if self.left < 0:
            self.transport.write(_chunk(self.end) + b"0\r\n\r\n")
            return False
        self.transport.write(_chunk(self.template % mark))
        return True

    def reply(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)


class Clock:
    """Sends the deltas of all live streams. A timer per delta would cost more than sending it: streams share 50 ticks
    per pause."""

    def __init__(self, pause: float) -> None:
        self.groups: list[list[Upstream]] = [[] for _ in range(50)]
        self.step, self.turn = pause / len(self.groups), 0
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.tick()

    def add(self, stream: Upstream) -> None:
        min(self.groups, key=len).append(stream)

    def tick(self) -> None:
        while self.began + self.turn * self.step <= self.loop.time():
            group = self.groups[self.turn % len(self.groups)]
            mark = b"<%.6f>" % time.monotonic()
            group[:] = [stream for stream in group if stream.delta(mark)]
            self.turn += 1
        self.loop.call_at(self.began + self.turn * self.step, self.tick)


@cache
def clock(pause: float) -> Clock:
    return Clock(pause)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DELTA = (
    b"event: response.output_text.delta\ndata: "
    b'{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"%s"}\n\n'
)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _response(text: str) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed", "error": None,
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}]}],
        "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18,
                  "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "instructions": None, "metadata": {},
        "incomplete_details": None, "temperature": 1.0, "top_p": 1.0,
    }  # fmt: skip


def _chat(text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5", "usage": CHAT_USAGE,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
    }  # fmt: skip


def _chat_chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5",
        "choices": [choice],
    }


def _chat_end() -> list[dict[str, Any]]:
    return [_chat_chunk({}, "stop"), _chat_chunk({}) | {"choices": [], "usage": CHAT_USAGE}, {}]


def _responses_end(text: str) -> list[dict[str, Any]]:
    return [{"type": "response.completed", "response": _response(text)}]


CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
CHAT_DELTA = b"data: %s\n\n" % json.dumps(_chat_chunk({"content": "%s"})).encode()


@cache  # built once: this is not part of the measurement
def plain(size: int, *, is_chat: bool) -> bytes:
    text = "x" * (size or 40)
    body = json.dumps(_chat(text) if is_chat else _response(text)).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


@cache
def streamed(size: int, *, is_chat: bool) -> bytes:
    pieces = ["word "] * 20 if not size else ["x" * 1000] * (size // 1000)
    events = _chat_events(pieces) if is_chat else _responses_events(pieces)
    return HEAD + b"".join(_chunk(_event(event)) for event in events) + b"0\r\n\r\n"


def _chat_events(pieces: list[str]) -> list[dict[str, Any]]:
    deltas = [_chat_chunk({"content": piece}) for piece in pieces]
    return [_chat_chunk({"role": "assistant", "content": ""}), *deltas, *_chat_end()]


def _responses_events(pieces: list[str]) -> list[dict[str, Any]]:
    created = {
        "type": "response.created",
        "response": _response("") | {"status": "in_progress", "output": []},
    }
    about = {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
    }
    deltas = [about | {"delta": piece} for piece in pieces]
    events: list[dict[str, Any]] = [created, *deltas, *_responses_end("".join(pieces))]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _event(event: dict[str, Any]) -> bytes:
    """One event of the stream. {}: the end mark of Chat Completions, which is not JSON."""
    if not event:
        return b"data: [DONE]\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
