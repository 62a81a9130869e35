"""`choices`: each model picks one, votes are counted, ties have no winner, and without a choice there is no vote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.consult.consensus import vote
from counsel.engine.consult.consensus.members import Participant
from counsel.engine.engine import Engine
from counsel.errors import InvalidArgument, UpstreamError
from counsel.job_events import Restarted, TextFold
from counsel.mcp import deduplicate, render
from counsel.requests import ConsensusRequest
from fake import FakeAPI
from support.council import JUDGE, MEMBERS, NAMES, hold, judged, picks, say, verdict

CHOICES = ("Tabs", "Spaces", "Both")
TWO_TO_ONE = {
    "gpt-5": picks("Tabs", "Fewer bytes."),
    "sonnet": picks("Spaces", "Same everywhere."),
    "gemini-2.5-flash": picks("Tabs", "One key."),
}


async def test_votes_are_counted_and_dissent_is_listed(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    say(fake_api, TWO_TO_ONE)
    result = await hold(engine, caller(), choices=CHOICES, refine="never")
    assert result["vote"] == {
        "choices": list(CHOICES),
        "counts": {"Tabs": 2, "Spaces": 1, "Both": 0},
        "majority": "Tabs",
        "tied": [],
        "agreement": 0.6667,
        "votes": [
            {"model": "gpt-5", "choice": "Tabs", "reason": "Fewer bytes."},
            {"model": "sonnet", "choice": "Spaces", "reason": "Same everywhere."},
            {"model": "gemini-2.5-flash", "choice": "Tabs", "reason": "One key."},
        ],
        "minority": [{"choice": "Spaces", "models": ["sonnet"], "reasons": ["Same everywhere."]}],
        "failed": [],
    }
    assert result["phases"]["initial"][0]["response"] == "Tabs\n\nFewer bytes."
    assert "confidence" not in str(result).lower()
    schemas = [str(call.body) for call in fake_api.calls]
    assert all("json_schema" in body or "responseJsonSchema" in body for body in schemas)
    assert all(body.count("'Both'") or body.count('"Both"') for body in schemas)


async def test_the_failure_of_all_says_what_their_calls_cost(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """People who pay for many questions need the cost of failed ones, too."""
    say(fake_api, dict.fromkeys(TWO_TO_ONE, picks("Neither")))
    job = await engine.submit(ConsensusRequest(prompt="q", models=MEMBERS, choices=CHOICES), caller())
    with pytest.raises(UpstreamError, match="All 3 models failed") as excinfo:
        await engine.wait(job)
    costs = [failure["cost_usd"] for failure in excinfo.value.fields["failed"]]
    assert min(costs) > 0
    assert excinfo.value.cost_usd == pytest.approx(sum(costs))
    assert excinfo.value.fields["usage"]["output_tokens"] > 0


async def test_a_model_that_answers_outside_the_choices_is_asked_once_more_and_then_fails(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    say(fake_api, TWO_TO_ONE | {"sonnet": picks("Neither")})
    result = await hold(engine, caller(), choices=CHOICES, refine="never")
    calls = [call for call in fake_api.calls if "claude" in call.model]
    assert len(calls) == 2
    assert "does not match the schema" in str(calls[1].body)
    (failure,) = result["vote"]["failed"]
    assert (failure["model"], failure["code"]) == ("sonnet", "SCHEMA_MISMATCH")
    assert failure["error"] == "sonnet picked none of the choices, even when asked again."
    assert result["vote"]["counts"] == {"Tabs": 2, "Spaces": 0, "Both": 0}
    assert result["vote"]["agreement"] == 1.0
    assert result["status"] == "consensus_partial"
    assert result["phases"]["failed"][0]["usage"]["output_tokens"] == 8  # of both calls


async def test_followers_read_reasons_and_not_json(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="Tabs, I think.", model="claude", times=1)
    say(fake_api, TWO_TO_ONE)
    request = ConsensusRequest(prompt="q", models=MEMBERS, choices=CHOICES, refine="never")
    job = await engine.submit(request, caller())
    live = [event async for event in engine.follow(job)]
    texts = TextFold()
    for event in live:
        texts.add(event)
    answers = [texts.of(slot).text() for slot in ("0", "1", "2")]
    assert answers == ["Fewer bytes.\n\nTabs", "Same everywhere.\n\nSpaces", "One key.\n\nTabs"]
    (again,) = [event for event in live if isinstance(event, Restarted)]
    assert (again.model, again.reason) == ("sonnet", "retried")
    late = TextFold()
    await engine.wait(job)
    await engine.store.flush()
    async for event in engine.follow(job):
        late.add(event)
    assert [late.of(slot).text() for slot in ("0", "1", "2")] == answers


async def test_a_model_that_corrects_itself_has_a_vote(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="Tabs, I think.", model="claude", times=1)
    say(fake_api, TWO_TO_ONE)
    result = await hold(engine, caller(), choices=CHOICES, refine="never")
    assert (len(fake_api.calls), result["vote"]["failed"]) == (4, [])


@pytest.mark.parametrize(
    ("cast", "majority", "tied", "agreement"),
    [
        ("TTS", "Tabs", [], 0.6667),
        ("TTSS", None, ["Tabs", "Spaces"], 0.5),
        ("TSB", None, ["Tabs", "Spaces", "Both"], 0.3333),
        ("TTSB", "Tabs", [], 0.5),
        ("TTT", "Tabs", [], 1.0),
        ("", None, [], 0.0),
    ],
)
def test_a_tie_has_no_winner(cast: str, majority: str | None, tied: list[str], agreement: float) -> None:
    by_letter = {choice[0]: choice for choice in CHOICES}
    members = [Participant(str(number), f"m{number}", None) for number in range(len(cast))]
    ballots = {str(number): vote.Pick(by_letter[letter], "r") for number, letter in enumerate(cast)}
    outcome = vote.count(CHOICES, members, ballots, {})
    assert (outcome.majority, list(outcome.tied), outcome.agreement) == (majority, tied, agreement)
    assert sum(outcome.counts.values()) == len(cast)
    assert not outcome.tied or not {minority.choice for minority in outcome.minority} & set(outcome.tied)


@pytest.mark.parametrize(
    ("first", "calls", "rounds", "reason"),
    [
        (dict.fromkeys(MEMBERS, picks("Tabs")), 3, 1, "agreement"),
        (TWO_TO_ONE, 6, 2, "agreement"),
    ],
)
async def test_models_vote_again_on_disagreement(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    first: Any,
    calls: int,
    rounds: int,
    reason: str,
) -> None:
    say(fake_api, first, refined=picks("Tabs", "Convinced."))
    result = await hold(engine, caller(), choices=CHOICES, refine="disagreement", rounds=3)
    assert len(fake_api.calls) == calls
    assert result["refinement"] == {"mode": "disagreement", "rounds": rounds, "ended": reason}
    assert result["vote"]["counts"]["Tabs"] == 3
    assert [entry["changed"] for entry in result["phases"]["refined"]] == [False, True, False][
        : 3 * (rounds - 1)
    ]
    for call in fake_api.calls:
        body = str({key: value for key, value in call.body.items() if key != "model"}).lower()
        assert not [name for name in NAMES if name in body]


async def test_a_second_vote_that_fails_leaves_the_first(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="still none", contains="does not match the schema", times=None)
    say(fake_api, TWO_TO_ONE, refined="no JSON at all")
    result = await hold(engine, caller(), choices=CHOICES)
    assert result["vote"]["counts"] == {"Tabs": 2, "Spaces": 1, "Both": 0}
    assert result["vote"]["failed"] == []
    assert {entry["phase"] for entry in result["phases"]["failed"]} == {"refined"}


async def test_the_judge_reads_the_last_votes(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    judged(fake_api, verdict(choice="Tabs"))
    say(fake_api, TWO_TO_ONE, refined=picks("Tabs", "Convinced."))
    result = await hold(engine, caller(), choices=CHOICES, refine="disagreement", judge=JUDGE)
    assert len(fake_api.calls) == 7
    document = result["phases"]["verdict"]
    assert (document["based_on"], document["choice"], document["metadata"]["model"]) == (
        "refined",
        "Tabs",
        "deepseek-chat",
    )
    assert "The judge chooses **Tabs**." in result["content"]
    assert "Convinced." in str(fake_api.calls[-1].body)


@pytest.mark.parametrize("choices", [(), CHOICES])
async def test_a_judge_is_told_to_choose_where_there_are_choices(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, choices: tuple[str, ...]
) -> None:
    judged(fake_api, verdict(choice="Tabs") if choices else verdict())
    say(fake_api, TWO_TO_ONE)
    await hold(engine, caller(), choices=choices, refine="never", judge=JUDGE)
    is_told = "- choice: the one of the choices that you recommend" in str(fake_api.calls[-1].body)
    assert is_told == bool(choices)


async def test_the_order_of_the_choices_differs_by_model(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text=picks("c0"), times=None)
    choices = tuple(f"c{number}" for number in range(8))
    await hold(engine, caller(), ("gpt-5",) * 4, choices=choices, refine="never")
    orders = {tuple(sorted(choices, key=str(call.body).index)) for call in fake_api.calls}
    assert len(orders) > 1


async def test_a_client_reads_each_reason_once(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    say(fake_api, TWO_TO_ONE)
    request = ConsensusRequest(prompt="q", models=MEMBERS, choices=CHOICES, refine="never")
    result = await engine.wait(await engine.submit(request, caller()))
    assert str(deduplicate.to_json(result)).count("Same everywhere.") == 1
    text = render.text(result)
    assert "**Tabs**: 2 of 3 votes." in text
    assert "**Spaces** (sonnet): Same everywhere." in text


@pytest.mark.parametrize("models", [("gpt-5",) * 3, ("gpt-5", "openai/gpt-5", "gpt-5")])
async def test_the_same_model_has_answers_of_its_own_also_from_the_cache(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, models: tuple[str, ...]
) -> None:
    for text in ("one", "two", "three"):
        fake_api.script(text=text)
    caching_caller = caller(COUNSEL_CACHE_SECONDS="60")
    for _ in range(2):
        result = await hold(engine, caching_caller, models, refine="never")
        assert sorted(entry["response"] for entry in result["phases"]["initial"]) == ["one", "three", "two"]
    assert len(fake_api.calls) == 3


@pytest.mark.parametrize(
    "choices",
    [
        ("caf\u00e9", "cafe\u0301"),
        ("on disk", "On\u00a0Disk"),
        ("a", "a\u200b"),
        ("\u200b", "a"),
    ],
)
def test_choices_that_look_the_same_are_refused(choices: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"must differ|is empty"):
        vote.normalize_choices(choices)


async def test_a_choice_in_other_letters_is_that_choice(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fenced = f"```json\n{picks('spaces ')}\n```"
    say(fake_api, TWO_TO_ONE | {"sonnet": fenced, "gpt-5": picks("TABS")})
    result = await hold(engine, caller(), choices=CHOICES, refine="never")
    assert len(fake_api.calls) == 3
    assert result["vote"]["counts"] == {"Tabs": 2, "Spaces": 1, "Both": 0}


async def test_a_tie_shows_its_sides_and_who_has_no_vote(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    say(fake_api, TWO_TO_ONE | {"gemini-2.5-flash": picks("Neither")})
    result = await hold(engine, caller(), choices=CHOICES, refine="never")
    assert "A tie: **Tabs** and **Spaces**, 1 vote each." in result["content"]
    assert "Without a vote: gemini-2.5-flash." in result["content"]
    assert "## Dissent\n\n- **Tabs**: gpt-5.\n- **Spaces**: sonnet.\n" in result["content"]
