"""Progress messages for a waiting caller: the newest text, and which model is silent for how long."""

from __future__ import annotations

from typing import Any

import pytest

from counsel.errors import Internal
from counsel.job_events import (
    ModelFailed,
    ModelFinished,
    ModelStarted,
    PhaseStarted,
    Restarted,
    TextAdded,
    Wait,
    Waiting,
)
from counsel.mcp.progress import LiveText


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("counsel.mcp.progress.time.monotonic", lambda: now[0])
    return now


def started(model: str, slot: str = "a") -> ModelStarted:
    return ModelStarted(0, 0.0, slot, model, "initial")


def text(words: str, offset: int = 0, slot: str = "a") -> TextAdded:
    return TextAdded(0, 0.0, slot, words, offset, "initial")


def finished(model: str, slot: str = "a") -> ModelFinished:
    return ModelFinished(0, 0.0, slot, model, "initial", "openai", 1, 1)


def failed(model: str, slot: str = "a") -> ModelFailed:
    return ModelFailed(0, 0.0, slot, model, "initial", Internal("x"))


def live_text(*events: Any) -> LiveText:
    text = LiveText()
    for event in events:
        text.add(event)
    return text


async def test_before_the_first_model_there_is_the_time(clock: list[float]) -> None:
    job = live_text()
    clock[0] += 3
    assert (job.message(), job.size, job.changed.is_set()) == ("starting (3 s)", 0, False)


async def test_a_model_without_text_is_thinking(clock: list[float]) -> None:
    job = live_text(started("gpt"))
    clock[0] += 7
    assert job.message() == "gpt is thinking (7 s)"
    assert not job.changed.is_set()
    job.beat()
    assert job.size == 1  # a greater number each time


async def test_text_is_shown_from_its_end_and_silence_is_named(clock: list[float]) -> None:
    job = live_text(started("gpt"), text("Hello"))
    assert (job.message(), job.size, job.changed.is_set()) == ("Hello", 5, True)
    clock[0] += 3.9
    assert job.message() == "Hello"
    clock[0] += 0.1
    assert job.message() == "Hello [silent for 4 s]"
    job.add(text(" there", 5))
    assert (job.message(), job.size) == ("Hello there", 11)


async def test_a_long_text_begins_with_a_word(clock: list[float]) -> None:
    words = " ".join(f"word{number}" for number in range(100))
    message = live_text(started("gpt"), text(words)).message()
    assert message.startswith("…word")
    assert words.endswith(message[1:])
    assert 190 <= len(message) <= 200
    assert live_text(started("gpt"), text("x" * 200)).message() == "x" * 200
    assert live_text(started("gpt"), text("x" * 201)).message() == "…" + "x" * 199
    late = "x" * 150 + " " + "y" * 99  # a gap in the second half: the text is not cut there
    assert live_text(started("gpt"), text("x" * 200 + late)).message() == "…" + ("x" * 200 + late)[-199:]


async def test_several_models_have_a_line_each(clock: list[float]) -> None:
    job = live_text(started("one", "a"), started("two", "b"), text("First\n line", slot="a"))
    assert job.message() == "one: First line\ntwo is thinking (0 s)"
    size = job.size
    job.add(finished("one", "a"))
    assert (job.message(), job.size) == ("one: done\ntwo is thinking (0 s)", size + 1)
    job.add(failed("two", "b"))
    assert job.message() == "one: done\ntwo: failed"
    message = live_text(started("one", "a"), started("two", "b"), text("x" * 300, slot="b")).message()
    assert message == "one is thinking (0 s)\ntwo: …" + "x" * (100 - 3 - 3 - 1)


async def test_the_end_of_a_single_model_changes_no_message(clock: list[float]) -> None:
    job = live_text(started("one"), text("Hi"))
    job.changed.clear()
    job.add(finished("one"))
    assert (job.message(), job.size, job.changed.is_set()) == ("Hi", 2, False)


async def test_many_models_keep_a_few_words_each(clock: list[float]) -> None:
    events = [started(f"model-{number}", str(number)) for number in range(20)]
    texts = [text("y" * 100, slot=str(number)) for number in range(20)]
    lines = live_text(*events, *texts).message().split("\n")
    assert lines == [f"model-{number}: …" + "y" * 23 for number in range(20)]


async def test_a_restart_is_noted_until_the_next_phase(clock: list[float]) -> None:
    again = Restarted(0, 0.0, "a", "gpt", "initial", "retried", "It broke.", "gpt", 0)
    job = live_text(started("gpt"), text("Hal"))
    size = job.size
    job.add(again)
    assert job.size == size + 1
    note = "[gpt starts again; its partial answer is discarded. It broke.]"
    assert job.message() == note
    job.add(started("gpt"))
    assert job.message() == note
    job.add(text("Hello"))
    assert job.message() == f"{note}\n\nHello"
    job.add(PhaseStarted(0, 0.0, "", "refined"))
    assert job.message() == "Hello"


async def test_waiting_is_shown_until_a_model_starts(clock: list[float]) -> None:
    wait = Wait("turn", "the answer before it")
    job = live_text(Waiting(0, 0.0, "a", wait))
    assert (job.size, job.message()) == (0, "starting (0 s)")  # of one model, not of the job
    job.add(Waiting(0, 0.0, "", wait))
    assert (job.message(), job.size) == (f"[waits for {wait.text}]", 1)
    job.add(Waiting(0, 0.0, "", None))
    assert job.size == 1
    job.add(started("gpt"))
    assert job.message() == "gpt is thinking (0 s)"


async def test_text_of_a_slot_that_was_not_announced_is_shown(clock: list[float]) -> None:
    assert live_text(text("Hello", slot="late")).message() == "Hello"
