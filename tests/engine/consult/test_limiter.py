"""Slots for calls: limited in total and per provider, fair between callers, always released."""

from __future__ import annotations

import asyncio
from pathlib import Path

from counsel.caller import Caller
from counsel.engine.consult.limiter import Limiter
from counsel.settings import Settings


def caller(name: str, *, total: int = 10, share: int = 2) -> Caller:
    return Caller(
        name, cwd=Path("/x"), settings=Settings(max_concurrent=total, max_concurrent_per_provider=share)
    )


class Calls:
    def __init__(self) -> None:
        self.limiter = Limiter()
        self.order: list[str] = []
        self.most = 0
        self.leave = asyncio.Event()

    async def call(self, client: Caller, provider: str = "p") -> None:
        async with self.limiter.slot(client, provider):
            self.order.append(client.client)
            self.most = max(self.most, self.limiter.running.total())
            await self.leave.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_than_the_share_at_once_and_all_get_their_turn() -> None:
    calls = Calls()
    tasks = [asyncio.create_task(calls.call(caller("a"))) for _ in range(6)]
    await settle()
    assert len(calls.order) == 2
    calls.leave.set()
    await asyncio.gather(*tasks)
    assert len(calls.order) == 6
    assert calls.most == 2
    assert calls.limiter.running.total() == 0


async def test_a_busy_caller_does_not_keep_another_waiting_behind_its_queue() -> None:
    calls = Calls()
    tasks = [asyncio.create_task(calls.call(caller("busy"))) for _ in range(20)]
    await settle()
    tasks.append(asyncio.create_task(calls.call(caller("other"))))
    await settle()
    calls.leave.set()
    await asyncio.gather(*tasks)
    assert calls.order.index("other") <= 4


async def test_a_full_provider_does_not_block_another() -> None:
    calls = Calls()
    tasks = [asyncio.create_task(calls.call(caller("a"), "full")) for _ in range(3)]
    await settle()
    tasks.append(asyncio.create_task(calls.call(caller("b"), "free")))
    await settle()
    assert "b" in calls.order
    calls.leave.set()
    await asyncio.gather(*tasks)


async def test_a_call_cancelled_while_waiting_takes_no_slot() -> None:
    calls = Calls()
    first = [asyncio.create_task(calls.call(caller("a"))) for _ in range(2)]
    await settle()
    waiting = asyncio.create_task(calls.call(caller("a")))
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    calls.leave.set()
    await asyncio.gather(*first)
    await calls.call(caller("a"))
    assert calls.limiter.running.total() == 0


async def test_waiting_callers_alternate() -> None:
    calls = Calls()
    callers = [caller(name, share=1) for name in ("a", "a", "a", "b", "b", "c")]
    tasks = [asyncio.create_task(calls.call(caller_name)) for caller_name in callers]
    await settle()
    calls.leave.set()
    await asyncio.gather(*tasks)
    assert calls.order == ["a", "a", "b", "c", "a", "b"]


async def test_a_call_that_leaves_the_queue_leaves_nothing_behind() -> None:
    calls = Calls()
    first = asyncio.create_task(calls.call(caller("a", share=1)))
    await settle()
    waiting = [asyncio.create_task(calls.call(caller("b", share=1))) for _ in range(2)]
    await settle()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    calls.leave.set()
    await first
    assert not calls.limiter._queues
    assert calls.limiter.full(caller("a", share=1), "p") == ""


async def test_a_slot_granted_to_a_cancelled_call_goes_to_the_next() -> None:
    calls = Calls()
    calls.leave.set()
    async with calls.limiter.slot(caller("a", share=1), "p"):
        second, third = (asyncio.create_task(calls.call(caller(name, share=1))) for name in "bc")
        await settle()
    second.cancel()  # it has just been admitted, and has not run since
    await asyncio.gather(second, return_exceptions=True)
    await third
    assert calls.order == ["c"]
    assert calls.limiter.running.total() == 0


async def test_the_limit_over_all_providers_holds() -> None:
    calls = Calls()
    tasks = [asyncio.create_task(calls.call(caller("a", total=2), provider)) for provider in "pqr"]
    await settle()
    assert calls.most == len(calls.order) == 2
    calls.leave.set()
    await asyncio.gather(*tasks)
    assert len(calls.order) == 3


async def test_why_a_call_would_wait() -> None:
    calls = Calls()
    few = caller("a", total=3, share=2)
    assert calls.limiter.full(few, "p") == ""
    tasks = [asyncio.create_task(calls.call(few)) for _ in range(2)]
    await settle()
    assert "2 calls to p are running (COUNSEL_MAX_CONCURRENT_PER_PROVIDER)" in calls.limiter.full(few, "p")
    assert calls.limiter.full(few, "q") == ""
    tasks.append(asyncio.create_task(calls.call(few, "q")))
    await settle()
    assert "3 calls are running (COUNSEL_MAX_CONCURRENT)" in calls.limiter.full(few, "r")
    calls.leave.set()
    await asyncio.gather(*tasks)


async def test_calls_are_counted_by_provider_and_model_while_they_run() -> None:
    limiter = Limiter()
    async with limiter.slot(caller("a"), "p", "m"):
        assert limiter.calls == {("p", "m"): 1}
        assert limiter.running == {"p": 1}
    assert limiter.calls == {("p", "m"): 0}
    assert limiter.running == {"p": 0}
