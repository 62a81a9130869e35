"""One model: what is sent, what is returned, and conversations that outlive the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import (
    AuthenticationFailed,
    Cancelled,
    ContextLengthExceeded,
    InvalidArgument,
    ModelNotFound,
    NotFound,
    UpstreamError,
)
from counsel.requests import ChatRequest
from fake import FakeAPI
from support.asking import ask, until_text


async def test_an_answer_has_converses_shape(engine: Engine, caller: Callable[..., Caller]) -> None:
    result = await ask(engine, caller())
    assert result["content"] == "gpt-5 says: hello"
    assert result["continuation"]["id"].startswith("conv_")
    assert result["continuation"] | {"id": ""} == {
        "id": "",
        "provider": "openai",
        "model": "gpt-5",
        "messageCount": 2,
    }
    about = result["metadata"]
    assert about["model"] == "gpt-5"
    assert about["provider"] == "openai"
    assert set(about["usage"]) >= {"input_tokens", "output_tokens", "total_tokens"}
    assert about["cost_usd"] > 0
    assert about["response_time_ms"] >= 0


async def test_the_second_turn_sends_the_whole_history_after_a_restart(
    fake_api: FakeAPI, home: Path, caller: Callable[..., Caller]
) -> None:
    first_engine = await open_engine(home)
    first = await ask(first_engine, caller(), "one")
    await first_engine.close()
    second_engine = await open_engine(home)
    second = await ask(
        second_engine, caller(), "two", model="auto", continuation_id=first["continuation"]["id"]
    )
    await second_engine.close()
    assert second["continuation"]["messageCount"] == 4
    assert second["metadata"]["model"] == "gpt-5"
    turns = fake_api.log.requests[-1].body["input"]
    reply = [
        (item["role"], str(item["content"])) for item in turns if item.get("role") in {"user", "assistant"}
    ]
    assert [role for role, _ in reply] == ["user", "assistant", "user"]
    assert "one" in reply[0][1]
    assert "gpt-5 says: one" in reply[1][1]
    assert "two" in reply[2][1]


async def test_five_turns_at_once_on_one_conversation_are_all_kept(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first = await ask(engine, caller())
    name = first["continuation"]["id"]
    results = await asyncio.gather(
        *(ask(engine, caller(), f"turn {n}", continuation_id=name) for n in range(5))
    )
    assert sorted(result["continuation"]["messageCount"] for result in results) == [4, 6, 8, 10, 12]
    status = (await engine.status(name, full_history=True)).to_json()
    reply = [message["content"] for message in status["content"]["history"] if message["role"] == "user"]
    assert sorted(reply) == sorted(["hello", *(f"turn {n}" for n in range(5))])
    assert fake_api.log.most_open == 1


async def test_two_engines_on_one_conversation_take_turns(home: Path, caller: Callable[..., Caller]) -> None:
    engines = [await open_engine(home) for _ in range(3)]
    name = (await ask(engines[0], caller()))["continuation"]["id"]
    results = await asyncio.gather(
        *(ask(engine, caller(), f"turn {n}", continuation_id=name) for n, engine in enumerate(engines * 3))
    )
    assert sorted(result["continuation"]["messageCount"] for result in results) == list(range(4, 21, 2))
    for engine in engines:
        await engine.close()


async def test_four_calls_at_once_run_at_once(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="all", gate_after=0, times=4)
    tasks = [asyncio.create_task(ask(engine, caller(), f"q{n}")) for n in range(4)]
    await fake_api.wait_for(count=4)
    assert fake_api.log.most_open == 4
    fake_api.open_gate("all")
    assert {result["content"] for result in await asyncio.gather(*tasks)} == {
        f"gpt-5 says: q{n}" for n in range(4)
    }


async def test_a_callers_own_name_starts_a_conversation_and_continues_it(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    first = await ask(engine, caller(), continuation_id="conv_architecture_design")
    assert first["continuation"]["id"] == "conv_architecture_design"
    assert (await ask(engine, caller(), continuation_id="conv_architecture_design"))["continuation"][
        "messageCount"
    ] == 4


@pytest.mark.parametrize(
    "name",
    [
        "conv_d6a6a5ec-6900-4fd8-a4e0-1fa4f75dfc42",
        "conv_d6a6a5ec-6900-4fd8-a4e0-1fa4f75dfc4",
        "conv_d6a6a5ec-69oo-4fd8-a4e0-1fa4f75dfc42",
        "conv_d6a6a5ec",
        "consensus_d6a6a5ec69004fd8a4e01fa4f75dfc42",
    ],
)
async def test_an_unknown_id_in_our_format_never_starts_a_conversation(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, name: str
) -> None:
    with pytest.raises(NotFound):
        await ask(engine, caller(), continuation_id=name)
    assert fake_api.log.requests == []


@pytest.mark.parametrize("name", ["..", "a/b", "x" * 65, "a b", "ü"])
async def test_unsafe_names_are_refused(engine: Engine, caller: Callable[..., Caller], name: str) -> None:
    with pytest.raises(InvalidArgument):
        await ask(engine, caller(), continuation_id=name)


async def test_an_unknown_model_names_the_nearest_and_sends_nothing(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    with pytest.raises(ModelNotFound, match="gpt-5"):
        await ask(engine, caller(), model="gpt5x")
    assert fake_api.log.requests == []


async def test_a_prompt_past_the_window_is_refused_with_both_numbers(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    with pytest.raises(ContextLengthExceeded) as excinfo:
        await ask(engine, caller(), "word " * 400_000, model="haiku")
    assert excinfo.value.max_tokens
    assert excinfo.value.fields["provided_tokens"] > 200_000
    assert fake_api.log.requests == []


async def test_a_bad_key_is_reported_and_never_shown(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, home: Path
) -> None:
    fake_api.keys = {"another"}
    with pytest.raises(AuthenticationFailed) as excinfo:
        await ask(engine, caller())
    key = caller().env["OPENAI_API_KEY"]
    assert key not in str(excinfo.value.as_dict())
    await engine.close()
    assert not [path for path in home.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


async def test_cancel_stops_the_upstream_call(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    job = await engine.submit(ChatRequest(prompt="long", model="gpt-5"), caller())
    await fake_api.wait_for(deltas=1)
    document = (await engine.cancel(job)).to_json()
    assert document["content"]["status"] == "cancelled"
    await fake_api.wait_for(state="disconnected")
    with pytest.raises(Cancelled):
        await engine.wait(job)
    again = (await engine.cancel(job)).to_json()
    assert again["content"]["message"].endswith("has already been cancelled")


async def test_a_finished_job_answers_cancel_as_converse_does(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    result = await ask(engine, caller())
    name = result["continuation"]["id"]
    document = (await engine.cancel(name)).to_json()
    assert document["content"] == {
        "status": "completed",
        "message": f"Job {name} has already completed and cannot be cancelled",
        "job_id": result["job_id"],
    }


async def test_a_paused_search_is_one_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(finish="paused", text="I search.", sources=[{"url": "https://example.com", "title": "E"}])
    result = await ask(engine, caller(), "news?", model="sonnet", use_websearch=True)
    assert result["content"].startswith("I search.\n\nclaude-sonnet")
    assert result["metadata"]["finish_reason"] == "stop"
    assert result["continuation"]["messageCount"] == 2


async def test_a_stream_that_breaks_after_a_pause_keeps_the_whole_text(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(finish="paused", text="I search.")
    fake_api.script(cut_after=1, text="half of it", deltas=2)
    with pytest.raises(UpstreamError) as excinfo:
        await ask(engine, caller(), "news?", model="sonnet", use_websearch=True)
    assert excinfo.value.partial == "I search.\n\nhalf "


async def test_settings_a_model_does_not_take_are_named_only_when_asked_for(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    explicit = await ask(engine, caller(), temperature=0.9)
    assert explicit["metadata"]["settings_left_out"] == ["temperature"]
    assert "settings_left_out" not in (await ask(engine, caller()))["metadata"]


async def test_files_reach_the_model_and_the_result_names_them(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "a.py").write_text("print('seen')\n")
    result = await ask(engine, caller(), "review", files=("a.py",))
    assert "1| print('seen')" in fake_api.log.requests[-1].body["input"][0]["content"]
    assert result["metadata"]["files"][0]["name"] == "a.py"


async def test_export_writes_converses_folder(
    engine: Engine, caller: Callable[..., Caller], project: Path
) -> None:
    first = await ask(engine, caller(), "one", export=True)
    name = first["continuation"]["id"]
    await ask(engine, caller(), "two", export=True, continuation_id=name)
    folder = project / name
    assert (folder / "1_request.txt").read_text() == "one"
    assert (folder / "2_response.txt").read_text() == "gpt-5 says: two"
    assert (folder / "metadata.json").exists()


async def test_background_returns_at_once_with_converses_status_line(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", gate_after=1)
    job = await engine.submit(ChatRequest(prompt="x", model="gpt-5"), caller(), background=True)
    accepted = (await engine.accepted(job)).to_json()
    name = accepted["continuation"]["id"]
    assert accepted["content"].startswith(f"⏳ PROCESSING | CHAT | {name} | 1/1 | Started: ")
    assert accepted["content"].endswith(" | openai/gpt-5")
    assert accepted["async_execution"] is True
    await fake_api.wait_for(deltas=1)
    partial = await until_text(engine, job)
    assert partial["status"] == "processing"
    fake_api.open_gate("g")
    await engine.wait(job)
    status = (await engine.status(name)).to_json()["content"]
    assert status["status"] == "completed"
    assert status["progress"] == {"completed": 1, "total": 1, "percentage": 100}
    assert status["result"]["content"] == "gpt-5 says: x"
    assert status["completed_at"].endswith("Z")


async def test_the_same_key_is_the_same_job(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    request = ChatRequest(prompt="x", model="gpt-5")
    first = await engine.submit(request, caller(), key="k")
    two = await engine.submit(request, caller(), key="k")
    assert first == two
    await engine.wait(first)
    assert len(fake_api.log.requests) == 1


async def test_recent_lists_ten_newest(engine: Engine, caller: Callable[..., Caller]) -> None:
    for n in range(12):
        await ask(engine, caller(), f"q{n}")
    rows = (await engine.recent()).to_json()["content"]["jobs"]
    assert [job["title"] for job in rows] == [f"q{n}" for n in range(11, 1, -1)]


async def test_half_a_character_loses_no_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, tmp_path: Path
) -> None:
    """A prompt from a Latin-1 pipe, a folder whose name is not UTF-8, half an emoji in the answer."""
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    fake_api.script(text="half \ud83d of it", deltas=1)
    result = await ask(engine, replace(caller(), cwd=folder), "caf\udce9?")
    assert result["content"] == "half \ufffd of it"
    assert "caf\ufffd?" in str(fake_api.log.requests[-1].body)
    document = (await engine.status(result["continuation"]["id"], full_history=True)).to_json()
    assert [message["content"] for message in document["content"]["history"]] == [
        "caf\ufffd?",
        "half \ufffd of it",
    ]


@pytest.mark.parametrize(
    "name",
    ["conv_20261115", "conv_2026-11-15", "ask_facade", "conv_2026-11-15-review-of-the-auth-module", "job_1"],
)
async def test_words_and_dates_are_a_callers_own_names(
    engine: Engine, caller: Callable[..., Caller], name: str
) -> None:
    assert (await ask(engine, caller(), continuation_id=name))["continuation"]["id"] == name


async def test_halves_of_a_character_become_one_again(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """JSON can contain `\\ud83d` alone; a server may split an answer between the halves of an emoji."""
    halves = [
        json.dumps({"type": "response.output_text.delta", "delta": delta})
        for delta in ("so \ud83e", "\udd89 \ud83d")
    ]
    end = json.dumps({"type": "response.completed", "response": {"model": "gpt-5", "output": []}})
    fake_api.script(raw="".join(f"data: {data}\n\n" for data in (*halves, end)))
    result = await ask(engine, caller(client="odd \udcff"), "half \ud83d", continuation_id="odd")
    assert result["content"] == "so 🦉 �"
    assert "warnings" not in result["metadata"]
    history = (await engine.status(result["job_id"], full_history=True)).to_json()["content"]["history"]
    assert [message["content"] for message in history] == ["half �", "so 🦉 �"]


async def test_a_model_without_vision_gets_a_note_about_earlier_images(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    Image.new("RGB", (4, 4)).save(project / "p.png")
    await ask(engine, caller(), "look", model="sonnet", images=("p.png",), continuation_id="mine")
    await ask(engine, caller(), "and?", model="deepseek-chat", continuation_id="mine")
    messages = fake_api.calls[-1].body["messages"]
    assert "look\n\n[1 image here, which you cannot see]" in [message["content"] for message in messages]
