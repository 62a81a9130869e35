"""What only one of the agents does."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path

import pytest

from agents.rigs import KEY, LIMITS, RIGS, marked, real, script
from counsel.agents.images import keep
from counsel.agents.registry import resolve
from counsel.caller import Caller, here
from counsel.types import Call, Event, Finished, Image, Knobs, Text, ToolUse
from fake import FakeAPI

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("agents")]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"
)


async def told(name: str, call: Call, caller: Caller) -> tuple[str, list[Event]]:
    driver = resolve(name)
    assert driver is not None
    seen = [event async for event in driver.answer(call, caller, LIMITS)]
    return "".join(event.delta for event in seen if isinstance(event, Text)), seen


async def git_init(folder: Path) -> None:
    await (await asyncio.create_subprocess_exec("git", "init", "-q", folder)).wait()


async def test_gemini_can_open_the_pictures_that_git_ignores(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["gemini"](fake_api, tmp_path)
    await git_init(rig.project)
    path = keep(rig.project, Image("image/png", PNG))
    reading = [{"name": "read_file", "arguments": {"file_path": str(path)}}]
    fake_api.script(times=None, tool_calls=reading, text="a red square")
    await told("gemini", rig.call("what is it", images=(Image("image/png", PNG),)), rig.caller())
    assert base64.b64encode(PNG).decode() in str(fake_api.last.body)


async def test_a_codex_without_app_server(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["codex"](fake_api, tmp_path)
    program = tmp_path / "bin" / "codex"
    program.unlink()
    words = "echo \"error: unrecognized subcommand 'app-server'\" >&2; exit 2"
    script(program, f'if [ "$1" = app-server ]; then {words}; fi\nexec {real("codex")} "$@"')
    picture = Image("image/png", PNG)
    text, first = await told("codex", rig.call("my name is Ada", images=(picture,)), rig.caller())
    assert text.endswith("says: my name is Ada")
    assert base64.b64encode(PNG).decode() in str(fake_api.last.body)
    session = first[-1].session  # type: ignore[union-attr]
    again = rig.call("my name is Ada", text, "what is my name", session=session)
    text, _ = await told("codex", again, rig.caller())
    assert text.endswith("says: what is my name")
    assert "my name is Ada" in str(fake_api.last.body)
    lost = replace(again, session="11111111-1111-4111-8111-111111111111")
    text, _ = await told("codex", lost, rig.caller())
    assert text.endswith("what is my name")
    assert "<conversation>" in str(fake_api.last.body)
    assert marked(rig) == []


async def test_codex_with_a_key_of_its_own_writes_it_nowhere(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["codex"](fake_api, tmp_path)
    caller = rig.logged_out(fake_api)
    fake_api.keys = {"codex-key-5678"}
    caller = here("codex", {**caller.env, "CODEX_API_KEY": "codex-key-5678"}, rig.project)
    text, _ = await told("codex", rig.call("hello"), caller)
    assert text.endswith("says: hello")
    kept = [path for path in rig.home.rglob("*") if path.is_file() and b"codex-key-5678" in path.read_bytes()]
    assert kept == []


async def test_settings_reach_codex(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["codex"](fake_api, tmp_path)
    call = replace(rig.call("q"), knobs=Knobs(effort="high", web_search=True))
    await told("codex:gpt-5.2", call, rig.caller())
    body = fake_api.last.body
    assert body["model"] == "gpt-5.2"
    assert body["reasoning"]["effort"] == "high"
    assert [tool for tool in body["tools"] if tool.get("type") == "web_search"]


async def test_settings_reach_claude(fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS["claude"](fake_api, tmp_path)
    call = replace(rig.call("q"), knobs=Knobs(effort="high", web_search=True))
    _, events = await told("claude:claude-sonnet-5", call, rig.caller())
    body = fake_api.last.body
    assert body["model"] == "claude-sonnet-5"
    assert body["output_config"]["effort"] == "high"
    assert {tool["name"] for tool in body["tools"]} == {"Read", "Grep", "Glob", "WebSearch", "WebFetch"}
    assert isinstance(events[-1], Finished)


async def test_codex_works_and_says_with_what(fake_api: FakeAPI, tmp_path: Path) -> None:
    """Reading is allowed: the command runs in Codex's own sandbox, and the model gets its output."""
    rig = RIGS["codex"](fake_api, tmp_path)
    (rig.project / "note.txt").write_text("zebra 4711")
    calls = [{"name": "exec_command", "arguments": {"cmd": "cat note.txt"}}]
    fake_api.script(times=None, tool_calls=calls, text="read")
    _, events = await told("codex", rig.call("read it"), rig.caller())
    assert [event.call.name for event in events if isinstance(event, ToolUse)] == ["commandExecution"]
    assert "zebra 4711" in str(fake_api.last.body)


@pytest.mark.parametrize("name", ["claude", "gemini"])
async def test_writing_is_possible_when_the_user_set_it(name: str, fake_api: FakeAPI, tmp_path: Path) -> None:
    rig = RIGS[name](fake_api, tmp_path)
    fake_api.script(times=None, tool_calls=[rig.writes], text="done")
    await told(name, rig.call("write"), rig.caller(COUNSEL_AGENT_SANDBOX="workspace-write"))
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
