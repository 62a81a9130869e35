"""The events of one job as a stream of messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from counsel.errors import Internal
from counsel.http.api import job_stream
from counsel.job_event_json import event_from


async def events(count: int, failure: Exception | None = None) -> AsyncGenerator[job_stream.EventWithId]:
    for number in range(1, count + 1):
        yield str(number), event_from(number, 0.0, "text", "0", {"text": "word", "offset": 4 * (number - 1)})
    if failure is not None:
        raise failure


async def test_a_stream_whose_events_fail_is_cut_off_and_does_not_end_as_if_it_were_whole() -> None:
    chunks: list[str] = []

    async def send(failure: Exception | None = None) -> None:
        chunks.clear()
        async for chunk in job_stream.stream(events(2, failure), asyncio.Event()):
            chunks.append(chunk)

    with pytest.raises(Internal, match="gone"):
        await send(Internal("The disk is gone."))
    text = "".join(chunks)
    assert (text.count("id: 1\n"), text.count("id: 2\n")) == (1, 1)
    await send()
    assert "".join(chunks) == text
