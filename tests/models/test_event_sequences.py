"""Every recorded answer of a vendor, event by event (tests/golden/events).

`COUNSEL_GOLDEN=write pytest …` rewrites the files: only for an intended change.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from counsel.errors import CounselError
from counsel.models import prices
from counsel.models.transport import Transport
from counsel.types import Call, Finished, ToolSpec, Turn
from fake import FakeAPI
from models.test_vendor_responses import SENT, target
from models.vendor_responses import SHAPES, Shape

GOLDEN = Path(__file__).parent.parent / "golden" / "events"
CALL = Call(
    turns=(Turn("user", "Which city?"),), tools=(ToolSpec("look", "Looks.", {"type": "object"}),), tokens=SENT
)


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    async def no_wait(_: float) -> None: ...

    instance = Transport(sleep=no_wait)
    yield instance
    await instance.close()


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSeek is cheaper from 16:30 to 0:30 UTC."""
    at, by_library = datetime(2026, 11, 16, 12, tzinfo=UTC), prices.by_library
    monkeypatch.setattr(prices, "by_library", lambda model, usage: by_library(model, usage, at))


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice names the seconds until the next attempt."""
    monkeypatch.setattr("counsel.models.retries.random.uniform", lambda _low, _high: 1.0)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
async def test_a_shape_gives_these_events(fake_api: FakeAPI, transport: Transport, shape: Shape) -> None:
    shape.play(fake_api)
    to = target(shape, fake_api)
    lines = []
    try:
        async for event in transport.stream(CALL, to.model, to.endpoint):
            lines.append(repr(event))
            if isinstance(event, Finished):
                lines.append(json.dumps(event.native, ensure_ascii=False, default=repr))
    except CounselError as error:
        lines.append(f"{error.code} {sorted(name for name in error.fields)}")
    text = "\n".join(lines).replace(fake_api.url, "URL") + "\n"
    file = GOLDEN / f"{shape.name}.txt"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
