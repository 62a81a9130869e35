"""The arithmetic of ways to combine several models' choices."""

from __future__ import annotations

import itertools
import math

import pytest

from counsel.evaluation import scoring
from counsel.evaluation.questions import Question
from counsel.evaluation.scoring import Ballot, Choice, Trial

QUESTION = Question("1", "?", ("right", "wrong", "other"), "right")


def trial(*firsts: str | None, refined: tuple[str | None, ...] = (), judge: str | None = None) -> Trial:
    later = refined or (None,) * len(firsts)
    ballots = tuple(
        Ballot(
            f"m{number}",
            Choice(first, 0.01, 1.0 + number),
            Choice(second, 0.02, 2.0) if refined else None,
        )
        for number, (first, second) in enumerate(zip(firsts, later, strict=True))
    )
    return Trial(QUESTION, ballots, Choice(judge, 0.1, 5.0) if judge else None)


def by_name(*trials: Trial) -> dict[str, scoring.Score]:
    return {score.name: score for score in scoring.scores(trials)}


def test_a_tie_is_no_majority_and_failed_votes_do_not_count() -> None:
    assert scoring.majority(["a", "b", "a"]) == "a"
    assert scoring.majority(["a", "b"]) is None
    assert scoring.majority(["a", "a", "b", "b", "c"]) is None
    assert scoring.majority([None, None, "c"]) == "c"
    assert scoring.majority([None]) is None
    assert scoring.majority([]) is None


def test_every_way_is_read_off_the_same_calls_and_costs_its_own() -> None:
    trials = (
        trial("right", "right", "right", refined=("right", "wrong", "wrong"), judge="right"),
        trial("right", "wrong", "wrong", refined=("right", "right", None), judge="wrong"),
        trial("right", "wrong", "other", refined=("wrong", "wrong", "wrong"), judge="right"),
    )
    scores = by_name(*trials)
    assert {name: score.right for name, score in scores.items()} == {
        "m0": 3,
        "m1": 1,
        "m2": 1,
        "vote": 1,
        "refine": 1,  # the second: the third member failed to refine and keeps its wrong choice
        "refine on disagreement": 2,  # the first was unanimous: it is not refined, and not broken
        "judge": 2,
    }
    assert scores["vote"].undecided == 1
    assert math.isclose(scores["m0"].cost_usd, 0.03)
    assert math.isclose(scores["vote"].cost_usd, 0.09)
    assert math.isclose(scores["refine"].cost_usd, 0.27)
    assert math.isclose(scores["refine on disagreement"].cost_usd, 0.21)
    assert math.isclose(scores["judge"].cost_usd, 0.57)
    assert (
        scores["m0"].seconds,
        scores["vote"].seconds,
        scores["refine"].seconds,
        scores["judge"].seconds,
    ) == (
        1,
        3,
        5,
        10,
    )


def test_refinement_is_counted_by_member() -> None:
    trials = (
        trial("right", "wrong", None, refined=("wrong", "right", "right")),
        trial("right", "wrong", "wrong", refined=("right", "other", None)),
        trial("wrong", refined=("other",)),
    )
    assert scoring.changes(trials) == scoring.Changes(fixed=2, broken=1, kept_right=1, kept_wrong=2)


def test_without_refinement_or_judge_there_are_no_rows_for_them() -> None:
    assert set(by_name(trial("right", "wrong"))) == {"m0", "m1", "vote"}
    assert scoring.scores([]) == []


def test_a_price_that_is_not_known_is_said() -> None:
    unknown = Trial(QUESTION, (Ballot("m", Choice("right", None)),))
    score = scoring.scores([unknown])[0]
    assert (score.cost_usd, score.cost_complete) == (0.0, False)


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (8, 10, 0.4902, 0.9433),
        (50, 100, 0.4038, 0.5962),
    ],
)
def test_intervals_are_wilsons(right: int, total: int, low: float, high: float) -> None:
    assert scoring.interval(right, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("voters", [1, 3, 5])
@pytest.mark.parametrize("skill", [0.4, 0.7])
def test_the_vote_of_independent_voters_is_condorcets(voters: int, skill: float) -> None:
    """Every pattern of right and wrong votes, weighted by its probability."""
    accuracy = 0.0
    for pattern in itertools.product((True, False), repeat=voters):
        probability = math.prod(skill if right else 1 - skill for right in pattern)
        score = by_name(trial(*("right" if right else "wrong" for right in pattern)))["vote"]
        accuracy += probability * score.right
    majority = voters // 2 + 1
    expected = sum(
        math.comb(voters, count) * skill**count * (1 - skill) ** (voters - count)
        for count in range(majority, voters + 1)
    )
    assert accuracy == pytest.approx(expected)
