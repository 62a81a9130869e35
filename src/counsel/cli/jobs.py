"""`counsel jobs` and `counsel cancel`: show, follow and stop jobs from any window."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace

import click

from counsel import amounts
from counsel.caller import Caller
from counsel.cli import completers, connect, documents, ids, json_option, user
from counsel.cli.questions import ask_options, consensus_output
from counsel.cli.questions.consensus import show
from counsel.cli.questions.consensus_board import watch
from counsel.cli.terminal import live_output, output, times
from counsel.cli.terminal.stopped import Stopped
from counsel.errors import CounselError
from counsel.mcp import render
from counsel.requests import SEVERAL, Engine
from counsel.results import AnswerMetadata, Cancellation, ConsensusResult, JobList, JobStatus, JobSummary
from counsel.types import Usage

STATES = {
    "processing": "running",
    "completed": "done",
    "completed_with_errors": "partly done",
    "failed": "failed",
    "cancelled": "cancelled",
}
_DATE = re.compile(r"-20\d{6}$")  # as in `claude-sonnet-4-5-20250929`
_WIDE = 110  # columns that a terminal needs for all models of a consensus


@click.command()
@click.argument("job_id", required=False, metavar="[ID]", shell_complete=completers.jobs)
@click.option(
    "--follow",
    is_flag=True,
    help="Show text as it arrives, until the job ends; in a pipe, the finished answer. "
    "Without ID: a running job, else the newest.",
)
@click.option("--history", is_flag=True, help="Show the whole conversation.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of jobs to list.",
)
@live_output.stream_option
@connect.standalone_option
@json_option
def jobs(
    job_id: str | None,
    follow: bool,
    history: bool,
    limit: int,
    stream: bool,
    standalone: bool,
    as_json: bool,
) -> None:
    """List the newest jobs, or show one job: its progress, its partial text or its answer.

    ID is the beginning of the id of a job or of its conversation, or `last`: the newest job of this folder.
    """
    if stream and (as_json or not follow):
        raise click.UsageError("--stream needs --follow and cannot be combined with --json.")
    if history and not (job_id or follow):
        raise click.UsageError("--history needs the ID of a job.")
    caller = user.caller()
    if job_id is None and not follow:
        connect.run(_show_newest(caller, limit, standalone=standalone, as_json=as_json))
    elif follow:
        mode = {"history": history, "stream": stream, "standalone": standalone}
        connect.run(_show_until_end(job_id, caller, **mode, as_json=as_json))
    else:
        connect.run(
            _show_current(job_id or "", caller, history=history, standalone=standalone, as_json=as_json)
        )


async def _show_newest(caller: Caller, limit: int, *, standalone: bool, as_json: bool) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        _list(await engine.recent(limit), as_json=as_json)


async def _show_current(name: str, caller: Caller, *, history: bool, standalone: bool, as_json: bool) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        job_id = await ids.job(engine, name, caller)
        status = await engine.status(job_id, full_history=history)
    if as_json:
        output.document(documents.status(status))
    else:
        _show(status)


async def _show_until_end(
    name: str | None, caller: Caller, *, history: bool, stream: bool, standalone: bool, as_json: bool
) -> None:
    async with connect.engine(caller, standalone=standalone, resume_jobs=True) as engine:
        if name is None:
            job_id = await ids.newest_job(engine, caller)
        else:
            job_id = await ids.job(engine, name, caller)
        await _follow_until_interrupted(engine, job_id, stream=stream, as_json=as_json)
        if as_json:
            output.document(documents.status(await engine.status(job_id, full_history=history)))


# ── the list ─────────────────────────────────────────────────────────────────────────────────────────


def _list(newest: JobList, *, as_json: bool) -> None:
    if as_json:
        output.document(documents.jobs(newest))
        return
    width = output.width()
    if newest.jobs:
        output.table(
            ["job", "when", "status", "took", "model", "cost", "title"],
            [_row(job, width) for job in newest.jobs],
            shortened=("title", "model"),
        )
    else:
        output.message("No jobs yet. `counsel ask … --background` starts one.")


def _row(job: JobSummary, width: int | None) -> list[str]:
    """On a terminal with a short id, which every command accepts; in a pipe with the full id."""
    return [
        job.job_id if width is None else ids.short(job.job_id),
        times.ago(times.seconds(job.started_at)),
        _state(job),
        times.took(job.elapsed_seconds),
        _models(job, brief=(width or _WIDE) < _WIDE),
        _cost(job),
        job.title or "",
    ]


def _state(job: JobSummary) -> str:
    if job.waiting_for:
        return "waiting"
    count = f" {job.completed}/{job.total}" if job.is_open and job.total > 1 else ""
    return STATES.get(job.status, job.status) + count


def _models(job: JobSummary, *, brief: bool) -> str:
    """The model that answered; for a consensus, and before an answer, the models that are asked."""
    if job.model and brief:
        return _DATE.sub("", job.model.removeprefix(f"{job.provider}/"))
    if job.model:
        return amounts.model(job.provider or "", job.model)
    if brief and len(job.models) > 1:
        return f"{job.models[0]} +{len(job.models) - 1}"
    return ", ".join(job.models)


def _with_outcome(job: JobStatus) -> JobStatus:
    """Add model and cost: a list has them from the database, a single job has them in its result or error."""
    metadata = job.result.metadata if job.result else None
    if isinstance(metadata, AnswerMetadata):
        return replace(
            job,
            model=metadata.model,
            provider=metadata.provider,
            cost_usd=_cost_if_reported(metadata.usage, metadata.cost_usd),
        )
    if metadata:
        return replace(
            job,
            cost_usd=_cost_if_reported(metadata.usage, metadata.cost_usd),
            cost_complete=metadata.cost_complete,
        )
    return replace(job, cost_usd=job.error.cost_usd) if job.error else job


def _cost_if_reported(usage: Usage, cost: float | None) -> float | None:
    return cost if usage.total or cost else None


def _cost(job: JobSummary) -> str:
    if job.is_open or (job.cost_usd is None and job.status in {"failed", "cancelled"}):
        return ""
    return amounts.dollars(job.cost_usd, complete=job.cost_complete)


# ── one job ──────────────────────────────────────────────────────────────────────────────────────────


async def _follow_until_interrupted(engine: Engine, job_id: str, *, stream: bool, as_json: bool) -> None:
    try:
        await _follow(engine, job_id, stream=stream, as_json=as_json)
    except asyncio.CancelledError:  # Ctrl-C
        name = ids.short(job_id)
        output.message(
            f"\nThe job continues: `counsel jobs {name}` shows it, `counsel cancel {name}` stops it."
        )
        raise Stopped from None


async def _follow(engine: Engine, job_id: str, *, stream: bool, as_json: bool) -> None:
    job = await engine.status(job_id)
    if as_json:
        await _wait(engine, job.job_id)
        return
    if not job.is_open:
        _show(job)
        return
    output.message(f"job {job.job_id}: {job.title or _models(job, brief=True)}")
    if job.tool == "review":
        from counsel.cli.questions import review  # few jobs are reviews

        await review.watch(engine, job.job_id)
        review.show(await engine.wait(job.job_id))
    elif job.tool == "consensus":
        await watch(engine, job.job_id)
        show(await engine.wait(job.job_id))
    else:
        output.message(ask_options.footer(await ask_options.print_answer(engine, job.job_id, stream=stream)))


async def _wait(engine: Engine, job_id: str) -> None:
    try:
        await engine.wait(job_id)
    except CounselError:  # the status that is printed next contains the error
        return


def _show(job: JobStatus) -> None:
    job = _with_outcome(job)
    for name, value in _details(job):
        output.message(f"{name:<14}{value}")
    states = job.models_status or ()
    for message in job.history or ():
        output.turn(f"── {message.role}", message.content, rendered=message.role == "assistant")
    if isinstance(job.result, ConsensusResult) and job.history is None:
        consensus_output.show(job.result, plain=False)
    elif job.result and job.history is None:
        output.whole_answer(job.result.content, plain=job.tool == "review")
    elif job.tool in SEVERAL and not job.is_open and job.history is None:
        for section in (section for state in states for section in render.sections(state)):
            output.whole_answer(f"{section}\n")
    elif partial := job.partial or (job.error.partial if job.error else None):
        output.whole_answer(partial)
    if job.is_open:
        output.message(f"`counsel jobs {ids.short(job.job_id)} --follow` shows the rest as it arrives.")
    if job.error and job.status == "failed":
        raise job.error


def _details(job: JobStatus) -> Iterator[tuple[str, str]]:
    """The details of a job. They go to stderr: stdout gets only the answer."""
    started_at = times.seconds(job.started_at)
    yield "job", job.job_id
    yield "status", _progress(job)
    if job.waiting_for:
        yield "", f"waits for {job.waiting_for.text}"
    for state in job.models_status or ():
        yield "", f"{state.model}: {_MODEL_STATES.get(state.status, state.status)}"
    yield "model", _models(job, brief=False)
    if cost := _cost(job):
        yield "cost", cost + (" (+: at least; some prices are unknown)" if cost.endswith("+") else "")
    yield "started", f"{times.local(started_at)} ({times.ago(started_at)})"
    yield "conversation", job.id
    if job.title:
        yield "title", " ".join(job.title.split())


_MODEL_STATES = {"processing": "answering", "completed": "answered"}


def _progress(job: JobStatus) -> str:
    state, duration = STATES.get(job.status, job.status), times.took(job.elapsed_seconds)
    if not job.is_open:
        return f"{state} after {duration}"
    count = f", {job.completed} of {job.total} answered" if job.total > 1 else ""
    return f"{state} for {duration}{count}"


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("job_id", metavar="ID", shell_complete=completers.running_jobs)
@click.option(
    "--member", metavar="NAME", help="Stop only this model of a consensus: its name or number, or `judge`."
)
@connect.standalone_option
@json_option
def cancel(job_id: str, member: str | None, standalone: bool, as_json: bool) -> None:
    """Stop a job and its calls. ID is a job, or a conversation with one running job.

    The beginning of an id is enough; `last` is the running job of this folder.
    """
    connect.run(_cancel(job_id, member, user.caller(), standalone=standalone, as_json=as_json))


async def _cancel(name: str, member: str | None, caller: Caller, *, standalone: bool, as_json: bool) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        outcome = await engine.cancel(await ids.job(engine, name, caller, changes=True), member)
    message = _outcome(outcome, member or "")
    if as_json:
        output.document(documents.cancelled(outcome, message))
    else:
        output.message(message)


def _outcome(outcome: Cancellation, member: str) -> str:
    if outcome.member is not None:
        name = f"model {member}" if member.isdecimal() else member
        return f"Stopped {name} of {outcome.job_id}; the others continue."
    if outcome.cancelled_at:
        return f"Stopped {outcome.job_id}."
    if outcome.status == "processing":
        return f"Asked the process that runs {outcome.job_id} to stop it; no reply yet."
    return f"Nothing to stop: {outcome.job_id} is {STATES.get(outcome.status, outcome.status)}."
