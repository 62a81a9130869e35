"""What must be true after the storm, according to the database, the vendor's log and the followers."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from team.load import Submission

EVENTS_PER_ATTEMPT = 1_000_000  # each attempt numbers its events from a multiple of it
MARGIN = 2.0  # seconds between looking for a reply and sending the request, on a busy machine
SKEW = 0.05  # seconds between the vendor's clock and ours, which are of one machine
ENDS = {"done", "failed", "cancelled"}
# The database itself records: an event of an attempt that no longer owned the job, a job that ends twice or is
# reopened, an attempt number that decreases, a queue row that is deleted while its job is open. It also records which
# process wrote each event and end in whose name, as the processes of a fleet have names (`application_name`).
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
    query: Callable[[str], Rows],
    requests: Sequence[dict[str, Any]],
    submissions: Sequence[Submission],
    programs: Mapping[int, str],
) -> Outcome:
    """`programs`: the names of the fleet's processes by process id."""
    outcome = Outcome()
    jobs = {
        row[0]: row[1:]
        for row in query(
            "SELECT id, status, attempt, finished, conversation, turn, result, error FROM counsel.jobs"
        )
    }
    _ends(outcome, jobs, submissions)
    _messages(outcome, query, jobs, submissions)
    outcome.problems += [f"a stale write: {row[0]}" for row in query("SELECT what FROM public.stale")]
    _writers(outcome, query, programs)
    _calls(outcome, query, requests, jobs, submissions)
    _followers(outcome, query, jobs, submissions)
    outcome.numbers |= {
        "jobs": len(submissions),
        "adopted": sum(row[1] > 1 for row in jobs.values()),
        "attempts": sum(row[1] for row in jobs.values()),
        "requests": len(requests),
        "submissions sent again": sum(submission.sent - 1 for submission in submissions),
        "followers' reconnects": sum(submission.connections - 1 for submission in submissions),
    }
    return outcome


def clock() -> float:
    """The offset from the vendor's monotonic times, which all processes share, to the database's times."""
    return time.time() - time.monotonic()


def _ends(outcome: Outcome, jobs: dict[str, Any], submissions: Sequence[Submission]) -> None:
    ids = [submission.id for submission in submissions]
    if len(set(ids)) != len(ids):
        outcome.problems.append("two questions became one job")
    if extra := jobs.keys() - set(ids):
        outcome.problems.append(f"jobs that nobody knows: {sorted(extra)[:3]} of {len(extra)}")
    for submission in submissions:
        status = jobs[submission.id][0] if submission.id in jobs else "missing"
        if status != "completed":
            outcome.problems.append(f"{submission.prompt}: {status} {jobs.get(submission.id, [''] * 7)[6]}")


def _messages(
    outcome: Outcome, query: Callable[[str], Rows], jobs: dict[str, Any], submissions: Sequence[Submission]
) -> None:
    """Each job's turn is in its conversation exactly once, and turns are in the order of their questions."""
    turns: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for conversation, role, job in query(
        "SELECT conversation, role, job FROM counsel.messages ORDER BY conversation, n"
    ):
        turns[conversation].append((job, role))
    expected: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for submission in submissions:
        if submission.id in jobs:
            expected[jobs[submission.id][3]] += [(submission.id, "user"), (submission.id, "assistant")]
    for conversation, ids in expected.items():
        if turns[conversation] != ids:
            outcome.problems.append(f"{conversation}: turns {turns[conversation]} instead of {ids}")


def _writers(outcome: Outcome, query: Callable[[str], Rows], programs: Mapping[int, str]) -> None:
    """Only a job's owner wrote its events and its end."""
    for owner, program in query("SELECT owner, program FROM public.writers"):
        number = owner.partition("-")[0]
        owner_program = programs.get(int(number)) if number else None
        if owner_program != program:
            outcome.problems.append(f"a stale write: {program} wrote for {owner}, which is {owner_program}")


def _calls(
    outcome: Outcome,
    query: Callable[[str], Rows],
    requests: Sequence[dict[str, Any]],
    jobs: dict[str, Any],
    submissions: Sequence[Submission],
) -> None:
    """No request begins after the reply to the same call was stored or its job ended; each attempt of a job makes each
    call once; turns run one after another.
    """
    offset = clock()
    stored_at: dict[tuple[str, str], float] = {}
    commit_time = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8"
    for job, key, at in query(f"SELECT job, key, {commit_time} FROM counsel.calls"):
        stored_at[job, key] = at
    by_call: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request in requests:
        by_call[_call(request, submissions)].append(request)
    repeat_count = 0
    for (job, key), call_requests in by_call.items():
        if job not in jobs:
            outcome.problems.append(f"a request of no job: {key}")
            continue
        finished_count = sum(request["state"] == "finished" for request in call_requests)
        repeat_count += finished_count - 1 if finished_count > 1 else 0
        if len(call_requests) > jobs[job][1]:
            outcome.problems.append(
                f"{job}: {len(call_requests)} requests for {key} in {jobs[job][1]} attempts"
            )
        for until, description in (
            (stored_at.get((job, key)), f"its reply {key}"),
            (jobs[job][2], "its end"),
        ):
            late = [request for request in call_requests if until and request["at"] + offset > until + MARGIN]
            if late:
                outcome.problems.append(f"{job}: {len(late)} requests after {description} was stored")
    outcome.numbers["replies that were lost with their process and asked again"] = repeat_count
    outcome.numbers["requests that were cut off"] = sum(r["state"] != "finished" for r in requests)
    _order(outcome, by_call, jobs, submissions, offset)


def _order(
    outcome: Outcome,
    by_call: dict[tuple[str, str], list[dict[str, Any]]],
    jobs: dict[str, Any],
    submissions: Sequence[Submission],
    offset: float,
) -> None:
    """A turn is sent after the previous one ended, with the questions and answers of all earlier turns."""
    prompts = {submission.id: submission.prompt for submission in submissions}
    call_requests: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (job, _), requests in by_call.items():
        call_requests[job] += requests
    conversations: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for job, row in jobs.items():
        conversations[row[3]].append((row[4], job))
    for turns in conversations.values():
        job_order = [job for _, job in sorted(turns)]
        for earlier, later in itertools.pairwise(job_order):
            starts = [request["at"] + offset for request in call_requests[later]]
            if starts and jobs[earlier][2] and min(starts) < jobs[earlier][2] - SKEW:
                outcome.problems.append(f"{later} was sent before {earlier} had ended")
        for number, job in enumerate(job_order):
            before = [prompts[job] for job in job_order[:number] if job in prompts]
            for request in call_requests[job]:
                text = json.dumps(request["body"])
                if [text.count(prompt) for prompt in before] != [2] * len(before):  # asked, and answered
                    outcome.problems.append(f"{job} was sent without all of the turns before it")


_SLOTS = {"gpt-5": "0", "claude": "1", "deepseek": "2"}


def _call(request: dict[str, Any], submissions: Sequence[Submission]) -> tuple[str, str]:
    """The job and the call's key of a request: prompts are unique, and the request's text contains one."""
    job = next((submission for submission in submissions if submission.prompt in request["text"]), None)
    if job is None:
        return "", str(request["text"])[:80]
    if "models" not in job.body:
        return job.id, f"answer:{request['model']}"
    slot = next((slot for name, slot in _SLOTS.items() if name in request["model"]), "?")
    phase = "refined" if "says:" in json.dumps(request["body"]) else "initial"
    return job.id, f"{phase}:{slot}"


def _followers(
    outcome: Outcome, query: Callable[[str], Rows], jobs: dict[str, Any], submissions: Sequence[Submission]
) -> None:
    """Each follower saw every stored event once, its job's end once, and the complete text."""
    stored_events: dict[str, set[tuple[int, str, str]]] = defaultdict(set)
    for job, *event in query(
        "SELECT job, seq, kind, slot FROM counsel.events WHERE kind NOT IN ('text', 'thinking')"
    ):
        stored_events[job] |= {tuple(event)} if event[1] not in ENDS else set()
    for submission in submissions:
        outcome.problems += [f"follower of {submission.prompt}: {fault}" for fault in submission.faults]
        if missing := stored_events[submission.id] - set(submission.seen):
            outcome.problems.append(f"follower of {submission.prompt}: missed {sorted(missing)}")
        if sum(kind in ENDS for _, kind, _ in submission.seen) != 1:
            outcome.problems.append(f"follower of {submission.prompt}: it ends {submission.end!r}, not once")
        result = (
            json.loads(jobs[submission.id][5]) if submission.id in jobs and jobs[submission.id][5] else {}
        )
        if "content" in result and list(submission.texts.values()) != [result["content"]]:
            outcome.problems.append(
                f"follower of {submission.prompt}: {submission.texts} instead of {result['content']!r}"
            )
