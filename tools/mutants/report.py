"""A table of the packages, and a diff of each survivor. `time limit`: killed mutants without a failed test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.mutants.trial import TIME_LIMIT, Outcome

GOAL = 85  # per cent of each package's sample, without equivalent mutants
Results = Mapping[str, Sequence[Outcome]]


def score(outcomes: Sequence[Outcome]) -> float:
    counting = [outcome for outcome in outcomes if outcome.verdict != "equivalent"]
    return 100 * _count(counting, "killed") / len(counting) if counting else 100.0


def too_low(results: Results) -> list[str]:
    return [name for name, outcomes in results.items() if score(outcomes) < GOAL]


def line(package: str, outcome: Outcome) -> str:
    mutant = outcome.mutant
    place = f"{mutant.file}:{mutant.line} {mutant.function}"
    return f"{package} {outcome.verdict:8} {outcome.seconds:5.1f}s {outcome.tests:3} tests  {place}  {outcome.by}"


def as_text(results: Results) -> str:
    rows = [
        f"{'package':12} {'killed':>8} {'time limit':>10} {'survived':>8} {'equivalent':>10} {'score':>6}"
    ]
    for name, outcomes in results.items():
        killed, survived, equivalent = (
            _count(outcomes, word) for word in ("killed", "survived", "equivalent")
        )
        limit = sum(outcome.by == TIME_LIMIT for outcome in outcomes)
        rows.append(f"{name:12} {killed:8} {limit:10} {survived:8} {equivalent:10} {score(outcomes):5.0f}%")
    for name, outcomes in results.items():
        for outcome in outcomes:
            if outcome.verdict == "survived":
                rows += ["", _diff(name, outcome)]
    if low := too_low(results):
        rows += [
            "",
            f"Below {GOAL} %: {', '.join(low)}. Write tests for the survivors, or list them as equivalent.",
        ]
    return "\n".join(rows)


def as_json(results: Results) -> dict[str, object]:
    return {name: {"score": round(score(outcomes), 1), "mutants": [_json(o) for o in outcomes]} for name, outcomes in results.items()}  # fmt: skip


def _diff(package: str, outcome: Outcome) -> str:
    mutant = outcome.mutant
    why = outcome.by or f"{outcome.tests} tests reach it and pass"
    head = f"{package}: src/counsel/{mutant.file}:{mutant.line} in {mutant.function or 'the module'} ({why})"
    return f"{head}\n  - {mutant.original}\n  + {mutant.mutated}"


def _json(outcome: Outcome) -> dict[str, object]:
    mutant = outcome.mutant
    return {
        "file": mutant.file,
        "line": mutant.line,
        "function": mutant.function,
        "original": mutant.original,
        "mutated": mutant.mutated,
        "verdict": outcome.verdict,
        "by": outcome.by,
        "tests": outcome.tests,
        "seconds": round(outcome.seconds, 1),
    }


def _count(outcomes: Sequence[Outcome], verdict: str) -> int:
    return sum(outcome.verdict == verdict for outcome in outcomes)
