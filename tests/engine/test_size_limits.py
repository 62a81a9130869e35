"""Prompts, conversations and answers that are too large are refused or cut, and memory and disk are limited."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.jobs.events import MOST_ASIDES, Live
from counsel.errors import CounselError, InvalidArgument
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI
from fake.raw import RawServer, bomb, event
from support.database import value

pytestmark = pytest.mark.slow  # left out of `make check`

WORKER = Path(__file__).with_name("size_limits_worker.py")


async def count(engine: Engine, table: str) -> int:
    return int(await value(engine, f"SELECT COUNT(*) FROM {table}"))


async def test_a_prompt_that_is_too_large_is_refused_before_anything_is_written(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    sender = caller(COUNSEL_MAX_PROMPT_BYTES="2000")
    for size, request in (
        (2001, ChatRequest(prompt="x" * 2001, model="gpt-5")),
        (2100, ChatRequest(prompt="日" * 700, model="gpt-5")),
        (3000, ConsensusRequest(prompt="hi", models=("gpt-5",), cross_feedback_prompt="y" * 3000)),
    ):
        with pytest.raises(InvalidArgument) as excinfo:
            await engine.submit(request, sender)
        assert f"{size:,}" in excinfo.value.message
        assert "2,000" in excinfo.value.message
        assert excinfo.value.fields == {"size": size, "limit": 2000}
    counts = await count(engine, "jobs"), await count(engine, "conversations"), len(fake_api.requests)
    assert counts == (0, 0, 0)
    await engine.wait(await engine.submit(ChatRequest(prompt="x" * 2000, model="gpt-5"), sender))


async def test_a_conversation_that_has_grown_too_large_is_not_continued(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(size=9000)
    sender = caller(COUNSEL_MAX_PROMPT_BYTES="2000")
    first = (
        await engine.wait(await engine.submit(ChatRequest(prompt="hi", model="gpt-5"), sender))
    ).to_json()
    again = ChatRequest(prompt="and?", model="gpt-5", continuation_id=first["continuation"]["id"])
    with pytest.raises(InvalidArgument, match="This conversation has 9,002 characters; the limit is 8,000"):
        await engine.submit(again, sender)
    assert await count(engine, "jobs") == 1


async def test_the_beginning_of_an_answer_that_is_too_large_is_kept(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(size=50_000)
    sender = caller(COUNSEL_MAX_ANSWER_BYTES="10000")
    result = (
        await engine.wait(await engine.submit(ChatRequest(prompt="hi", model="gpt-5"), sender))
    ).to_json()
    about = result["metadata"]
    assert len(result["content"]) == 10_000
    assert about["finish_reason"] == "length"
    assert [notice["limit_bytes"] for notice in about["notices"]] == [10_000]
    assert "incomplete" in about["notices"][0]["text"]
    assert about["usage"]["output_tokens"] >= 2500  # the provider never reported a count
    assert about["cost_usd"] > 0
    remaining = await value(engine, "SELECT text FROM messages WHERE role = 'assistant'")
    assert len(remaining) == 10_000
    output_tokens = await value(engine, "SELECT output FROM ledger")
    assert output_tokens == about["usage"]["output_tokens"]


async def test_partial_text_is_stored_once(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """A long answer that fails at its end: its text is in the job's error, and nowhere else."""
    fake_api.script(size=1_000_000, delta_size=1000, gate="end", gate_after=900, cut_after=950, times=None)
    job = await engine.submit(ChatRequest(prompt="hi", model="gpt-5"), caller())
    await fake_api.wait_for(deltas=900)
    async with asyncio.timeout(60):
        while not await value(engine, "SELECT SUM(LENGTH(data)) FROM events WHERE kind = 'text'"):
            await asyncio.sleep(0.05)
    fake_api.open_gate("end")
    with pytest.raises(CounselError) as excinfo:
        await engine.wait(job)
    assert len(excinfo.value.fields["partial"]) > 800_000
    events = await value(engine, "SELECT SUM(LENGTH(data)) FROM events WHERE job = ?", job)
    assert events < 10_000
    assert await value(engine, "SELECT LENGTH(error) FROM jobs WHERE id = ?", job) < 1_100_000


async def test_answers_too_large_for_a_second_round_are_kept_from_the_first(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(size=3000, times=None)
    sender = caller(COUNSEL_MAX_PROMPT_BYTES="2000")
    result = (
        await engine.wait(
            await engine.submit(ConsensusRequest(prompt="hi", models=("gpt-5", "sonnet")), sender)
        )
    ).to_json()
    assert result["successful_initial_responses"] == 2
    assert result["refined_responses"] == 0
    assert "3,000 characters" in result["phases"]["failed"][0]["error"]
    assert len(fake_api.calls) == 2


def test_events_of_a_job_are_limited() -> None:
    live = Live("job", ("m",))
    for number in range(3 * MOST_ASIDES):
        live.notice("0", "source", str(number))
    live.done("completed")
    assert len(live.events) == MOST_ASIDES + 1
    assert "further ones are not shown" in live.events[-2].data["text"]


# ── memory, in a process of its own ──────────────────────────────────────────────────────────────────


def stored(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


WORDS = event(content="x" * 20_000)
ENDLESS: dict[str, tuple[str, Iterator[bytes], dict[str, object]]] = {
    "words": ("", itertools.repeat(WORDS), {"length": 2**20, "finish": "length"}),
    "small": ("", itertools.repeat(event(content="ab ") * 300), {"length": 2**20, "finish": "length"}),
    "bomb": ("content-encoding: gzip\r\n", bomb(WORDS), {"length": 2**20, "finish": "length"}),
    "line": ("", itertools.chain([b"data: "], itertools.repeat(b"x" * 60_000)), {"code": "UPSTREAM_ERROR"}),
    "thinking": ("", itertools.repeat(event(reasoning="x" * 20_000)), {"code": "UPSTREAM_ERROR"}),
    "deep": ("", itertools.chain([b"data: "], [b"[" * 1_000_000, b"\n\n"]), {"code": "UPSTREAM_ERROR"}),
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_memory_is_bounded_whatever_a_provider_sends(kind: str, tmp_path: Path) -> None:
    head, blocks, expected = ENDLESS[kind]
    async with RawServer(blocks, head=head) as server:
        env = {
            **os.environ,
            "COUNSEL_HOME": str(tmp_path),
            "DEEPSEEK_API_KEY": "sk-test",
            "DEEPSEEK_BASE_URL": server.url,
            "COUNSEL_MAX_ANSWER_BYTES": str(2**20),
            "COUNSEL_MAX_ATTEMPTS": "1",
        }
        pipe = asyncio.subprocess.PIPE
        worker = await asyncio.create_subprocess_exec(sys.executable, str(WORKER), env=env, stdout=pipe)
        async with asyncio.timeout(60):
            messages, _ = await worker.communicate()
    results = json.loads(messages)
    assert results.pop("mib") < 60
    assert results == expected
    assert stored(tmp_path) < 16 * 2**20
