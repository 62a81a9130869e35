"""Jobs whose process ended: which of them continue, and in which process."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from counsel import pending_calls, random_ids
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI
from support.database import database

HELLO = ChatRequest(prompt="hello", model="gpt-5")
TWO = ConsensusRequest(prompt="hello", models=("gpt-5", "sonnet"), enable_cross_feedback=False)


async def interrupted_job(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, *, keep: bool = False, **fields: Any
) -> str:
    fake_api.script(hang_after=1, times=1)
    engine = await open_engine(home)
    job = await engine.submit(HELLO, caller(), **fields)
    await fake_api.wait_for(deltas=1)
    await engine.close(keep=keep)
    return job


async def test_a_synchronous_call_continues_after_an_orderly_stop_without_its_client(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await interrupted_job(home, caller, fake_api, keep=True)
    engine = await open_engine(home)
    engine.register_caller(caller())
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()


async def test_a_job_that_had_not_begun_when_its_engine_closed_sends_nothing_and_continues(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    engine = await open_engine(home)
    await engine.wait(await engine.submit(HELLO, caller()))  # its connection is kept
    job = await engine.submit(HELLO, caller())
    await engine.close(keep=True)
    assert len(fake_api.calls) == 1
    assert not engine.runner.running
    engine = await open_engine(home)
    engine.register_caller(caller())
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()


async def test_a_call_whose_front_left_a_note_continues(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await interrupted_job(home, caller, fake_api, key="k")
    assert job == pending_calls.job_id("k")
    assert pending_calls.note(str(home), job)
    engine = await open_engine(home)
    engine.register_caller(caller())
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    assert not (home / "run" / "kept" / job).exists()
    await engine.close()


def test_a_jobs_id_is_derived_from_its_calls_key() -> None:
    expected = uuid.UUID(bytes=sha256(b"any key").digest()[:16], version=4)
    assert pending_calls.job_id("any key") == f"job_{expected}"


def test_a_jobs_id_begins_with_the_time_of_its_key() -> None:
    key = random_ids.key()
    job = pending_calls.job_id(key)
    assert job == pending_calls.job_id(key)
    assert job.removeprefix("job_")[:4] == key[:4]
    assert uuid.UUID(job.removeprefix("job_")).version == 8


async def test_an_interrupted_call_with_finished_answers_is_not_discarded(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_api.script(hang_after=1, times=1, model="claude")
    first_engine = await open_engine(home)
    job = await first_engine.submit(TWO, caller())
    await fake_api.wait_for(model="claude", deltas=1)
    while not await first_engine.store.has_replies(job):
        await first_engine.store.flush()
    await first_engine.close()
    monkeypatch.setattr("counsel.engine.jobs.recovery._CLIENT_SECONDS", 0)
    engine = await open_engine(home)
    engine.register_caller(caller())
    assert (await engine.wait(job)).to_json()["successful_initial_responses"] == 2
    assert sorted(request.model.partition("-")[0] for request in fake_api.log.requests) == [
        "claude",
        "claude",
        "gpt",
    ]
    await engine.close()


async def test_a_home_that_was_replaced_is_left_alone(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    engine = await open_engine(home)
    assert engine.home_is_ours()
    home.rename(home.with_name("aside"))
    new_engine = Engine(home)  # its own periodic steps do not run
    assert not engine.home_is_ours()
    (home / "outputs").mkdir()
    (text := home / "outputs" / "job_1.txt").write_text("the other engine's")
    os.utime(text, (0, 0))
    owners = set((home / "run" / "owners").iterdir())
    await engine.runner.look_for_orphans()
    await engine.runner.periodic.sweep()
    await engine.close()
    assert text.exists()
    assert set((home / "run" / "owners").iterdir()) == owners
    await new_engine.close()


async def test_a_running_job_is_written_into_a_rebuilt_database(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    engine = await open_engine(home)
    fake_api.script(gate="g", gate_after=1)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    await engine.store.flush()
    path = database(engine).path
    query = "SELECT id, status, fingerprint FROM jobs"
    ((*before,),) = database(engine).rows(query)
    path.write_bytes(b"these are notes\n" * 1000)
    database(engine).examine().result(30)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(query).fetchall() == [tuple(before)]
    assert before[:2] == [job, "processing"]
    fake_api.open_gate("g")
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await engine.close()
    later = await open_engine(home)
    assert (await later.status(job)).to_json()["content"]["status"] == "completed"
    await later.close()
