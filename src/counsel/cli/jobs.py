"""`counsel jobs` and `counsel cancel`: background work, seen from any window."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from counsel.cli import ask_options, connect, json_option, live_output, output
from counsel.cli.consensus import show, watch
from counsel.errors import CounselError
from counsel.job_events import Wait
from counsel.mcp import render
from counsel.requests import Engine
from counsel.results import JobList, JobStatus


@click.command()
@click.argument("job_id", required=False, metavar="[ID]")
@click.option(
    "--follow",
    is_flag=True,
    help="Show text as it arrives, until the job ends; in a pipe, the finished answer.",
)
@click.option("--history", is_flag=True, help="With ID: show the whole conversation.")
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
    """List the newest jobs, or show one job's partial text or result."""
    if follow and not job_id:
        raise click.UsageError("--follow needs the ID of a job.")
    if stream and (as_json or not follow):
        raise click.UsageError("--stream needs --follow and cannot be combined with --json.")
    caller = connect.caller()
    if job_id is None:
        connect.run(_newest(caller, limit, standalone=standalone, as_json=as_json))
    elif follow:
        mode = {"history": history, "stream": stream, "standalone": standalone}
        connect.run(_to_the_end(job_id, caller, **mode, as_json=as_json))
    else:
        connect.run(_so_far(job_id, caller, history=history, standalone=standalone, as_json=as_json))


async def _newest(caller: Any, limit: int, *, standalone: bool, as_json: bool) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        _list(await engine.recent(limit), as_json=as_json)


async def _so_far(job_id: str, caller: Any, *, history: bool, standalone: bool, as_json: bool) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        status = await engine.status(job_id, full_history=history)
    if as_json:
        output.document(status.to_json())
    else:
        _show(status)


async def _to_the_end(
    job_id: str, caller: Any, *, history: bool, stream: bool, standalone: bool, as_json: bool
) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        await _follow_or_leave(engine, job_id, stream=stream, as_json=as_json)
        if as_json:
            output.document((await engine.status(job_id, full_history=history)).to_json())


def _list(newest: JobList, *, as_json: bool) -> None:
    if as_json:
        output.document(newest.to_json())
        return
    rows = [
        [
            job.job_id,
            job.tool,
            f"{job.status}: {_waits(job.waiting_for)}" if job.waiting_for else job.status,
            f"{job.elapsed_seconds} s",
            ", ".join(job.models),
            job.title or "",
        ]
        for job in newest.jobs
    ]
    if rows:
        output.table(["job", "tool", "status", "time", "models", "title"], rows)
    else:
        output.message("No jobs yet. `counsel ask … --background` starts one.")


async def _follow_or_leave(engine: Engine, job_id: str, *, stream: bool, as_json: bool) -> None:
    try:
        await _follow(engine, job_id, stream=stream, as_json=as_json)
    except asyncio.CancelledError:  # Ctrl-C
        output.message(
            f"\nThe job continues: `counsel jobs {job_id}` shows it, `counsel cancel {job_id}` stops it."
        )
        raise


async def _follow(engine: Engine, job_id: str, *, stream: bool, as_json: bool) -> None:
    job = await engine.status(job_id)
    if as_json:
        await _until_done(engine, job.job_id)
    elif not job.is_open:
        _show(job)
    elif job.tool == "consensus":
        await watch(engine, job.job_id)
        show(await engine.wait(job.job_id))
    else:
        output.message(ask_options.footer(await ask_options.tell(engine, job.job_id, stream=stream)))


async def _until_done(engine: Engine, job_id: str) -> None:
    try:
        await engine.wait(job_id)
    except CounselError:  # the status that is printed next says it
        return


def _waits(wait: Wait) -> str:
    return f"waits for {wait.text}"


def _show(job: JobStatus) -> None:
    output.message(job.status_line)
    if job.waiting_for:
        output.message(_waits(job.waiting_for))
    states = job.models_status or ()
    for state in states:
        output.message(f"{state.model}: {state.status}")
    for message in job.history or ():
        output.answer(f"── {message.role}\n{message.content}\n\n")
    if job.result and job.history is None:
        output.answer(job.result.content + "\n")
    elif job.tool == "consensus" and not job.is_open and job.history is None:
        sections = (section for state in states for section in render.sections(state))
        output.answer("".join(f"{section}\n\n" for section in sections))
    elif partial := job.partial or (job.error.partial if job.error else None):
        output.answer(partial + "\n")
    if job.error and job.status == "failed":
        raise job.error


@click.command()
@click.argument("job_id", metavar="ID")
@connect.standalone_option
@json_option
def cancel(job_id: str, standalone: bool, as_json: bool) -> None:
    """Stop a job and its calls. ID is a job, or a conversation with one running job."""
    connect.run(_cancel(job_id, connect.caller(), standalone=standalone, as_json=as_json))


async def _cancel(job_id: str, caller: Any, *, standalone: bool, as_json: bool) -> None:
    async with connect.engine(caller, standalone=standalone) as engine:
        outcome = await engine.cancel(job_id)
    if as_json:
        output.document(outcome.to_json())
    else:
        output.message(outcome.message)
