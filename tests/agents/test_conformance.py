"""What counsel promises about every agent: the same tests for all drivers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from agents.rigs import KEY, LIMITS, RIGS, Rig, processes_of, script, start_once
from counsel.agents.definitions import AGENTS
from counsel.agents.registry import resolve
from counsel.caller import Caller
from counsel.errors import (
    AgentUnavailable,
    AuthenticationFailed,
    CounselError,
    RateLimited,
    TimedOut,
    UpstreamError,
)
from counsel.types import Call, Event, Finished, Image, Limits, ModelSettings, Notice, Text, UsageReport
from fake import FakeAPI, marked

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"
)

real = pytest.mark.client
slot = pytest.mark.xdist_group("agents")  # agents are heavy: one of them at a time on a small machine


@pytest.fixture(
    params=[
        pytest.param("claude", marks=[real, slot]),
        pytest.param("codex", marks=[real, slot]),
        pytest.param("gemini", marks=[real, slot]),
        "cursor",
        # takes seconds to start, twice that on a busy machine: for CI
        pytest.param("opencode", marks=[real, slot, pytest.mark.slow]),
    ]
)
def rig(request: pytest.FixtureRequest, fake_api: FakeAPI, tmp_path: Path) -> Rig:
    rig = RIGS[request.param](fake_api, tmp_path)
    if rig.name == "gemini" and request.function is not test_cancel_leaves_no_process:
        start_once(rig)
    return rig


def ask(rig: Rig, call: Call, limits: Limits = LIMITS, caller: Caller | None = None) -> AsyncGenerator[Event]:
    driver = resolve(rig.name)
    assert driver is not None
    return driver.answer(call, caller or rig.caller(), limits)


async def collect(events: AsyncGenerator[Event]) -> tuple[str, list[Event]]:
    collected = [event async for event in events]
    return text_of(collected), collected


async def collect_into(collected: list[Event], events: AsyncGenerator[Event]) -> None:
    async for event in events:
        collected.append(event)


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


def last(rig: Rig, fake: FakeAPI) -> str:
    """The newest request to the model, as text."""
    return str([call.body for call in fake.calls if call.vendor == rig.vendor][-1])


async def test_answers(rig: Rig, fake_api: FakeAPI) -> None:
    fake_api.script(times=None, usage={"input": 11, "output": 3})
    text, events = await collect(ask(rig, rig.call("say pong")))
    assert text.strip().endswith("says: say pong")
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.session
    assert finished.reason == "stop"
    usages = [event.usage for event in events if isinstance(event, UsageReport)]
    assert [(usage.input, usage.output) for usage in usages[-1:]] == ([(11, 3)] if rig.reports_usage else [])
    assert processes_of(rig) == []


async def test_text_is_live(rig: Rig, fake_api: FakeAPI) -> None:
    """The first words arrive before the model sends the rest."""
    fake_api.script(times=None, text="one two three", deltas=3, gate="rest", gate_after=1)
    async with aclosing(ask(rig, rig.call("count"))) as events:
        collected: list[Event] = []
        async for event in events:
            collected.append(event)
            if text_of(collected):
                fake_api.open_gate("rest")
    assert text_of(collected) == "one two three"
    assert len([event for event in collected if isinstance(event, Text)]) > 1


async def test_continues_its_own_session(rig: Rig, fake_api: FakeAPI) -> None:
    _, first = await collect(ask(rig, rig.call("my name is Ada")))
    session = first[-1].session  # type: ignore[union-attr]
    again = rig.call("my name is Ada", text_of(first), "what is my name", session=session)
    text, events = await collect(ask(rig, again))
    assert text.strip().endswith("says: what is my name")
    request_text = last(rig, fake_api)
    assert "my name is Ada" in request_text
    assert "<conversation>" not in request_text  # it remembers the earlier turns itself
    assert not [event for event in events if isinstance(event, Notice)]
    assert events[-1].session == session  # type: ignore[union-attr]


async def test_usage_is_of_this_turn(rig: Rig, fake_api: FakeAPI) -> None:
    fake_api.script(times=None, usage={"input": 100, "output": 10})
    _, first = await collect(ask(rig, rig.call("one")))
    session = first[-1].session  # type: ignore[union-attr]
    _, second = await collect(ask(rig, rig.call("one", "1", "two", session=session)))
    before = [event.usage for event in first if isinstance(event, UsageReport)][-1:]
    usages = [event.usage for event in second if isinstance(event, UsageReport)][-1:]
    assert [(usage.input, usage.output) for usage in usages] == ([(100, 10)] if rig.reports_usage else [])
    assert [usage.cost_usd for usage in usages] == [usage.cost_usd for usage in before]


async def test_a_lost_session_is_recreated_and_reported(rig: Rig, fake_api: FakeAPI) -> None:
    call = rig.call("my name is Ada", "hello Ada", "what is my name", session=str(uuid.uuid4()))
    text, events = await collect(ask(rig, call))
    assert "what is my name" in text
    request_text = last(rig, fake_api)
    assert "my name is Ada" in request_text
    assert "<conversation>" in request_text
    (notice,) = [event for event in events if isinstance(event, Notice) and event.kind == "warning"]
    assert "session" in notice.text


async def test_history_without_a_session_is_packed(rig: Rig, fake_api: FakeAPI) -> None:
    await collect(ask(rig, rig.call("my name is Ada", "hello Ada", "what is my name")))
    request_text = last(rig, fake_api)
    assert "my name is Ada" in request_text
    assert "<conversation>" in request_text


async def test_sees_an_image(rig: Rig, fake_api: FakeAPI) -> None:
    png = Image("image/png", PNG, "pixel.png")
    await collect(ask(rig, rig.call("what is this", images=(png,))))
    request_text = last(rig, fake_api)
    assert "what is this" in request_text
    (path,) = (rig.project / ".counsel" / "assets").glob("*.png")
    assert await asyncio.to_thread(path.read_bytes) == PNG
    if rig.name in {"claude", "codex", "opencode"}:
        assert base64.b64encode(PNG).decode() in request_text
    else:
        assert (
            str(path)
            in request_text[request_text.index("<images_input>") : request_text.index("</images_input>")]
        )


async def test_files_are_named_for_it_to_read(rig: Rig, fake_api: FakeAPI) -> None:
    file = rig.project / "notes.txt"
    file.write_text("zebra 4711")
    await collect(ask(rig, replace(rig.call("read it"), files=(file,))))
    request_text = last(rig, fake_api)
    assert str(file) in request_text
    assert "zebra 4711" not in request_text


async def test_settings_that_it_does_not_support_are_named(rig: Rig, fake_api: FakeAPI) -> None:
    call = replace(
        rig.call("q"), model_settings=ModelSettings(temperature=0.5, media_resolution="MEDIA_RESOLUTION_LOW")
    )
    _, events = await collect(ask(rig, call))
    notices = [event for event in events if isinstance(event, Notice)]
    assert {notice.kind for notice in notices} == {"left_out"}
    assert [notice.data["setting"] for notice in notices] == ["temperature", "media_resolution"]


async def test_a_refused_key(rig: Rig, fake_api: FakeAPI) -> None:
    with pytest.raises(AuthenticationFailed) as excinfo:
        await collect(ask(rig, rig.call(f"q {marked(error='auth')}")))
    assert KEY not in str(excinfo.value.as_dict())
    assert excinfo.value.hint
    assert excinfo.value.provider == rig.name
    assert processes_of(rig) == []


async def test_not_logged_in(rig: Rig, fake_api: FakeAPI) -> None:
    with pytest.raises(AuthenticationFailed) as excinfo:
        await collect(ask(rig, rig.call("q"), caller=rig.logged_out(fake_api)))
    assert AGENTS[rig.name].login in str(excinfo.value.hint)
    assert processes_of(rig) == []


async def test_a_rate_limit(rig: Rig, fake_api: FakeAPI) -> None:
    with pytest.raises(RateLimited) as excinfo:
        await collect(ask(rig, rig.call(f"q {marked(status=429)}")))
    assert excinfo.value.provider == rig.name
    assert processes_of(rig) == []


async def test_a_vendor_that_cannot_be_reached(rig: Rig, fake_api: FakeAPI) -> None:
    caller = rig.caller()
    await fake_api.stop()
    with pytest.raises(UpstreamError) as excinfo:
        await collect(ask(rig, rig.call("q"), replace(LIMITS, total=40.0), caller))
    assert excinfo.value.provider == rig.name
    assert processes_of(rig) == []


async def test_a_hang_ends_at_the_limit(rig: Rig, fake_api: FakeAPI) -> None:
    collected: list[Event] = []
    call = rig.call(f"q {marked(text='so far', deltas=1, hang_after=1)}")
    with pytest.raises(TimedOut) as excinfo:
        await collect_into(collected, ask(rig, call, replace(LIMITS, total=rig.patience)))
    assert excinfo.value.fields.get("partial", "") == text_of(collected)
    assert processes_of(rig) == []


async def test_cancel_leaves_no_process(rig: Rig, fake_api: FakeAPI) -> None:
    async def run() -> None:
        await collect(ask(rig, rig.call(f"q {marked(text='so far', hang_after=1)}")))

    task = asyncio.create_task(run())
    await fake_api.wait_for(vendor=rig.vendor, deltas=1, timeout=30)
    assert processes_of(rig)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_of(rig) == []
    await fake_api.wait_for(vendor=rig.vendor, state="disconnected")


async def test_a_crash_keeps_the_partial_text(rig: Rig, fake_api: FakeAPI) -> None:
    async def killed() -> None:
        async for event in ask(rig, rig.call(f"q {marked(text='so far', deltas=1, hang_after=1)}")):
            if isinstance(event, Text):
                _kill_the_agent(rig)

    with pytest.raises(UpstreamError) as excinfo:
        await killed()
    assert excinfo.value.partial == "so far"
    assert processes_of(rig) == []


def _kill_the_agent(rig: Rig) -> None:
    """Kill every process of the run but the supervisor, as the out-of-memory killer would."""
    for pid in processes_of(rig):
        try:
            if b"supervisor.py" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue


# JSON that fits none of the interfaces.
INVALID_LINES = (
    {"type": "assistant", "message": "x"},
    {"type": "result", "status": "success", "subtype": "success", "stats": [1], "usage": [1], "is_error": 1},
    {"id": 1, "result": {}},
    {"method": "item/started", "params": {"item": "x"}},
)
PRINT_INVALID_LINES = "; ".join(f"echo '{json.dumps(line)}'" for line in INVALID_LINES)


@pytest.mark.parametrize(
    "body",
    [
        "echo 'what?'; echo '[1]'; exit 0",
        "echo oops >&2; exit 3",
        "kill -11 $$",
        f"{PRINT_INVALID_LINES}; exit 0",
    ],
)
async def test_garbage_is_not_an_answer(rig: Rig, body: str) -> None:
    program = next(path for path in (rig.project.parent / "bin").iterdir() if path.name != "node")
    program.unlink()
    script(program, body)
    text, provider = "", rig.name
    try:
        text, _ = await collect(ask(rig, rig.call("q")))  # the engine fails an empty answer
    except UpstreamError as error:
        provider = str(error.provider)
    assert (text, provider) == ("", rig.name)
    assert processes_of(rig) == []


async def test_not_installed(rig: Rig) -> None:
    with pytest.raises(AgentUnavailable) as excinfo:
        await collect(ask(rig, rig.call("q"), caller=rig.caller(PATH="/nonexistent")))
    assert excinfo.value.agent == rig.name
    assert excinfo.value.hint


async def test_reads_only_by_default(rig: Rig, fake_api: FakeAPI) -> None:
    fake_api.script(times=None, tool_calls=[rig.writes], text="I tried")
    try:
        text, _ = await collect(ask(rig, rig.call("write a file")))
        assert "I tried" in text
    except CounselError:
        pass  # refusing the whole turn is just as safe
    assert not (rig.project / "touched").exists()


async def test_many_at_once_get_their_own_answers(rig: Rig, fake_api: FakeAPI) -> None:
    """Eight, or three of an agent whose start occupies two cores for seconds."""

    async def one(number: int) -> str:
        text, _ = await collect(ask(rig, rig.call(f"number {number} of many"), replace(LIMITS, total=120.0)))
        return text.strip()

    count = 3 if rig.name in ("gemini", "opencode") else 8
    answers = await asyncio.gather(*(one(number) for number in range(count)))
    for number, text in enumerate(answers):
        assert text.endswith(f"says: number {number} of many")
    assert processes_of(rig) == []
