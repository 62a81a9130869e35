"""What a job stores, and how the next process reads it, including jobs of older and newer releases."""

from __future__ import annotations

import json
from pathlib import Path

from counsel.caller import Caller
from counsel.engine.store.model import Origin, Part, Reply, Task
from counsel.job_events import ToolRun
from counsel.results import AnswerNotice, Source
from counsel.settings import Settings
from counsel.types import Usage

TASK = Task(
    tool="chat",
    prompt="Why?",
    text="Why?\n\n<files>a</files>",
    models=("gpt-5",),
    images=("sha",),
    files=("/a",),
    ranges=("1-5",),
    sources=(Source(name="a", size=20, first=1, last=5, encoding="utf-16"),),
    parts=(Part("/a{1-5}", "sha", 14, 15),),
    temperature=0.0,
    tools=("tides",),
)


def test_a_task_is_read_as_it_was_written() -> None:
    assert Task.load(TASK.dump()) == TASK
    assert isinstance(Task.load(TASK.dump()).parts[0], Part)


def test_a_text_equal_to_the_prompt_is_stored_once() -> None:
    plain = Task(tool="chat", prompt="Wäre es?", text="Wäre es?", models=("gpt-5",))
    assert "text" not in json.loads(plain.dump())
    assert "Wäre" in plain.dump()
    assert Task.load(plain.dump()) == plain
    assert json.loads(TASK.dump())["text"] == TASK.text


def test_a_task_of_another_release_is_read_as_far_as_its_fields_are_known() -> None:
    older = {"tool": "chat", "prompt": "p", "models": ["m"], "from_the_future": 1}
    assert Task.load(json.dumps(older)) == Task(tool="chat", prompt="p", text="p", models=("m",))


def test_settings_are_those_that_the_caller_set() -> None:
    assert TASK.settings() == {"temperature": 0.0, "tools": ["tides"], "models": ["gpt-5"]}
    task = Task(
        tool="consensus", prompt="p", text="p", models=("a", "b"), cross_feedback=True, feedback_prompt="f"
    )
    assert task.settings() == {"cross_feedback": True, "feedback_prompt": "f", "models": ["a", "b"]}
    assert TASK.asked_for("temperature")
    assert not TASK.asked_for("verbosity")
    assert TASK.asked_for("no such setting")


def test_only_a_consensus_has_a_temperature_of_its_own() -> None:
    assert TASK.model_settings.temperature == 0.0
    assert Task(tool="chat", prompt="p", text="p", models=()).model_settings.temperature is None
    assert Task(tool="consensus", prompt="p", text="p", models=()).model_settings.temperature == 0.2
    assert (
        Task(tool="consensus", prompt="p", text="p", models=(), temperature=0.9).model_settings.temperature
        == 0.9
    )


def test_a_reply_is_read_as_it_was_written() -> None:
    reply = Reply(
        text="Därum.",
        provider="openai",
        model="gpt-5",
        usage=Usage(input=1, output=2, reasoning=3, cost_usd=0.5),
        finish_reason="length",
        ms=7,
        left_out=("verbosity",),
        notices=(AnswerNotice("warning", "x"),),
        tools=(ToolRun("s", "t", 1, True),),
    )
    assert Reply.load(reply.dump()) == reply
    assert "Därum" in reply.dump()


def test_a_reply_of_another_release_is_read_as_far_as_its_fields_are_known() -> None:
    document = {"text": "t", "usage": {"input": 1, "future": 2}, "future": 3}
    assert Reply.load(json.dumps(document)) == Reply(text="t", provider="", model="", usage=Usage(input=1))
    assert Reply.load('{"text": "t"}').usage == Usage()


def test_a_caller_is_stored_without_its_environment() -> None:
    caller = Caller(
        "codex", agent="codex", cwd=Path("/work"), roots=(Path("/work"), Path("/more")), chain=("claude",)
    )
    settings = Settings()
    loaded_caller = Origin.load(Origin.of(caller).dump()).caller(settings)
    assert (
        loaded_caller.client,
        loaded_caller.agent,
        loaded_caller.cwd,
        loaded_caller.roots,
        loaded_caller.chain,
    ) == (
        "codex",
        "codex",
        Path("/work"),
        (Path("/work"), Path("/more")),
        ("claude",),
    )
    assert loaded_caller.settings is settings
    assert json.loads(Origin.of(caller).dump()).keys() == {"client", "agent", "cwd", "roots", "chain"}
    assert Origin.load("{}").caller(settings) == Caller(
        "", agent=None, cwd=Path(), roots=(), chain=(), settings=settings
    )
