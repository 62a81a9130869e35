"""Arguments as callers of other servers send them: blanks, their own names, bare base64, `auto` in a consensus."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.jobs import ids
from counsel.errors import CounselError, UpstreamError, from_dict
from counsel.mcp import render
from counsel.requests import ChatRequest, ConsensusRequest
from counsel.results import ChatResult
from fake import FakeAPI


async def ask(engine: Engine, caller: Caller, prompt: str = "hello", **fields: Any) -> Any:
    job = await engine.submit(ChatRequest(prompt=prompt, **{"model": "gpt-5", **fields}), caller)
    return (await engine.wait(job)).to_json()


async def hold(engine: Engine, caller: Caller, **fields: Any) -> Any:
    job = await engine.submit(ConsensusRequest(prompt="which?", **fields), caller)
    return (await engine.wait(job)).to_json()


def make_image(kind: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(out, kind)
    return out.getvalue()


# ── blanks ──


async def test_blank_arguments_count_as_absent(engine: Engine, caller: Callable[..., Caller]) -> None:
    blank: dict[str, Any] = {
        "continuation_id": "",
        "files": None,
        "images": "",
        "temperature": None,
        "verbosity": "",
    }
    result = await ask(engine, caller(), model="", reasoning_effort="", export="", **blank)
    assert result["continuation"]["id"].startswith("conv_")
    assert "settings_left_out" not in result["metadata"]


# ── names ──


@pytest.mark.parametrize(
    "name",
    ["conv_V1StGXR8_Z", "conv_a1b2c3d4e5", "conv_abc123def", "conv_abc123", "consensus_1703123456789_xyz789"],
)
async def test_another_servers_name_starts_a_conversation_that_is_marked_new(
    engine: Engine, caller: Callable[..., Caller], name: str
) -> None:
    first = await ask(engine, caller(), continuation_id=name)
    assert (first["continuation"]["id"], first["continuation"]["status"]) == (name, "new")
    assert f"{name} (a new conversation)" in render.text(ChatResult.from_json(first))
    again = await ask(engine, caller(), continuation_id=name)
    assert again["continuation"]["messageCount"] == 4
    assert "status" not in again["continuation"]


async def test_a_conversation_of_our_own_is_not_called_new(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    assert "status" not in (await ask(engine, caller()))["continuation"]


@pytest.mark.parametrize("cut", [36, 35, 28, 23, 18, 14, 13, 9])
def test_the_start_of_one_of_our_names_stays_ours(cut: int) -> None:
    assert ids.is_ours("conv_d6a6a5ec-6900-4fd8-a4e0-1fa4f75dfc42"[: 5 + cut])


# ── images ──


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("broken", [False, True])
async def test_an_image_in_plain_base64_is_recognised(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, kind: str, broken: bool
) -> None:
    data = make_image(kind)
    text = base64.encodebytes(data).decode() if broken else base64.b64encode(data).decode()
    await ask(engine, caller(), images=(text,))
    assert base64.b64encode(data).decode() in json.dumps(fake_api.log.requests[-1].body)


async def test_a_path_that_exists_wins_over_base64(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    text = base64.b64encode(make_image("PNG")).decode().replace("/", "+")
    (project / text).write_bytes(make_image("JPEG"))
    await ask(engine, caller(), images=(text,))
    assert "image/jpeg" in json.dumps(fake_api.log.requests[-1].body)


@pytest.mark.parametrize("text", ["iVBORw0KGgo" + "A" * 60, "QUFB" * 30_000, "/9j/" + "x" * 60])
async def test_base64_that_is_not_an_image_is_refused_briefly(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, text: str
) -> None:
    with pytest.raises(CounselError) as excinfo:
        await ask(engine, caller(), images=(text,))
    assert excinfo.value.code == "INVALID_ARGUMENT"
    assert len(json.dumps(excinfo.value.as_dict())) < 1_000
    assert not fake_api.log.requests


# ── ranges ──


@pytest.mark.parametrize(
    ("range_", "lines"), [("{0:2}", "1-2"), ("{0:}", "1-4"), ("{2:}", "2-4"), ("{:3}", "1-3")]
)
async def test_line_ranges_as_converse_takes_them(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path, range_: str, lines: str
) -> None:
    (project / "f.txt").write_text("a\nb\nc\nd\n")
    await ask(engine, caller(), files=(f"f.txt{range_}",))
    assert f"{lines} of 4" in json.dumps(fake_api.log.requests[-1].body)


# ── errors ──


@pytest.mark.parametrize("argument", ["files", "images", "model", "continuation_id", "session_tag", "tools"])
async def test_an_error_does_not_repeat_98_kilobytes(
    engine: Engine, caller: Callable[..., Caller], argument: str
) -> None:
    long = "x/" * 50_000
    value = (long,) if argument in {"files", "images", "tools"} else long
    fields: dict[str, Any] = {
        "model": "gpt-5",
        argument: value,
        "tool": "askModel" if argument == "session_tag" else "chat",
    }
    with pytest.raises(CounselError) as excinfo:
        await engine.wait(await engine.submit(ChatRequest(prompt="p", **fields), caller()))
    assert len(json.dumps(excinfo.value.as_dict())) < 15_000


def test_a_bounded_error_keeps_its_end_and_what_was_paid_for() -> None:
    long = "y" * 98_000
    error = UpstreamError(
        f"{long} is not there.", hint=long, file=long, partial=long, failed=[{"error": long}]
    )
    assert error.message.endswith("is not there.")
    assert error.partial == long
    del error.fields["partial"]
    assert len(json.dumps(error.as_dict())) < 20_000
    assert from_dict(error.as_dict()).as_dict() == error.as_dict()


# ── consensus ──


async def test_auto_is_a_panel_of_different_vendors(engine: Engine, caller: Callable[..., Caller]) -> None:
    result = await hold(engine, caller(), models=("auto",), enable_cross_feedback=False)
    vendors = [entry["metadata"]["provider"] for entry in result["phases"]["initial"]]
    assert len(vendors) == len(set(vendors)) == 3
    assert result["settings"]["models_requested"] == [entry["model"] for entry in result["phases"]["initial"]]
    order = "gpt-5,gpt-5-mini,o3,gemini-2.5-flash,gemini-2.5-pro,sonnet"
    own = await hold(engine, caller(COUNSEL_AUTO_ORDER=order), models=("auto",), enable_cross_feedback=False)
    vendors = [entry["metadata"]["provider"] for entry in own["phases"]["initial"]]
    assert vendors == ["openai", "google", "anthropic"], "the first of each vendor"


async def test_auto_next_to_a_name_adds_a_model_of_another_vendor(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    result = await hold(engine, caller(), models=("gpt-5", "auto"), enable_cross_feedback=False)
    vendors = [entry["metadata"]["provider"] for entry in result["phases"]["initial"]]
    assert vendors[0] == "openai"
    assert len(vendors) == len(set(vendors)) == 2


async def test_auto_with_one_vendor_chooses_two_of_its_models(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    without = dict.fromkeys(("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "XAI_API_KEY", "DEEPSEEK_API_KEY"), "")
    result = await hold(engine, caller(**without), models=("auto",), enable_cross_feedback=False)
    assert {entry["metadata"]["provider"] for entry in result["phases"]["initial"]} == {"openai"}
    assert result["models_consulted"] == 2


async def test_a_chat_after_a_consensus_stays_with_a_member_that_answered(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, vendor="anthropic", times=None)
    first = await hold(engine, caller(), models=("sonnet", "deepseek-v3"), enable_cross_feedback=False)
    assert first["status"] == "no_consensus"
    result = await ask(
        engine, caller(), "and now?", model="auto", continuation_id=first["continuation"]["id"]
    )
    assert result["metadata"]["model"] == "deepseek-chat"
    assert "deepseek-chat" in result["metadata"]["notices"][-1]["text"]
    third = await ask(engine, caller(), "more", model="auto", continuation_id=first["continuation"]["id"])
    assert third["metadata"]["model"] == "deepseek-chat"
    assert "notices" not in third["metadata"]


# ── summaries and export ──


async def test_a_summariser_that_hangs_delays_only_once(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.history.titles._SECONDS", 600)
    monkeypatch.setattr("counsel.engine.engine._SUMMARY_WAIT", 0.2)
    for wish in ("Give a title", "Summarise"):
        fake_api.script(gate="never", gate_after=0, contains=wish, times=None)
    sender = caller(ENABLE_RESPONSE_SUMMARIZATION="true")
    first = await ask(engine, sender, "please say hello")
    assert (first["title"], first["final_summary"]) == ("please say hello", "gpt-5 says: please say hello")
    monkeypatch.setattr("counsel.engine.engine._SUMMARY_WAIT", 600)
    async with asyncio.timeout(60):
        second = await ask(engine, sender, "and again")
    assert second["final_summary"] == "gpt-5 says: and again"
    fake_api.open_gate("never")


async def test_a_summariser_that_was_in_time_is_waited_for_again(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.engine._SUMMARY_WAIT", 600)
    sender = caller(ENABLE_RESPONSE_SUMMARIZATION="true")
    fake_api.script(text="The first.", contains="Summarise")
    assert (await ask(engine, sender, "please say hello"))["final_summary"] == "The first."
    fake_api.script(text="The second.", contains="Summarise", gate="slow", gate_after=0)
    second = asyncio.create_task(ask(engine, sender, "and again"))
    async with asyncio.timeout(60):
        await fake_api.wait_for(contains="says: and again")
        fake_api.open_gate("slow")
        assert (await second)["final_summary"] == "The second."


async def test_an_export_contains_settings_models_usage_and_cost_of_each_turn(
    engine: Engine, caller: Callable[..., Caller], project: Path
) -> None:
    (project / "f.txt").write_text("a\n")
    first = await ask(
        engine,
        caller(),
        temperature=0,
        reasoning_effort="low",
        use_websearch=True,
        files=("f.txt",),
        export=True,
    )
    name = first["continuation"]["id"]
    await hold(engine, caller(), models=("gpt-5", "sonnet"), continuation_id=name, export=True)
    about = json.loads((project / name / "metadata.json").read_text())
    chat, consensus = about["turns"]
    assert (
        chat["settings"] | {"temperature": 0, "reasoning_effort": "low", "use_websearch": True}
        == chat["settings"]
    )
    assert chat["settings"]["verbosity"] is None
    assert (chat["model"], chat["provider"], chat["models_requested"]) == ("gpt-5", "openai", ["gpt-5"])
    assert chat["usage"]["total_tokens"] > 0
    assert chat["cost_usd"] > 0
    assert chat["sources"][0]["name"] == "f.txt"
    assert [entry["provider"] for entry in consensus["models"]] == ["openai", "anthropic"]
    assert consensus["models"][0]["usage"]["total_tokens"] > 0
    assert (
        about["usage"]["total_tokens"] == chat["usage"]["total_tokens"] + consensus["usage"]["total_tokens"]
    )
    assert about["system_prompt"]
