"""What must be true when the storm is over, by the database, the vendor's log and the followers."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from team.load import Asked

EVENTS_PER_ATTEMPT = 1_000_000  # each attempt numbers its events from a multiple of it
MARGIN = 2.0  # seconds between looking for a reply and sending the request, on a busy machine
# Written down by the database itself: an event of an attempt that no longer owned the job, a job that ends a second time,
# a job that is opened again, an attempt that goes back.
WATCH = f"""
    CREATE TABLE IF NOT EXISTS public.stale (at timestamptz DEFAULT clock_timestamp(), what text);
    TRUNCATE public.stale;
    CREATE OR REPLACE FUNCTION public.watch_event() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE job record;
    BEGIN
        SELECT attempt, status INTO job FROM counsel.jobs WHERE id = NEW.job;
        IF NEW.seq / {EVENTS_PER_ATTEMPT} + 1 < job.attempt OR job.status != 'processing' THEN
            INSERT INTO public.stale (what) VALUES (format('event %s of %s: attempt %s, %s', NEW.seq, NEW.job, job.attempt, job.status));
        END IF;
        RETURN NEW;
    END $$;
    CREATE OR REPLACE FUNCTION public.watch_job() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.attempt < OLD.attempt OR (OLD.status != 'processing' AND (NEW.status, NEW.owner, NEW.attempt, NEW.finished, NEW.result)
                IS DISTINCT FROM (OLD.status, OLD.owner, OLD.attempt, OLD.finished, OLD.result)) THEN
            INSERT INTO public.stale (what) VALUES (format('job %s: %s/%s/%s to %s/%s/%s', NEW.id,
                OLD.status, OLD.owner, OLD.attempt, NEW.status, NEW.owner, NEW.attempt));
        END IF;
        RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER watch AFTER INSERT OR UPDATE ON counsel.events FOR EACH ROW EXECUTE FUNCTION public.watch_event();
    CREATE OR REPLACE TRIGGER watch AFTER UPDATE ON counsel.jobs FOR EACH ROW EXECUTE FUNCTION public.watch_job();
"""
UNWATCH = """
    DROP TRIGGER IF EXISTS watch ON counsel.events; DROP TRIGGER IF EXISTS watch ON counsel.jobs;
    DROP FUNCTION IF EXISTS public.watch_event; DROP FUNCTION IF EXISTS public.watch_job; DROP TABLE IF EXISTS public.stale;
"""
Rows = list[tuple[Any, ...]]


@dataclass
class Outcome:
    problems: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)


def examine(
    read: Callable[[str], Rows], requests: Sequence[dict[str, Any]], asked: Sequence[Asked]
) -> Outcome:
    outcome = Outcome()
    jobs = {
        row[0]: row[1:]
        for row in read(
            "SELECT id, status, attempt, finished, conversation, turn, result, error FROM counsel.jobs"
        )
    }
    _ends(outcome, jobs, asked)
    _messages(outcome, read, jobs, asked)
    outcome.problems += [f"a stale write: {row[0]}" for row in read("SELECT what FROM public.stale")]
    _calls(outcome, read, requests, jobs, asked)
    _followers(outcome, jobs, asked)
    outcome.numbers |= {
        "jobs": len(asked),
        "adopted": sum(row[1] > 1 for row in jobs.values()),
        "attempts": sum(row[1] for row in jobs.values()),
        "requests": len(requests),
        "submissions sent again": sum(each.sent - 1 for each in asked),
        "followers' reconnects": sum(each.connections - 1 for each in asked),
    }
    return outcome


def clock() -> float:
    """What turns the vendor's monotonic times, which all processes share, into the database's."""
    return time.time() - time.monotonic()


def _ends(outcome: Outcome, jobs: dict[str, Any], asked: Sequence[Asked]) -> None:
    ids = [each.id for each in asked]
    if len(set(ids)) != len(ids):
        outcome.problems.append("two questions became one job")
    if extra := jobs.keys() - set(ids):
        outcome.problems.append(f"jobs that nobody knows: {sorted(extra)[:3]} of {len(extra)}")
    for each in asked:
        status = jobs[each.id][0] if each.id in jobs else "missing"
        if status != "completed":
            outcome.problems.append(f"{each.prompt}: {status} {jobs.get(each.id, [''] * 7)[6]}")


def _messages(
    outcome: Outcome, read: Callable[[str], Rows], jobs: dict[str, Any], asked: Sequence[Asked]
) -> None:
    """Each job's turn is in its conversation once, and turns are in the order in which they were asked."""
    turns: dict[str, list[str]] = defaultdict(list)
    for conversation, role, job in read(
        "SELECT conversation, role, job FROM counsel.messages ORDER BY conversation, n"
    ):
        turns[conversation] += [job] if role == "user" else []
    expected: dict[str, list[str]] = defaultdict(list)
    for each in asked:
        if each.id in jobs:
            expected[jobs[each.id][3]].append(each.id)
    for conversation, ids in expected.items():
        if turns[conversation] != ids:
            outcome.problems.append(f"{conversation}: turns {turns[conversation]} instead of {ids}")


def _calls(
    outcome: Outcome,
    read: Callable[[str], Rows],
    requests: Sequence[dict[str, Any]],
    jobs: dict[str, Any],
    asked: Sequence[Asked],
) -> None:
    """No request begins after the reply to the same call was stored, nor after its job has ended; turns one by one."""
    offset = clock()
    stored: dict[tuple[str, str], float] = {}
    committed = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8"
    for job, key, at in read(f"SELECT job, key, {committed} FROM counsel.calls"):
        stored[job, key] = at
    by_call: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request in requests:
        by_call[_call(request, asked)].append(request)
    repeated = 0
    for (job, key), sent in by_call.items():
        if job not in jobs:
            outcome.problems.append(f"a request of no job: {key}")
            continue
        finished = sum(request["state"] == "finished" for request in sent)
        repeated += finished - 1 if finished > 1 else 0
        for until, what in ((stored.get((job, key)), f"its reply {key}"), (jobs[job][2], "its end")):
            late = [request for request in sent if until and request["at"] + offset > until + MARGIN]
            if late:
                outcome.problems.append(f"{job}: {len(late)} requests after {what} was stored")
    outcome.numbers["replies that were lost with their process and asked again"] = repeated
    outcome.numbers["requests that were cut off"] = sum(r["state"] != "finished" for r in requests)
    _order(outcome, by_call, jobs, offset)


def _order(
    outcome: Outcome,
    by_call: dict[tuple[str, str], list[dict[str, Any]]],
    jobs: dict[str, Any],
    offset: float,
) -> None:
    conversations: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for job, row in jobs.items():
        conversations[row[3]].append((row[4], job))
    for turns in conversations.values():
        ordered = [job for _, job in sorted(turns)]
        for earlier, later in itertools.pairwise(ordered):
            starts = [
                request["at"] + offset
                for call, sent in by_call.items()
                if call[0] == later
                for request in sent
            ]
            if starts and jobs[earlier][2] and min(starts) < jobs[earlier][2] - MARGIN:
                outcome.problems.append(f"{later} was sent before {earlier} had ended")


_SLOTS = {"gpt-5": "0", "claude": "1", "deepseek": "2"}


def _call(request: dict[str, Any], asked: Sequence[Asked]) -> tuple[str, str]:
    """The job and the key of the call that a request belongs to: prompts are unique, and the last text has one."""
    job = next((each for each in asked if each.prompt in request["text"]), None)
    if job is None:
        return "", str(request["text"])[:80]
    if "models" not in job.body:
        return job.id, f"answer:{request['model']}"
    slot = next((slot for name, slot in _SLOTS.items() if name in request["model"]), "?")
    phase = "refined" if "says:" in json.dumps(request["body"]) else "initial"
    return job.id, f"{phase}:{slot}"


def _followers(outcome: Outcome, jobs: dict[str, Any], asked: Sequence[Asked]) -> None:
    for each in asked:
        outcome.problems += [f"follower of {each.prompt}: {fault}" for fault in each.faults]
        if sum(kind in {"done", "failed", "cancelled"} for _, kind, _ in each.seen) != 1:
            outcome.problems.append(f"follower of {each.prompt}: it ends {each.end!r}, not once")
        result = json.loads(jobs[each.id][5]) if each.id in jobs and jobs[each.id][5] else {}
        if "content" in result and list(each.texts.values()) != [result["content"]]:
            outcome.problems.append(
                f"follower of {each.prompt}: {each.texts} instead of {result['content']!r}"
            )
