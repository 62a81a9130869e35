"""Records for tests of the store."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from counsel.engine.store.model import Origin, Reply, Task
from counsel.engine.store.records import (
    Fence,
    JobCompleted,
    JobDetail,
    JobStopped,
    Message,
    NewJob,
    NewTurn,
    UsageRecord,
)
from counsel.errors import UpstreamError
from counsel.requests import Status
from counsel.results import AnswerNotice, ChatResult, QuestionDetails
from counsel.types import Usage

_numbers = count(1)
DAY = 86400.0


def new_job(
    conversation: str = "conversation", *, owner: str = "owner", tag: str | None = None, **fields: Any
) -> NewJob:
    number = next(_numbers)
    task = Task(tool="chat", prompt=f"question {number}", text=f"question {number}", models=("gpt-5",))
    job = NewJob(
        id=f"job-{number}",
        key=None,
        conversation=conversation,
        task=replace(task, tag=tag, project=fields.pop("project", "/project")),
        origin=Origin("client", "claude", "/project", ("/project",), ("codex",)),
        background=False,
        created=time.time(),
        owner=owner,
        attempt=1,
        fingerprint="fingerprint",
        expires=time.time() + 30 * DAY,
        keep_days=3,
        title=f"question {number}",
    )
    return replace(job, **fields)


def fence(job: NewJob, *, owner: str | None = None, attempt: int = 1) -> Fence:
    return Fence(job.id, owner or job.owner, attempt)


def turn(job: NewJob, text: str = "answer", **fields: Any) -> NewTurn:
    new_turn = NewTurn(
        conversation=job.conversation,
        messages=(
            Message(
                role="user",
                text=job.task.text,
                images=("sha",),
                details=QuestionDetails(files_sent={"/a{}": "sha"}),
                at=5.0,
                job=job.id,
            ),
            Message(role="assistant", text=text, job=job.id),
        ),
        provider="openai",
        model="gpt-5",
        expires=time.time() + 30 * DAY,
    )
    return replace(new_turn, **fields)


def completed(job: NewJob, text: str = "answer", **fields: Any) -> JobCompleted:
    def result(messages: int) -> ChatResult:
        document: dict[str, object] = {
            "content": text,
            "continuation": {"messageCount": messages},
            "job_id": job.id,
        }
        return ChatResult.from_json(document)

    record = JobCompleted(status="completed", result=result, turn=turn(job, text), completed=1)
    return replace(record, **fields)


def stopped(
    job: NewJob, status: Status = "failed", *, keep_replies: bool = False, **error: Any
) -> JobStopped:
    """`keep_replies`: what was remembered becomes a turn."""

    def partial(replies: Mapping[str, Reply]) -> NewTurn | None:
        return (
            turn(job, "+".join(reply.text for reply in replies.values()))
            if replies and keep_replies
            else None
        )

    return JobStopped(status=status, error=UpstreamError("It failed.", **error), turn=partial)


def answer(job: JobDetail | None) -> str:
    assert job is not None
    assert job.result is not None
    return job.result.content


def messages_then(job: JobDetail | None) -> int:
    """The number of messages in the conversation when the job ended."""
    assert job is not None
    assert job.result is not None
    return job.result.continuation.message_count or 0


def reply(text: str = "answer") -> Reply:
    return Reply(
        text=text,
        provider="openai",
        model="gpt-5",
        usage=Usage(input=3, output=4),
        notices=(AnswerNotice("x", ""),),
    )


def usage(job: str = "job", **fields: Any) -> UsageRecord:
    record = UsageRecord(
        time.time(), job, "chat", "openai", "gpt-5", "client", 1500, "", 10, 20, 5, 2, 1, 0.25
    )
    return replace(record, **fields)
