"""`consensus:gpt-5,opus` as a model: what it takes, what it ignores, what people see meanwhile, what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.errors import TimedOut
from counsel.http.v1 import consensus
from counsel.http.v1.api import ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.job_events import JobDone, JobEvent, ModelFailed, ModelFinished, ModelStarted, PhaseStarted
from counsel.requests import CompletionRequest, ConsensusRequest
from counsel.results import ConsensusResult
from counsel.types import Exact, Image, ToolCall, ToolSpec, Turn

ASKED = Turn("user", "Which?")


def request(*turns: Turn, model: str = "consensus:gpt-5,opus", **fields: Any) -> ApiRequest:
    more = {name: fields.pop(name) for name in ("ignored", "background") if name in fields}
    return ApiRequest(completion=CompletionRequest(model=model, turns=turns or (ASKED,), **fields), **more)


def asked(tmp_path: Path, *turns: Turn, **fields: Any) -> ConsensusRequest:
    return consensus.request_of(
        request(*turns, **fields), settings.load({"COUNSEL_HOME": str(tmp_path), "HOME": str(tmp_path)})
    )


@pytest.mark.parametrize(
    ("model", "models"),
    [
        ("consensus:gpt-5,opus", ("gpt-5", "opus")),
        ("consensus: gpt-5 ,, opus ,", ("gpt-5", "opus")),
        ("consensus:@fast", ("@fast",)),
        ("consensus:", ("auto",)),
        ("consensus", ("auto",)),
    ],
)
def test_its_name_has_the_members(tmp_path: Path, model: str, models: tuple[str, ...]) -> None:
    assert consensus.is_named(model)
    value = asked(tmp_path, model=model)
    assert (value.models, value.prompt, value.judge, value.check_models) == (
        models,
        "Which?",
        "default",
        True,
    )


@pytest.mark.parametrize("model", ["consensus2", "gpt-5", "my-consensus:gpt-5", ""])
def test_another_model_is_none(model: str) -> None:
    assert not consensus.is_named(model)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tools": (ToolSpec("look", "Looks.", {}),)}, "tools"),
        ({"untranslated": ("document",)}, "tools"),
        ({"schema": {}}, "a response format"),
        ({"exact": Exact(json_object=True)}, "a response format"),
        ({"background": True}, "background"),
        ({"previous": "job_1"}, "previous_response_id"),
    ],
)
def test_what_it_does_not_take_is_named(tmp_path: Path, fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest) as excinfo:
        asked(tmp_path, **fields)
    assert str(excinfo.value) == f"A consensus does not take {name}. counsel's own API has more."


def test_calls_of_tools_images_elsewhere_and_an_answer_at_the_end_are_refused(tmp_path: Path) -> None:
    called = Turn("assistant", tool_calls=(ToolCall("c1", "look", {}),))
    with pytest.raises(BadRequest, match="does not take tool calls and their results"):
        asked(tmp_path, ASKED, called, ASKED)
    with pytest.raises(BadRequest, match="must be the user's"):
        asked(tmp_path, ASKED, Turn("assistant", "This."))
    with pytest.raises(BadRequest, match="send the image itself"):
        asked(tmp_path, Turn("user", "?", images=(Image("image/png", b"", url="https://x.example/a.png"),)))


def test_what_it_takes_reaches_the_members(tmp_path: Path) -> None:
    value = asked(
        tmp_path,
        Turn("user", "First?", images=(Image("image/png", b"one"),)),
        Turn("assistant", "It depends."),
        Turn("assistant", ""),
        Turn("user", "On what?", images=(Image("image/jpeg", b"two"),)),
        system="Be brief.",
        reasoning_effort="high",
        verbosity="low",
        web_search=True,
        continuation_id="mine",
    )
    assert value.images == ("data:image/png;base64,b25l", "data:image/jpeg;base64,dHdv")
    assert value.prompt.endswith("On what?")
    assert "First?" in value.prompt
    assert "It depends." in value.prompt
    assert (value.system, value.reasoning_effort, value.verbosity) == ("Be brief.", "high", "low")
    assert (value.use_websearch, value.continuation_id) == (True, "mine")


@pytest.mark.parametrize(("given", "used"), [(None, None), (0.0, 0.0), (1.0, 1.0), (1.5, 1.0)])
def test_its_temperature_is_one_that_every_vendor_takes(
    tmp_path: Path, given: float | None, used: float | None
) -> None:
    assert asked(tmp_path, temperature=given).temperature == used


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ()),
        ({"max_output": 0}, ("max_tokens",)),
        ({"exact": Exact(top_p=0.0, top_k=0, thinking_budget=0)}, ("top_p", "top_k", "thinking")),
        ({"exact": Exact(stop=("x",))}, ("stop",)),
        (
            {"exact": Exact(frequency_penalty=0.0, presence_penalty=0.0)},
            ("frequency_penalty", "presence_penalty"),
        ),
        (
            {"ignored": ("seed", "stop"), "offered": ("code",), "exact": Exact(stop=("x",))},
            ("seed", "stop", "code"),
        ),
    ],
)
def test_what_has_no_effect_is_named_once(fields: dict[str, Any], names: tuple[str, ...]) -> None:
    assert consensus.ignored(request(**fields)) == names


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (PhaseStarted(1, 0.0, "", "initial"), "The first answers:\n"),
        (PhaseStarted(1, 0.0, "", "refined"), "Refined after reading the others:\n"),
        (PhaseStarted(1, 0.0, "", "verdict"), "The verdict:\n"),
        (PhaseStarted(1, 0.0, "", "later"), "later:\n"),
        (ModelStarted(1, 0.0, "0", "opus", "initial"), "- opus is asked.\n"),
        (ModelFinished(1, 0.0, "0", "opus", "initial", "anthropic", 1_260, 5), "- opus has answered after 1.3 s.\n"),
        (ModelFailed(1, 0.0, "0", "opus", "initial", TimedOut("It took too long.")), "- opus failed: It took too long.\n"),
        (JobDone(1, 0.0, "", "job_1"), ""),
    ],
)  # fmt: skip
def test_people_who_wait_read_what_happens(event: JobEvent, line: str) -> None:
    assert consensus.progress(event) == line


@pytest.mark.parametrize(
    ("cost", "ignored", "more"),
    [(None, (), {}), (0.0, ("seed",), {"cost_usd": 0.0, "ignored": ["seed"]}), (0.5, (), {"cost_usd": 0.5})],
)
def test_its_answer_is_one_text_with_the_costs_of_all(
    cost: float | None, ignored: tuple[str, ...], more: dict[str, Any]
) -> None:
    used = {"metadata": {"model": "m", "provider": "p", "usage": {"input_tokens": 1, "output_tokens": 1}}}
    result = ConsensusResult.from_json(
        {
            "status": "consensus_complete",
            "models_consulted": 1,
            "phases": {
                "initial": [{"model": "opus", "response": "Yes.", **used}],
                "refined": [],
                "failed": [],
            },
            "continuation": {"id": "conv_1"},
            "job_id": "job_1",
            "metadata": {"usage": {"input_tokens": 10, "output_tokens": 2}, "cost_usd": cost},
        }
    )
    answer = consensus.answer_of(request(ignored=ignored), result)
    assert answer.parts == ({"type": "text", "text": result.content},)
    assert "Yes." in result.content
    assert (answer.usage.input, answer.usage.output, answer.reason) == (10, 2, "stop")
    assert (answer.model, answer.ignored) == ("consensus:gpt-5,opus", ignored)
    assert answer.counsel == {"job_id": "job_1", "models": ["opus"], "status": "consensus_complete", **more}
