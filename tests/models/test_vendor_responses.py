"""Every shape of tests/models/vendor_responses, through the fake server and our wires, gives the stated result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from counsel.errors import CounselError
from counsel.models import catalog_rows, prices
from counsel.models.catalog import Catalog, Target
from counsel.models.transport import Transport
from counsel.settings import load
from counsel.types import (
    Call,
    Endpoint,
    Finished,
    Notice,
    Text,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
    UsageReport,
    Withdrawn,
)
from fake import FakeAPI
from models.vendor_responses import EXPECTED, FOLDER, SHAPES, Shape

SENT = 20  # tokens, as the engine estimates them
STATED = ("text", "thinking", "sources", "calls", "usage", "cost", "finish", "vendor", "estimated")


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    async def no_wait(_: float) -> None: ...

    instance = Transport(sleep=no_wait)
    yield instance
    await instance.close()


def target(shape: Shape, fake: FakeAPI) -> Target:
    model = Catalog(catalog_rows.shipped(), load({})).lookup(shape.model)
    provider = catalog_rows.shipped().providers[model.provider]
    base = fake.v1 if shape.wire.startswith("openai") else fake.url
    return Target(model, Endpoint(replace(provider, wire=shape.wire), base, "test-key"))


async def read(
    transport: Transport, to: Target, call: Call, *, events_only: bool = False
) -> tuple[dict[str, Any], CounselError | None]:
    answer: dict[str, Any] = {"text": "", "thinking": "", "sources": [], "calls": []}
    usage, error = Usage(), None
    if events_only:
        call = replace(call, push=lambda delta: bool(answer.update(text=answer["text"] + delta) or True))
    try:
        async for event in transport.stream(call, to.model, to.endpoint):
            if isinstance(event, Text):
                answer["text"] += event.delta
            elif isinstance(event, Withdrawn):
                answer["text"] = answer["text"].removesuffix(event.text)
            elif isinstance(event, Thinking):
                answer["thinking"] += event.delta
            elif isinstance(event, Notice) and event.kind == "source":
                answer["sources"].append(event.data["url"])
            elif isinstance(event, ToolUse):
                answer["calls"].append(event.call.name)
            elif isinstance(event, UsageReport):
                usage = event.usage
            elif isinstance(event, Finished):
                answer |= {"finish": event.reason, "vendor": dict(event.vendor), "native": event.native}
    except CounselError as caught_error:
        error = caught_error
    cost = usage.cost_usd if usage.cost_usd is not None else prices.cost(to.model, usage)
    usage_fields = {
        "usage": [usage.input, usage.output, usage.reasoning],
        "cost": round(cost or 0.0, 9),
        "estimated": usage.estimated,
    }
    return answer | usage_fields, error


def test_every_file_has_its_expectation() -> None:
    files = {file.stem for file in FOLDER.iterdir() if file.suffix in {".sse", ".json"}}
    assert files == set(EXPECTED)


@pytest.mark.parametrize(
    ("split", "pushed"), [(None, False), (7, False), (7, True)], ids=["whole", "cut", "pushed"]
)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
async def test_a_shape_is_read_as_stated(
    fake_api: FakeAPI, transport: Transport, shape: Shape, split: int | None, pushed: bool
) -> None:
    shape.play(fake_api, split=split)
    call = Call((Turn("user", "Where?"),), tokens=SENT)
    answer, error = await read(transport, target(shape, fake_api), call, events_only=pushed)
    expected: dict[str, Any] = {
        "text": "",
        "thinking": "",
        "sources": [],
        "calls": [],
        "estimated": False,
    } | shape.expected
    names = [name for name in STATED if name in expected]
    assert {name: answer.get(name) for name in names} == {name: expected[name] for name in names}
    if "finish" in expected:
        assert error is None
    else:
        assert error is not None
        assert error.code == expected["code"]
        assert expected.get("words", "") in error.message
        assert expected.get("fields", {}).items() <= error.fields.items()
        assert error.fields.get("partial", "") == expected["text"]
    assert len(fake_api.calls) == expected.get("tries", 1)


async def test_fragments_of_reasoning_go_back_as_one_signed_item(
    fake_api: FakeAPI, transport: Transport
) -> None:
    shape = Shape("openai_chat-fragments", EXPECTED["openai_chat-fragments"])
    shape.play(fake_api)
    call = Call((Turn("user", "Where?"),), tools=(ToolSpec("look", "Looks.", {"type": "object"}),))
    answer, _ = await read(transport, target(shape, fake_api), call)
    result = Turn("tool", tool_results=(ToolResult("toolu_1", "look", "sunny"),))
    turns = (*call.turns, Turn("assistant", native=answer["native"]), result)
    await read(transport, target(shape, fake_api), replace(call, turns=turns))
    message = fake_api.last.body["messages"][1]
    assert message["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "format": "anthropic-claude-v1",
            "index": 0,
            "text": "They ask about Berlin and its weather.",
            "signature": "c2lnbmVk",
        }
    ]
    assert "reasoning" not in message
    assert message["tool_calls"][0]["id"] == "toolu_1"
