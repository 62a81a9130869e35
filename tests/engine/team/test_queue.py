"""A team's queue: which server runs a job, in which order, and that a stale worker's writes are not accepted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.store.records import JobRecord, QueuedRow
from counsel.job_events import TextAdded
from counsel.requests import ChatRequest, CompletionRequest, ConsensusRequest
from counsel.types import Turn
from fake import FakeAPI
from support.postgres_proxy import PostgresProxy

pytestmark = [pytest.mark.postgres, pytest.mark.thorough]
OpenServer = Callable[..., Awaitable[Engine]]
MakeCaller = Callable[..., Caller]


@pytest.fixture
async def server(
    tmp_path: Path, caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenServer]:
    """A server on another machine, with the same keys and this concurrency."""
    engines: list[Engine] = []

    async def open_server(name: str, concurrency: int = 64, *, takes_jobs: bool = True) -> Engine:
        monkeypatch.setenv("COUNSEL_CONCURRENCY", str(concurrency))
        engine = await open_engine(tmp_path / name, takes_jobs=takes_jobs)
        engine.register_caller(caller())
        engines.append(engine)
        return engine

    yield open_server
    for engine in engines:
        await engine.close()


def ask(prompt: str, conversation: str | None = None) -> ChatRequest:
    return ChatRequest(prompt=prompt, model="gpt-5", continuation_id=conversation)


async def rows(engine: Engine, sql: str) -> list[Any]:
    store: Any = engine.store
    return [row[0] if len(row) == 1 else row for row in await store.database.rows(sql)]


async def queue(engine: Engine) -> list[Any]:
    sql = "SELECT status::text FROM counsel_queue.procrastinate_jobs WHERE task_name = 'counsel.job' ORDER BY id"
    return await rows(engine, sql)


async def test_a_server_with_room_runs_the_call_itself_and_the_queue_records_it(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    engine = await server("a")
    fake_api.script(gate="g", gate_after=1)
    job = await engine.submit(ask("hello"), caller())
    assert job in engine.runner.running
    assert await queue(engine) == ["doing"]
    fake_api.open_gate("g")
    await engine.wait(job)
    assert await queue(engine) == []


async def test_another_server_runs_the_job_and_its_live_text_is_followed_where_it_was_asked(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first = await server("a", concurrency=0)
    fake_api.script(gate="g", gate_after=1)
    job = await first.submit(ask("hello"), caller())
    second = await server("b")
    events = first.follow(job)
    async with asyncio.timeout(60):
        async for event in events:
            if isinstance(event, TextAdded):
                break
    assert job in second.runner.running
    fake_api.open_gate("g")
    assert (await first.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    assert (job in first.runner.running, await queue(first)) == (False, [])


@pytest.mark.parametrize("ends_meanwhile", [False, True])
async def test_a_follower_on_another_server_misses_no_text_from_a_database_outage(
    server: OpenServer,
    caller: MakeCaller,
    fake_api: FakeAPI,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ends_meanwhile: bool,
) -> None:
    """It is away for longer than writes wait for it: what could not be written is written later, in order."""
    monkeypatch.setattr("counsel.engine.store.postgres.writer.WRITE_SECONDS", 0.1)
    monkeypatch.setattr("counsel.engine.jobs.running.AGAIN", 0.0)
    words = "".join(f"<{number}>" for number in range(200))
    fake_api.script(text=words, deltas=200, chunk_delay=0.02)
    second, direct = await server("b", concurrency=0), os.environ["COUNSEL_DATABASE"]
    async with PostgresProxy(direct) as proxy:
        monkeypatch.setenv("COUNSEL_DATABASE", proxy.url)
        first = await server("a")
        job = await first.submit(ask("hello"), caller(), background=True)
        live, text = first.runner.running[job].live.slots["0"], ""
        cuts, kinds = 0, []
        async with asyncio.timeout(60):
            async for event in second.follow(job):
                kinds.append(event.kind)
                if isinstance(event, TextAdded):
                    assert event.offset == len(text), "nothing is missing"
                    text += event.text
                if text and not cuts:
                    cuts = 1
                    proxy.refuses = True
                    proxy.cut_all()
                    length = live.length
                    while (
                        live.length < length + 40
                        or not first.store.problem
                        or (ends_meanwhile and not first.runner.endings.unsaved)
                    ):
                        await asyncio.sleep(0.02)
                    proxy.refuses = False
        assert (text, cuts) == (words, 1)
        assert {"model_finished", "done"} <= set(kinds)
        await first.close()


async def test_a_server_without_a_jobs_keys_knows_whether_another_one_can_take_it(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first, second = await server("a", concurrency=1), await server("b")
    other_keys = caller(OPENAI_API_KEY="sk-another-00000000000000")
    fake_api.script(gate="never", gate_after=0)
    await first.submit(ask("its only place"), other_keys, background=True)
    job = await first.submit(ask("hello"), other_keys, background=True)

    async def wait_for_reason(reason: str) -> None:
        async with asyncio.timeout(60):
            while (await second.status(job)).to_json()["content"]["waiting_for"]["for"] != reason:
                await asyncio.sleep(0.05)

    await wait_for_reason("slot")
    await first.close()
    await wait_for_reason("keys")
    second.register_caller(other_keys)
    assert (await second.wait(job)).to_json()["content"] == "gpt-5 says: hello"


async def test_a_server_that_only_answers_requests_takes_no_jobs(
    server: OpenServer, caller: MakeCaller
) -> None:
    first = await server("a", concurrency=0)
    job = await first.submit(ask("hello"), caller(), background=True)
    waiting = (await first.status(job)).to_json()["content"]["waiting_for"]
    assert waiting["for"] == "keys"
    assert "a running server or worker of the team" in waiting["text"]
    await server("b")
    assert (await first.wait(job)).to_json()["content"] == "gpt-5 says: hello"


async def test_turns_over_two_servers_keep_their_order_and_a_waiting_client_does_not_overtake(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first, second = await server("a"), await server("b")
    fake_api.script(gate="g", gate_after=0, times=1)
    jobs = [await first.submit(ask("turn 0", "mine"), caller(), background=True)]
    await fake_api.wait_for(count=1)
    for number in range(1, 6):
        engine = (first, second)[number % 2]
        jobs.append(await engine.submit(ask(f"turn {number}", "mine"), caller(), background=number < 5))
    assert (await second.status(jobs[5])).to_json()["content"]["waiting_for"]["for"] == "turn"
    fake_api.open_gate("g")
    async with asyncio.timeout(60):
        for job in jobs:
            await first.wait(job)
    texts = [message.text for message in await first.store.messages("mine") if message.role == "user"]
    assert [text[-1] for text in texts] == list("012345")
    assert len(fake_api.log.requests) == 6


async def test_a_program_that_asks_runs_its_own_turns_and_takes_nothing_of_others(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first = await server("a", concurrency=0)
    foreign_job = await first.submit(ask("of others"), caller(), background=True)
    program = await server("b", takes_jobs=False)
    fake_api.script(gate="g", gate_after=0, times=1)
    turns = [await program.submit(ask("turn 1", "mine"), caller(), background=True)]
    await fake_api.wait_for(contains="turn 1")
    await rows(first, "SELECT pg_notify('procrastinate_any_queue_v1', '{}')")
    assert await queue(first) == ["todo", "doing"]
    assert foreign_job not in program.runner.running
    turns.append(await program.submit(ask("turn 2", "mine"), caller(), background=True))
    fake_api.open_gate("g")
    async with asyncio.timeout(60):
        for job in turns:
            await program.wait(job)


async def test_a_waiting_client_comes_before_background_jobs(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    engine = await server("a", concurrency=1)
    fake_api.script(gate="g", gate_after=0, times=1)
    jobs = [await engine.submit(ask("runs"), caller(), background=True)]
    await fake_api.wait_for(count=1)
    jobs.append(await engine.submit(ask("background"), caller(), background=True))
    jobs.append(await engine.submit(ask("waiting"), caller()))
    fake_api.open_gate("g")
    async with asyncio.timeout(60):
        for job in jobs:
            await engine.wait(job)
    ends = await rows(engine, "SELECT id FROM counsel.jobs ORDER BY finished")
    assert ends == [jobs[0], jobs[2], jobs[1]]


async def test_a_job_that_is_starting_counts_as_running(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await server("a", concurrency=1)
    team_queue: Any = engine.runner.queue
    take, is_starting, may_start = engine.runner.recovery.take, asyncio.Event(), asyncio.Event()

    async def slow_take(record: JobRecord) -> bool:
        is_starting.set()
        await may_start.wait()
        return await take(record)

    monkeypatch.setattr(engine.runner.recovery, "take", slow_take)
    fake_api.script(gate="g", gate_after=0, times=1)
    jobs = [await engine.submit(ask(f"call {number}"), caller(), background=True) for number in range(3)]
    fake_api.open_gate("g")
    async with asyncio.timeout(60):
        await engine.wait(jobs[0])
        await is_starting.wait()
        row = await team_queue._manager.fetch_job(None, 0)
        statuses = await queue(engine)
        may_start.set()
        assert (row, statuses) == (None, ["doing", "todo"]), "there is no room for the third"
        for job in jobs:
            await engine.wait(job)


async def test_calls_that_arrive_together_stay_within_the_concurrency(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    engine = await server("a", concurrency=2)
    fake_api.script(gate="g", gate_after=0, times=None)
    jobs = await asyncio.gather(
        *(engine.submit(ask(f"call {number}"), caller(), background=True) for number in range(5))
    )
    assert sorted(await queue(engine)) == ["doing"] * 2 + ["todo"] * 3
    fake_api.open_gate("g")
    async with asyncio.timeout(60):
        for job in jobs:
            await engine.wait(job)


async def test_a_server_that_stops_hands_its_jobs_over_and_no_finished_call_is_repeated(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first, second = await server("a"), await server("b", concurrency=64)
    fake_api.script(hang_after=1, times=1, model="claude")
    two = ConsensusRequest(prompt="hello", models=("gpt-5", "sonnet"), enable_cross_feedback=False)
    job = await first.submit(two, caller())
    await fake_api.wait_for(model="claude", deltas=1)
    while not await first.store.has_replies(job):
        await first.store.flush()
    await first.drain(0)
    await first.close(keep=True)
    async with asyncio.timeout(60):
        assert (await second.wait(job)).to_json()["successful_initial_responses"] == 2
    models = sorted(request.model.partition("-")[0] for request in fake_api.log.requests)
    assert models == ["claude", "claude", "gpt"]


async def test_a_server_that_drains_lets_its_jobs_finish_and_takes_no_more(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    engine = await server("a")
    fake_api.script(gate="g", gate_after=1, times=1)
    job = await engine.submit(ask("runs"), caller())
    await fake_api.wait_for(deltas=1)
    draining = asyncio.create_task(engine.drain(60))
    await asyncio.sleep(0)
    later = await engine.submit(ask("later"), caller())
    assert later not in engine.runner.running
    assert await queue(engine) == ["doing", "todo"]
    fake_api.open_gate("g")
    await draining
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: runs"
    await engine.close(keep=True)
    second = await server("b")
    assert (await second.wait(later)).to_json()["content"] == "gpt-5 says: later"


async def test_a_cancel_reaches_the_server_that_runs_the_job_and_one_that_waits_never_runs(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first, second = await server("a", concurrency=0), await server("b", concurrency=1)
    fake_api.script(hang_after=1, times=1)
    job = await first.submit(ask("hello"), caller(), background=True)
    await fake_api.wait_for(deltas=1)
    waits = await first.submit(ask("waits"), caller(), background=True)
    assert job in second.runner.running
    assert (await first.cancel(waits)).to_json()["content"]["status"] == "cancelled"
    assert (await first.cancel(job)).to_json()["content"]["status"] == "cancelled"
    await fake_api.wait_for(state="disconnected")
    assert await queue(first) == []
    assert len(fake_api.log.requests) == 1


async def test_a_stale_workers_changes_to_a_row_are_rejected(server: OpenServer, caller: MakeCaller) -> None:
    engine = await server("a", concurrency=0)
    await engine.submit(ask("hello"), caller(), background=True)
    assert engine.store.team
    team_queue = engine.store.team.queue
    fingerprint = engine.runner.callers.fingerprints()[0]
    row = await team_queue.fetch([fingerprint])
    assert row
    assert await team_queue.fetch([fingerprint]) is None
    stale = QueuedRow(row["id"], row["attempts"], row["worker_id"])
    await rows(engine, "UPDATE counsel_queue.procrastinate_workers SET last_heartbeat = 'epoch' RETURNING 1")
    assert await team_queue.reap(5.0) == 1
    assert await team_queue.reap(5.0) == 0
    again = await team_queue.fetch([fingerprint])  # the same worker, another attempt
    assert again
    assert again["attempts"] == row["attempts"] + 1
    await team_queue.finish(stale)
    await team_queue.retry(stale, 0.0)
    assert await queue(engine) == ["doing"]
    await team_queue.finish(QueuedRow(again["id"], again["attempts"], again["worker_id"]))
    assert await queue(engine) == ["doing"]  # our job is still open
    await team_queue.give_back_strays("nobody", [again["id"]])
    assert await queue(engine) == ["doing"]
    await team_queue.give_back_strays("nobody", [])
    assert await queue(engine) == ["todo"]
    last = await team_queue.fetch([fingerprint])
    assert last
    await rows(engine, "UPDATE counsel.jobs SET status = 'cancelled' RETURNING 1")
    await team_queue.finish(QueuedRow(last["id"], last["attempts"], last["worker_id"]))
    assert await queue(engine) == []


async def test_a_dead_workers_job_is_run_by_another(
    server: OpenServer, caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.team.queue.queue._REAP_SECONDS", 0.05)
    first = await server("a", concurrency=0)
    job = await first.submit(ask("hello"), caller(), background=True)
    assert first.store.team
    assert await first.store.team.queue.fetch(first.runner.callers.fingerprints())
    second = await server("b")
    await rows(first, "UPDATE counsel_queue.procrastinate_jobs SET worker_id = NULL RETURNING 1")
    async with asyncio.timeout(60):
        assert (await second.wait(job)).to_json()["content"] == "gpt-5 says: hello"


async def test_a_job_whose_row_is_missing_is_offered_again(server: OpenServer, caller: MakeCaller) -> None:
    first = await server("a", concurrency=0)
    job = await first.submit(ask("hello"), caller(), background=True)
    await rows(first, "DELETE FROM counsel_queue.procrastinate_jobs RETURNING 1")
    second = await server("b")
    await second.runner.look_for_orphans()
    async with asyncio.timeout(60):
        assert (await second.wait(job)).to_json()["content"] == "gpt-5 says: hello"


async def test_one_call_that_is_sent_to_two_servers_is_made_once(
    server: OpenServer, caller: MakeCaller, fake_api: FakeAPI
) -> None:
    first, second = await server("a"), await server("b")
    turns = (Turn("user", "hello"),)
    for request in (ask("hello"), CompletionRequest(model="gpt-5", turns=turns)):
        key = f"key of {type(request).__name__}"
        jobs = await asyncio.gather(
            *(engine.submit(request, caller(), key=key) for engine in (first, second))
        )
        assert len(set(jobs)) == 1
        await asyncio.gather(*(engine.wait(jobs[0]) for engine in (first, second)))
    assert len(fake_api.log.requests) == 2


async def test_a_completions_messages_are_stored_while_it_waits_in_the_queue_and_no_longer(
    server: OpenServer, caller: MakeCaller
) -> None:
    turns = (Turn("user", "an earlier question"), Turn("assistant", "an answer"), Turn("user", "hello"))
    first = await server("a", concurrency=0)
    job = await first.submit(CompletionRequest(model="gpt-5", turns=turns), caller(), key="key")
    (waiting,) = await rows(first, "SELECT task FROM counsel.jobs")
    assert "an earlier question" in waiting
    second = await server("b")
    async with asyncio.timeout(60):
        await second.wait(job)
    (ended,) = await rows(first, "SELECT task FROM counsel.jobs")
    assert "an earlier question" not in ended


async def test_a_job_whose_keys_nobody_has_waits_and_says_what_for(
    server: OpenServer, caller: MakeCaller
) -> None:
    first = await server("a", concurrency=0)
    job = await first.submit(ask("hello"), caller(OPENAI_API_KEY="sk-another"), background=True)
    await first.close()
    second = await server("b")
    state = (await second.status(job)).to_json()["content"]
    assert state["waiting_for"]["for"] == "keys"
    assert await queue(second) == ["todo"]
