"""Text that is passed on as it arrives, without waking the task that reads the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from counsel.errors import TimedOut, UpstreamError
from counsel.models.transport import Transport
from counsel.types import Call, Endpoint, Finished, Limits, Model, Provider, Text, Turn, UsageReport
from fake import FakeAPI

CHAT = Provider("acme", "Acme", "openai_chat", "")
MODEL = Model("m", "acme", "m")
HELLO = Call((Turn("user", "hello"),))
WORDS = "one two three four five six "


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    instance = Transport()
    yield instance
    await instance.close()


class Reading:
    """Reads an answer; the vendor sends the rest once the first text has been read."""

    def __init__(self, fake: FakeAPI, transport: Transport, *, most_pushed: int = 100) -> None:
        self.fake, self.transport = fake, transport
        self.most_pushed = most_pushed
        self.pushed: list[str] = []
        self.texts: list[str] = []
        self.in_order = ""
        self.others: list[object] = []

    def push(self, delta: str) -> bool:
        if len(self.pushed) >= self.most_pushed:
            return False
        self.pushed.append(delta)
        self.in_order += delta
        return True

    async def read(self, limits: Limits | None = None) -> None:
        endpoint = Endpoint(CHAT, self.fake.v1, "k")
        call = replace(HELLO, push=self.push)
        async for event in self.transport.stream(call, MODEL, endpoint, limits or Limits()):
            if isinstance(event, Text):
                self.texts.append(event.delta)
                self.in_order += event.delta
                self.fake.open_gate("rest")
            else:
                self.others.append(event)


async def test_text_behind_the_first_is_pushed_and_the_rest_are_events(
    fake_api: FakeAPI, transport: Transport
) -> None:
    fake_api.script(text=WORDS, deltas=6, split=1000, gate="rest", gate_after=1)
    reading = Reading(fake_api, transport)
    await reading.read()
    assert reading.in_order == WORDS
    assert len(reading.texts) == 1
    assert "".join(reading.pushed) == WORDS.removeprefix(reading.texts[0])
    assert [type(event) for event in reading.others] == [UsageReport, Finished]


async def test_text_that_is_not_pushed_is_an_event_and_the_order_stays(
    fake_api: FakeAPI, transport: Transport
) -> None:
    fake_api.script(text=WORDS * 20, deltas=60, split=50, gate="rest", gate_after=1)
    reading = Reading(fake_api, transport, most_pushed=1)
    await reading.read()
    assert reading.in_order == WORDS * 20
    assert len(reading.pushed) == 1
    assert len(reading.texts) > 1


async def test_a_stream_that_breaks_off_keeps_the_text_that_was_pushed(
    fake_api: FakeAPI, transport: Transport
) -> None:
    fake_api.script(text=WORDS, deltas=6, split=1000, gate="rest", gate_after=1, error_after=3)
    reading = Reading(fake_api, transport)
    with pytest.raises(UpstreamError) as excinfo:
        await reading.read()
    assert reading.pushed
    assert excinfo.value.fields["partial"] == reading.in_order
    assert len(fake_api.calls) == 1, "its text was passed on, so the request is not repeated"


async def test_a_silence_counts_from_the_last_text_that_was_pushed(
    fake_api: FakeAPI, transport: Transport
) -> None:
    fake_api.script(text=WORDS, deltas=6, split=1000, gate="rest", gate_after=1, hang_after=4)
    reading = Reading(fake_api, transport)
    with pytest.raises(TimedOut) as excinfo:
        await reading.read(Limits(idle=0.2, first_event=30))
    assert excinfo.value.fields["limit"] == "idle"
    assert reading.pushed
    assert excinfo.value.fields["partial"] == reading.in_order
