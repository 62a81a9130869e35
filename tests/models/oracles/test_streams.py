"""Generated and recorded streams, read by our wires and by the vendors' SDKs: the same answer, the same failure."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from models.vendor_responses import SHAPES, Shape

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # from google-genai, inside aiohttp
]

WIRES = ("openai_responses", "openai_chat", "anthropic", "gemini")
LETTERS = 'abc "\\ \n\t\r{}[]:,é漢🦉\u2028\u0000'
READ_BY_SDKS = [
    shape
    for shape in SHAPES
    if shape.is_stream and "finish" in shape.expected and shape.expected.get("oracle", True)
]
RECORDED = sorted(Path(__file__).with_name("streams").glob("*.sse"))


def words(dice: random.Random, most: int) -> str:
    return "".join(dice.choice(LETTERS) for _ in range(dice.randint(1, most)))


def generated(seed: int) -> dict[str, Any]:
    """A behaviour of the fake: any mixture of thinking, text, calls, sources, usage and cuts."""
    dice = random.Random(seed)
    reply: dict[str, Any] = {"text": words(dice, 200), "deltas": dice.randint(1, 20)}
    if dice.random() < 0.5:
        reply["thinking"] = words(dice, 100)
    if dice.random() < 0.4:
        reply["tool_calls"] = [
            {"name": f"tool_{place}", "arguments": {words(dice, 5): words(dice, 30), "n": dice.random()}}
            for place in range(dice.randint(1, 3))
        ]
    elif dice.random() < 0.4:
        reply["finish"] = dice.choice(["length", "filtered"])
    if dice.random() < 0.3:
        reply["sources"] = [{"url": f"https://example.com/{n}", "title": f"page {n}"} for n in (1, 2, 1)]
    reply["usage"] = {
        "input": dice.randint(1000, 2000),
        "output": dice.randint(500, 1000),
        "reasoning": dice.randint(0, 400),
        "cache_read": dice.randint(0, 400),
        "cache_write": dice.randint(0, 400),
    }
    reply["split"] = [dice.randint(1, 2000) for _ in range(5)]
    reply["newline"] = dice.choice(["\n", "\r\n"])
    reply["comments"] = dice.random() < 0.5
    return reply


@pytest.mark.parametrize("wire", WIRES)
async def test_generated_streams_read_as_the_sdk_reads_them(reading: ModuleType, wire: str) -> None:
    async with reading.readers() as readers:
        for seed in range(40):
            reply = generated(seed)
            reply["comments"] &= wire != "gemini"  # google-genai takes a comment for JSON; Google sends none
            readers.fake.script(times=2, **reply)
            ours, theirs = await readers.ours(wire), await readers.theirs(wire)
            assert ours == theirs, f"seed {seed}: {reply}"
            assert ours.text == reply["text"]


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
async def test_recorded_streams_read_as_the_sdk_reads_them(reading: ModuleType, file: Path) -> None:
    wire, stream = file.stem.partition("-")[0], file.read_text()
    async with reading.readers() as readers:
        readers.fake.script(times=2, raw=stream)
        ours, theirs = await readers.ours(wire), await readers.theirs(wire)
    assert ours == theirs
    assert ours.text or ours.calls or ours.finish == "filtered"


@pytest.mark.parametrize("shape", READ_BY_SDKS, ids=lambda shape: shape.name)
async def test_unusual_streams_read_as_the_sdk_reads_them(reading: ModuleType, shape: Shape) -> None:
    async with reading.readers() as readers:
        shape.play(readers.fake)
        assert await readers.ours(shape.wire) == await readers.theirs(shape.wire)


# our error → what the SDKs call it; Google's has one class, and a number
KINDS = {
    "auth": ("AUTHENTICATION_FAILED", "AuthenticationError", 400),
    "forbidden": ("AUTHENTICATION_FAILED", "PermissionDeniedError", 403),
    "not_found": ("MODEL_NOT_FOUND", "NotFoundError", 404),
    "rate_limit": ("RATE_LIMIT_EXCEEDED", "RateLimitError", 429),
    "context": ("CONTEXT_LENGTH_EXCEEDED", "BadRequestError", 400),
    "bad_request": ("UPSTREAM_ERROR", "BadRequestError", 400),
    "server": ("UPSTREAM_ERROR", "InternalServerError", 500),
    "unavailable": ("PROVIDER_UNAVAILABLE", "InternalServerError", 503),
    "overloaded": ("PROVIDER_UNAVAILABLE", "InternalServerError", 503),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", KINDS)
async def test_error_events_are_errors_for_the_sdk_too(reading: ModuleType, wire: str, kind: str) -> None:
    code, name, number = KINDS[kind]
    async with reading.readers() as readers:
        readers.fake.script(error=kind, times=2)
        ours = await reading.failed(readers.ours(wire))
        theirs = await reading.failed(readers.theirs(wire))
    assert ours.code == code
    if wire == "gemini":
        assert theirs.code == number
    elif wire == "anthropic" and kind in {"unavailable", "overloaded"}:
        assert type(theirs).__name__ in {"ServiceUnavailableError", "OverloadedError", "InternalServerError"}
    else:
        assert type(theirs).__name__ == name


@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_inside_the_stream_fails_both(reading: ModuleType, wire: str) -> None:
    async with reading.readers() as readers:
        readers.fake.script(error="overloaded", error_after=1, times=2)
        ours = await reading.failed(readers.ours(wire))
        await reading.failed(readers.theirs(wire))
    assert ours.code == "PROVIDER_UNAVAILABLE"
    assert ours.partial
