"""Behaviour that only one of the agents has."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.rigs import KEY, LIMITS, RIGS, processes_of, real, script, start_once
from counsel.agents.images import keep
from counsel.agents.registry import resolve
from counsel.caller import Caller, local_caller
from counsel.engine.engine import open_engine
from counsel.errors import CounselError
from counsel.requests import ChatRequest
from counsel.types import Call, Event, Finished, Image, ModelSettings, Text, ToolUse, Withdrawn
from fake import FakeAPI

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("agents")]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"
)


async def ask(name: str, call: Call, caller: Caller) -> tuple[str, list[Event]]:
    driver = resolve(name)
    assert driver is not None
    events = [event async for event in driver.answer(call, caller, LIMITS)]
    return "".join(event.delta for event in events if isinstance(event, Text)), events


async def git_init(folder: Path) -> None:
    await (await asyncio.create_subprocess_exec("git", "init", "-q", folder)).wait()


async def test_gemini_can_open_the_images_that_git_ignores(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["gemini"](fake_api, tmp_path)
    start_once(rig)
    await git_init(rig.project)
    path = keep(rig.project, Image("image/png", PNG))
    reading = [{"name": "read_file", "arguments": {"file_path": str(path)}}]
    fake_api.script(times=None, tool_calls=reading, text="a red square")
    await ask("gemini", rig.call("what is it", images=(Image("image/png", PNG),)), rig.caller())
    assert base64.b64encode(PNG).decode() in str(fake_api.last.body)


async def test_a_codex_without_app_server(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["codex"](fake_api, tmp_path)
    program = tmp_path / "bin" / "codex"
    program.unlink()
    words = "echo \"error: unrecognized subcommand 'app-server'\" >&2; exit 2"
    script(program, f'if [ "$1" = app-server ]; then {words}; fi\nexec {real("codex")} "$@"')
    png = Image("image/png", PNG)
    text, first = await ask("codex", rig.call("my name is Ada", images=(png,)), rig.caller())
    assert text.endswith("says: my name is Ada")
    assert base64.b64encode(PNG).decode() in str(fake_api.last.body)
    session = first[-1].session  # type: ignore[union-attr]
    again = rig.call("my name is Ada", text, "what is my name", session=session)
    text, _ = await ask("codex", again, rig.caller())
    assert text.endswith("says: what is my name")
    assert "my name is Ada" in str(fake_api.last.body)
    lost_call = replace(again, session="11111111-1111-4111-8111-111111111111")
    text, _ = await ask("codex", lost_call, rig.caller())
    assert text.endswith("what is my name")
    assert "<conversation>" in str(fake_api.last.body)
    assert processes_of(rig) == []


async def test_codex_with_a_key_of_its_own_writes_it_nowhere(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["codex"](fake_api, tmp_path)
    caller = rig.logged_out(fake_api)
    fake_api.keys = {"codex-key-5678"}
    caller = local_caller("codex", {**caller.env, "CODEX_API_KEY": "codex-key-5678"}, rig.project)
    text, _ = await ask("codex", rig.call("hello"), caller)
    assert text.endswith("says: hello")
    files = [
        path for path in rig.home.rglob("*") if path.is_file() and b"codex-key-5678" in path.read_bytes()
    ]
    assert files == []


async def test_settings_reach_codex(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["codex"](fake_api, tmp_path)
    call = replace(rig.call("q"), model_settings=ModelSettings(effort="high", web_search=True))
    await ask("codex:gpt-5.2", call, rig.caller())
    body = fake_api.last.body
    assert body["model"] == "gpt-5.2"
    assert body["reasoning"]["effort"] == "high"
    assert [tool for tool in body["tools"] if tool.get("type") == "web_search"]


async def test_settings_reach_claude(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["claude"](fake_api, tmp_path)
    call = replace(rig.call("q"), model_settings=ModelSettings(effort="high", web_search=True))
    _, events = await ask("claude:claude-sonnet-5", call, rig.caller())
    body = fake_api.last.body
    assert body["model"] == "claude-sonnet-5"
    assert body["output_config"]["effort"] == "high"
    assert {tool["name"] for tool in body["tools"]} == {"Read", "Grep", "Glob", "WebSearch", "WebFetch"}
    assert isinstance(events[-1], Finished)


async def test_codex_uses_tools_and_reports_which(fake_api: FakeAPI, tmp_path: Path) -> None:
    """Reading is allowed: the command runs in Codex's own sandbox, and the model gets its output."""
    rig = RIGS["codex"](fake_api, tmp_path)
    (rig.project / "note.txt").write_text("zebra 4711")
    calls = [{"name": "exec_command", "arguments": {"cmd": "cat note.txt"}}]
    fake_api.script(times=None, tool_calls=calls, text="read")
    _, events = await ask("codex", rig.call("read it"), rig.caller())
    assert [event.call.name for event in events if isinstance(event, ToolUse)] == ["commandExecution"]
    assert "zebra 4711" in str(fake_api.last.body)


@pytest.mark.parametrize("name", ["claude", "gemini"])
async def test_writing_is_possible_when_the_user_set_it(name: str, fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS[name](fake_api, tmp_path)
    fake_api.script(times=None, tool_calls=[rig.writes], text="done")
    await ask(name, rig.call("write"), rig.caller(COUNSEL_AGENT_SANDBOX="workspace-write"))
    assert (rig.project / "touched").read_text() == "x"


async def test_claude_uses_its_login_before_a_key_that_was_meant_for_counsel(
    fake_api: FakeAPI, tmp_path: Path
) -> None:
    from counsel.agents.claude.run import environment

    rig = RIGS["claude"](fake_api, tmp_path)
    (rig.home / ".claude").mkdir()
    (rig.home / ".claude" / ".credentials.json").write_text('{"claudeAiOauth": {"accessToken": "x"}}')
    assert rig.env["ANTHROPIC_API_KEY"] == KEY
    assert "ANTHROPIC_API_KEY" not in environment(rig.caller())  # a gateway's address goes with its key
    assert environment(rig.caller(ANTHROPIC_BASE_URL=""))["ANTHROPIC_API_KEY"] is None


@pytest.mark.parametrize("how", [{"cut_after": 2, "cut": "end"}, {"error_after": 2, "error": "overloaded"}])
@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_text_of_a_stream_that_broke_is_withdrawn(
    fake_api: FakeAPI, tmp_path: Path, name: str, how: dict[str, Any]
) -> None:
    """The agent asks its model again: the text of the broken stream is not part of the answer, earlier text is."""
    rig = RIGS[name](fake_api, tmp_path)
    config = rig.home / ".codex" / "config.toml"
    if name == "codex":
        config.write_text(config.read_text().replace("stream_max_retries = 0", "stream_max_retries = 3"))
    (rig.project / "note").write_text("x")
    looks = {
        "claude": {"name": "Read", "arguments": {"file_path": str(rig.project / "note")}},
        "codex": {"name": "exec_command", "arguments": {"cmd": "ls"}},
    }
    fake_api.script(text="I look.", tool_calls=[looks[name]], vendor=rig.vendor)
    fake_api.script(text="void1 void2 void3", vendor=rig.vendor, **how)
    fake_api.script(text="good1 good2 good3", vendor=rig.vendor)
    caller = rig.caller(COUNSEL_MAX_ATTEMPTS="3")
    request = ChatRequest(prompt="look", model=name)
    engine = await open_engine(rig.home / "counsel")
    try:
        job = await engine.submit(request, replace(caller, client="test"))
        text, texts, reports = "", [], []
        async for event in engine.follow(job):
            if event.kind in {"text", "restarted"}:
                text = text[: event.data["offset"]] + event.data.get("text", "")
                texts.append(text)
            if event.kind == "restarted":
                reports.append((event.data["model"], event.data["next"], event.data["reason"]))
        result = (await engine.wait(job)).to_json()
    finally:
        await engine.close()
    assert result["content"] == text == "I look.\n\ngood1 good2 good3"
    assert reports == [(name, name, "retried")]
    assert any(words.endswith("void1 ") for words in texts)


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_text_that_is_never_repeated_is_the_partial_answer(
    fake_api: FakeAPI, tmp_path: Path, name: str
) -> None:
    rig = RIGS[name](fake_api, tmp_path)
    config = rig.home / ".codex" / "config.toml"
    if name == "codex":
        config.write_text(config.read_text().replace("stream_max_retries = 0", "stream_max_retries = 1"))
    fake_api.script(text="half of it", cut_after=1, cut="end", vendor=rig.vendor)
    fake_api.script(status=400, times=None, vendor=rig.vendor)
    with pytest.raises(CounselError) as excinfo:
        await ask(name, rig.call("look"), rig.caller(COUNSEL_MAX_ATTEMPTS="3"))
    assert excinfo.value.partial == "half"


@pytest.mark.parametrize("again", [False, True], ids=["new", "resumed"])
async def test_gemini_hides_a_broken_stream_but_records_the_final_answer(
    fake_api: FakeAPI, tmp_path: Path, again: bool
) -> None:
    rig = RIGS["gemini"](fake_api, tmp_path)
    start_once(rig)
    session = None
    if again:
        _, before = await ask("gemini", rig.call("one"), rig.caller())
        session = before[-1].session  # type: ignore[union-attr]
    fake_api.script(text="void1 void2 void3", cut_after=2, cut="end", vendor="gemini")
    fake_api.script(text="good1 good2 good3", vendor="gemini")
    reply = ("one", "1", "two") if again else ("one",)
    _, events = await ask("gemini", rig.call(*reply, session=session), rig.caller(COUNSEL_MAX_ATTEMPTS="3"))
    void, right = events[-3:-1]
    assert void == Withdrawn(
        "void1 void2 good1 good2 good3", "Gemini CLI lost the model's stream and asked again."
    )
    assert right == Text("good1 good2 good3")
