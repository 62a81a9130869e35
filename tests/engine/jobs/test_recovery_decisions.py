"""What becomes of each job of a dead process, and what such a job waits for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel import pending_calls
from counsel.engine.jobs import recovery
from counsel.engine.jobs.recovery import EVENTS_PER_ATTEMPT, Recovery
from counsel.engine.store.model import Origin, Task
from counsel.engine.store.records import AdoptedJob, JobRecord, JobStopped, LostJob
from counsel.errors import Cancelled, Internal, ProviderUnavailable
from counsel.job_events import Wait
from counsel.request_context import RequestContext
from counsel.settings import Settings

DAY = 86_400.0


def job(name: str = "job_1", **fields: Any) -> JobRecord:
    values: dict[str, Any] = {
        "id": name, "key": None, "tool": "chat", "conversation": "mine", "status": "processing", "background": True,
        "created": time.time(), "finished": None, "owner": "dead", "attempt": 1, "stuck": 0, "cancel": False,
        "fingerprint": "known", "models": ("gpt-5",), "total": 1, "completed": 0, "title": None, "summary": None,
        "keep_days": 3, "cancelled_members": (),
    }  # fmt: skip
    return JobRecord(**{**values, **fields})


class StoreStub:
    """A store with these jobs, all of which can be adopted."""

    def __init__(self, *jobs: JobRecord, team: Any = None) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.team = team
        self.last = 0
        self.replied: set[str] = set()
        self.detached: list[str] = []
        self.ends: dict[str, JobStopped] = {}
        self.fences: list[tuple[str, str, int]] = []
        self.ahead: list[JobRecord] = []
        self.can_adopt = True
        self.is_lost = False

    async def open_jobs(self) -> list[JobRecord]:
        return list(self.jobs.values())

    async def job(self, name: str) -> JobRecord | None:
        return self.jobs.get(name)

    async def has_replies(self, name: str) -> bool:
        return name in self.replied

    async def detach(self, name: str) -> None:
        self.detached.append(name)

    async def earlier_jobs(self, _: str) -> list[JobRecord]:
        return self.ahead

    async def last_seq(self, _: str) -> int:
        return self.last

    async def adopt(self, name: str, dead_owner: str, owner: str) -> AdoptedJob | None:
        assert (dead_owner, owner) == ("dead", "us")
        record = self.jobs[name]
        values = {field: getattr(record, field) for field in JobRecord.__dataclass_fields__}
        task = Task(tool="chat", prompt="p", text="p", models=("gpt-5",))
        origin = Origin("client", request=RequestContext("r_1", ""))
        adopted_job = AdoptedJob(JobRecord(**{**values, "attempt": record.attempt + 1}), task, origin)
        return adopted_job if self.can_adopt else None

    async def finish(self, fence: Any, end: JobStopped) -> None:
        self.fences.append((fence.job, fence.owner, fence.attempt))
        if self.is_lost:
            raise LostJob
        self.ends[fence.job] = end


class OwnersStub:
    name = "us"

    async def dead(self, owners: set[str]) -> set[str]:
        return owners & {"dead"}


class CallersStub:
    def __init__(self) -> None:
        self.settings = {"known": Settings(), "kept": Settings(keep_abandoned=True)}

    def find(self, fingerprint: str) -> Settings | None:
        return self.settings.get(fingerprint)

    def names(self, models: tuple[str, ...]) -> list[str]:
        return [f"{model.upper()}_KEY" for model in models]


class Engine:
    """Recovery with its dependencies, and which jobs it continued."""

    def __init__(self, home: Path, *jobs: JobRecord, team: Any = None) -> None:
        self.store = StoreStub(*jobs, team=team)
        self.started: list[tuple[Any, int]] = []
        self.running: set[str] = set()
        self.orphan_event = asyncio.Event()
        store: Any = self.store
        owners: Any = OwnersStub()
        callers: Any = CallersStub()
        self.recovery = Recovery(
            store, home, owners, callers,
            running=self.running, start=lambda job, seq: self.started.append((job, seq)),
            orphan_event=self.orphan_event,
        )  # fmt: skip

    def outcome(self, name: str = "job_1") -> str:
        if name in self.store.ends:
            return self.store.ends[name].status
        if any(job.id == name for job, _ in self.started):
            return "continued"
        return "detached" if name in self.store.detached else "left"


OLD = time.time() - 4 * DAY
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "continued"),
    ({"cancel": True}, "cancelled"),
    ({"stuck": recovery._STUCK - 1}, "continued"),
    ({"stuck": recovery._STUCK}, "failed"),
    ({"fingerprint": "unknown"}, "left"),
    ({"fingerprint": "unknown", "created": OLD}, "failed"),
    ({"fingerprint": "unknown", "created": OLD, "keep_days": 5}, "left"),
    ({"created": OLD}, "continued"),
    ({"tool": "debate"}, "left"),
    ({"owner": "alive"}, "left"),
]


@pytest.mark.parametrize(("fields", "outcome"), CASES)
async def test_what_becomes_of_a_job_whose_process_died(
    tmp_path: Path, fields: dict[str, Any], outcome: str
) -> None:
    engine = Engine(tmp_path, job(**fields))
    await engine.recovery.look()
    assert engine.outcome() == outcome


@pytest.mark.parametrize(("fields", "outcome"), [case for case in CASES if "owner" not in case[0]])
async def test_what_becomes_of_a_job_that_a_worker_takes_from_the_queue(
    tmp_path: Path, fields: dict[str, Any], outcome: str
) -> None:
    engine = Engine(tmp_path)
    record = engine.store.jobs["job_1"] = job(**fields)
    assert await engine.recovery.take(record) is (outcome != "left")
    assert engine.outcome() == outcome


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"fingerprint": "kept"}, "continued"),  # COUNSEL_KEEP_ABANDONED
        ({"fingerprint": "unknown"}, "cancelled"),
        ({}, "cancelled"),
        ({"cancel": True}, "cancelled"),
    ],
)
async def test_a_call_whose_client_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], outcome: str
) -> None:
    monkeypatch.setattr(recovery, "_CLIENT_SECONDS", 0.0)
    engine = Engine(tmp_path, job(background=False, **fields))
    await engine.recovery.look()
    assert engine.outcome() == outcome


async def test_a_call_waits_for_its_client_and_continues_when_the_client_sends_it_again(
    tmp_path: Path,
) -> None:
    engine = Engine(tmp_path, job(background=False), job("job_2", background=False))
    await engine.recovery.look()
    assert engine.outcome() == engine.outcome("job_2") == "left"
    await engine.recovery.look("job_1")
    assert (engine.outcome(), engine.outcome("job_2")) == ("continued", "left")
    assert engine.store.detached == []


async def test_answers_that_were_paid_for_are_not_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_CLIENT_SECONDS", 0.0)
    engine = Engine(tmp_path, job(background=False))
    engine.store.replied = {"job_1"}
    await engine.recovery.look()
    assert engine.outcome() == "detached"
    assert engine.orphan_event.is_set(), "the next round continues it at once"


async def test_a_call_whose_front_left_a_note_needs_no_client(tmp_path: Path) -> None:
    for round_ in range(2):
        name = f"job_0000000{round_}-0000-4000-8000-000000000000"
        engine = Engine(tmp_path, job(name, background=False))
        assert pending_calls.note(str(tmp_path), name)
        await engine.recovery.look(name if round_ else None)
        assert engine.store.detached == [name]
        assert engine.outcome(name) == ("continued" if round_ else "detached")
        assert engine.orphan_event.is_set() is not bool(round_)


async def test_jobs_that_run_here_and_jobs_that_nobody_asked_about_are_left_alone(tmp_path: Path) -> None:
    engine = Engine(tmp_path, job("job_1"), job("job_2"), job("job_3"))
    engine.running.add("job_3")
    await engine.recovery.look("job_2")
    assert [name for name in ("job_1", "job_2", "job_3") if engine.outcome(name) != "left"] == ["job_2"]
    await engine.recovery.look()
    assert [started.id for started, _ in engine.started] == ["job_2", "job_1", "job_2"]


async def test_a_process_that_can_open_no_file_takes_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(tmp_path, job())
    with monkeypatch.context() as full:
        full.setattr("os.devnull", str(tmp_path / "missing"))
        await engine.recovery.look()
        assert engine.outcome() == "left"
    await engine.recovery.look()
    assert engine.outcome() == "continued"


@pytest.mark.parametrize(
    ("last", "attempt", "seq"),
    [
        (0, 1, EVENTS_PER_ATTEMPT),
        (7, 1, EVENTS_PER_ATTEMPT),
        (7, 3, 3 * EVENTS_PER_ATTEMPT),
        (EVENTS_PER_ATTEMPT + 7, 1, EVENTS_PER_ATTEMPT + 7),
    ],
)
async def test_the_events_of_each_attempt_have_numbers_of_their_own(
    tmp_path: Path, last: int, attempt: int, seq: int
) -> None:
    """A follower may have seen events of the killed process that were never stored."""
    record = job(attempt=attempt, key="k", background=True, cancelled_members=("1",))
    engine = Engine(tmp_path, record)
    engine.store.last = last
    await engine.recovery.look()
    ((started, first),) = engine.started
    assert first == seq
    assert (started.id, started.key, started.attempt, started.conversation) == (
        "job_1",
        "k",
        attempt + 1,
        "mine",
    )
    assert (started.background, started.is_adopted, started.created) == (True, True, record.created)
    assert started.members.cancelled == {"1"}
    assert started.request.id == "r_1"
    assert started.caller.client == "client"


async def test_a_job_that_another_process_takes_first_is_left_to_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path, job("job_1"), job("job_2", cancel=True))
    engine.store.can_adopt = False
    await engine.recovery.look()
    assert (engine.started, engine.store.fences) == ([], [])
    engine.store.can_adopt, engine.store.is_lost = True, True
    await engine.recovery.look()
    assert engine.store.fences == [("job_2", "us", 2)]
    assert engine.store.ends == {}


async def test_the_words_of_an_end_say_why_it_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_CLIENT_SECONDS", 0.0)
    engine = Engine(
        tmp_path,
        job("job_c", cancel=True),
        job("job_s", stuck=30),
        job("job_k", fingerprint="unknown", created=OLD),
        job("job_a", background=False),
    )
    await engine.recovery.look()
    errors = {name: end.error for name, end in engine.store.ends.items()}
    assert {name: (type(error), error.message) for name, error in errors.items()} == {
        "job_c": (Cancelled, "Job job_c was cancelled."),
        "job_s": (Internal, "Job job_s was interrupted 30 times without making progress."),
        "job_k": (
            ProviderUnavailable, "Job job_k was interrupted, and no client with its keys connected for 3 days.",
        ),
        "job_a": (Cancelled, "Job job_a was interrupted and its client did not reconnect."),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"fingerprint": "unknown"}, False),
        ({"fingerprint": "unknown", "cancel": True}, True),
        ({"fingerprint": "unknown", "stuck": recovery._STUCK}, True),
        ({"fingerprint": "unknown", "stuck": recovery._STUCK - 1}, False),
        ({"fingerprint": "unknown", "background": False}, True),
        ({"fingerprint": "unknown", "created": OLD}, True),
        ({"owner": "alive"}, False),
    ],
)
async def test_a_process_stays_only_for_jobs_for_which_it_can_do_something(
    tmp_path: Path, fields: dict[str, Any], expected: bool
) -> None:
    assert await Engine(tmp_path, job(**fields)).recovery.actionable() is expected
    team: Any = SimpleNamespace(queue=QueueStub())
    assert await Engine(tmp_path, job(**fields), team=team).recovery.actionable() is False, "others can"


# ── what it waits for ────────────────────────────────────────────────────────────────────────────────


class QueueStub:
    def __init__(self, *, served: bool = False, unattended: tuple[tuple[str, str], ...] = ()) -> None:
        self.served, self.rows = served, unattended
        self.reads = 0
        self.enqueued: list[list[str]] = []

    async def is_served(self, _: str) -> bool:
        self.reads += 1
        return self.served

    async def unattended(self) -> list[tuple[str, str]]:
        return list(self.rows)

    async def enqueue_missing(self, jobs: list[str]) -> None:
        self.enqueued.append(jobs)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"owner": "alive"}, None),
        ({"status": "completed"}, None),
        ({}, None),
        ({"background": False}, "client"),
        ({"background": False, "fingerprint": "kept"}, None),
        ({"fingerprint": "unknown"}, "keys"),
    ],
)
async def test_what_a_job_of_a_dead_process_waits_for(
    tmp_path: Path, fields: dict[str, Any], reason: str | None
) -> None:
    engine = Engine(tmp_path, job(**fields))
    wait = await engine.recovery.missing(job(**fields))
    assert (wait and wait.reason) == reason
    keys = await engine.recovery.missing_keys(job(**fields))
    assert keys == (wait if reason == "keys" else None)
    if reason == "keys":
        assert wait is not None
        assert wait.names == ("GPT-5_KEY",)
        assert wait.text.endswith("run counsel in the shell where GPT-5_KEY is set")
    engine.running.add("job_1")
    assert await engine.recovery.missing(job(**fields)) is None
    assert await engine.recovery.has_owner(job(**fields))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["A"], "where A is set"),
        (["A", "B"], "where A and B are set"),
        ([], "in the shell it came from"),
        (["COUNSEL_LOCAL_API_KEY"], "run `counsel console`"),
        (["COUNSEL_LOCAL_API_KEY", "A"], "where COUNSEL_LOCAL_API_KEY and A are set"),
    ],
)
def test_how_a_person_can_provide_the_keys(names: list[str], words: str) -> None:
    assert words in recovery._needed_keys(names)


def test_an_error_says_what_a_job_waits_for() -> None:
    missing = Wait("keys", "a client with the same keys")
    error = recovery.waiting_error(job(), missing)
    assert error.message == "Job job_1 was interrupted and waits for a client with the same keys."
    assert error.fields["job_id"] == "job_1"
    assert recovery.waiting_error(job()).message.endswith("waits for the keys that it was asked with.")
    blocked = recovery.blocked_error(job(), missing)
    assert blocked.message.endswith("was interrupted and waits for a client with the same keys.")
    assert blocked.fields["waits_for"] == "job_1"
    assert recovery.blocked_error(job(), None).message.endswith("waits for its keys.")


@pytest.mark.parametrize("served", [True, False])
async def test_in_a_team_a_job_waits_for_its_turn_a_free_server_or_one_with_its_keys(
    tmp_path: Path, served: bool
) -> None:
    queue = QueueStub(served=served)
    engine = Engine(tmp_path, job(), team=SimpleNamespace(queue=queue))
    assert await engine.recovery.has_owner(job()) is served
    wait = await engine.recovery.missing(job(background=False))
    assert wait is not None
    assert wait.reason == ("slot" if served else "keys")
    assert queue.reads == 1, "an answer of a moment ago is used again"
    engine.store.ahead = [job("job_0")]
    wait = await engine.recovery.missing(job())
    assert wait is not None
    assert (wait.reason, wait.job_id) == (("turn", "job_0") if served else ("keys", None))
    lacking = await engine.recovery.missing(job(fingerprint="unknown"))
    assert lacking is not None
    assert (lacking.names is None) is served


async def test_whether_a_job_is_served_is_read_again_after_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_FRESH", 0.0)
    queue = QueueStub(served=False)
    engine = Engine(tmp_path, team=SimpleNamespace(queue=queue))
    assert not await engine.recovery.has_owner(job())
    queue.served = True
    assert await engine.recovery.has_owner(job())


async def test_in_a_team_jobs_of_dead_owners_are_queued_again_and_those_without_hope_end(
    tmp_path: Path,
) -> None:
    names = ("job_1", "job_c", "job_o", "job_e", "job_r", "job_n")
    queue = QueueStub(unattended=(*((name, "dead") for name in names), ("job_a", "alive")))
    jobs = (
        job(), job("job_c", cancel=True), job("job_o", created=OLD), job("job_e", status="completed", cancel=True),
        job("job_r", cancel=True), job("job_a", cancel=True),
    )  # fmt: skip
    engine = Engine(tmp_path, *jobs, team=SimpleNamespace(queue=queue))
    engine.running.add("job_r")
    await engine.recovery.look()
    assert queue.enqueued == [["job_1", "job_c", "job_o", "job_e", "job_n"]]
    assert {name: end.status for name, end in engine.store.ends.items()} == {
        "job_c": "cancelled", "job_o": "failed"
    }  # fmt: skip
    assert engine.started == [], "a worker takes it from the queue"


async def test_in_a_team_an_old_job_that_a_server_can_take_is_not_given_up(tmp_path: Path) -> None:
    queue = QueueStub(served=True, unattended=(("job_o", "dead"),))
    engine = Engine(tmp_path, job("job_o", created=OLD), team=SimpleNamespace(queue=queue))
    await engine.recovery.look()
    assert engine.store.ends == {}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()


@pytest.mark.parametrize("ends", ["it continues", "another process has it"])
async def test_a_call_that_is_interrupted_again_waits_for_its_client_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    clock = Clock()
    monkeypatch.setattr(recovery, "time", clock)
    engine = Engine(tmp_path, job(background=False))
    await engine.recovery.look()
    clock.now += recovery._CLIENT_SECONDS - 1
    await engine.recovery.look()
    assert engine.outcome() == "left"
    if ends == "it continues":
        await engine.recovery.look("job_1")
    else:
        clock.now += 1
        engine.store.can_adopt = False
        await engine.recovery.look()
        engine.store.can_adopt = True
    clock.now += 2
    await engine.recovery.look()
    assert engine.store.ends == {}, "its minute has begun again"
    clock.now += recovery._CLIENT_SECONDS
    await engine.recovery.look()
    assert engine.store.ends["job_1"].status == "cancelled"
