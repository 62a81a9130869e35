"""Every public name of counsel, used as in a program. mypy (strict) checks this file; nothing runs it.

A type that changes here changes for users: say so in CHANGELOG.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, assert_type

import counsel
from counsel import Answer, Consensus, Counsel, CounselError, Job, Review, Usage, sync
from counsel.api import Options
from counsel.job_events import JobEvent, TextAdded, Wait
from counsel.results import Cancellation


async def ask(client: Counsel) -> None:
    answer = await client.ask(
        "prompt",
        model="gpt-5",
        files=["a.py", Path("b.py")],
        images=["c.png"],
        continuation_id="conv_1",
        temperature=0.2,
        reasoning_effort="high",
        verbosity="low",
        use_websearch=True,
        media_resolution="MEDIA_RESOLUTION_HIGH",
        export=True,
        tools=["files"],
    )
    assert_type(answer, Answer)
    assert_type(answer.text, str)
    assert_type(answer.model, str)
    assert_type(answer.provider, str)
    assert_type(answer.continuation_id, str)
    assert_type(answer.job_id, str)
    assert_type(answer.cost_usd, float | None)
    assert_type(answer.usage, Usage)
    assert_type(answer.usage.total, int)
    assert_type(answer.metadata, dict[str, Any])


async def stream(client: Counsel) -> None:
    events = client.stream("prompt", model="auto", verbosity="medium")
    assert_type(events, AsyncGenerator[JobEvent, None])
    async for event in events:
        assert_type(event.seq, int)
        if isinstance(event, TextAdded):
            assert_type(event.text, str)
            assert_type(event.data, dict[str, Any])


async def consensus(client: Counsel) -> None:
    reply = await client.consensus(
        "prompt",
        models=["gpt-5", "opus"],
        cross_feedback=False,
        cross_feedback_prompt=None,
        export="reply.md",
    )
    assert_type(reply, Consensus)
    assert_type(reply.status, str)
    assert_type(reply.text, str)
    assert_type(reply.answers, Mapping[str, str])
    assert_type(reply.failed, Sequence[dict[str, Any]])
    assert_type(reply.continuation_id, str)
    assert_type(reply.job_id, str)
    assert_type(reply.cost_usd, float | None)
    assert_type(reply.result, dict[str, Any])


async def jobs(client: Counsel) -> None:
    job = await client.submit("prompt", model="gpt-5", files=["a.py"])
    assert_type(job, str)
    result = await client.wait(job)
    assert_type(result, Answer | Consensus | Review)
    assert_type(result.usage, Usage)
    assert_type(await client.cancel(job), Cancellation)
    state = await client.status(job, full_history=True)
    assert_type(state, Job)
    assert_type(state.id, str)
    assert_type(state.started_at, datetime)
    assert_type(state.finished_at, datetime | None)
    assert_type(state.models, tuple[str, ...])
    assert_type(state.text, str)
    assert_type(state.result, Answer | Consensus | Review | None)
    assert_type(state.error, CounselError | None)
    assert_type(state.usage, Usage | None)
    assert_type(state.cost_usd, float | None)
    assert_type(state.waiting_for, Wait | None)
    assert_type(state.is_done, bool)
    assert_type([member.text for member in state.members], list[str])
    assert_type([message.content for message in state.history], list[str])


def blocking() -> None:
    with sync.Counsel(env={"OPENAI_API_KEY": "sk"}, cwd=Path()) as client:
        assert_type(client.ask("prompt", model="gpt-5", files=["a.py"]), Answer)
        assert_type(client.consensus("prompt", models=["gpt-5", "opus"]), Consensus)
        assert_type(client.review(base="main", models=["gpt-5", "opus"]), Review)
        job = client.submit("prompt")
        assert_type(client.wait(job), Answer | Consensus | Review)
        assert_type(client.status(job), Job)
        assert_type(client.cancel(job), Cancellation)
        for event in client.stream("prompt"):
            assert_type(event, JobEvent)
            if isinstance(event, TextAdded):
                assert_type(event.text, str)
    client.close()


async def lifetime() -> None:
    async with Counsel(env={"OPENAI_API_KEY": "sk"}, cwd=Path()) as client:
        assert_type(client, Counsel)
    await client.close()
    try:
        await client.ask("prompt")
    except CounselError as error:
        assert_type(error.code, str)
        assert_type(error.message, str)
        assert_type(error.hint, str | None)


async def names() -> None:
    assert_type(counsel.__version__, str)
    options: Options = {"files": ["a.py"], "temperature": 0.5}
    options["reasoning_effort"] = "ultra"  # type: ignore[typeddict-item]  # not one of the efforts
    await Counsel().ask("prompt", modle="gpt-5")  # type: ignore[call-arg]  # a misspelt option is refused
