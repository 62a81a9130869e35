"""An engine in memory for tests of the interfaces. Jobs end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counsel.caller import Caller
from counsel.errors import Cancelled, CounselError, NotFound
from counsel.job_event_json import event_from
from counsel.job_events import JobEvent
from counsel.requests import ChatRequest, ConsensusRequest, Request
from counsel.results import Accepted, Cancellation, JobList, JobState, JobStatus, Result, result_from_json
from counsel.types import Json


@dataclass
class Job:
    id: str
    request: Request
    caller: Caller
    background: bool
    key: str | None
    events: list[JobEvent] = field(default_factory=list)
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: Json | CounselError | None = None
    task: asyncio.Task[None] | None = None

    def add(self, kind: str, slot: str = "0", **data: Any) -> None:
        if kind == "text":
            reply = (event.data["text"] for event in self.events if (event.kind, event.slot) == (kind, slot))
            data["offset"] = sum(map(len, reply))
        self.events.append(event_from(len(self.events) + 1, 0.0, kind, slot, data))
        self.grown.set()

    def end(self, outcome: Json | CounselError) -> None:
        self.outcome = outcome
        self.ended.set()
        self.grown.set()

    @property
    def status(self) -> JobState:
        if self.outcome is None:
            return "processing"
        if isinstance(self.outcome, Cancelled):
            return "cancelled"
        return "failed" if isinstance(self.outcome, CounselError) else "completed"


class FakeEngine:
    """Prompts are instructions: `hang` never ends by itself, `echo …` answers, `fail` fails, `long N` is N words."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.started = asyncio.Event()
        self.closed = False

    async def not_ready(self, _: int) -> list[Any]:
        return []

    async def drain(self, seconds: float) -> None:
        pass

    async def metrics_text(self, *, people: bool = False) -> str:
        return f"counsel_jobs {len(self.jobs)}\n"

    async def submit(
        self, request: Request, caller: Caller, *, background: bool = False, key: str | None = None
    ) -> str:
        for job in self.jobs.values():
            if key is not None and job.key == key:
                return job.id
        job = Job(f"conv_{len(self.jobs) + 1}", request, caller, background, key)
        self.jobs[job.id] = job
        self._run(job)
        self.started.set()
        return job.id

    def _run(self, job: Job) -> None:
        word, _, rest = job.request.prompt.partition(" ")
        job.add("model_started", model="fake")
        if word == "hang":
            job.add("text", text=rest)
        elif word == "slowly":  # sends some text at once, ends when the file appears
            job.add("text", text="so far")
            job.task = asyncio.ensure_future(self._when(Path(rest), job, "slowly done"))
        elif word == "fail":
            job.end(NotFound("There is no such thing.", hint="Look elsewhere."))
        elif word == "crash":
            job.end({"content": 1 / 0})
        elif word == "long":
            job.end(self.result(job, " ".join(f"word{number}" for number in range(int(rest)))))
        else:
            job.end(self.result(job, job.request.prompt))

    async def _when(self, file: Path, job: Job, text: str) -> None:
        while not file.exists():
            await asyncio.sleep(0.01)
        job.end(self.result(job, text))

    def result(self, job: Job, text: str) -> Json:
        continuation = {"id": job.id, "provider": "fake", "model": "fake", "messageCount": 2}
        if isinstance(job.request, ConsensusRequest):
            answers = [
                {"model": model, "status": "success", "response": text} for model in job.request.models
            ]
            return {
                "status": "consensus_complete",
                "models_consulted": len(answers),
                "successful_initial_responses": len(answers),
                "failed_responses": 1,
                "refined_responses": 0,
                "phases": {
                    "initial": answers,
                    "refined": [],
                    "failed": [{"model": "broken", "error": "no", "code": "TIMEOUT"}],
                },
                "continuation": continuation,
                "settings": {},
            }
        return {
            "content": text,
            "continuation": continuation,
            "metadata": {
                "model": "fake",
                "provider": "fake",
                "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
                "response_time_ms": 5,
            },
        }

    def _job(self, any_id: str) -> Job:
        if any_id not in self.jobs:
            raise NotFound(f"No job {any_id}.", hint="check_status without an id lists the newest.")
        return self.jobs[any_id]

    async def wait(self, job_id: str) -> Result:
        job = self._job(job_id)
        await job.ended.wait()
        if isinstance(job.outcome, CounselError):
            raise job.outcome
        assert job.outcome is not None
        return result_from_json(job.outcome)

    async def follow(self, job_id: str, after: int = 0) -> AsyncGenerator[JobEvent]:
        job, last = self._job(job_id), after
        while True:
            for event in job.events[last:]:
                last = event.seq
                yield event
            if job.ended.is_set():
                return
            job.grown.clear()
            await job.grown.wait()

    async def accepted(self, job_id: str) -> Accepted:
        tool = "CHAT" if isinstance(self._job(job_id).request, ChatRequest) else "CONSENSUS"
        document = {
            "content": f"⏳ PROCESSING | {tool} | {job_id} | 0/1",
            "continuation": {"id": job_id, "status": "processing"},
            "async_execution": True,
        }
        return Accepted.from_json(document)

    async def detach(self, job_id: str) -> None:
        self._job(job_id).background = True

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        job = self._job(any_id)
        if job.outcome is not None:
            return self.cancellation(job, f"has already {job.status}")
        job.end(Cancelled("The job was cancelled."))
        return self.cancellation(job, "cancelled successfully")

    def cancellation(self, job: Job, words: str) -> Cancellation:
        return Cancellation(status=job.status, message=f"Job {job.id} {words}", job_id=job.id)

    def register_caller(self, caller: Caller) -> None:
        pass

    async def status(self, any_id: str, *, full_history: bool = False) -> JobStatus:
        job = self._job(any_id)
        content: Json = {
            "id": job.id,
            "job_id": job.id,
            "status": job.status,
            "tool": "chat",
            "elapsed_seconds": 0.1,
            "started_at": "2026-11-15T10:00:00.000Z",
            "progress": {"completed": int(job.outcome is not None), "total": 1, "percentage": 0},
        }
        if isinstance(job.outcome, CounselError):
            content["error"] = job.outcome.as_dict()
        if isinstance(job.outcome, dict):
            content["result"] = job.outcome
        if full_history:
            content["history"] = [{"role": "user", "content": job.request.prompt}] * 3
        return JobStatus.from_json({"content": content})

    async def recent(self, limit: int = 10) -> JobList:
        newest = list(self.jobs.values())[::-1][:limit]
        rows = [{"id": job.id, "job_id": job.id, "status": job.status, "tool": "chat"} for job in newest]
        return JobList.from_json({"content": {"jobs": rows}})

    async def busy(self) -> bool:
        return any(job.outcome is None for job in self.jobs.values())

    def home_is_ours(self) -> bool:
        return True

    async def close(self, *, keep: bool = False) -> None:
        self.closed = True
