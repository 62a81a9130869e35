"""`from counsel import Counsel`, as the docs show it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from counsel import Answer, Consensus, Counsel, CounselError
from fake import FakeAPI
from support import planted


@pytest.fixture
def env(fake_api: FakeAPI, tmp_path: Path) -> dict[str, str]:
    return {
        "COUNSEL_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake_api.v1,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "ANTHROPIC_BASE_URL": fake_api.url,
    }


async def test_ask_and_go_on(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("seven")
    async with Counsel(env=env, cwd=tmp_path) as c:
        answer = await c.ask("hello", model="gpt-5", files=[tmp_path / "notes.md"])
        assert (answer.model, answer.provider) == ("gpt-5", "openai")
        assert "seven" in answer.text
        more = await c.ask("again", continuation_id=answer.continuation_id)
        assert more.continuation_id == answer.continuation_id


async def test_a_review_from_python(env: dict[str, str], tmp_path: Path, fake_api: FakeAPI) -> None:
    entry = planted.finding("store.py", 13, "high", "Wrong", "It was right before.")
    fake_api.script(contains="Review this change", text=json.dumps({"findings": [entry]}), times=None)
    project = planted.repository(tmp_path / "project")
    async with Counsel(env=env, cwd=project) as c:
        review = await c.review(models=["gpt-5", "sonnet"], focus="locks")
        assert [(finding.place, finding.status, finding.location) for finding in review.findings] == [
            ("store.py:13", "agreed", "diff")
        ]
        assert review.sarif()["runs"][0]["results"][0]["level"] == "error"
        assert await c.wait(review.job_id) == review
        planted.git(project, "checkout", "-q", ".")
        with pytest.raises(CounselError, match="nothing to review"):
            await c.review(models=["gpt-5"])


async def test_stream_yields_text_as_it_comes(env: dict[str, str], tmp_path: Path) -> None:
    async with Counsel(env=env, cwd=tmp_path) as c:
        events = [event async for event in c.stream("hello", model="gpt-5")]
    assert "".join(event.data["text"] for event in events if event.kind == "text") == "gpt-5 says: hello"
    assert events[-1].kind == "done"


async def test_a_stream_says_how_to_go_on(env: dict[str, str], tmp_path: Path) -> None:
    async with Counsel(env=env, cwd=tmp_path) as c:
        first, *_ = [event async for event in c.stream("hello", model="gpt-5")]
        answer = await c.wait(first.data["job_id"])
        assert (answer.usage.output, answer.text) == (3, "gpt-5 says: hello")
        more = await c.ask("again", continuation_id=first.data["continuation_id"])
    assert (more.continuation_id, more.provider) == (answer.continuation_id, "openai")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 7}, "^chat: temperature must be from 0 to 1, not 7"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"reasoning_effort": "ultra"}, "reasoning_effort must be one of minimal"),
        ({"verbosity": "loud"}, "verbosity"),
        ({"media_resolution": "HIGH"}, "media_resolution"),
        ({"use_websearch": "yes"}, "use_websearch"),
        ({"files": "notes.md"}, "files must be a list"),
        ({"images": "a.png"}, "images must be a list"),
        ({"continuation_id": 7}, "continuation_id must be a string, not a number"),
        ({"model": 7}, "model must be a string, not a number"),
        ({"prompt": 7}, "prompt must be a string, not a number"),
        ({"export": 1}, "export"),
    ],
)
async def test_wrong_arguments_are_named_and_nothing_is_sent(
    env: dict[str, str], tmp_path: Path, fake_api: FakeAPI, options: Any, words: str
) -> None:
    async with Counsel(env=env, cwd=tmp_path) as c:
        with pytest.raises(CounselError, match=words) as failure:
            await c.ask(**{"prompt": "hello", "model": "gpt-5", **options})
        assert failure.value.code == "INVALID_ARGUMENT"
        with pytest.raises(CounselError, match="models must be a list"):
            await c.consensus("which?", models="gpt-5")
    assert fake_api.calls == []


async def test_leaving_a_stream_early_stops_the_call(
    env: dict[str, str], tmp_path: Path, fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    async with Counsel(env=env, cwd=tmp_path) as c:
        stream = c.stream("hello", model="gpt-5")
        async for event in stream:
            if event.kind == "text":
                break
        await stream.aclose()
        await fake_api.wait_for(state="disconnected")


async def test_cancelling_an_ask_stops_the_call(
    env: dict[str, str], tmp_path: Path, fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    async with Counsel(env=env, cwd=tmp_path) as c:
        task = asyncio.create_task(c.ask("hello", model="gpt-5"))
        await fake_api.wait_for(deltas=1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await fake_api.wait_for(state="disconnected")


async def test_consensus(env: dict[str, str], tmp_path: Path) -> None:
    async with Counsel(env=env, cwd=tmp_path) as c:
        both = await c.consensus("which?", models=["gpt-5", "sonnet"])
    assert both.status == "consensus_complete"
    assert set(both.answers) == {"gpt-5", "sonnet"}


async def test_a_failure_has_a_code(env: dict[str, str], tmp_path: Path, fake_api: FakeAPI) -> None:
    fake_api.script(status=404)
    async with Counsel(env=env, cwd=tmp_path) as c:
        with pytest.raises(CounselError) as failure:
            await c.ask("hello", model="gpt-5")
    assert failure.value.code == "MODEL_NOT_FOUND"


async def test_a_background_job_goes_on_in_the_next_counsel(
    env: dict[str, str], tmp_path: Path, fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", gate_after=0, times=1)
    async with Counsel(env=env, cwd=tmp_path) as c:
        job = await c.submit("hello", model="gpt-5")
        await fake_api.wait_for(count=1)
    async with Counsel(env=env, cwd=tmp_path) as c:
        assert (await c.wait(job)).text == "gpt-5 says: hello"


async def test_a_status_says_what_there_is_so_far_and_in_the_end(
    env: dict[str, str], tmp_path: Path, fake_api: FakeAPI
) -> None:
    fake_api.script(text="one two three", gate="g", gate_after=2)
    async with Counsel(env=env, cwd=tmp_path) as c:
        job = await c.submit("count", model="gpt-5")
        await fake_api.wait_for(deltas=2)
        while not (state := await c.status(job)).text:  # noqa: ASYNC110 - until the engine has read what was sent
            await asyncio.sleep(0.01)
        assert (state.id, state.status, state.is_done, state.result) == (job, "processing", False, None)
        assert "one two three".startswith(state.members[0].text)
        assert state.usage is None
        fake_api.open_gate("g")
        answer = await c.wait(job)
        state = await c.status(state.continuation_id, full_history=True)
    assert isinstance(answer, Answer)
    assert (state.is_done, state.text, state.result) == (True, "one two three", state.result)
    assert state.result == answer
    assert (state.usage, state.cost_usd) == (answer.usage, answer.cost_usd)
    assert [message.content for message in state.history] == ["count", "one two three"]
    assert state.finished_at is not None
    assert state.finished_at >= state.started_at


async def test_a_status_has_the_failure_and_cancelling_says_what_it_did(
    env: dict[str, str], tmp_path: Path, fake_api: FakeAPI
) -> None:
    fake_api.script(status=401)
    fake_api.script(hang_after=0)
    async with Counsel(env=env, cwd=tmp_path) as c:
        job = await c.submit("hello", model="gpt-5")
        with pytest.raises(CounselError):
            await c.wait(job)
        state = await c.status(job)
        assert (state.status, state.error.code if state.error else "") == ("failed", "AUTHENTICATION_FAILED")
        job = await c.submit("hello", model="gpt-5")
        assert (await c.cancel(job)).status == "cancelled"


async def test_a_consensus_is_waited_for_like_an_answer(env: dict[str, str], tmp_path: Path) -> None:
    async with Counsel(env=env, cwd=tmp_path) as c:
        both = await c.consensus("which?", models=["gpt-5", "sonnet"])
        again = await c.wait(both.job_id)
    assert isinstance(again, Consensus)
    assert (again.answers, again.usage) == (both.answers, both.usage)
    assert again.usage.output > 0
