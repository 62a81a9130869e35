"""`counsel bench`: whether asking several models is worth it, measured on your own questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counsel import amounts
from counsel.cli import connect, json_option, user
from counsel.cli.questions import ask_options
from counsel.cli.terminal import output
from counsel.cli.terminal.confirm import confirm
from counsel.cli.terminal.numbers import Number
from counsel.cli.terminal.wording import in_cli_words
from counsel.errors import BudgetExceeded, CounselError
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.caller import Caller
    from counsel.evaluation.estimate import Estimate
    from counsel.evaluation.questions import Question
    from counsel.evaluation.records import Records
    from counsel.evaluation.run import Evaluation, Failed, Panel
    from counsel.evaluation.scoring import Score, Trial
    from counsel.settings import Settings

_NOTHING_SENT = "Nothing was sent."


@click.group()
def bench() -> None:
    """Compare ways of asking on your own models and questions."""


@bench.command()
@click.argument("file", type=click.Path(path_type=Path))
@ask_options.members
@click.option("--judge", default="none", show_default=True, help="A model that judges all answers, or auto.")
@click.option("--no-refine", is_flag=True, help="Compare first answers and the vote only.")
@click.option("--max-cost", type=Number(0, min_open=True), metavar="USD", help="Spend at most this much.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Ask only the first N questions.")
@click.option(
    "--at-once",
    type=click.IntRange(1, 16),
    default=4,
    show_default=True,
    help="Number of questions asked at the same time.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save finished questions in this file; the same command then continues where it stopped.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before spending.")
@connect.standalone_option
@json_option
def council(
    *,
    file: Path,
    models: tuple[str, ...],
    judge: str,
    no_refine: bool,
    max_cost: float | None,
    limit: int | None,
    at_once: int,
    results: Path | None,
    yes: bool,
    standalone: bool,
    as_json: bool,
) -> None:
    """Compare one model, a vote, refinement and a judge.

    FILE contains questions with known answers, one JSON object per line: {"question": "…", "choices": ["…", "…"],
    "answer": "…"}. Every question is asked once; all ways are scored on the same answers.

    counsel bench council questions.jsonl -m gpt-latest,opus-latest,gemini-latest --judge auto --max-cost 5
    """
    from counsel.evaluation.questions import read
    from counsel.evaluation.records import Records
    from counsel.evaluation.run import Panel

    questions = read(file, limit)
    caller = user.caller()
    panel = Panel(models, None if judge == "none" else judge, refine=not no_refine)
    records = Records(results, _panel_fields(panel)) if results else None
    trials = records.read(questions) if records else []
    finished_ids = {trial.question.id for trial in trials}
    remaining = [question for question in questions if question.id not in finished_ids]
    if remaining:
        _confirm_cost(remaining, panel, caller, max_cost, yes=yes)
        if records:
            records.open()
    progress = _Progress(trials, len(questions), records)
    evaluation = connect.run(
        _ask(remaining, panel, caller, progress, max_cost=max_cost, at_once=at_once, standalone=standalone)
    )
    _report(trials, progress.failed, evaluation, panel, as_json=as_json)


async def _ask(
    questions: Sequence[Question],
    panel: Panel,
    caller: Caller,
    progress: _Progress,
    *,
    max_cost: float | None,
    at_once: int,
    standalone: bool,
) -> Evaluation | None:
    from counsel.evaluation.run import Evaluation

    if not questions:
        return None
    try:
        async with connect.engine(caller, standalone=standalone) as engine:
            evaluation = Evaluation(engine, caller, panel, max_cost, progress)
            await evaluation.ask_all(questions, at_once)
            return evaluation
    finally:
        progress.close()


class _Progress:
    """Collects the results and prints one line on stderr for each question."""

    def __init__(self, trials: list[Trial], total: int, records: Records | None) -> None:
        self._trials, self._total, self._records = trials, total, records
        self.failed: list[Failed] = []

    def __call__(self, result: Trial | Failed) -> None:
        from counsel.evaluation.run import Failed

        if isinstance(result, Failed):
            self.failed.append(result)
            reason = in_cli_words(result.error.message)
            output.message(f"{self._count()} {result.question.id}: failed: [{result.error.code}] {reason}")
            return
        self._trials.append(result)
        if self._records:
            self._records.add(result)
        right = sum(ballot.first.choice == result.question.answer for ballot in result.ballots)
        output.message(
            f"{self._count()} {result.question.id}: {right} of {len(result.ballots)} first answers right"
        )

    def _count(self) -> str:
        return f"[{len(self._trials) + len(self.failed)}/{self._total}]"

    def close(self) -> None:
        if self._records:
            self._records.close()


def _panel_fields(panel: Panel) -> dict[str, object]:
    return {"models": list(panel.models), "judge": panel.judge, "refine": panel.refine}


# ── before anything is spent ─────────────────────────────────────────────────────────────────────────


def _confirm_cost(
    questions: Sequence[Question], panel: Panel, caller: Caller, max_cost: float | None, *, yes: bool
) -> None:
    """Print an estimate; without a limit or --yes, ask for confirmation."""
    from counsel.evaluation.estimate import estimate
    from counsel.models.catalog import Catalog

    members = _members(panel.models, caller.settings)
    forecast = estimate(questions, panel, members, Catalog.load(caller.settings))
    output.message(_sentence(forecast, len(questions), max_cost))
    if yes or max_cost is not None:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"Set a limit with --max-cost USD, or pass --yes for none. {_NOTHING_SENT}")
    confirm("Continue without a limit?")


def _members(models: tuple[str, ...], settings: Settings) -> list[str]:
    """The models' names, with panels expanded; one `auto` for each model that the engine will choose."""
    from counsel.models import panels

    names = [panels.name_of(entry) for entry in panels.requested(models, settings)]
    return names * settings.panel_size if names == ["auto"] else names


def _sentence(estimate: Estimate, questions: int, max_cost: float | None) -> str:
    limit = f", at most {amounts.dollars(max_cost)}" if max_cost is not None else ""
    price = amounts.dollars(estimate.cost_usd, complete=not estimate.unpriced)
    unknown = f" No price is known for {', '.join(estimate.unpriced)}." if estimate.unpriced else ""
    return (
        f"{counted(questions, 'question')}, about {counted(estimate.calls, 'call')}: "
        f"about {price}{limit}.{unknown}"
    )


# ── the report ───────────────────────────────────────────────────────────────────────────────────────


def _report(
    trials: list[Trial], failed: list[Failed], evaluation: Evaluation | None, panel: Panel, *, as_json: bool
) -> None:
    from counsel.evaluation import scoring

    stop_reason = evaluation.stop_reason if evaluation else None
    scores, changes = scoring.scores(trials), scoring.changes(trials)
    if as_json:
        output.document(
            {
                "panel": _panel_fields(panel),
                "questions": len(trials),
                "failed": [{"id": failure.question.id, **failure.error.as_dict()} for failure in failed],
                "stopped": stop_reason.as_dict() if stop_reason else None,
                "ways": [_score_row(score) for score in scores],
                "refinement": {
                    "fixed": changes.fixed,
                    "broken": changes.broken,
                    "kept_right": changes.kept_right,
                    "kept_wrong": changes.kept_wrong,
                },
            }
        )
    else:
        if trials:
            output.table(["way", "right", "95%", "cost", "time"], map(_row, scores))
            _print_notes(scores, changes)
        if stop_reason:
            output.message(_why_it_stopped(stop_reason))
    if failed or stop_reason:
        raise click.exceptions.Exit(1)


def _why_it_stopped(error: CounselError) -> str:
    if isinstance(error, BudgetExceeded) and error.budget == "job":
        return "Stopped early: the rest of --max-cost is too little for another question."
    hint = f" {in_cli_words(error.hint)}" if error.hint else ""
    return f"Stopped early: {in_cli_words(error.message)}{hint}"


def _score_row(score: Score) -> dict[str, object]:
    return {
        "name": score.name,
        "right": score.right,
        "questions": score.total,
        "undecided": score.undecided,
        "accuracy": round(score.accuracy, 4),
        "interval": [round(score.low, 4), round(score.high, 4)],
        "cost_usd": round(score.cost_usd, 8),
        "cost_complete": score.cost_complete,
        "median_seconds": round(score.seconds, 3),
    }


def _row(score: Score) -> list[str]:
    return [
        score.name,
        f"{score.right}/{score.total}",
        f"{score.low:.0%}-{score.high:.0%}",
        amounts.dollars(score.cost_usd, complete=score.cost_complete),
        f"{score.seconds:.1f} s",
    ]


def _print_notes(scores: Sequence[Score], changes: object) -> None:
    from counsel.evaluation.scoring import Changes

    assert isinstance(changes, Changes)
    total = changes.fixed + changes.broken + changes.kept_right + changes.kept_wrong
    if total:
        output.message(
            f"Refinement fixed {changes.fixed} of the members' answers and broke {changes.broken}; "
            f"{changes.kept_right} stayed right, {changes.kept_wrong} wrong."
        )
    if counts := [f"{score.name} {score.undecided}" for score in scores if score.undecided]:
        output.message(f"Undecided (ties, failures), counted as wrong: {', '.join(counts)}.")
    output.message("Where ranges overlap, these questions do not show which way is better.")
