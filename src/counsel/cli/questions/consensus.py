"""`counsel consensus`: several models side by side, live."""

from __future__ import annotations

from typing import Any, get_args

import click

from counsel.cli import completers, connect, json_option
from counsel.cli.questions import ask_options, consensus_members, consensus_output
from counsel.cli.questions.consensus_board import watch
from counsel.cli.terminal import live_output, output
from counsel.requests import DEFAULT_MODEL, ConsensusRequest, Engine, Order, Refine
from counsel.results import ConsensusResult, Result


@click.command(cls=ask_options.QuestionCommand)
@click.argument("prompt", required=False)
@ask_options.members
@click.option(
    "--judge",
    metavar="MODEL",
    shell_complete=completers.models,
    help="Let a model that is not a member compare the answers: its name, `auto` (another vendor) or `none`. "
    "Default: COUNSEL_JUDGE.",
)
@click.option(
    "--choice",
    "choices",
    multiple=True,
    metavar="TEXT",
    help="Let each model pick one of these: two or more.",
)
@click.option(
    "--refine",
    type=click.Choice(get_args(Refine)),
    help="When models read each other's answers: always (default), on disagreement (needs choices or a judge) or never.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 3),
    default=2,
    show_default=True,
    help="Maximum number of rounds, including the first; ends early when no model changes its position.",
)
@click.option(
    "--order",
    type=click.Choice(get_args(Order)),
    default="parallel",
    show_default=True,
    help="sequential: the models answer in turn, and each reads the earlier answers.",
)
@click.option("--role", "roles", multiple=True, metavar="MODEL=TEXT", help="Give a member a role.")
@click.option(
    "--stance",
    "stances",
    multiple=True,
    metavar="MODEL=STANCE",
    help="Let a member argue for or against the proposal, or weigh it: for, against or neutral.",
)
@click.option("--no-feedback", is_flag=True, help="One round only, like --refine never.")
@click.option(
    "--feedback-prompt",
    metavar="TEXT",
    help="Add this to the prompt that asks each model to refine its answer.",
)
@ask_options.options
@live_output.plain_option
@connect.standalone_option
@json_option
def consensus(
    prompt: str | None,
    models: tuple[str, ...],
    roles: tuple[str, ...],
    stances: tuple[str, ...],
    judge: str | None,
    choices: tuple[str, ...],
    refine: Refine | None,
    rounds: int,
    order: Order,
    no_feedback: bool,
    feedback_prompt: str | None,
    plain: bool,
    standalone: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask several models; each then reads the others' answers, without names, and refines its own.

    counsel consensus "Monolith or services?" -m gpt-latest,opus-latest,gemini-latest

    counsel consensus "Which database?" --choice PostgreSQL --choice SQLite --refine disagreement --judge auto
    """
    if no_feedback and refine in {"always", "disagreement"}:
        raise click.UsageError(f"--no-feedback and --refine {refine} contradict each other.")
    text = ask_options.full_prompt(prompt)
    caller, fields = ask_options.prepare(options)
    request = ConsensusRequest(
        prompt=text,
        models=consensus_members.assign_roles(models, roles, stances, caller.settings),
        check_models=True,
        judge=judge or DEFAULT_MODEL,
        choices=choices,
        refine=refine,
        rounds=rounds,
        order=order,
        enable_cross_feedback=not no_feedback,
        cross_feedback_prompt=feedback_prompt,
        **fields,
    )
    answer = ask_options.submit(
        request,
        caller,
        _watch_and_wait,
        standalone=standalone,
        background=options["background"],
        as_json=as_json,
    )
    if result := connect.run(answer):
        show(result, plain=plain)


async def _watch_and_wait(engine: Engine, job_id: str) -> Result:
    await watch(engine, job_id)
    return await engine.wait(job_id)


def show(result: Result, *, plain: bool = False) -> None:
    counts = []
    if isinstance(result, ConsensusResult):
        consensus_output.show(result, plain=plain)
    else:
        output.whole_answer(result.content, plain=plain)
    ask_options.notes(result)
    if isinstance(result, ConsensusResult):
        counts = [
            f"{len(result.initial)} of {result.models_consulted} answered",
            f"{result.refined_count} refined",
        ]
    output.footer(" · ".join([*counts, ask_options.footer(result)]))
