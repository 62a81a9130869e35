"""What a running job reports to followers, to late followers and to the database."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.jobs import events
from counsel.engine.jobs.events import Live, Slot
from counsel.errors import Cancelled, UpstreamError
from counsel.job_events import JobEvent, ModelFinished, ToolInputAdded, Wait, Waiting
from counsel.types import ToolInput


def live(*models: str) -> Live:
    return Live("job_1", models or ("gpt-5",))


def kinds(events: list[JobEvent]) -> list[str]:
    return [event.kind for event in events]


def texts(events: list[JobEvent]) -> list[tuple[str, Any, Any]]:
    return [
        (event.slot, event.data["offset"], event.data["text"]) for event in events if event.kind == "text"
    ]


async def events_of(job: Live) -> list[JobEvent]:
    return [event async for event in job.follow()]


async def test_a_late_follower_gets_the_text_in_order_and_the_end_last() -> None:
    job = live("gpt-5", "sonnet")
    job.begin("0", "initial")
    job.begin("1", "initial")
    for piece in ("Hel", "lo"):
        job.text("0", piece)
    job.finish("0", "openai", 5, 5)
    job.text("1", "Half")
    job.fail("1", UpstreamError("broken", partial="Half"))
    job.done("completed")
    received_events = await events_of(job)
    assert kinds(received_events) == [
        "model_started", "model_started", "text", "model_finished", "text", "model_failed", "done",
    ]  # fmt: skip
    assert texts(received_events) == [("0", 0, "Hello"), ("1", 0, "Half")]
    assert "partial" not in received_events[5].data["error"]


async def test_a_follower_gets_the_text_so_far_and_every_piece_after_it() -> None:
    job = live()
    job.begin("0", "answer")
    job.text("0", "One ")
    listening = asyncio.create_task(events_of(job))
    await asyncio.sleep(0)
    job.text("0", "two")
    job.thinking("0", "hm")
    job.finish("0", "openai", 5, 7)
    job.done("completed")
    received_events = await listening
    assert kinds(received_events) == ["model_started", "text", "text", "thinking", "model_finished", "done"]
    assert texts(received_events) == [("0", 0, "One "), ("0", 4, "two")]
    assert not job._listeners


async def test_thinking_is_stored_once_up_to_a_limit_and_replayed_to_late_followers() -> None:
    job = live()
    job.begin("0", "answer")
    job.thinking("0", "Let me ")
    job.thinking("0", "see. ")
    job.unwritten()
    job.thinking("0", "x" * events.MOST_THINKING)
    job.finish("0", "openai", 5, 0)
    stored_events = [event for event in job.unwritten() if event.kind == "thinking"]
    assert [event.data["offset"] for event in stored_events] == [0]
    assert len(stored_events[0].data["text"]) == events.MOST_THINKING
    assert stored_events[0].data["text"].startswith("Let me see. x")
    job.done("completed")
    received_events = await events_of(job)
    assert kinds(received_events) == ["model_started", "thinking", "model_finished", "done"]
    assert received_events[1].data == stored_events[0].data
    job.begin("0", "answer")  # a new attempt starts thinking anew
    job.thinking("0", "Again.")
    job.finish("0", "openai", 5, 0)
    assert [event.data for event in job.unwritten() if event.kind == "thinking"] == [
        {"text": "Again.", "offset": 0}
    ]


async def test_a_model_that_begins_anew_thinks_from_the_start() -> None:
    job = live()
    job.begin("0", "answer")
    job.thinking("0", "Let me see.")
    job.begin("0", "answer")
    listening = asyncio.create_task(events_of(job))
    await asyncio.sleep(0)
    job.thinking("0", "Again.")
    job.done("completed")
    assert [event.data for event in await listening if event.kind == "thinking"] == [
        {"text": "Again.", "offset": 0}
    ]


@pytest.mark.parametrize(("keep", "thinking"), [(0, []), (5, ["Let me see."])])
async def test_the_thinking_goes_with_the_whole_text_and_stays_with_a_part_of_it(
    keep: int, thinking: list[str]
) -> None:
    job = live()
    job.begin("0", "answer")
    job.thinking("0", "Let me see.")
    job.text("0", "Keep, or not")
    job.restart("0", "failed", "it broke", model="gpt-5", after="sonnet", keep=keep)
    job.done("completed")
    assert [event.data["text"] for event in await events_of(job) if event.kind == "thinking"] == thinking


@pytest.mark.parametrize(
    ("first", "milliseconds"), [(None, None), (10.0, 0), (12.5, 2_500), (9.0, 0)], ids=str
)
def test_the_time_to_the_first_word_is_never_negative(first: float | None, milliseconds: int | None) -> None:
    assert Slot("gpt-5", asked=10.0, first=first).first_ms == milliseconds


def test_of_a_model_that_was_not_asked_nothing_is_read() -> None:
    assert not is_read(live())


def test_the_thinking_of_a_failed_model_is_stored() -> None:
    job = live()
    job.begin("0", "answer")
    job.thinking("0", "Let me see.")
    job.fail("0", UpstreamError("broken"))
    assert job.has_thought
    assert stored_thinking(job) == [{"text": "Let me see.", "offset": 0}]


def test_the_thinking_of_a_later_phase_is_stored_after_that_of_the_first() -> None:
    job = live()
    for phase, text in (("initial", "One, "), ("refined", "two.")):
        job.begin("0", phase)
        job.thinking("0", text)
        job.finish("0", "openai", 5, 0)
    assert stored_thinking(job) == [{"text": "One, ", "offset": 0}, {"text": "two.", "offset": 5}]


def stored_thinking(job: Live) -> list[object]:
    return [event.data for event in job.unwritten() if event.kind == "thinking"]


async def test_each_phase_has_a_text_of_its_own() -> None:
    job = live()
    for phase, text in (("initial", "First."), ("refined", "Second.")):
        buffer = job.begin("0", phase)
        assert buffer.text() == ""
        job.text("0", text)
        assert texts(job.unwritten()) == [("0", 0, text)]
    job.done("completed")
    assert texts(await events_of(job)) == [("0", 0, "Second.")]


async def test_the_end_is_told_when_it_is_written() -> None:
    job = live()
    listening = asyncio.create_task(events_of(job))
    await asyncio.sleep(0)
    job.hold_end()
    job.phase("judging")
    job.done("completed")
    assert kinds(job.events) == ["phase"]
    assert kinds(job.unwritten()) == ["phase", "done"]
    job.publish_end()
    assert kinds(await listening) == ["phase", "done"]
    assert kinds(await events_of(job)) == ["phase", "done"]


def test_the_time_to_the_first_word_is_that_of_the_first_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(events, "time", SimpleNamespace(time=lambda: clock.now))
    job = live()
    job.begin("0", "answer")
    for piece in ("One ", "two"):
        clock.now += 1.5
        job.text("0", piece)
    job.finish("0", "openai", 3_000, 7)
    finished = job.events[-1]
    assert isinstance(finished, ModelFinished)
    assert finished.first_ms == 1_500


async def test_the_stream_of_a_lost_job_stops_without_an_end() -> None:
    job = live()
    listening = asyncio.create_task(events_of(job))
    await asyncio.sleep(0)
    job.leave()
    assert await listening == []


def test_the_database_gets_each_text_once_in_pieces() -> None:
    job = live()
    assert job.unwritten() == []
    assert not is_stored(job)
    job.begin("0", "answer")
    job.text("0", "One ")
    job.text("0", "two ")
    assert texts(job.unwritten()) == [("0", 0, "One two ")]
    assert is_stored(job)
    assert job.unwritten() == []
    job.text("0", "three")
    assert texts(job.unwritten()) == [("0", 8, "three")]
    job.text("0", " four")
    job.finish("0", "openai", 5, 18)
    assert texts(job.unwritten()) == []  # a finished answer is stored as a whole
    assert Live("job_1", ("m",), seq=3).is_stored


def test_all_text_of_a_failed_model_is_written() -> None:
    job = live()
    job.begin("0", "answer")
    job.text("0", "Half")
    job.fail("0", UpstreamError("broken"))
    stored_events = job.unwritten()
    assert kinds(stored_events) == ["model_started", "text", "model_failed"]
    assert [event.seq for event in stored_events] == [1, 2, 3]


def test_a_jobs_error_is_written_without_the_text_that_the_events_have() -> None:
    for end in (UpstreamError("broken", partial="Half"), Cancelled("stopped", partial="Half")):
        job = live()
        (job.cancelled if isinstance(end, Cancelled) else job.failed)(end)
        assert job.events[0].data["error"]["partial"] == "Half"
        assert "partial" not in job.unwritten()[0].data["error"]


def test_discarded_text_is_reported_and_the_new_text_is_written() -> None:
    job = live()
    job.begin("0", "answer")
    job.text("0", "Keep this, ")
    job.text("0", "not this")
    job.unwritten()
    job.restart("0", "retried", "it broke", model="gpt-5", after="gpt-5", keep=11)
    (event,) = job.unwritten()
    assert (event.kind, event.data["offset"], event.data["next"]) == ("restarted", 11, "gpt-5")
    job.text("0", "but that")
    assert texts(job.unwritten()) == [("0", 11, "but that")]
    assert job.slots["0"].text() == "Keep this, but that"
    job.restart(
        "0", "retried", "it broke", model="gpt-5", after="gpt-5", keep=19
    )  # there is no text after it
    assert job.unwritten() == []


def test_models_with_text_from_an_ended_process_start_again() -> None:
    job = live("a", "b")
    job.resume(["1"])
    (event,) = job.events
    assert (event.kind, event.slot, event.data["reason"], event.data["offset"]) == (
        "restarted",
        "1",
        "interrupted",
        0,
    )
    assert (event.data["model"], event.data["next"]) == ("b", "b")


def test_notices_and_tool_calls_are_limited_and_the_last_one_says_so() -> None:
    job = live()
    for number in range(events.MOST_ASIDES + 10):
        if number % 2:
            job.notice("0", "warning", "w")
        else:
            job.tool("0", "t")
    assert len(job.events) == events.MOST_ASIDES
    assert str(job.events[-1].data["text"]).startswith("Too many notices and tool calls")


def test_a_failure_is_reported_once_per_phase() -> None:
    job = live()
    job.begin("0", "initial")
    job.fail("0", UpstreamError("broken"))
    job.refuse("0", "initial", UpstreamError("broken"))
    assert kinds(job.events) == ["model_started", "model_failed"]
    job.refuse("0", "refined", UpstreamError("refused"))
    assert kinds(job.events)[2:] == ["model_started", "model_failed"]
    assert job.slots["0"].status == "failed"
    job.begin("0", "refined")
    assert job.slots["0"].error is None
    assert job.slots["0"].text() == ""


def test_what_a_job_waits_for() -> None:
    job = live("a", "b")
    turn, slot = Wait("turn", "its turn"), Wait("slot", "a free slot")
    assert job.waits_for() is None
    job.wait("", turn)
    assert job.waits_for() == turn
    job.waits = None
    job.begin("0", "initial")
    job.begin("1", "initial")
    job.wait("0", slot)
    assert job.waits_for() is None  # the other model answers
    job.wait("1", turn)
    assert job.waits_for() == slot
    job.go_on("0")
    assert job.waits_for() is None
    assert isinstance(job.events[-1], Waiting)
    assert job.events[-1].wait is None, "followers learn that its wait is over"
    before = len(job.events)
    job.go_on("0")  # it does not wait
    assert len(job.events) == before
    job.text("1", "x")
    assert job.slots["1"].waits is None
    job.wait("1", turn)
    job.begin("1", "refined")
    assert job.slots["1"].waits is None


def is_stored(job: Live) -> bool:
    return job.is_stored


def is_read(job: Live) -> bool:
    return job.slots["0"].is_read


def has_calls(job: Live) -> bool:
    return job.slots["0"].has_calls


async def test_arguments_are_reported_with_their_offset_and_not_stored() -> None:
    job = live()
    job.begin("0", "answer")
    assert not is_read(job)
    job.tool_input("0", ToolInput("c1", "look", "{", "files", {"type": "custom"}), "{")
    assert is_read(job)
    listening = asyncio.create_task(events_of(job))
    await asyncio.sleep(0)
    job.tool_input("0", ToolInput("c1", "look", "ab", "files", {"type": "custom"}), "ab")
    job.tool_input("0", ToolInput("c1", "look", "}"), "}")
    job.part("0", {"type": "thinking"})
    assert not has_calls(job)
    job.part("0", {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}})
    assert has_calls(job)
    job.done("completed")
    pieces = [event for event in await listening if isinstance(event, ToolInputAdded)]
    assert [(piece.text, piece.offset) for piece in pieces] == [("ab", 1), ("}", 3)]
    assert (pieces[0].id, pieces[0].name, pieces[0].namespace, pieces[0].item) == (
        "c1", "look", "files", {"type": "custom"}
    )  # fmt: skip
    assert kinds(job.unwritten()) == ["model_started", "part", "part", "done"]
    job.begin("0", "answer")
    assert not is_read(job)


def test_calls_without_text_count_as_read() -> None:
    job = live()
    job.begin("0", "answer")
    job.part("0", {"type": "vendor", "wire": "anthropic", "item": {}})
    assert is_read(job)
    job.begin("0", "answer")
    job.text("0", "a")
    assert is_read(job)
