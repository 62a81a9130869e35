"""Completions in the engine: chains, earlier responses, conversations."""

from __future__ import annotations

from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.errors import Conflict, CounselError, InvalidArgument, ModelNotFound, NotFound
from counsel.requests import ChatRequest, CompletionRequest
from counsel.results import ChatResult
from counsel.types import Exact, Native, Turn
from fake import FakeAPI


async def complete(engine: Engine, caller: Caller, text: str = "hello", **fields: Any) -> ChatResult:
    request = CompletionRequest(**{"model": "gpt-5", "turns": (Turn("user", text),), **fields})
    result = await engine.wait(await engine.submit(request, caller))
    await engine.store.flush()
    assert isinstance(result, ChatResult)
    return result


async def test_an_answer_with_its_parts(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    result = await complete(engine, caller())
    assert result.content == "gpt-5 says: hello"
    assert result.parts == ({"type": "text", "text": "gpt-5 says: hello"},)
    assert result.stopped_by is None
    assert result.continuation.model == "gpt-5"
    assert "temperature" not in fake_api.last.body, "no default of ours"


async def test_the_sequence_that_ended_an_answer(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    fake_api.script(text="one END two")
    result = await complete(engine, caller(), exact=Exact(stop=("END",)))
    assert (result.content, result.stopped_by) == ("one ", "END")


async def test_the_next_of_a_chain_answers(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    fake_api.script(error="server", times=None, model="gpt-5")
    result = await complete(engine, caller(), model="gpt-5,haiku")
    assert result.content.endswith("says: hello")
    (passed_over,) = result.metadata.passed_over
    assert passed_over.model == "gpt-5"
    assert (await complete(engine, caller(), model=" AUTO ")).content


async def test_a_model_that_cannot_be_asked_is_passed_over(engine: Engine, caller: Any) -> None:
    asking = caller(ANTHROPIC_API_KEY="")
    result = await complete(engine, asking, model="haiku,gpt-5")
    assert len(result.metadata.passed_over) == 1
    assert result.continuation.model == "gpt-5"


async def test_followers_learn_which_model_was_passed_over_and_nothing_of_the_last_one(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    fake_api.script(error="server", times=None, model="gpt-5")
    for model, passed_over in (("gpt-5,haiku", ["gpt-5"]), ("gpt-5", [])):
        job = await engine.submit(CompletionRequest(model=model, turns=(Turn("user", "hi"),)), caller())
        events = [event async for event in engine.follow(job)]
        notices = [
            event.data
            for event in events
            if event.kind == "notice" and event.data["kind_of"] == "passed_over"
        ]
        assert [notice["text"].partition(":")[0] for notice in notices] == passed_over


async def test_a_failure_of_the_only_model_is_raised(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    fake_api.script(error="auth", times=None)
    with pytest.raises(CounselError):
        await complete(engine, caller())
    with pytest.raises(CounselError):
        await complete(engine, caller(), model="gpt-5,haiku")


async def test_nothing_is_sent_to_a_model_that_does_not_exist(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    for model in ("gtp-5", "gpt-5,gtp-5"):
        with pytest.raises((ModelNotFound, InvalidArgument)):
            await complete(engine, caller(), model=model)
    with pytest.raises(InvalidArgument, match="does not take document"):
        await complete(engine, caller(), untranslated=("document",))
    assert not fake_api.calls


async def test_a_response_continues_another(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    first = await complete(engine, caller(), "one", stored=True)
    native = Exact(native=Native("openai_responses", {"input": "two", "metadata": {"own": "body"}}))
    second = await complete(engine, caller(), "two", stored=True, previous=first.job_id, exact=native)
    request = fake_api.last
    assert "metadata" not in request.body, "the client's own body lacks the earlier turns"
    for text in ("one", "gpt-5 says: one", "two"):
        assert text in str(request.body["input"])
    await complete(engine, caller(), "three", previous=second.job_id)
    texts = str(fake_api.last.body["input"])
    places = [texts.index(text) for text in ("'one'", "says: one", "'two'", "'three'")]
    assert places == sorted(places)


async def test_only_stored_responses_can_be_continued(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    job = await engine.submit(ChatRequest(prompt="a chat", model="gpt-5"), caller())
    await engine.wait(job)
    await engine.store.flush()
    for previous in ("job_none", job):
        with pytest.raises(NotFound, match=previous.replace("job_", "'resp_")) as missing:
            await complete(engine, caller(), previous=previous)
        assert missing.value.fields["param"] == "previous_response_id"
    fake_api.script(error="auth", times=None, contains="bad")
    failed_job = await engine.submit(
        CompletionRequest(model="gpt-5", turns=(Turn("user", "bad"),), stored=True), caller()
    )
    with pytest.raises(CounselError):
        await engine.wait(failed_job)
    await engine.store.flush()
    with pytest.raises(Conflict, match="has no answer"):
        await complete(engine, caller(), previous=failed_job)


async def test_a_response_that_runs_cannot_be_continued(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    fake_api.script(gate="open", contains="slow")
    running = await engine.submit(
        CompletionRequest(model="gpt-5", turns=(Turn("user", "slow"),), stored=True), caller()
    )
    await engine.store.flush()
    with pytest.raises(Conflict, match="has not ended yet"):
        await complete(engine, caller(), previous=running)
    fake_api.open_gate("open")
    await engine.wait(running)


async def test_a_completion_in_one_of_our_conversations(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    await complete(engine, caller(), "one", continuation_id="mine")
    await complete(engine, caller(), "two", continuation_id="mine")
    texts = str(fake_api.last.body["input"])
    assert texts.index("says: one") < texts.index("'two'")
    document = await engine.archive.show("mine")
    assert [message["content"] for message in document["history"]] == [
        "one", "gpt-5 says: one", "two", "gpt-5 says: two"
    ]  # fmt: skip
    with pytest.raises(InvalidArgument):
        await complete(engine, caller(), continuation_id="not a name/")


async def test_a_title_is_the_beginning_of_the_last_question(engine: Engine, caller: Any) -> None:
    long = "long " * 40
    turns = (Turn("user", long), Turn("assistant", "so"), Turn("user", ""))
    result = await complete(engine, caller(), turns=turns)
    await engine.store.flush()
    task = await engine.store.task(str(result.job_id))
    assert task is not None
    assert task.prompt == long[:80]
    assert task.stateless
    assert task.models == ("gpt-5",)
