"""What must be true when the storm is over, by the database, the vendor's log and the followers."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from team.load import Asked

EVENTS_PER_ATTEMPT = 1_000_000  # each attempt numbers its events from a multiple of it
MARGIN = 2.0  # seconds between looking for a reply and sending the request, on a busy machine
SKEW = 0.05  # seconds between the vendor's clock and ours, which are of one machine
ENDS = {"done", "failed", "cancelled"}
# Written down by the database itself: an event of an attempt that no longer owned the job, a job that ends a second time,
# a job that is opened again, an attempt that goes back, a row of the queue that is deleted while its job is open. And who
# wrote each event and each end, in whose name: each process of a fleet has its name as `application_name`.
WATCH = f"""
    CREATE TABLE IF NOT EXISTS public.stale (at timestamptz DEFAULT clock_timestamp(), what text);
    CREATE TABLE IF NOT EXISTS public.writers (owner text, program text, PRIMARY KEY (owner, program));
    TRUNCATE public.stale, public.writers;
    CREATE OR REPLACE FUNCTION public.note_writer(owner text) RETURNS void LANGUAGE sql AS $$
        INSERT INTO public.writers SELECT owner, current_setting('application_name')
        WHERE NOT EXISTS (SELECT 1 FROM public.writers w WHERE w.owner = note_writer.owner
            AND w.program = current_setting('application_name')) ON CONFLICT DO NOTHING;
    $$;
    CREATE OR REPLACE FUNCTION public.watch_event() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE job record;
    BEGIN
        SELECT attempt, status, owner INTO job FROM counsel.jobs WHERE id = NEW.job;
        PERFORM public.note_writer(job.owner);
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
        IF OLD.status = 'processing' AND NEW.status != 'processing' THEN
            PERFORM public.note_writer(NEW.owner);
        END IF;
        RETURN NEW;
    END $$;
    CREATE OR REPLACE FUNCTION public.watch_row() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.stale (what) SELECT format('row %s of %s is deleted', OLD.id, id) FROM counsel.jobs
            WHERE ticket = OLD.id AND status = 'processing';
        RETURN OLD;
    END $$;
    CREATE OR REPLACE TRIGGER watch AFTER INSERT OR UPDATE ON counsel.events FOR EACH ROW EXECUTE FUNCTION public.watch_event();
    CREATE OR REPLACE TRIGGER watch AFTER UPDATE ON counsel.jobs FOR EACH ROW EXECUTE FUNCTION public.watch_job();
    DO $$ BEGIN
        IF to_regclass('counsel_queue.procrastinate_jobs') IS NOT NULL THEN -- an earlier release may have no queue
            CREATE OR REPLACE TRIGGER watch AFTER DELETE ON counsel_queue.procrastinate_jobs
                FOR EACH ROW EXECUTE FUNCTION public.watch_row();
        END IF;
    END $$;
"""
UNWATCH = """
    DROP TRIGGER IF EXISTS watch ON counsel.events; DROP TRIGGER IF EXISTS watch ON counsel.jobs;
    DROP TRIGGER IF EXISTS watch ON counsel_queue.procrastinate_jobs;
    DROP FUNCTION IF EXISTS public.watch_event; DROP FUNCTION IF EXISTS public.watch_job;
    DROP FUNCTION IF EXISTS public.watch_row; DROP FUNCTION IF EXISTS public.note_writer;
    DROP TABLE IF EXISTS public.stale; DROP TABLE IF EXISTS public.writers;
"""
Rows = list[tuple[Any, ...]]


@dataclass
class Outcome:
    problems: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)


def examine(
    read: Callable[[str], Rows],
    requests: Sequence[dict[str, Any]],
    asked: Sequence[Asked],
    programs: Mapping[int, str],
) -> Outcome:
    """`programs`: which process of the fleet had which number."""
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
    _writers(outcome, read, programs)
    _calls(outcome, read, requests, jobs, asked)
    _followers(outcome, read, jobs, asked)
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
    turns: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for conversation, role, job in read(
        "SELECT conversation, role, job FROM counsel.messages ORDER BY conversation, n"
    ):
        turns[conversation].append((job, role))
    expected: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for each in asked:
        if each.id in jobs:
            expected[jobs[each.id][3]] += [(each.id, "user"), (each.id, "assistant")]
    for conversation, ids in expected.items():
        if turns[conversation] != ids:
            outcome.problems.append(f"{conversation}: turns {turns[conversation]} instead of {ids}")


def _writers(outcome: Outcome, read: Callable[[str], Rows], programs: Mapping[int, str]) -> None:
    """Only a job's owner wrote its events and its end."""
    for owner, program in read("SELECT owner, program FROM public.writers"):
        number = owner.partition("-")[0]
        known = programs.get(int(number)) if number else None
        if known != program:
            outcome.problems.append(f"a stale write: {program} wrote for {owner}, which is {known}")


def _calls(
    outcome: Outcome,
    read: Callable[[str], Rows],
    requests: Sequence[dict[str, Any]],
    jobs: dict[str, Any],
    asked: Sequence[Asked],
) -> None:
    """No request begins after the reply to the same call was stored, nor after its job has ended; an attempt of a job
    makes each call once; turns one by one.
    """
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
        if len(sent) > jobs[job][1]:
            outcome.problems.append(f"{job}: {len(sent)} requests for {key} in {jobs[job][1]} attempts")
        for until, what in ((stored.get((job, key)), f"its reply {key}"), (jobs[job][2], "its end")):
            late = [request for request in sent if until and request["at"] + offset > until + MARGIN]
            if late:
                outcome.problems.append(f"{job}: {len(late)} requests after {what} was stored")
    outcome.numbers["replies that were lost with their process and asked again"] = repeated
    outcome.numbers["requests that were cut off"] = sum(r["state"] != "finished" for r in requests)
    _order(outcome, by_call, jobs, asked, offset)


def _order(
    outcome: Outcome,
    by_call: dict[tuple[str, str], list[dict[str, Any]]],
    jobs: dict[str, Any],
    asked: Sequence[Asked],
    offset: float,
) -> None:
    """A turn is sent when the one before has ended, with the questions and answers of all before it."""
    prompts = {each.id: each.prompt for each in asked}
    sent: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (job, _), requests in by_call.items():
        sent[job] += requests
    conversations: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for job, row in jobs.items():
        conversations[row[3]].append((row[4], job))
    for turns in conversations.values():
        ordered = [job for _, job in sorted(turns)]
        for earlier, later in itertools.pairwise(ordered):
            starts = [request["at"] + offset for request in sent[later]]
            if starts and jobs[earlier][2] and min(starts) < jobs[earlier][2] - SKEW:
                outcome.problems.append(f"{later} was sent before {earlier} had ended")
        for number, job in enumerate(ordered):
            before = [prompts[each] for each in ordered[:number] if each in prompts]
            for request in sent[job]:
                text = json.dumps(request["body"])
                if [text.count(prompt) for prompt in before] != [2] * len(before):  # asked, and answered
                    outcome.problems.append(f"{job} was sent without all of the turns before it")


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


def _followers(
    outcome: Outcome, read: Callable[[str], Rows], jobs: dict[str, Any], asked: Sequence[Asked]
) -> None:
    """Each saw every stored event once, its job's end once, and the whole text."""
    stored: dict[str, set[tuple[int, str, str]]] = defaultdict(set)
    for job, *event in read(
        "SELECT job, seq, kind, slot FROM counsel.events WHERE kind NOT IN ('text', 'thinking')"
    ):
        stored[job] |= {tuple(event)} if event[1] not in ENDS else set()
    for each in asked:
        outcome.problems += [f"follower of {each.prompt}: {fault}" for fault in each.faults]
        if missed := stored[each.id] - set(each.seen):
            outcome.problems.append(f"follower of {each.prompt}: missed {sorted(missed)}")
        if sum(kind in ENDS for _, kind, _ in each.seen) != 1:
            outcome.problems.append(f"follower of {each.prompt}: it ends {each.end!r}, not once")
        result = json.loads(jobs[each.id][5]) if each.id in jobs and jobs[each.id][5] else {}
        if "content" in result and list(each.texts.values()) != [result["content"]]:
            outcome.problems.append(
                f"follower of {each.prompt}: {each.texts} instead of {result['content']!r}"
            )
