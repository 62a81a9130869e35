"""Voters with known error rates, asked through the real engine: votes and early ends match the theory.

Every pattern of right and wrong first answers is one question, weighted with its probability, so that nothing depends
on chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.evaluation import scoring
from counsel.evaluation.questions import Question
from counsel.evaluation.run import Evaluation, Failed, Panel
from counsel.evaluation.scoring import Trial
from counsel.requests import ConsensusRequest
from fake import FakeAPI
from support.council import JUDGE, MEMBERS, WIRE, judged, picks, verdict

PATTERNS = tuple(itertools.product((True, False), repeat=len(MEMBERS)))
CHOICES = ("right", "wrong")


def name(pattern: tuple[bool, ...]) -> str:
    return "".join("r" if right else "w" for right in pattern)


def question(pattern: tuple[bool, ...]) -> Question:
    return Question(name(pattern), f"Question {name(pattern)}?", CHOICES, "right")


def answer(right: bool) -> str:
    return "right" if right else "wrong"


@pytest.fixture
def voters(fake_api: FakeAPI) -> FakeAPI:
    """The first answers follow the pattern; a voter that reads the others' answers follows the majority."""
    for pattern in PATTERNS:
        majority = picks(answer(sum(pattern) * 2 > len(pattern)), "They convinced me.")
        fake_api.script(text=majority, contains=f"Reason {name(pattern)}", times=None)
        for model, right in zip(MEMBERS, pattern, strict=True):
            text = picks(answer(right), f"Reason {name(pattern)}.")
            fake_api.script(text=text, model=WIRE[model], contains=f"Question {name(pattern)}?", times=None)
    return fake_api


async def trials(engine: Engine, caller: Caller, panel: Panel) -> dict[str, Trial]:
    finished_trials: dict[str, Trial] = {}

    def report(outcome: Trial | Failed) -> None:
        assert isinstance(outcome, Trial), outcome.error
        finished_trials[outcome.question.id] = outcome

    await Evaluation(engine, caller, panel, None, report).ask_all(list(map(question, PATTERNS)), at_once=4)
    return finished_trials


@pytest.mark.parametrize("skill", [0.4, 0.7])
async def test_the_majority_of_independent_voters_is_right_as_often_as_condorcet_says(
    engine: Engine, caller: Callable[..., Caller], voters: FakeAPI, skill: float
) -> None:
    results = await trials(engine, caller(), Panel(MEMBERS, None, refine=False))
    assert len(voters.calls) == len(PATTERNS) * len(MEMBERS)
    accuracy = 0.0
    for pattern in PATTERNS:
        score = {score.name: score for score in scoring.scores([results[name(pattern)]])}
        assert [score[model].right for model in MEMBERS] == [int(right) for right in pattern]
        probability = math.prod(skill if right else 1 - skill for right in pattern)
        accuracy += probability * score["vote"].right
    assert accuracy == pytest.approx(skill**3 + 3 * skill**2 * (1 - skill))


async def test_voters_that_follow_the_majority_gain_nothing_and_break_as_much_as_they_fix(
    engine: Engine, caller: Callable[..., Caller], voters: FakeAPI
) -> None:
    judged(voters, verdict(choice="right"))
    voters.rules.insert(0, voters.rules.pop())  # the judge reads the reasons, too
    results = await trials(engine, caller(), Panel(MEMBERS, JUDGE))
    scores = {score.name: score.right for score in scoring.scores(list(results.values()))}
    assert scores == dict.fromkeys(MEMBERS, 4) | {
        "vote": 4,
        "refine": 4,
        "refine on disagreement": 4,
        "judge": 8,
    }
    assert scoring.changes(list(results.values())) == scoring.Changes(
        fixed=3, broken=3, kept_right=9, kept_wrong=9
    )


async def test_only_answers_that_differ_are_refined(
    engine: Engine, caller: Callable[..., Caller], voters: FakeAPI
) -> None:
    for pattern in PATTERNS:
        before = len(voters.calls)
        request = ConsensusRequest(
            prompt=question(pattern).text, models=MEMBERS, choices=CHOICES, refine="disagreement", rounds=3
        )
        result = (await engine.wait(await engine.submit(request, caller()))).to_json()
        unanimous = len(set(pattern)) == 1
        assert len(voters.calls) - before == (3 if unanimous else 6), "the third round has nothing to decide"
        assert result["refinement"]["ended"] == "agreement"
        assert result["vote"]["agreement"] == 1.0
        assert [entry["choice"] for entry in result["phases"]["initial"]] == [
            answer(right) for right in pattern
        ]
