"""Races: a job that has just started, is just ending, is stopped twice, or whose process has just died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import Cancelled, ProviderUnavailable
from counsel.requests import ChatRequest
from fake import FakeAPI
from support.database import change, slow_disk
from support.provider_keys import keys

HELLO = ChatRequest(prompt="hello", model="gpt-5")


async def status(engine: Engine, job: str) -> str:
    return str((await engine.status(job)).to_json()["content"]["status"])


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def wait_for_ending(engine: Engine, job: str) -> None:
    """Wait until its end is being written."""
    running = engine.runner.running[job]
    async with asyncio.timeout(60):
        while not running.ending:
            await asyncio.sleep(0.01)


async def test_a_job_can_be_stopped_before_its_first_step(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="never", gate_after=0)
    job = await engine.submit(HELLO, caller(), background=True)
    conversation = (await engine.accepted(job)).to_json()["continuation"]["id"]
    reply = (await engine.cancel(conversation)).to_json()
    assert reply["content"]["status"] == "cancelled"
    assert await status(engine, job) == "cancelled"
    if engine.store.team is None:  # a team's database is slower: the job may have begun
        assert fake_api.log.requests == []


async def test_two_clients_that_cancel_one_job_both_get_an_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    job = await engine.submit(HELLO, caller(), background=True)
    conversation = (await engine.accepted(job)).to_json()["continuation"]["id"]
    await fake_api.wait_for(deltas=1)
    with slow_disk(engine):
        first = asyncio.create_task(engine.cancel(conversation))
        await wait_for_ending(engine, job)
        second = asyncio.create_task(engine.cancel(conversation))
        await settle()
    assert {reply.status for reply in await asyncio.gather(first, second)} == {"cancelled"}


async def test_a_stop_that_comes_while_the_answer_is_written_comes_too_late(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    job = await engine.submit(HELLO, caller(), background=True)
    conversation = (await engine.accepted(job)).to_json()["continuation"]["id"]
    waiting = asyncio.create_task(engine.wait(job))
    with slow_disk(engine):
        await wait_for_ending(engine, job)
        stopping = asyncio.create_task(engine.cancel(conversation))
        await settle()
    assert (await stopping).status == "completed"
    assert (await waiting).content == "gpt-5 says: hello"


async def test_a_caller_that_leaves_while_its_job_is_being_stored_leaves_no_dead_job(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    request = ChatRequest(prompt="hello", model="gpt-5", continuation_id="mine")
    with slow_disk(engine):
        submitting = asyncio.create_task(engine.submit(request, caller(), key="k"))
        await settle()
        submitting.cancel()
        await asyncio.wait({submitting})
    await engine.store.flush()
    job = await engine.submit(request, caller(), key="k")
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"


async def test_one_call_sent_twice_at_once_is_made_once(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    with slow_disk(engine):
        submissions = [
            asyncio.create_task(engine.submit(HELLO, caller(), background=True, key="one")) for _ in range(2)
        ]
        await settle()
    first, second = await asyncio.gather(*submissions)
    assert first == second
    await engine.wait(first)
    await engine.close()  # a second job would have started by now
    assert len(fake_api.log.requests) == 1


async def interrupted_job(home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, **fields: Any) -> str:
    """A job whose process ended before it."""
    fake_api.script(hang_after=1, times=1)
    dead = await open_engine(home)
    job = await dead.submit(HELLO, caller(), **fields)
    await fake_api.wait_for(deltas=1)
    await dead.close()
    return job


async def test_a_long_call_whose_process_died_waits_for_its_caller(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """However long it has run, its client needs a moment to reach the next process."""
    job = await interrupted_job(home, caller, fake_api, key="k")
    engine = await open_engine(home)
    await change(engine, "UPDATE jobs SET created = created - 3600")
    await engine.runner.look_for_orphans()
    assert await engine.submit(HELLO, caller(), key="k") == job
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()


async def test_a_call_whose_client_does_not_reconnect_is_given_up(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await interrupted_job(home, caller, fake_api)
    monkeypatch.setattr("counsel.engine.jobs.recovery._CLIENT_SECONDS", 0)
    engine = await open_engine(home)
    await engine.runner.look_for_orphans()
    if engine.store.team is None:
        with pytest.raises(Cancelled, match="its client did not reconnect"):
            await engine.wait(job)
    else:  # the servers of a team cannot know whether the client waits at another one
        engine.register_caller(caller())
        assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()


async def test_a_job_whose_keys_never_come_back_fails_in_the_end(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await interrupted_job(home, caller, fake_api, background=True)
    engine = await open_engine(home)
    await engine.runner.look_for_orphans()
    assert await status(engine, job) == "processing"
    await change(engine, "UPDATE jobs SET created = created - 3 * 86400")
    await engine.runner.look_for_orphans()
    with pytest.raises(ProviderUnavailable, match="no client with its keys connected"):
        await engine.wait(job)
    await engine.close()


async def test_a_cancel_that_the_other_process_does_not_answer_says_so(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    engine.runner.periodic.tasks[0].cancel()  # as if the process were suspended
    other_engine = await open_engine(home)
    content = (await other_engine.cancel(job)).to_json()["content"]
    assert (content["status"], "has not answered yet" in content["message"]) == ("processing", True)
    await other_engine.close()


async def test_a_cancel_from_another_process_stops_the_job(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    other_engine = await open_engine(home)
    assert (await other_engine.cancel(job)).to_json()["content"]["status"] == "cancelled"
    await fake_api.wait_for(state="disconnected")
    await other_engine.close()


async def test_turns_run_in_stored_order_whatever_the_clocks_say(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """Two processes: the job that was stored last waits, even if its clock is behind."""
    request = ChatRequest(prompt="first", model="gpt-5", continuation_id="mine")
    fake_api.script(gate="g", contains="first")
    await engine.submit(request, caller())
    await fake_api.wait_for(contains="first")
    await change(engine, "UPDATE jobs SET created = created + 60")
    second = await engine.submit(replace(request, prompt="second"), caller())
    await engine.store.flush()
    assert [job.id for job in await engine.store.open_jobs("mine")][1] == second
    fake_api.open_gate("g")
    assert (await engine.wait(second)).to_json()["continuation"]["messageCount"] == 4


async def test_a_conversation_may_have_a_name_that_looks_like_a_jobs(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    job = await engine.submit(replace(HELLO, continuation_id="job_review"), caller())
    await engine.wait(job)
    assert (await engine.status("job_review")).to_json()["content"]["job_id"] == job


async def test_keys_in_the_home_let_a_job_continue_by_itself(tmp_path: Path, fake_api: FakeAPI) -> None:
    """Submitted with an environment that does not name the home, like a person's shell."""
    home = tmp_path / "data" / "counsel"
    home.mkdir(parents=True)
    (home / ".env").write_text("".join(f"{name}={value}\n" for name, value in keys(fake_api).items()))
    shell = settings.load({"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")})
    sender = Caller("cli", cwd=tmp_path, settings=shell)
    job = await interrupted_job(home, lambda: sender, fake_api, background=True)
    engine = await open_engine(home)
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()


def test_a_sessions_own_ids_do_not_change_its_fingerprint(caller: Callable[..., Caller]) -> None:
    first, second = caller(CURSOR_TRACE_ID="1", VSCODE_IPC_TOKEN="a"), caller(CURSOR_TRACE_ID="2")
    another_key = caller(OPENAI_API_KEY="sk-another-0000000000000000")
    assert first.fingerprint(b"x") == second.fingerprint(b"x") != another_key.fingerprint(b"x")


async def test_an_engine_is_busy_while_a_job_runs_here_or_can_continue_here(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await interrupted_job(home, caller, fake_api, background=True)
    engine = await open_engine(home)
    assert not await engine.busy()  # it waits for keys that are not here
    fake_api.script(hang_after=1)
    engine.register_caller(caller())
    if engine.store.team is None:
        assert await engine.busy()
    else:  # until this server takes it, any server may
        await fake_api.wait_for(count=2, deltas=1)
    await engine.runner.look_for_orphans()
    assert await engine.busy()
    (job,) = engine.runner.running
    await engine.cancel(job)
    assert not await engine.busy()
    await engine.close()
