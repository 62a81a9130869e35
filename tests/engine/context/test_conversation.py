"""The call that a model or an agent gets: earlier turns, images, the system prompt, and what a session has missed."""

from __future__ import annotations

import base64
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.engine.consult import prompts
from counsel.engine.consult.routes import Route
from counsel.engine.context import conversation
from counsel.engine.context.conversation import History
from counsel.engine.store.model import Task
from counsel.engine.store.records import AgentSession, Blob, Message
from counsel.errors import Internal, Refused
from counsel.types import Image, Model

SEES = Model("sees", "openai", "sees", vision=True)
BLIND = Model("blind", "openai", "blind", vision=False)
DOT = Image(
    "image/png",
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    ),
    name="dot",
)
TASK = Task(tool="chat", prompt="why?", text="why?\n\n<files>…</files>", models=("m",))
SCHEMA: dict[str, object] = {"type": "array"}


def route(model: Model | None = SEES) -> Route:
    def answer(_: object) -> Any:
        raise AssertionError

    return Route("m", "codex" if model is None else "openai", answer, lambda _: None, model)


def job(**fields: Any) -> Any:
    task = replace(TASK, **fields)
    return SimpleNamespace(
        task=task, conversation="mine", continues=True, caller=SimpleNamespace(cwd=Path("/p"))
    )


def compose(history: History, route_: Route, session: AgentSession | None = None, **fields: Any) -> Any:
    return conversation.compose(job(**fields), history, route_, session)


def said(role: Any, text: str, *images: str) -> Message:
    return Message(role=role, text=text, images=images, job="job_1")


NOTHING = History((), {})


@pytest.mark.parametrize(
    ("system", "schema", "expected"),
    [
        (None, None, prompts.CONSULTED),
        (None, SCHEMA, f"{prompts.CONSULTED}\n\n{prompts.structured(SCHEMA)}"),
        ("Be brief.", None, "Be brief."),
        ("Be brief.", SCHEMA, f"Be brief.\n\n{prompts.structured(SCHEMA)}"),
        ("", None, ""),
        ("", SCHEMA, prompts.structured(SCHEMA)),
    ],
)
def test_a_system_prompt_of_ones_own_replaces_counsels_even_an_empty_one(
    system: str | None, schema: Any, expected: str
) -> None:
    assert compose(NOTHING, route(), system=system, schema=schema).system == expected


@pytest.mark.parametrize(("system", "expected"), [(None, None), ("", None), ("Be brief.", "Be brief.")])
def test_an_agent_gets_only_the_callers_part_of_the_system_prompt(
    system: str | None, expected: str | None
) -> None:
    assert compose(NOTHING, route(None), system=system).system == expected


def test_a_model_gets_the_files_and_an_agent_their_paths() -> None:
    fields: dict[str, Any] = {"files": ("/p/a.py",), "ranges": ("1-2",)}
    for_model, for_agent = compose(NOTHING, route(), **fields), compose(NOTHING, route(None), **fields)
    assert (for_model.turns[-1].text, for_model.files, for_model.cwd) == (TASK.text, (), None)
    assert for_model.tokens > 0
    assert for_agent.turns[-1].text == "why?"
    assert (for_agent.files, for_agent.ranges, for_agent.cwd) == ((Path("/p/a.py"),), ("1-2",), Path("/p"))
    assert for_agent.session is None


HISTORY = History(
    (
        said("user", "look", "dot", "gone"),
        said("assistant", "nice"),
        said("user", "ok"),
        said("assistant", " \n"),
    ),
    {"dot": DOT},
)


def test_earlier_turns_with_their_images_for_a_model_that_sees() -> None:
    turns = compose(HISTORY, route()).turns
    assert [(turn.role, turn.text, len(turn.images)) for turn in turns] == [
        ("user", "look", 1), ("assistant", "nice", 0), ("user", "ok", 0), ("assistant", prompts.NO_ANSWER, 0),
        ("user", TASK.text, 0),
    ]  # fmt: skip


def test_a_model_that_cannot_see_learns_how_many_images_there_were() -> None:
    turns = compose(HISTORY, route(BLIND)).turns
    assert [(turn.text, turn.images) for turn in turns[:2]] == [
        ("look\n\n[2 images here, which you cannot see]", ()), ("nice", ())
    ]  # fmt: skip


def test_images_of_the_question_itself() -> None:
    history = History((), {"dot": DOT})
    assert len(compose(history, route(), images=("dot",)).turns[-1].images) == 1
    with pytest.raises(Refused, match="m cannot see images") as excinfo:
        compose(history, route(BLIND), images=("dot",))
    assert excinfo.value.fields["model"] == "m"
    with pytest.raises(Internal, match="missing from the database"):
        compose(history, route(), images=("dot", "gone"))
    (image,) = compose(history, route(None), images=("dot",)).turns[-1].images
    assert image is DOT, "an agent gets it as it is"


@pytest.mark.parametrize(("known", "missed"), [(0, 4), (2, 2), (3, 1), (4, 0), (5, 0)])
def test_an_agents_session_gets_the_turns_that_it_missed(known: int, missed: int) -> None:
    call = compose(HISTORY, route(None), AgentSession("own", known))
    assert call.session == "own"
    assert (call.turns[-1].role, call.turns[-1].images) == ("user", ())
    question = call.turns[-1].text
    assert question.endswith("why?")
    assert question.startswith("Since your last answer") == bool(missed)
    assert question.count("</user>") + question.count("</assistant>") == missed


class StoreStub:
    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.requested: set[str] = set()
        self.sessions: list[tuple[str, str]] = []

    async def messages(self, _: str) -> list[Message]:
        return list(self._messages)

    async def blobs(self, shas: set[str]) -> dict[str, Blob]:
        self.requested |= shas
        return {sha: Blob(sha, "image/png", DOT.data) for sha in shas}

    async def agent_session(self, name: str, provider: str) -> AgentSession | None:
        self.sessions.append((name, provider))
        return AgentSession("own", 2)


async def test_the_images_of_all_turns_are_loaded_and_nothing_of_a_new_conversation() -> None:
    store: Any = StoreStub(said("user", "look", "a" * 64), said("assistant", "nice"))
    history = await conversation.load(store, job(images=("b" * 64,)))
    assert history.count == 2
    assert history.has_images()
    assert {sha: image.name for sha, image in history.images.items()} == {
        "a" * 64: "a" * 12,
        "b" * 64: "b" * 12,
    }
    new = job()
    new.continues = False
    assert await conversation.load(store, new) == NOTHING
    assert not NOTHING.has_images()


async def test_only_an_agent_has_a_session_of_its_own() -> None:
    store: Any = StoreStub()
    assert (await conversation.compose_async(job(), NOTHING, route(), store)).session is None
    assert store.sessions == []
    assert (await conversation.compose_async(job(), HISTORY, route(None), store)).session == "own"
    assert store.sessions == [("mine", "codex")]


@pytest.mark.parametrize(("history", "is_in_thread"), [(NOTHING, False), (HISTORY, True)])
async def test_images_are_scaled_without_blocking_the_loop(
    monkeypatch: pytest.MonkeyPatch, history: History, is_in_thread: bool
) -> None:
    threads: list[bool] = []
    monkeypatch.setattr(
        conversation,
        "compose",
        lambda *_: threads.append(threading.current_thread() is not threading.main_thread()),
    )
    await conversation.compose_async(job(), history, route(), StoreStub())  # type: ignore[arg-type]
    assert threads == [is_in_thread]
