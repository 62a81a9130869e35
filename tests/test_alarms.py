"""Deadlines behind one timer, and coroutines that get a task only if they wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counsel import alarms, first_step
from counsel.alarms import TimeLimit


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_alarms_ring_in_their_order_and_not_if_they_were_cancelled() -> None:
    rung: list[str] = []
    last = asyncio.Event()
    start = now()
    alarms.at(start + 0.003, last.set)
    alarms.at(start + 0.002, lambda: rung.append("second"))
    cancelled_alarm = alarms.at(start + 0.0015, lambda: rung.append("cancelled"))
    alarms.at(start + 0.001, lambda: rung.append("first"))
    alarms.at(start + 3600, lambda: rung.append("much later"))
    cancelled_alarm.cancel()
    cancelled_alarm.cancel()
    await asyncio.wait_for(last.wait(), 10)
    assert rung == ["first", "second"]


async def test_an_alarm_that_rings_may_set_and_cancel_others() -> None:
    rung = asyncio.Event()
    later = alarms.at(now() + 3600, rung.set)

    def ring() -> None:
        later.cancel()
        alarms.at(0.0, rung.set)

    alarms.at(0.0, ring)
    await asyncio.wait_for(rung.wait(), 10)


async def test_deadlines_that_do_not_pass_need_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def counted(when: float, *rest: Any, **kwargs: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *rest, **kwargs)

    monkeypatch.setattr(loop, "call_at", counted)
    for seconds in range(60, 160):
        alarms.at(now() + seconds, pytest.fail).cancel()
    assert len(timers) == 1


def test_each_loop_has_its_own_alarms() -> None:
    async def rings() -> None:
        rung = asyncio.Event()
        alarms.at(now(), rung.set)
        await asyncio.wait_for(rung.wait(), 10)

    asyncio.run(rings())
    asyncio.run(rings())


async def test_what_takes_longer_than_its_limit_is_given_up() -> None:
    with pytest.raises(TimeoutError), TimeLimit(0.001):
        await asyncio.get_running_loop().create_future()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with TimeLimit(3600) as limit:
        pass
    limit.end_now()  # it is too late for that
    await asyncio.sleep(0)


async def test_a_limit_can_be_ended_now() -> None:
    async def work() -> None:
        with TimeLimit(3600) as limit:
            limit.end_now()
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        await work()


async def test_a_limit_does_not_swallow_a_cancellation() -> None:
    started = asyncio.Event()

    async def work() -> None:
        with TimeLimit(3600):
            started.set()
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_does_not_wait_needs_no_task() -> None:
    async def work() -> str:
        return "done"

    async def failing() -> str:
        raise KeyError("x")

    assert first_step.start(work()) == "done"
    with pytest.raises(KeyError):
        first_step.start(failing())


async def test_work_that_waits_goes_on_in_a_task() -> None:
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work() -> str:
        text = str(await first)
        await asyncio.sleep(0)
        try:
            return text + str(await second)
        except KeyError:
            return text + "?"

    task = first_step.start(work())
    assert isinstance(task, asyncio.Task)
    first.set_result("a")
    second.set_exception(KeyError())
    assert await task == "a?"


@pytest.mark.parametrize("turns", [0, 1])
async def test_work_that_waits_can_be_cancelled(turns: int) -> None:
    log: list[str] = []

    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        return ""

    task = first_step.start(work())
    assert isinstance(task, asyncio.Task)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["cancelled"]
