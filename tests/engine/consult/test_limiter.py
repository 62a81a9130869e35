"""Places for calls: bounded in all and per provider, fair between callers, given back whatever happens."""

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


class Room:
    def __init__(self) -> None:
        self.gate = Limiter()
        self.order: list[str] = []
        self.most = 0
        self.leave = asyncio.Event()

    async def visit(self, who: Caller, provider: str = "p") -> None:
        async with self.gate.place(who, provider):
            self.order.append(who.client)
            self.most = max(self.most, self.gate.running.total())
            await self.leave.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_than_the_share_at_once_and_all_get_their_turn() -> None:
    room = Room()
    tasks = [asyncio.create_task(room.visit(caller("a"))) for _ in range(6)]
    await settle()
    assert len(room.order) == 2
    room.leave.set()
    await asyncio.gather(*tasks)
    assert len(room.order) == 6
    assert room.most == 2
    assert room.gate.running.total() == 0


async def test_a_busy_caller_does_not_keep_another_waiting_behind_its_queue() -> None:
    room = Room()
    tasks = [asyncio.create_task(room.visit(caller("busy"))) for _ in range(20)]
    await settle()
    tasks.append(asyncio.create_task(room.visit(caller("other"))))
    await settle()
    room.leave.set()
    await asyncio.gather(*tasks)
    assert room.order.index("other") <= 4


async def test_one_provider_full_does_not_block_another() -> None:
    room = Room()
    tasks = [asyncio.create_task(room.visit(caller("a"), "full")) for _ in range(3)]
    await settle()
    tasks.append(asyncio.create_task(room.visit(caller("b"), "free")))
    await settle()
    assert "b" in room.order
    room.leave.set()
    await asyncio.gather(*tasks)


async def test_who_is_cancelled_while_waiting_takes_no_place() -> None:
    room = Room()
    first = [asyncio.create_task(room.visit(caller("a"))) for _ in range(2)]
    await settle()
    waiting = asyncio.create_task(room.visit(caller("a")))
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    room.leave.set()
    await asyncio.gather(*first)
    await room.visit(caller("a"))
    assert room.gate.running.total() == 0


async def test_callers_who_wait_are_let_in_by_turns() -> None:
    room = Room()
    who = [caller(name, share=1) for name in ("a", "a", "a", "b", "b", "c")]
    tasks = [asyncio.create_task(room.visit(one)) for one in who]
    await settle()
    room.leave.set()
    await asyncio.gather(*tasks)
    assert room.order == ["a", "a", "b", "c", "a", "b"]


async def test_who_leaves_the_queue_leaves_nothing_behind() -> None:
    room = Room()
    first = asyncio.create_task(room.visit(caller("a", share=1)))
    await settle()
    waiting = [asyncio.create_task(room.visit(caller("b", share=1))) for _ in range(2)]
    await settle()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    room.leave.set()
    await first
    assert not room.gate._queues
    assert room.gate.full(caller("a", share=1), "p") == ""


async def test_a_place_that_came_with_the_cancel_goes_to_the_next() -> None:
    room = Room()
    room.leave.set()
    async with room.gate.place(caller("a", share=1), "p"):
        second, third = (asyncio.create_task(room.visit(caller(name, share=1))) for name in "bc")
        await settle()
    second.cancel()  # it has just been admitted, and has not run since
    await asyncio.gather(second, return_exceptions=True)
    await third
    assert room.order == ["c"]
    assert room.gate.running.total() == 0


async def test_the_limit_over_all_providers_holds() -> None:
    room = Room()
    tasks = [asyncio.create_task(room.visit(caller("a", total=2), provider)) for provider in "pqr"]
    await settle()
    assert room.most == len(room.order) == 2
    room.leave.set()
    await asyncio.gather(*tasks)
    assert len(room.order) == 3


async def test_why_a_call_would_wait() -> None:
    room = Room()
    few = caller("a", total=3, share=2)
    assert room.gate.full(few, "p") == ""
    tasks = [asyncio.create_task(room.visit(few)) for _ in range(2)]
    await settle()
    assert "2 calls to p are running (COUNSEL_MAX_CONCURRENT_PER_PROVIDER)" in room.gate.full(few, "p")
    assert room.gate.full(few, "q") == ""
    tasks.append(asyncio.create_task(room.visit(few, "q")))
    await settle()
    assert "3 calls are running (COUNSEL_MAX_CONCURRENT)" in room.gate.full(few, "r")
    room.leave.set()
    await asyncio.gather(*tasks)


async def test_calls_are_counted_by_provider_and_model_while_they_run() -> None:
    gate = Limiter()
    async with gate.place(caller("a"), "p", "m"):
        assert gate.calls == {("p", "m"): 1}
        assert gate.running == {"p": 1}
    assert gate.calls == {("p", "m"): 0}
    assert gate.running == {"p": 0}
