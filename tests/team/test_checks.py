"""The checks of the storm notice what they are there for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from team import checks, load

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

JOB = (
    "INSERT INTO counsel.jobs (id, tool, conversation, turn, status, background, created, owner, attempt, fingerprint, "
    "caller, task, models, images, total, keep_days) VALUES "
    "('job', 'chat', 'c', 1, 'processing', TRUE, 1, 'second', 2, '', '{}', '{}', '{}', '{}', 1, 3)"
)
EVENT = "INSERT INTO counsel.events (job, seq, at, kind, slot, data) VALUES ('job', %s, 1, 'text', '', '{}')"


@pytest.fixture
def watched(postgres_server: PostgresServer) -> Iterator[Any]:
    with postgres_server.migrated():
        postgres_server.execute(checks.WATCH, "counsel")
        try:
            postgres_server.execute(JOB, "counsel")
            yield lambda sql: postgres_server.execute(sql, "counsel")
        finally:
            postgres_server.execute(checks.UNWATCH, "counsel")


def stale(execute: Any) -> list[str]:
    return [str(row[0]) for row in execute("SELECT what FROM public.stale ORDER BY at")]


def test_a_former_attempts_event_is_noticed(watched: Any) -> None:
    watched(EVENT % 1_000_005)
    watched("UPDATE counsel.jobs SET attempt = 3, owner = 'third'")
    assert stale(watched) == []
    watched(EVENT % 1_000_006)
    assert len(stale(watched)) == 1


def test_a_second_end_is_noticed(watched: Any) -> None:
    watched("UPDATE counsel.jobs SET status = 'completed', finished = 1, result = 'one'")
    assert stale(watched) == []
    watched("UPDATE counsel.jobs SET status = 'completed', finished = 2, result = 'two'")
    watched(EVENT % 1_000_007)
    assert len(stale(watched)) == 2


def event(seq: int, kind: str = "notice", **data: Any) -> dict[str, Any]:
    return {"seq": seq, "kind": kind, "slot": "", "data": data}


@pytest.mark.parametrize(
    ("events", "faults"),
    [
        ([event(1), event(2), event(3, "done")], 0),
        ([event(1), event(1)], 2),  # twice, and not in order
        ([event(2), event(1)], 1),
        ([event(1, "text", text="ab", offset=0), event(2, "text", text="c", offset=2)], 0),
        ([event(1, "text", text="ab", offset=0), event(2, "text", text="c", offset=3)], 1),
        ([event(1, "text", text="ab", offset=0), event(1, "text", text="ab", offset=0)], 1),
    ],
)
def test_a_follower_notices_what_is_missing_or_comes_twice(events: list[dict[str, Any]], faults: int) -> None:
    asked = load.chat("question")
    for each in events:
        load.take(asked, each)
    assert len(asked.faults) == faults, asked.faults


def test_a_request_after_its_reply_was_stored_is_noticed() -> None:
    asked = load.chat("question 1.")
    asked.id, asked.end = "job", "done"
    asked.seen = [(1, "done", "")]
    asked.texts = {"": "hi"}
    rows: dict[str, list[tuple[Any, ...]]] = {
        "counsel.jobs": [("job", "completed", 1, 1000.0, "c", 1, '{"content": "hi"}', None)],
        "counsel.calls": [("job", "answer:gpt-5", 1000.0)],
        "counsel.messages": [("c", "user", "job"), ("c", "assistant", "job")],
        "public.stale": [],
    }

    def read(sql: str) -> list[tuple[Any, ...]]:
        return next(found for table, found in rows.items() if f"FROM {table}" in sql)

    def request(at: float) -> dict[str, Any]:
        return {
            "text": "question 1.",
            "model": "gpt-5",
            "body": {},
            "state": "finished",
            "at": at - checks.clock(),
        }

    assert checks.examine(read, [request(999.0)], [asked]).problems == []
    late = checks.examine(read, [request(999.0), request(1004.0)], [asked]).problems
    assert len(late) == 2, late  # after its reply, and after its end
