"""A model API with almost no cost: prepared OpenAI Responses, plain or streamed, after a delay.

`python bench/upstream.py` prints its port. The path has the delay and the size (`/d50/v1/responses`,
`/d0s2000000/v1/responses`), or the deltas per second and in total (`/live20n100/v1/responses`).
The test suite's fake vendors check much more, and would dominate the measurement.
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
            if live := re.match(r"/live(\d+)n(\d+)/", path):
                self.live(1 / int(live[1]), int(live[2]))
                continue
            stream = b'"stream":true' in body.replace(b" ", b"")
            answer = streamed(size) if stream else plain(size)
            asyncio.get_running_loop().call_later(delay, self.reply, answer)

    def live(self, pause: float, count: int) -> None:
        """A stream like a model's: one delta at a time, each with the time at which it was sent."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        self.transport.write(HEAD)

        def delta(number: int) -> None:
            if self.transport.is_closing():
                return
            if number == count:
                last = {"type": "response.completed", "response": _response("")}
                self.transport.write(_chunk(b"data: %s\n\n" % json.dumps(last).encode()) + b"0\r\n\r\n")
                return
            self.transport.write(_chunk(DELTA % b"<%.6f>" % time.monotonic()))
            loop.call_at(began + pause * (number + 1), delta, number + 1)

        delta(0)

    def reply(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)


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


@cache  # built once: the peers are measured, not this
def plain(size: int) -> bytes:
    body = json.dumps(_response("x" * (size or 40))).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


@cache
def streamed(size: int) -> bytes:
    pieces = ["word "] * 20 if not size else ["x" * 1000] * (size // 1000)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response("") | {"status": "in_progress", "output": []}}
    ]
    events += [
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "delta": piece,
        }
        for piece in pieces
    ]
    events.append({"type": "response.completed", "response": _response("".join(pieces))})
    body = b""
    for number, event in enumerate(events):
        data = f"event: {event['type']}\ndata: {json.dumps(event | {'sequence_number': number})}\n\n".encode()
        body += b"%x\r\n%s\r\n" % (len(data), data)
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        + body
        + b"0\r\n\r\n"
    )


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
