"""Another process takes a job only if its owner is proven dead, and the process that lost the job stops."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.jobs import ownership, process_identity
from counsel.engine.jobs.ownership import Ownership
from counsel.engine.store.model import Reply
from counsel.engine.store.records import Fence, StoreError, UsageRecord
from counsel.requests import ChatRequest
from fake import FakeAPI
from support.database import change, value
from support.provider_keys import keys

pytestmark = pytest.mark.slow  # left out of `make check`

HELLO = ChatRequest(prompt="hello", model="gpt-5")
OWNER = """
import sys
from pathlib import Path
from counsel.engine.jobs.ownership import TRIES, Ownership
ours = Ownership(Path(sys.argv[1]))
print(ours.name, flush=True)
for _ in sys.stdin:
    for _ in range(TRIES):  # checks that find it gone
        ours.hold()
    print("held", flush=True)
"""


class Owner:
    """An owner in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = self._line()

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def hold(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._line() == "held"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "owners"


@pytest.fixture
def owner(folder: Path) -> Iterator[Owner]:
    owner = Owner(folder)
    yield owner
    owner.kill()


@pytest.fixture
def us(folder: Path) -> Iterator[Ownership]:
    us = Ownership(folder)
    yield us
    us.release()


def test_a_killed_owner_is_dead_with_or_without_its_file(owner: Owner, us: Ownership, folder: Path) -> None:
    assert us.state(owner.name) == "alive"
    owner.kill()
    assert us.state(owner.name) == "dead"
    (folder / owner.name).unlink()
    assert us.state(owner.name) == "dead"


def test_a_living_owner_whose_file_was_removed_is_alive_and_recreates_it(
    owner: Owner, us: Ownership, folder: Path
) -> None:
    shutil.rmtree(folder)
    assert us.state(owner.name) == "alive"
    owner.hold()
    assert (folder / owner.name).exists()
    assert us.state(owner.name) == "alive"
    owner.kill()
    assert us.state(owner.name) == "dead"


def test_a_free_copy_of_a_living_owners_file_proves_nothing(
    owner: Owner, us: Ownership, folder: Path
) -> None:
    (folder / owner.name).unlink()
    (folder / owner.name).touch()
    assert us.state(owner.name) == "alive"
    owner.hold()  # the owner's file is back
    assert ownership.is_free(us._folder / owner.name) is False


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO, errno.ENOLCK])
def test_a_living_owner_is_not_dead_when_the_check_fails(
    owner: Owner, us: Ownership, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    assert us.state(owner.name) == "alive"
    monkeypatch.setattr(Path, "read_bytes", fail)
    assert us.state(owner.name) == "unknown"


def test_a_process_id_proves_nothing_without_its_boot_container_and_start_time(us: Ownership) -> None:
    current = process_identity.current()
    report = {
        "the same number, given out again": (replace(current, start="1"), "dead"),
        "before the machine was started again": (replace(current, boot="00000000"), "dead"),
        "another container": (replace(current, namespace="1"), "unknown"),
        "another machine": (replace(current, machine="00000000", boot="00000000"), "unknown"),
        "somewhere without a clock": (replace(current, start=""), "unknown"),
    }
    result = {name: us.state(f"{process.name()}-aaaa") for name, (process, _) in report.items()}
    assert result == {name: state for name, (_, state) in report.items()}


def test_an_owner_of_an_earlier_release_is_dead_when_its_process_id_is_free(
    us: Ownership, owner: Owner
) -> None:
    assert us.state(f"{owner.process.pid}-0123456789ab") == "unknown"
    owner.kill()
    assert us.state(f"{owner.process.pid}-0123456789ab") == "dead"


def test_without_proc_ps_reports_when_a_process_started(owner: Owner) -> None:
    first = process_identity._started_by_ps(owner.process.pid)
    assert first == process_identity._started_by_ps(owner.process.pid)
    assert first
    assert "-" not in first
    owner.kill()
    assert process_identity._started_by_ps(owner.process.pid) is None


def test_files_of_dead_owners_without_jobs_are_removed(owner: Owner, us: Ownership, folder: Path) -> None:
    us.tidy(())
    assert (folder / owner.name).exists()
    owner.kill()
    us.tidy({owner.name})
    assert (folder / owner.name).exists()
    us.tidy(())
    assert {path.name for path in folder.iterdir()} == {us.name}


ENGINE = """
import asyncio, sys
from counsel.caller import local_caller
from counsel.engine.engine import open_engine
from counsel.requests import ChatRequest
async def main():
    caller = local_caller("worker")
    engine = await open_engine(caller.settings.home)
    job = await engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller, background=True)
    print(job, flush=True)
    await engine.wait(job)
    print("done", flush=True)
    await engine.close()
asyncio.run(main())
"""


async def test_a_job_is_paid_for_once_although_its_owners_file_is_removed_again_and_again(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", gate_after=1)
    env = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "COUNSEL_HOME": str(home), **keys(fake_api)}
    env |= {"COUNSEL_DATABASE": os.environ["COUNSEL_DATABASE"]} if "COUNSEL_DATABASE" in os.environ else {}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ENGINE, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout
    job = (await worker.stdout.readline()).decode().strip()
    await fake_api.wait_for(deltas=1)
    other_engine = await open_engine(home)
    other_engine.register_caller(caller())
    for _ in range(4):
        if other_engine.store.team is None:
            shutil.rmtree(home / "run" / "owners", ignore_errors=True)
        else:
            await change(
                other_engine, "DELETE FROM owners WHERE name != ?", other_engine.runner.ownership.name
            )
        await other_engine.runner.look_for_orphans()
    fake_api.open_gate("g")
    assert (await worker.stdout.readline()).strip() == b"done"
    assert (await other_engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    assert len(fake_api.calls) == 1
    await worker.wait()
    await other_engine.close()


async def lose_job(engine: Engine, job: str) -> None:
    """Another process takes the job, as if this one were dead."""
    adopted_job = await engine.store.adopt(job, engine.runner.ownership.name, "")
    assert adopted_job


async def test_a_process_that_lost_a_job_stops_its_call_and_follows_the_new_owner(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, times=1)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    engine.runner.orphan_event = asyncio.Event()
    waiting = asyncio.create_task(engine.wait(job))
    following = asyncio.create_task(_last(engine, job))
    other_engine = await open_engine(home)
    other_engine.register_caller(caller())
    await lose_job(engine, job)
    await fake_api.wait_for(state="disconnected")
    assert (await waiting).content == "gpt-5 says: hello"
    assert (await following).kind == "done"
    assert len(fake_api.calls) == 2
    await other_engine.close()


async def _last(engine: Engine, job: str) -> Any:
    return [event async for event in engine.follow(job)][-1]


async def test_an_answer_that_arrives_as_the_job_is_lost_is_not_paid_for_again(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", gate_after=1)
    engine = await open_engine(home)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    for loop in engine.runner.periodic.tasks:  # as if between two checks of the owner
        loop.cancel()
    await lose_job(engine, job)
    fake_api.open_gate("g")
    await asyncio.wait({engine.runner.running[job].task})
    await engine.close()
    next_engine = await open_engine(home)
    next_engine.register_caller(caller())
    assert (await next_engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    assert len(fake_api.calls) == 1
    await next_engine.close()


@pytest.mark.parametrize("status", [200, 400], ids=["done", "failed"])
async def test_followers_do_not_hear_of_an_end_that_was_not_accepted(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, status: int
) -> None:
    """A suspended process wakes and ends a job that another process owns by now: only the owner's end counts."""
    fake_api.script(gate="g", gate_after=-1, status=status, text="of the former owner")
    engine = await open_engine(home)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(count=1)
    events: list[Any] = []

    async def follow() -> None:
        async for event in engine.follow(job):
            events.append(event)

    following = asyncio.create_task(follow())
    for loop in engine.runner.periodic.tasks:  # as if between two checks of the owner
        loop.cancel()
    await lose_job(engine, job)
    former = engine.runner.running[job].task
    fake_api.open_gate("g")
    await asyncio.wait({former})
    await asyncio.sleep(0)
    assert [event.kind for event in events if event.kind in {"done", "failed"}] == []
    other_engine = await open_engine(home)
    other_engine.register_caller(caller())
    await other_engine.wait(job)
    await following
    assert [event.kind for event in events if event.kind in {"done", "failed"}] == ["done"]
    await engine.close()
    await other_engine.close()


async def test_of_two_answers_to_one_call_the_first_is_kept_and_both_are_counted(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    usage = UsageRecord(1.0, job, "chat", "openai", "gpt-5", "test", 5, "", 1, 2, 0, 0, 0, 0.5)
    stale = Fence(job, "somebody else", 1)
    for text in ("first", "second"):
        reply = Reply(text=text, provider="openai", model="gpt-5")
        await engine.store.remember(stale, "answer:gpt-5", "0", reply, usage)
    assert (await engine.store.replies(job))["answer:gpt-5"].text == "first"
    assert await value(engine, "SELECT COUNT(*) FROM ledger WHERE job = ?", job) == 2


async def test_an_end_that_could_not_be_written_is_written_later(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the job would stay unfinished, and the next process would ask and pay again."""

    async def disk_full(*_: object, **__: object) -> None:
        raise StoreError("The disk is full.")

    fake_api.script(gate="g", gate_after=1)
    engine = await open_engine(home)
    job = await engine.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    with monkeypatch.context() as disk:
        store: Any = engine.store
        disk.setattr(store.database, "write", disk_full)
        disk.setattr(store.database, "quickly", disk_full, raising=False)  # SQLite's
        fake_api.open_gate("g")
        answer = (await engine.wait(job)).to_json()
    assert "could not be stored" in repr(answer["metadata"]["warnings"])
    await engine.close()
    next_engine = await open_engine(home)
    next_engine.register_caller(caller())
    assert (await next_engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await next_engine.close()
    assert len(fake_api.calls) == 1
