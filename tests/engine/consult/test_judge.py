"""The judge of a consensus is not a member, reads answers without names, and cannot fail the job. Rounds on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.consult.consensus import judge
from counsel.engine.engine import Engine, open_engine
from counsel.errors import InvalidArgument, ModelNotFound
from counsel.mcp import deduplicate, render
from counsel.models.auto import Needs
from counsel.requests import ConsensusRequest
from counsel.results import result_from_json
from fake import FakeAPI
from support.council import CONTRADICTION, JUDGE, JUDGING, MEMBERS, NAMES, hold, judged, say, verdict

ANSWERS = {"gpt-5": "Red one.", "sonnet": "Green two.", "gemini-2.5-flash": "Blue three."}


def letter_of(fake: FakeAPI, text: str) -> str:
    """The letter under which the judge read this answer."""
    (call,) = [call for call in fake.calls if JUDGING in str(call.body)]
    before = str(call.body).partition(text)[0]
    return before.rpartition("Answer ")[2][0]


async def test_a_verdict_on_disagreement_takes_seven_calls_without_a_name(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    judged(fake_api, verdict(contradictions=[CONTRADICTION], recommendation="Answer A and Answer C say it."))
    say(fake_api, ANSWERS, refined="Now so.\n\nPosition: changed")
    result = await hold(engine, caller(), judge=JUDGE, refine="disagreement")
    assert len(fake_api.calls) == 7
    for call in fake_api.calls:
        body = str({key: value for key, value in call.body.items() if key != "model"}).lower()
        assert not [name for name in NAMES if name in body]
    document = result["phases"]["verdict"]
    assert (document["judge"], document["based_on"]) == (JUDGE, "initial")
    (contradiction,) = document["contradictions"]
    assert [len(row["models"]) for row in contradiction["positions"]] == [2, 1]
    assert {model for row in contradiction["positions"] for model in row["models"]} == set(MEMBERS)
    assert "Answer" not in document["recommendation"]
    assert sum(model in document["recommendation"] for model in MEMBERS) == 2
    assert result["refinement"] == {"mode": "disagreement", "rounds": 2, "ended": "limit"}
    assert [entry["changed"] for entry in result["phases"]["refined"]] == [True] * 3
    assert result["metadata"]["usage"]["total_tokens"] > sum(
        entry["metadata"]["usage"]["total_tokens"]
        for phase in ("initial", "refined")
        for entry in result["phases"][phase]
    )


async def test_letters_are_replaced_by_the_names_that_they_stood_for(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    insight = [{"answer": "A", "insight": "It says more than Answer B."}]
    judged(fake_api, verdict(unique_insights=insight, consensus=["All of it"], blind_spots=["Cost"]))
    say(fake_api, ANSWERS)
    result = await hold(engine, caller(), judge=JUDGE, refine="never")
    letters = {letter_of(fake_api, text): model for model, text in ANSWERS.items()}
    assert result["phases"]["verdict"]["unique_insights"] == [
        {"model": letters["A"], "insight": f"It says more than {letters['B']}."}
    ]
    assert result["refinement"] == {"mode": "never", "rounds": 1, "ended": "never"}
    assert result["phases"]["verdict"]["failed_models"] == []


async def test_without_contradictions_there_is_no_second_round(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    judged(fake_api, verdict())
    say(fake_api, ANSWERS)
    result = await hold(engine, caller(), judge=JUDGE, refine="disagreement")
    assert len(fake_api.calls) == 4
    assert result["refinement"] == {"mode": "disagreement", "rounds": 1, "ended": "agreement"}


@pytest.mark.parametrize("refine", ["always", "disagreement", "never"])
async def test_a_single_answer_is_not_judged(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, refine: str
) -> None:
    judged(fake_api, verdict())
    say(fake_api, {"gpt-5": "Red one."})
    fake_api.script(status=401, model="claude", times=None)
    result = await hold(engine, caller(), ("gpt-5", "sonnet"), judge=JUDGE, refine=refine)
    assert not [call for call in fake_api.calls if JUDGING in str(call.body)]
    assert "verdict" not in result["phases"]
    warning = f"The judge {JUDGE} was not asked: only gpt-5 answered, so there is nothing to compare."
    assert result["metadata"]["warnings"] == [warning]
    assert warning in render.text(result_from_json(result))


async def test_by_default_the_judge_reads_the_refined_answers(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    judged(fake_api, verdict())
    say(fake_api, ANSWERS, refined="Now so.")
    fake_api.script(status=401, model="grok", times=None)
    result = await hold(engine, caller(), (*MEMBERS, "grok-4"), judge=JUDGE)
    assert result["phases"]["verdict"]["based_on"] == "refined"
    assert result["phases"]["verdict"]["failed_models"] == ["grok-4"]
    assert letter_of(fake_api, "Now so.")


@pytest.mark.parametrize(
    ("script", "code", "calls"),
    [
        ({"status": 401}, "AUTHENTICATION_FAILED", 1),
        ({"text": "I like them all."}, "SCHEMA_MISMATCH", 2),
        ({"text": verdict(unique_insights=[{"answer": "Z", "insight": "?"}])}, "SCHEMA_MISMATCH", 2),
        ({"text": ""}, "EMPTY_ANSWER", 1),
        ({"hang_after": 1}, "TIMEOUT", 1),
    ],
)
async def test_a_judge_that_fails_leaves_the_answers_intact(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    script: Any,
    code: str,
    calls: int,
) -> None:
    fake_api.script(**script, model="deepseek", times=None)
    say(fake_api, ANSWERS)
    request = ConsensusRequest(prompt="Tabs or spaces?", models=MEMBERS, judge=JUDGE, refine="disagreement")
    limited_caller = (
        caller(COUNSEL_MODEL_LIMIT_SECONDS="4") if code == "TIMEOUT" else caller(COUNSEL_MAX_ATTEMPTS="1")
    )
    job = await engine.submit(request, limited_caller)
    result = (await engine.wait(job)).to_json()
    assert (result["status"], result["phases"]["failed"]) == ("consensus_complete", [])
    assert result["phases"]["verdict"]["code"] == code
    assert len([call for call in fake_api.calls if "deepseek" in call.model]) == calls
    assert f"No verdict: the judge {JUDGE} failed: [{code}]" in result["content"]
    hint = result["phases"]["verdict"].get("hint") or ""
    assert "chema" not in hint, "whoever asked gave no schema"
    assert result["refinement"]["ended"] == "never"
    assert (await engine.status(job)).status == "completed"


async def test_an_answer_that_does_not_match_is_sent_back_once(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    judged(fake_api, "Tabs.", times=1)
    fake_api.script(text=verdict(), model="deepseek", times=None)
    say(fake_api, ANSWERS)
    result = await hold(engine, caller(), judge=JUDGE, refine="never")
    assert result["phases"]["verdict"]["recommendation"] == "Use tabs."
    assert len(fake_api.calls) == 5


@pytest.mark.parametrize("name", ["judge", JUDGE])
async def test_a_judge_that_is_cancelled_leaves_the_answers_intact(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, name: str
) -> None:
    fake_api.script(hang_after=1, model="deepseek", times=None)
    say(fake_api, ANSWERS)
    request = ConsensusRequest(prompt="q", models=MEMBERS, judge=JUDGE, refine="never")
    job = await engine.submit(request, caller(), background=True)
    await fake_api.wait_for(model="deepseek", deltas=1)
    states = (await engine.status(job)).models_status or ()
    assert [(state.slot, state.phase) for state in states][-1] == ("judge", "verdict")
    with pytest.raises(InvalidArgument) as excinfo:
        await engine.cancel(job, "grok-4")
    assert str(excinfo.value.hint).endswith("2 (gemini-2.5-flash), judge (deepseek-v3).")
    outcome = (await engine.cancel(job, name)).content
    assert outcome["member"] == "judge"
    result = (await engine.wait(job)).to_json()
    assert result["phases"]["verdict"]["code"] == "CANCELLED"
    assert result["status"] == "consensus_complete"
    await fake_api.wait_for(model="deepseek", state="disconnected")


# ── the choice of the judge ──


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"judge": "sonnet"}, InvalidArgument, "must not be a member, and sonnet"),
        ({"judge": "nonsense-9"}, ModelNotFound, "nonsense-9"),
        ({"refine": "disagreement"}, InvalidArgument, "needs choices or a judge"),
        ({"refine": "always", "enable_cross_feedback": False}, InvalidArgument, "contradict"),
        ({"refine": "never", "rounds": 3}, InvalidArgument, "contradict"),
        ({"rounds": 3, "enable_cross_feedback": False}, InvalidArgument, "contradict"),
        ({"rounds": 4}, InvalidArgument, "rounds must be from 1 to 3"),
        ({"rounds": 1.5}, InvalidArgument, "rounds must be a whole number"),
        ({"order": "random"}, InvalidArgument, "parallel, sequential"),
        ({"refine": "sometimes"}, InvalidArgument, "always, disagreement, never"),
        ({"choices": ("a",)}, InvalidArgument, "choices must have 2 to 20"),
        ({"choices": ("a", " A ")}, InvalidArgument, "choices must differ"),
        ({"choices": ("a", " ")}, InvalidArgument, "choices[1] must not be empty"),
    ],
)
async def test_an_impossible_request_is_refused_before_anything_is_sent(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    fields: Any,
    kind: type[Exception],
    message: str,
) -> None:
    with pytest.raises(kind) as excinfo:
        await hold(engine, caller(), **fields)
    assert message in str(excinfo.value)
    assert fake_api.log.requests == []


async def test_an_automatic_judge_is_of_a_vendor_that_is_not_on_the_panel(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    for members, vendors in (
        (("gpt-5", "sonnet"), {"openai", "anthropic"}),
        (("codex", "claude"), {"openai", "anthropic"}),  # an agent counts as its vendor
        (("gemini-2.5-flash", "nonsense-9"), {"google"}),
    ):
        name = judge.choose("auto", members, Needs(), engine.router, caller())
        assert name is not None
        assert engine.router.route(name, caller()).provider not in vendors


async def test_an_automatic_judge_is_another_model_if_there_is_only_one_vendor(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    no_keys = dict.fromkeys(("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "XAI_API_KEY", "DEEPSEEK_API_KEY"), "")
    no_keys |= dict.fromkeys(("GEMINI_API_KEY", "MISTRAL_API_KEY", "OPENROUTER_API_KEY"), "")
    fake_api.script(text=verdict(), contains=JUDGING, times=None)
    openai_caller = caller(**no_keys)
    result = await hold(engine, openai_caller, ("gpt-5", "gpt-5-mini"), judge="auto", refine="never")
    judge_name = result["phases"]["verdict"]["judge"]
    assert judge_name not in {"gpt-5", "gpt-5-mini"}
    ordered_caller = caller(**no_keys, COUNSEL_AUTO_ORDER="gpt-5,gpt-5-mini")
    result = await hold(engine, ordered_caller, ("gpt-5", "gpt-5-mini"), judge="auto", refine="never")
    assert result["phases"]["verdict"]["code"] == "PROVIDER_UNAVAILABLE"
    assert result["successful_initial_responses"] == 2


async def test_a_misspelt_default_judge_is_an_error_and_not_another_model(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    with pytest.raises(ModelNotFound, match="deepsek-v3") as excinfo:
        await hold(engine, caller(COUNSEL_JUDGE="deepsek-v3"), judge="default", refine="never")
    assert str(excinfo.value.hint).endswith("It is the setting `judge` (COUNSEL_JUDGE). Nothing was sent.")
    assert not fake_api.calls


async def test_the_users_default_judge_is_another_if_it_is_a_member(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text=verdict(), contains=JUDGING, times=None)
    result = await hold(engine, caller(COUNSEL_JUDGE=JUDGE), judge="default", refine="never")
    assert result["phases"]["verdict"]["judge"] == JUDGE
    member = await hold(engine, caller(COUNSEL_JUDGE="sonnet"), judge="default", refine="never")
    assert member["phases"]["verdict"]["judge"] not in {*MEMBERS, "default", "auto"}
    assert "verdict" not in (await hold(engine, caller(), judge="default", refine="never"))["phases"]


# ── bias, rounds, text and schema ──


async def test_a_judge_that_always_prefers_the_first_answer_favours_no_member(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first = verdict(unique_insights=[{"answer": "A", "insight": "It is the best."}])
    judged(fake_api, first)
    say(fake_api, ANSWERS)
    winners: Counter[str] = Counter()
    for number in range(60):
        request = ConsensusRequest(prompt="q", models=MEMBERS, judge=JUDGE, refine="never")
        job = await engine.submit(request, caller(), key=f"bias-{number}")
        result = (await engine.wait(job)).to_json()
        winners[result["phases"]["verdict"]["unique_insights"][0]["model"]] += 1
    assert set(winners) == set(MEMBERS)
    assert max(winners.values()) < 40  # of 60: without shuffling, one member would have them all


@pytest.mark.parametrize(
    ("position", "rounds", "reason", "calls"),
    [("kept", 2, "unchanged", 6), ("changed", 3, "limit", 9), ("unclear", 3, "limit", 9)],
)
async def test_rounds_end_when_no_model_changes_its_position(
    engine: Engine,
    caller: Callable[..., Caller],
    fake_api: FakeAPI,
    position: str,
    rounds: int,
    reason: str,
    calls: int,
) -> None:
    say(fake_api, ANSWERS, refined=f"Now so.\n\nPosition: {position}")
    result = await hold(engine, caller(), rounds=3)
    assert result["refinement"] == {"mode": "always", "rounds": rounds, "ended": reason}
    assert len(fake_api.calls) == calls
    assert {entry["round"] for entry in result["phases"]["refined"]} == {rounds}
    middle = result["phases"].get("rounds", [])
    assert [(entry["round"], len(entry["answers"])) for entry in middle] == [(2, 3)] * (rounds - 2)


async def test_at_a_round_table_each_reads_what_was_said_before_it(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    say(fake_api, ANSWERS)
    await hold(engine, caller(), order="sequential", rounds=1)
    first, second, third = (str(call.body) for call in fake_api.calls)
    assert "Red one." not in first
    assert "Red one." in second
    assert all(text in third for text in ("Red one.", "Green two."))
    assert fake_api.log.most_open == 1


async def test_a_stored_result_and_its_text_have_the_verdict(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, home: Path
) -> None:
    judged(fake_api, verdict(contradictions=[CONTRADICTION], consensus=["Both work."]))
    say(fake_api, ANSWERS, refined="Now so.\n\nPosition: kept")
    request = ConsensusRequest(prompt="q", models=MEMBERS, judge=JUDGE)
    job = await engine.submit(request, caller())
    result = await engine.wait(job)
    document = result.to_json()
    assert result_from_json(document).to_json() == document
    await engine.close()
    another = await open_engine(home)
    status = await another.status(job)
    assert status.result is not None
    assert status.result.to_json() == document
    text = render.text(status)
    parts = [
        "## Recommendation",
        "Use tabs.",
        "## Agreement",
        "Both work.",
        "## Dissent",
        "(kept its position)",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Use tabs." in str(deduplicate.to_json(status))
    await another.close()


def test_the_schema_demands_every_field() -> None:
    schema = judge.schema(["A", "B"])
    assert schema["required"] == list(schema["properties"])
