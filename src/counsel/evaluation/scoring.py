"""How often each way of asking several models is right, what it costs and how long it takes.

All ways are scored on the same calls (first answers, refined answers, the judge's verdict), so they are compared on the
same answers, and a way costs what its own calls cost.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from counsel.evaluation.questions import Question
from counsel.lazy_dataclass import dataclass

_Z = 1.959964  # standard deviations that contain 95% of a normal distribution


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of one call. `choice` is None if the model failed or picked none of the choices."""

    choice: str | None
    cost_usd: float | None = 0.0  # None: the price is unknown
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ballot:
    """One member's first and refined choice."""

    model: str
    first: Choice
    refined: Choice | None = None

    @property
    def last(self) -> str | None:
        """The last choice; a member that failed to refine keeps its first."""
        return (self.refined.choice if self.refined else None) or self.first.choice


@dataclass(frozen=True, slots=True)
class Trial:
    """One question, asked once."""

    question: Question
    ballots: tuple[Ballot, ...]
    judge: Choice | None = None

    @property
    def disagrees(self) -> bool:
        return len({ballot.first.choice for ballot in self.ballots} - {None}) > 1


@dataclass(frozen=True, slots=True)
class Score:
    name: str
    right: int
    total: int
    undecided: int  # ties, and questions without any choice: counted as wrong
    low: float  # of the 95% interval of the accuracy
    high: float
    cost_usd: float
    cost_complete: bool  # False: some price is unknown
    seconds: float  # median per question

    @property
    def accuracy(self) -> float:
        return self.right / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Changes:
    """How refinement changed the members' own choices."""

    fixed: int  # wrong, then right
    broken: int  # right, then wrong
    kept_right: int
    kept_wrong: int


def majority(choices: Iterable[str | None]) -> str | None:
    """The most frequent choice; None for a tie or without any choice."""
    counts = Counter(choice for choice in choices if choice is not None).most_common(2)
    if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


def interval(right: int, total: int) -> tuple[float, float]:
    """Wilson's interval: it stays between 0 and 1, and is meaningful for a handful of questions."""
    if not total:
        return 0.0, 1.0
    share, square = right / total, _Z * _Z
    middle = share + square / (2 * total)
    spread = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    scale = 1 + square / total
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def scores(trials: Sequence[Trial]) -> list[Score]:
    """Each member alone, then the ways of combining them."""
    if not trials:
        return []
    models = [ballot.model for ballot in trials[0].ballots]
    alone = [_score(model, trials, _alone(number)) for number, model in enumerate(models)]
    ways = [("vote", _vote)]
    if any(ballot.refined for trial in trials for ballot in trial.ballots):
        ways += [("refine", _refine), ("refine on disagreement", _on_disagreement)]
    if any(trial.judge for trial in trials):
        ways.append(("judge", _judge))
    return [*alone, *(_score(name, trials, way) for name, way in ways)]


def changes(trials: Sequence[Trial]) -> Changes:
    counts: Counter[tuple[bool, bool]] = Counter()
    for trial in trials:
        for ballot in trial.ballots:
            if ballot.refined and ballot.refined.choice is not None:
                right = trial.question.answer
                counts[ballot.first.choice == right, ballot.refined.choice == right] += 1
    return Changes(counts[False, True], counts[True, False], counts[True, True], counts[False, False])


# ── the ways ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Decision:
    choice: str | None
    rounds: tuple[tuple[Choice, ...], ...]  # the calls of a round run concurrently


_Way = Callable[[Trial], _Decision]


def _first(trial: Trial) -> tuple[Choice, ...]:
    return tuple(ballot.first for ballot in trial.ballots)


def _refined(trial: Trial) -> tuple[Choice, ...]:
    return tuple(ballot.refined for ballot in trial.ballots if ballot.refined)


def _alone(number: int) -> _Way:
    def decide(trial: Trial) -> _Decision:
        first = trial.ballots[number].first
        return _Decision(first.choice, ((first,),))

    return decide


def _vote(trial: Trial) -> _Decision:
    choices = _first(trial)
    return _Decision(majority(choice.choice for choice in choices), (choices,))


def _refine(trial: Trial) -> _Decision:
    return _Decision(majority(ballot.last for ballot in trial.ballots), (_first(trial), _refined(trial)))


def _on_disagreement(trial: Trial) -> _Decision:
    return _refine(trial) if trial.disagrees else _vote(trial)


def _judge(trial: Trial) -> _Decision:
    judge = trial.judge or Choice(None)
    return _Decision(judge.choice, (_first(trial), _refined(trial), (judge,)))


def _score(name: str, trials: Sequence[Trial], way: _Way) -> Score:
    decisions = [way(trial) for trial in trials]
    right = sum(
        decision.choice == trial.question.answer for decision, trial in zip(decisions, trials, strict=True)
    )
    calls = [call for decision in decisions for calls in decision.rounds for call in calls]
    seconds = [
        sum(max((call.seconds for call in calls), default=0.0) for calls in decision.rounds)
        for decision in decisions
    ]
    low, high = interval(right, len(trials))
    return Score(
        name=name,
        right=right,
        total=len(trials),
        undecided=sum(decision.choice is None for decision in decisions),
        low=low,
        high=high,
        cost_usd=math.fsum(call.cost_usd or 0.0 for call in calls),
        cost_complete=all(call.cost_usd is not None for call in calls),
        seconds=statistics.median(seconds) if seconds else 0.0,
    )
