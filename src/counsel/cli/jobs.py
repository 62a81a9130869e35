"""`counsel jobs` and `counsel cancel`: background work, seen from any window."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from counsel.cli import ask_options, connect, json_option, live_output, output
from counsel.cli.consensus import show, watch
from counsel.errors import CounselError, from_dict
from counsel.mcp import render
from counsel.requests import Engine
from counsel.types import Json


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
    who = connect.caller()
    if job_id is None:
        connect.run(_newest(who, limit, standalone=standalone, as_json=as_json))
    elif follow:
        ways = {"history": history, "stream": stream, "standalone": standalone}
        connect.run(_to_the_end(job_id, who, **ways, as_json=as_json))
    else:
        connect.run(_so_far(job_id, who, history=history, standalone=standalone, as_json=as_json))


async def _newest(who: Any, limit: int, *, standalone: bool, as_json: bool) -> None:
    async with connect.engine(who, standalone=standalone) as engine:
        _list(await engine.recent(limit), as_json=as_json)


async def _so_far(job_id: str, who: Any, *, history: bool, standalone: bool, as_json: bool) -> None:
    async with connect.engine(who, standalone=standalone) as engine:
        found = await engine.status(job_id, full_history=history)
    if as_json:
        output.document(found)
    else:
        _show(found["content"])


async def _to_the_end(
    job_id: str, who: Any, *, history: bool, stream: bool, standalone: bool, as_json: bool
) -> None:
    async with connect.engine(who, standalone=standalone) as engine:
        await _follow_or_leave(engine, job_id, stream=stream, as_json=as_json)
        if as_json:
            output.document(await engine.status(job_id, full_history=history))


def _list(found: Json, *, as_json: bool) -> None:
    if as_json:
        output.document(found)
        return
    rows = [
        [
            job["job_id"],
            job["tool"],
            job["status"] + (f": {waits}" if (waits := render.waiting(job)) else ""),
            f"{job['elapsed_seconds']} s",
            ", ".join(job["models"]),
            job.get("title") or "",
        ]
        for job in found["content"]["jobs"]
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
    now = (await engine.status(job_id))["content"]
    if as_json:
        await _until_done(engine, now["job_id"])
    elif now["status"] != "processing":
        _show(now)
    elif now["tool"] == "consensus":
        await watch(engine, now["job_id"])
        show(await engine.wait(now["job_id"]))
    else:
        output.message(ask_options.footer(await ask_options.tell(engine, now["job_id"], stream=stream)))


async def _until_done(engine: Engine, job_id: str) -> None:
    try:
        await engine.wait(job_id)
    except CounselError:  # the status that is printed next says it
        return


def _show(job: Json) -> None:
    output.message(job["status_line"])
    if waits := render.waiting(job):
        output.message(waits)
    states = job.get("models_status", [])
    for part in states:
        output.message(f"{part['model']}: {part['status']}")
    for message in job.get("history", []):
        output.answer(f"── {message['role']}\n{message['content']}\n\n")
    if "result" in job and "history" not in job:
        output.answer(job["result"]["content"] + "\n")
    elif job["tool"] == "consensus" and job["status"] != "processing" and "history" not in job:
        output.answer("".join(f"{section}\n\n" for part in states for section in render.sections(part)))
    elif partial := job.get("partial") or job.get("error", {}).get("partial"):
        output.answer(partial + "\n")
    if "error" in job and job["status"] == "failed":
        raise from_dict(job["error"])


@click.command()
@click.argument("job_id", metavar="ID")
@connect.standalone_option
@json_option
def cancel(job_id: str, standalone: bool, as_json: bool) -> None:
    """Stop a job and its calls. ID is a job, or a conversation with one running job."""
    connect.run(_cancel(job_id, connect.caller(), standalone=standalone, as_json=as_json))


async def _cancel(job_id: str, who: Any, *, standalone: bool, as_json: bool) -> None:
    async with connect.engine(who, standalone=standalone) as engine:
        found = await engine.cancel(job_id)
    if as_json:
        output.document(found)
    else:
        output.message(found["content"]["message"])
