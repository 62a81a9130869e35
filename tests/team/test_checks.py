"""The storm's checks notice the faults that they are meant to find."""

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


def stale_events(execute: Any) -> list[str]:
    return [str(row[0]) for row in execute("SELECT what FROM public.stale ORDER BY at")]


def test_a_former_attempts_event_is_noticed(watched: Any) -> None:
    watched(EVENT % 1_000_005)
    watched("UPDATE counsel.jobs SET attempt = 3, owner = 'third'")
    assert stale_events(watched) == []
    watched(EVENT % 1_000_006)
    assert len(stale_events(watched)) == 1


def test_a_second_end_is_noticed(watched: Any) -> None:
    watched("UPDATE counsel.jobs SET status = 'completed', finished = 1, result = 'one'")
    assert stale_events(watched) == []
    watched("UPDATE counsel.jobs SET status = 'completed', finished = 2, result = 'two'")
    watched(EVENT % 1_000_007)
    assert len(stale_events(watched)) == 2


def test_a_row_that_is_deleted_while_its_job_is_open_is_noticed(watched: Any) -> None:
    watched(
        "INSERT INTO counsel_queue.procrastinate_jobs (queue_name, task_name) VALUES ('q', 'counsel.job')"
    )
    watched("UPDATE counsel.jobs SET ticket = (SELECT MAX(id) FROM counsel_queue.procrastinate_jobs)")
    watched("DELETE FROM counsel_queue.procrastinate_jobs")
    assert len(stale_events(watched)) == 1


def test_who_writes_an_event_or_an_end_is_known(watched: Any) -> None:
    watched("SET application_name = 'server-1'; UPDATE counsel.jobs SET title = 'of anybody'")
    assert watched("SELECT * FROM public.writers") == []
    watched("SET application_name = 'server-1'; " + EVENT % 1_000_005)
    watched("SET application_name = 'server-2'; UPDATE counsel.jobs SET status = 'completed', finished = 1")
    assert watched("SELECT * FROM public.writers ORDER BY program") == [
        ("second", "server-1"),
        ("second", "server-2"),
    ]


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
    submission = load.chat("question")
    for event in events:
        load.take(submission, event)
    assert len(submission.faults) == faults, submission.faults


class Team:
    """The records of the database, the vendor and the followers for a conversation of two turns."""

    def __init__(self) -> None:
        self.submissions = [load.chat(f"question {number}.") for number in (1, 2)]
        for number, submission in enumerate(self.submissions, 1):
            submission.id, submission.end = f"job{number}", "done"
            submission.seen = [(1, "started", ""), (2, "done", "")]
            submission.texts = {"": f"says question {number}."}
        self.rows: dict[str, list[tuple[Any, ...]]] = {
            "counsel.jobs": [self.job(1, 1000.0), self.job(2, 1002.0)],
            "counsel.calls": [("job1", "answer:gpt-5", 1000.0), ("job2", "answer:gpt-5", 1002.0)],
            "counsel.messages": [
                ("c", role, job) for job in ("job1", "job2") for role in ("user", "assistant")
            ],
            "counsel.events": [("job1", 1, "started", ""), ("job1", 2, "done", "")],
            "public.stale": [],
            "public.writers": [("12-34-machine", "server-1")],
        }
        earlier = "question 1. says question 1."
        self.requests = [self.request(999.0, 1), self.request(1001.0, 2, earlier)]

    def job(self, number: int, finished: float) -> tuple[Any, ...]:
        result = f'{{"content": "says question {number}."}}'
        return (f"job{number}", "completed", 1, finished, "c", number, result, None)

    def request(self, at: float, number: int, earlier: str = "") -> dict[str, Any]:
        text = f"question {number}."
        about = {"model": "gpt-5", "state": "finished", "at": at - checks.clock()}
        return {"text": text, "body": {"input": [earlier, text]}, **about}

    def problems(self) -> list[str]:
        def read(sql: str) -> list[tuple[Any, ...]]:
            return next(rows for table, rows in self.rows.items() if f"FROM {table}" in sql)

        return checks.examine(
            read, self.requests, self.submissions, {12: "server-1", 13: "server-2"}
        ).problems


def test_a_team_in_order_has_no_problems() -> None:
    assert Team().problems() == []


def test_a_request_after_its_reply_was_stored_is_noticed() -> None:
    team = Team()
    team.requests.append(team.request(1004.0, 1))
    assert len(team.problems()) == 3  # after its reply, after its end, and twice in one attempt


def test_a_call_that_one_attempt_makes_twice_is_noticed() -> None:
    team = Team()
    team.requests.append(team.request(999.1, 1))
    (problem,) = team.problems()
    assert "2 requests for answer:gpt-5 in 1 attempts" in problem


def test_a_turn_that_does_not_wait_for_the_one_before_is_noticed() -> None:
    team = Team()
    team.requests[1]["at"] -= 1.2
    assert team.problems() == ["job2 was sent before job1 had ended"]


def test_a_turn_without_the_answers_before_it_is_noticed() -> None:
    team = Team()
    team.requests[1] = team.request(1001.0, 2, "question 1.")
    assert team.problems() == ["job2 was sent without all of the turns before it"]


def test_a_turn_that_is_stored_twice_is_noticed() -> None:
    team = Team()
    team.rows["counsel.messages"].append(("c", "assistant", "job2"))
    assert len(team.problems()) == 1


def test_an_event_that_a_follower_missed_is_noticed() -> None:
    team = Team()
    del team.submissions[0].seen[0]
    assert team.problems() == ["follower of question 1.: missed [(1, 'started', '')]"]


def test_a_write_in_anothers_name_is_noticed() -> None:
    team = Team()
    team.rows["public.writers"].append(("12-34-machine", "server-2"))
    (problem,) = team.problems()
    assert "server-2 wrote for 12-34-machine, which is server-1" in problem


def test_a_storm_that_did_not_take_place_is_noticed() -> None:
    from team.storm import Plan, Storm

    plan = Plan(2, 1, 1, 1, 1, 2, kills=2, restarts=1, seconds=1, limit=1)
    weather = Storm(plan, *[None] * 4)  # type: ignore[arg-type] # it is only asked what has happened
    weather.done.update({"kill -9 of a serve": 1, "kill -9 of a worker": 1, "SIGSTOP for 20 s": 1})
    numbers = {"adopted": 3, "followers' reconnects": 0}
    missing = weather.missing(numbers)
    assert [text.partition(": ")[2] or text for text in missing] == [
        "database cut off",
        "restart of PostgreSQL",
        "no followers' reconnects",
    ]
