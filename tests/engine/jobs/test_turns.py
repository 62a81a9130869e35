"""Turns of one conversation: in order over all processes, after a crash, and behind a job that waits for keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.jobs.turns import Turns
from counsel.errors import Cancelled, Conflict
from counsel.requests import ChatRequest
from fake import FakeAPI

FIRST = ChatRequest(prompt="first", model="gpt-5", continuation_id="mine")
SECOND = replace(FIRST, prompt="second")


async def interrupted_job(home: Path, caller: Caller, fake_api: FakeAPI, **fields: Any) -> str:
    """Start a first turn, and end its process before the answer is complete."""
    fake_api.script(hang_after=1, times=1)
    engine = await open_engine(home)
    job = await engine.submit(FIRST, caller, **fields)
    await fake_api.wait_for(deltas=1)
    await engine.close()
    return job


def questions(fake_api: FakeAPI) -> list[str]:
    """The last question of each call."""
    return ["second" if "second" in str(call.body) else "first" for call in fake_api.calls]


async def wait_for_reason(engine: Engine, job: str, reason: str) -> Any:
    async with asyncio.timeout(20):
        while True:
            wait = (await engine.status(job)).to_json()["content"].get("waiting_for", {})
            if wait.get("for") == reason:
                return wait
            await asyncio.sleep(0.02)


async def test_a_turn_waits_for_an_interrupted_one_that_continues_here(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first = await interrupted_job(home, caller(), fake_api, background=True)
    engine = await open_engine(home)
    fake_api.script(contains="first", gate="g")
    second = await engine.submit(SECOND, caller())
    await fake_api.wait_for(contains="first", count=2)
    assert (await wait_for_reason(engine, second, "turn"))["job_id"] == first
    fake_api.open_gate("g")
    assert (await engine.wait(second)).to_json()["continuation"]["messageCount"] == 4
    assert questions(fake_api) == ["first", "first", "second"]
    await engine.close()


async def test_a_turn_waits_for_one_that_another_process_adopts(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """The process that has the second turn does not have the first one's keys."""
    first = await interrupted_job(
        home, caller(OPENAI_API_KEY="sk-another-00000000000000"), fake_api, background=True
    )
    engine = await open_engine(home)
    second = await engine.submit(SECOND, caller(), background=True)
    await wait_for_reason(engine, second, "turn")
    other_engine = await open_engine(home)
    other_engine.register_caller(caller(OPENAI_API_KEY="sk-another-00000000000000"))
    assert (await engine.wait(second)).to_json()["continuation"]["messageCount"] == 4
    assert (await engine.wait(first)).to_json()["continuation"]["messageCount"] == 2
    assert questions(fake_api) == ["first", "first", "second"]
    await other_engine.close()
    await engine.close()


async def test_three_turns_through_two_processes_keep_their_order(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    other_engine = await open_engine(home)
    fake_api.script(contains="number 0", gate="g")
    turns = [
        await (engine, other_engine)[n % 2].submit(
            replace(FIRST, prompt=f"number {n}"), caller(), background=True
        )
        for n in range(5)
    ]
    fake_api.open_gate("g")
    counts = [(await engine.wait(turn)).to_json()["continuation"]["messageCount"] for turn in turns]
    assert counts == [2, 4, 6, 8, 10]
    await other_engine.close()


async def test_a_returning_client_gets_its_turn_before_one_that_arrived_meanwhile(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first = await interrupted_job(home, caller(), fake_api, key="k")
    engine = await open_engine(home)
    second = await engine.submit(SECOND, caller())
    if engine.store.team is None:
        # a team's servers continue it at once: they cannot know where its client waits
        assert (await wait_for_reason(engine, first, "client"))["text"]
        await wait_for_reason(engine, second, "turn")
    assert await engine.submit(FIRST, caller(), key="k") == first
    assert (await engine.wait(second)).to_json()["continuation"]["messageCount"] == 4
    assert questions(fake_api) == ["first", "first", "second"]
    await engine.close()


async def test_a_turn_runs_when_the_client_of_the_turn_before_it_is_gone(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.jobs.recovery._CLIENT_SECONDS", 0)
    first = await interrupted_job(home, caller(), fake_api)
    engine = await open_engine(home)
    second = await engine.submit(SECOND, caller())
    messages = (await engine.wait(second)).to_json()["continuation"]["messageCount"]
    if engine.store.team is None:
        assert messages == 2
        with pytest.raises(Cancelled):
            await engine.wait(first)
    else:  # the servers of a team cannot know whether the client waits at another one
        assert messages == 4
        assert (await engine.wait(first)).to_json()["content"] == "gpt-5 says: first"
    await engine.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counsel.engine.jobs.turns.KEYLESS_SECONDS", 0.1)
    monkeypatch.setattr("counsel.engine.jobs.turns._CHECK_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
async def test_behind_a_job_without_keys_a_caller_learns_what_it_waits_for(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first = await interrupted_job(
        home, caller(OPENAI_API_KEY="sk-another-00000000000000"), fake_api, background=True
    )
    engine = await open_engine(home)
    with pytest.raises(Conflict, match="OPENAI_API_KEY") as error:
        await engine.wait(await engine.submit(SECOND, caller()))
    assert first in error.value.message
    assert f"counsel cancel {first}" in (error.value.hint or "")
    assert questions(fake_api) == ["first"]
    await engine.close()


@pytest.mark.usefixtures("impatient")
async def test_a_background_turn_keeps_waiting_and_the_person_can_cancel_the_job_ahead(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first = await interrupted_job(
        home, caller(OPENAI_API_KEY="sk-another-00000000000000"), fake_api, background=True
    )
    engine = await open_engine(home)
    second = await engine.submit(SECOND, caller(), background=True)
    assert (await wait_for_reason(engine, second, "turn"))["job_id"] == first
    assert "OPENAI_API_KEY" in (await wait_for_reason(engine, first, "keys"))["text"]
    reasons = {
        job["job_id"]: job["waiting_for"]["for"]
        for job in (await engine.recent()).to_json()["content"]["jobs"]
    }
    assert reasons == {first: "keys", second: "turn"}
    assert (await engine.cancel(first)).to_json()["content"]["status"] == "cancelled"
    assert (await engine.wait(second)).to_json()["continuation"]["messageCount"] == 2
    await engine.close()


async def test_a_waiting_turn_can_be_cancelled(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(contains="first", gate="g")
    first = await engine.submit(FIRST, caller())
    second = await engine.submit(SECOND, caller())
    await wait_for_reason(engine, second, "turn")
    assert (await engine.cancel(second)).to_json()["content"]["status"] == "cancelled"
    fake_api.open_gate("g")
    assert (await engine.wait(first)).to_json()["continuation"]["messageCount"] == 2
    assert questions(fake_api) == ["first"]


async def test_a_call_that_waits_for_a_free_slot_or_a_retry_says_so_in_any_process(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=429, retry_after=20, contains="limited")
    fake_api.script(hang_after=1, contains="long")
    narrow = caller(COUNSEL_MAX_CONCURRENT_PER_PROVIDER="2")
    other_engine = await open_engine(home)
    retrying = await engine.submit(ChatRequest(prompt="limited", model="gpt-5"), narrow, background=True)
    assert "rate limit" in (await wait_for_reason(engine, retrying, "retry"))["text"]
    assert (await wait_for_reason(other_engine, retrying, "retry"))["at"] > 0
    await engine.submit(ChatRequest(prompt="long", model="gpt-5"), narrow, background=True)
    await fake_api.wait_for(contains="long")
    third = await engine.submit(ChatRequest(prompt="third", model="gpt-5"), narrow, background=True)
    assert "2 calls to openai are running" in (await wait_for_reason(engine, third, "slot"))["text"]
    await wait_for_reason(other_engine, third, "slot")
    await engine.cancel(retrying)
    assert (await engine.wait(third)).to_json()["content"] == "gpt-5 says: third"
    await other_engine.close()


class StoreStub:
    """A store with one job ahead, which counts how often it is read."""

    def __init__(self) -> None:
        self.open, self.reads, self.changed = True, 0, asyncio.Event()
        self.waited: list[str] = []

    async def earlier_jobs(self, _job: str) -> list[Any]:
        self.reads += 1
        return [SimpleNamespace(id="first")] if self.open else []

    def mark(self, _job: str) -> int:
        return self.reads

    async def wait_for_change(self, job: str, _mark: int, _seconds: float) -> None:
        self.waited.append(job)
        await self.changed.wait()


async def nothing_is_missing(_: object) -> None:
    """No job waits for keys."""


@pytest.mark.parametrize("is_local", [True, False])
async def test_a_turn_is_woken_by_the_end_of_the_job_ahead_and_reads_nothing_meanwhile(
    monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    monkeypatch.setattr("counsel.engine.jobs.turns._CHECK_SECONDS", 600.0)
    store: Any = StoreStub()
    turns = Turns(store, {"first"} if is_local else set(), asyncio.Event(), nothing_is_missing)
    running: Any = SimpleNamespace(
        job=SimpleNamespace(id="second", conversation="mine", background=False),
        live=SimpleNamespace(wait=lambda *_: None),
    )
    waiting = asyncio.ensure_future(turns.wait(running, ()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (waiting.done(), store.reads) == (False, 2)  # a second time, after taking the mark
    assert store.waited == ([] if is_local else ["first"])
    store.open = False
    if is_local:
        turns.ended("mine")
    else:
        store.changed.set()
    async with asyncio.timeout(20):
        await waiting
    assert store.reads == 3
