"""`counsel review`: several models read a change; another model checks each finding."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counsel.caller import Caller
from counsel.cli import connect, fail, json_option, user, wants_json
from counsel.cli.questions import ask_options, consensus_board
from counsel.cli.questions.consensus_board import Board
from counsel.cli.terminal import output
from counsel.cli.terminal.wording import with_failures_in_cli_words
from counsel.errors import CounselError, FileNotAllowed, InvalidArgument
from counsel.requests import Engine
from counsel.results import Continuation, Result, ReviewResult, Totals
from counsel.results.review import SEVERITIES
from counsel.text import counted
from counsel.types import EFFORTS

if TYPE_CHECKING:
    from counsel.engine.consult.review.source import Change

FOUND = 1  # exit code: a finding of --fail-on's severity stands
FAILED = 3  # exit code: there was no review


@click.command()
@click.argument("base", required=False, metavar="[BASE]")
@click.option("--staged", is_flag=True, help="Review the staged changes.")
@click.option(
    "--diff",
    "diff_file",
    metavar="FILE|-",
    help="Review the unified diff in this file; - is standard input.",
)
@ask_options.members
@click.option("--focus", metavar="TEXT", help="What the reviewers should focus on.")
@click.option(
    "--context",
    type=click.IntRange(0, 10_000),
    default=30,
    show_default=True,
    help="Unchanged lines to send around each change, besides its function, if they fit; 0 sends the change alone.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="Exit with 1 if a finding of this severity or worse stands: it is not disputed, and its place exists.",
)
@click.option("--fail-on-disputed", is_flag=True, help="Count disputed findings for --fail-on, too.")
@click.option(
    "--sarif",
    metavar="FILE|-",
    help="Write SARIF 2.1.0 for code scanning to this file; - prints it instead of the text.",
)
@click.option("--github", is_flag=True, help="Print workflow commands, which GitHub shows next to the code.")
@click.option("--effort", type=click.Choice(EFFORTS), help="Reasoning effort.")
@ask_options.max_cost
@click.option("--background", is_flag=True, help="Return immediately; `counsel jobs ID` shows the review.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Review the repository that contains this folder.",
)
@ask_options.quiet
@connect.standalone_option
@json_option
@click.pass_context
def review(ctx: click.Context, /, **options: Any) -> None:
    """Have several models review a change independently; another model then checks each finding.

    BASE is a commit or branch: the review covers the changes on HEAD since it branched off BASE. Without BASE: the
    changes of the working tree or, if there are none, those on HEAD since it branched off the default branch.

    Exit codes: 0, 1 (--fail-on), 2 (usage), 3 (the review failed).
    """
    _check(options)
    try:
        result = _run_review(options)
        if result is None:  # in the background
            return
        _print(result, options)
    except CounselError as error:
        output.set_quiet(False)
        fail(error, as_json=wants_json())
        ctx.exit(FAILED)
    if options["fail_on"] and result.worst(options["fail_on"], disputed=options["fail_on_disputed"]):
        ctx.exit(FOUND)


def _check(options: dict[str, Any]) -> None:
    sources = [options["base"], options["staged"], options["diff_file"]]
    if sum(bool(source) for source in sources) > 1:
        raise click.UsageError("Only one of BASE, --staged and --diff can be given.")
    if sum([options["as_json"], options["github"], options["sarif"] == "-"]) > 1:
        raise click.UsageError("Only one of --json, --github and --sarif - can write to standard output.")
    if options["fail_on_disputed"] and not options["fail_on"]:
        raise click.UsageError("--fail-on-disputed needs --fail-on.")
    sarif = options["sarif"]
    if sarif and sarif != "-" and (Path(sarif).is_dir() or not Path(sarif).absolute().parent.is_dir()):
        raise click.UsageError(f"--sarif {sarif}: cannot write this file.")
    result_options = [name for name in ("fail_on", "sarif", "github") if options[name]]
    if options["background"] and result_options:
        raise click.UsageError(
            f"--background has no result yet: leave out --{result_options[0].replace('_', '-')}."
        )


def _run_review(options: dict[str, Any]) -> ReviewResult | None:
    from counsel.engine.consult.review import source

    caller = user.caller(options["cwd"])
    change = _change(options, caller)
    _report(change)
    if not change.diff:
        return _empty_review(change)
    if change.root:
        caller = replace(caller, cwd=change.root)
    effort = options["effort"] or caller.settings.default_effort or None
    fields = {"reasoning_effort": effort, "max_cost_usd": options["max_cost"], "check_models": True}
    request = source.request(change, options["models"], options["focus"], **fields)
    call = ask_options.submit(
        request,
        caller,
        _watch_and_wait,
        standalone=options["standalone"],
        background=options["background"],
        as_json=options["as_json"] and options["background"],
    )
    result = connect.run(call)
    return result if isinstance(result, ReviewResult) else None


def _change(options: dict[str, Any], caller: Caller) -> Change:
    from counsel.engine.consult.review import source

    if options["diff_file"]:
        text = _text(options["diff_file"], caller)
        if text.strip() and not source.is_diff(text):
            raise InvalidArgument(
                f"--diff {options['diff_file']} is not a unified diff.",
                hint="Nothing was sent. Create one with `git diff`, without --stat or --name-only.",
            )
        label = "the diff on standard input" if options["diff_file"] == "-" else options["diff_file"]
        return source.from_text(text, label, caller, context=options["context"])
    return source.from_git(caller, base=options["base"], staged=options["staged"], context=options["context"])


def _text(name: str, caller: Caller) -> str:
    if name == "-":
        return ask_options.standard_input()
    from counsel.cli.questions import ask_files

    return ask_files.read_text(name, caller, allow_secret=False)


def _report(change: Change) -> None:
    """Print what is reviewed, and what is left out."""
    if change.files:
        output.message(f"Reviewing {change.about}: {change.counts}.")
    for note in change.notes:
        output.message(note)
    from counsel.results import review_text

    for line in review_text.not_reviewed([entry.to_json() for entry in change.left_out]):
        output.message(line)


def _empty_review(change: Change) -> ReviewResult:
    left_out = len({entry.file for entry in change.left_out})
    reason = "no changes"
    if left_out:
        subject = "the only changed file was" if left_out == 1 else f"all {left_out:,} changed files were"
        reason = f"{subject} left out"
    output.message(f"Nothing to review ({change.about}): {reason}.")
    return ReviewResult(
        status="review_complete",
        about=change.about,
        files=(),
        left_out=tuple(entry.to_json() for entry in change.left_out),
        findings=(),
        reviewers=(),
        failed=(),
        continuation=Continuation(id=""),
        metadata=Totals.of(()),
        job_id="",
    )


# ── output ───────────────────────────────────────────────────────────────────────────────────────────


def _print(result: ReviewResult, options: dict[str, Any]) -> None:
    target = options["sarif"]
    if target:
        from counsel.results import review_formats

        text = output.escaped(json.dumps(review_formats.sarif(result), ensure_ascii=False, indent=2)) + "\n"
        if target == "-":
            output.answer(text)
            return
        try:
            Path(target).write_text(text, encoding="utf-8")
        except OSError as error:
            show(result)
            raise FileNotAllowed(
                f"{target} cannot be written: {error.strerror}.",
                hint=f"`counsel jobs {result.job_id} --json` prints the review.",
                file=target,
            ) from None
    if options["as_json"]:
        from counsel.cli import documents

        output.document(documents.answer(result))
    elif options["github"]:
        from counsel.results import review_formats

        output.answer("".join(f"{line}\n" for line in review_formats.github(result)))
    elif result.job_id:
        show(result)


def show(result: Result) -> None:
    """Print the review as text, wrapped for the terminal, on stdout, and its cost on stderr."""
    if isinstance(result, ReviewResult):
        from counsel.results import review_text

        width = output.width() or review_text.WIDTH
        text = review_text.text(with_failures_in_cli_words(result), max(40, min(width, 100)))
        output.answer(output.without_commands(text) + "\n")
    ask_options.notes(result)
    output.footer(ask_options.footer(result))


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────


class ReviewBoard(Board):
    """Members answer in JSON, so a person sees only the number of findings."""

    most_lines = 1

    def text(self, slot: str) -> str:
        text = super().text(slot)
        findings, verdicts = text.count('"severity"'), text.count('"verdict"')
        if verdicts:
            return f"{counted(verdicts, 'finding')} checked so far"
        return f"{counted(findings, 'finding')} so far" if findings else ""


async def _watch_and_wait(engine: Engine, job_id: str) -> Result:
    await watch(engine, job_id)
    return await engine.wait(job_id)


async def watch(engine: Engine, job_id: str) -> None:
    await consensus_board.watch(engine, job_id, ReviewBoard())
