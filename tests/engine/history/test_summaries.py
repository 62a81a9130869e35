"""Summaries of jobs: made beside the job, only for those who want them, and stored when they arrive."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from counsel.engine.history.summaries import Describer


class Setup:
    """A store and a model that summarises."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.stored: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[str] = []
        anything: Any = self
        self.describer = Describer(anything, anything, anything)
        caller = SimpleNamespace(settings=SimpleNamespace(summaries=wanted))
        self.running: Any = SimpleNamespace(
            job=SimpleNamespace(id="job_1", caller=caller),
            live=SimpleNamespace(slots={}),
            summary=None,
            summing_up=None,
            running_summary="",
        )

    def describe(self, job: str, **values: Any) -> None:
        self.stored.append((job, values))

    async def summary(self, text: str, _job: Any) -> str:
        self.asked.append(text)
        return f"about {text}"

    def says(self, *texts: str) -> None:
        self.running.live.slots = {
            str(number): SimpleNamespace(length=len(text), text=lambda text=text: text)
            for number, text in enumerate(texts)
        }


async def test_the_final_summary_is_stored() -> None:
    setup = Setup()
    setup.describer.start_summary(setup.running, "tides")
    assert await setup.running.summary == "about tides"
    assert setup.stored == [("job_1", {"summary": "about tides"})]


async def test_who_wants_no_summaries_pays_for_none() -> None:
    setup = Setup(wanted=False)
    setup.describer.start_summary(setup.running, "tides")
    assert setup.running.summary is None
    assert setup.describer.start_title(setup.running) is None
    await asyncio.sleep(0)
    assert setup.asked == []


async def test_a_summary_so_far_is_the_last_one_and_starts_the_next() -> None:
    setup: Any = Setup()
    summariser: Any = SimpleNamespace(running=setup.summary)
    setup.describer._summariser = summariser
    assert setup.describer.summary_so_far(setup.running) == ""
    assert not setup.running.summing_up, "nothing was said"
    setup.says("tides", "", "the moon")
    assert setup.describer.summary_so_far(setup.running).startswith("tides")
    setup.describer.summary_so_far(setup.running)
    await setup.running.summing_up
    assert setup.asked == ["tides\n\nthe moon"], "one at a time"
    assert setup.describer.summary_so_far(setup.running) == "about tides\n\nthe moon"
    await setup.running.summing_up
    assert len(setup.asked) == 2
