"""A consulted model uses the MCP servers of the user's agents: a real server, the fake vendors, the real engine."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.tools import connections, loop
from counsel.errors import (
    BudgetExceeded,
    CounselError,
    EmptyAnswer,
    InvalidArgument,
    NotFound,
    SelfConsultation,
    TimedOut,
    UpstreamError,
)
from counsel.requests import ConsensusRequest
from engine.tools.conftest import MODELS, TOOL_SERVER, SharedTools, until
from support.database import rows

pytestmark = pytest.mark.thorough  # left out of `make check`: starts processes and waits for time limits

READ_ONLY = ["notes__look_up", "notes__everything", "notes__doze", "notes__die"]


@pytest.mark.parametrize("model", MODELS)
async def test_every_wire_asks_reads_and_answers(remote: SharedTools, model: str) -> None:
    usage = {"input": 100, "output": 10}
    rounds = [
        remote.calls("notes__look_up", note="tide"),
        [*remote.calls("notes__look_up", note="moon"), *remote.calls("notes__look_up", note="tide")],
    ]
    remote.fake.script(tool_calls=rounds, text="At 06:40.", usage=usage, times=None)
    job = await remote.submit(model=model)
    ran = [event for event in await remote.events(job, "tool") if "ok" in event]  # as it runs
    result = (await remote.engine.wait(job)).to_json()
    first, second, third = remote.fake.log.calls
    assert MODELS[model](first.body) == READ_ONLY
    assert "High water is at 06:40." in json.dumps(second.body)
    assert "The moon is new." not in json.dumps(second.body)
    assert "The moon is new." in json.dumps(third.body)
    assert result["content"].endswith("At 06:40.")
    about = result["metadata"]
    assert [(call["server"], call["tool"], call["ok"]) for call in about["tool_calls"]] == [
        ("notes", "look_up", True)
    ] * 3
    assert (about["usage"]["input_tokens"], about["usage"]["output_tokens"]) == (300, 30)
    assert about["cost_usd"] > 0
    assert [set(event) for event in ran] == [{"name", "server", "tool", "ms", "ok"}] * 3


async def test_every_round_of_tools_is_paid_from_the_questions_limit(remote: SharedTools) -> None:
    """A round costs 10 cents. After two rounds the third does not fit, and the answer so far is kept."""
    remote.fake.script(
        tool_calls=[remote.calls("notes__look_up", note="tide")] * 5,
        usage={"input": 10, "output": 10_000},
        times=None,
    )
    with pytest.raises(BudgetExceeded) as excinfo:
        await remote.ask(max_cost_usd=0.24)
    assert (excinfo.value.budget, round(excinfo.value.spent_usd or 0, 2)) == ("job", 0.2)
    assert len(remote.fake.log.calls) == 2


async def test_a_server_is_started_for_the_consultation_and_ended_after_it(shared_tools: SharedTools) -> None:
    shared_tools.fake.script(
        tool_calls=shared_tools.calls("notes__look_up", note="tide"), text="At 06:40.", times=None
    )
    result = await shared_tools.ask()
    assert MODELS["gpt-5"](shared_tools.fake.log.calls[0].body) == READ_ONLY
    assert "High water is at 06:40." in json.dumps(shared_tools.fake.log.calls[1].body)
    assert result["metadata"]["tool_calls"][0]["ok"] is True
    assert shared_tools.server_is_gone()


async def test_text_of_several_rounds_is_separate(remote: SharedTools) -> None:
    remote.fake.script(tool_calls=remote.calls("notes__look_up", note="tide"), text="Let me see.")
    remote.fake.script(text="At 06:40.")
    assert (await remote.ask())["content"] == "Let me see.\n\nAt 06:40."


async def test_text_before_the_tools_is_not_an_answer(remote: SharedTools) -> None:
    usage = {"input": 100, "output": 10}
    remote.fake.script(
        tool_calls=remote.calls("notes__look_up", note="tide"), text="Let me see.", usage=usage
    )
    remote.fake.script(text=" ", usage=usage)
    with pytest.raises(EmptyAnswer) as excinfo:
        await remote.ask()
    assert excinfo.value.fields["partial"].startswith("Let me see.")
    assert excinfo.value.fields["usage"]["input_tokens"] == 200


async def test_schemas_and_descriptions_are_passed_on(remote: SharedTools) -> None:
    await remote.ask()
    tool = remote.fake.log.calls[0].body["tools"][0]
    assert tool["description"] == "Read one note."
    assert tool["parameters"]["properties"]["note"]["type"] == "string"
    assert tool["parameters"]["required"] == ["note"]


async def test_writing_tools_are_offered_only_when_allowed(remote: SharedTools) -> None:
    await remote.ask(remote.caller(COUNSEL_SHARED_TOOLS_WRITE="1"))
    assert {"notes__erase", "notes__unmarked"} < set(MODELS["gpt-5"](remote.fake.log.calls[0].body))


async def test_a_writing_tool_that_was_not_offered_is_not_run(remote: SharedTools) -> None:
    rounds = [remote.calls("notes__erase", note="tide"), remote.calls("notes__look_up", note="tide")]
    remote.fake.script(tool_calls=rounds, text="ok", times=None)
    about = (await remote.ask())["metadata"]
    assert [call["ok"] for call in about["tool_calls"]] == [False, True]
    assert "There is no tool 'notes__erase'" in json.dumps(remote.fake.log.calls[1].body)


async def test_every_model_of_a_consensus_has_the_tools(remote: SharedTools) -> None:
    remote.fake.script(
        tool_calls=remote.calls("notes__look_up", note="tide"), text="At 06:40.", times=None, contains="high"
    )
    request = ConsensusRequest(
        prompt="When is high water?",
        models=("gpt-5", "claude-sonnet-4-5"),
        tools=("notes",),
        enable_cross_feedback=False,
    )
    result = (await remote.engine.wait(await remote.engine.submit(request, remote.caller()))).to_json()
    answers = result["phases"]["initial"]
    assert [len(answer["metadata"]["tool_calls"]) for answer in answers] == [1, 1]
    assert all(answer["response"].endswith("At 06:40.") for answer in answers)


# ── refusals, before anything is sent ────────────────────────────────────────────────────────────────


async def expect_refusal(
    shared_tools: SharedTools, kind: type[CounselError], words: str, *args: Any, **fields: Any
) -> None:
    with pytest.raises(kind, match=words):
        await shared_tools.submit(*args, **fields)
    assert shared_tools.fake.log.requests == []
    assert not shared_tools.pid_file.exists()


async def test_nothing_is_shared_unless_the_user_allows_it(shared_tools: SharedTools) -> None:
    await expect_refusal(
        shared_tools, InvalidArgument, "COUNSEL_SHARED_TOOLS=notes", shared_tools.caller(shared="")
    )
    await expect_refusal(
        shared_tools, InvalidArgument, "allowed are: other", shared_tools.caller(shared="other")
    )


async def test_a_server_that_no_client_has(shared_tools: SharedTools) -> None:
    await expect_refusal(
        shared_tools, NotFound, "No agent has", shared_tools.caller(shared="*"), tools=("shelve",)
    )


async def test_a_relative_path_is_ignored_in_an_untrusted_folder(
    shared_tools: SharedTools,
) -> None:
    (shared_tools.project / "server").symlink_to(sys.executable)
    shared_tools.claude(notes={**shared_tools.entry(), "command": "./server"})
    await expect_refusal(shared_tools, InvalidArgument, "which no agent was told to trust")


async def test_files_that_a_relative_variable_points_to_are_not_the_users(
    shared_tools: SharedTools,
) -> None:
    (shared_tools.project / "own").mkdir()
    (shared_tools.home / ".claude.json").rename(shared_tools.project / "own" / ".claude.json")
    await expect_refusal(shared_tools, NotFound, "No agent has", shared_tools.caller(CLAUDE_CONFIG_DIR="own"))


async def test_a_server_does_not_import_modules_from_the_callers_folder(shared_tools: SharedTools) -> None:
    canary = shared_tools.home / "canary"
    for name in ("mcp.py", "runpy.py", "sitecustomize.py", "notes_trap.py"):
        (shared_tools.project / name).write_text(f"open({str(canary)!r}, 'w').write(__file__)")
    code = f"import sys; sys.argv[1:] = [{str(shared_tools.pid_file)!r}]; import runpy; runpy.run_path({str(TOOL_SERVER)!r}, run_name='__main__')"
    shared_tools.claude(
        notes={"command": sys.executable, "args": ["-c", code]}
    )  # -c has the working folder on its path
    await shared_tools.ask()
    assert not canary.exists()
    assert MODELS["gpt-5"](shared_tools.fake.log.calls[0].body) == READ_ONLY


async def test_a_repository_cannot_bring_a_server(shared_tools: SharedTools) -> None:
    entry = json.dumps({"mcpServers": {"theirs": shared_tools.entry()}})
    (shared_tools.project / ".mcp.json").write_text(entry)
    await expect_refusal(
        shared_tools, InvalidArgument, "repository", shared_tools.caller(shared="*"), tools=("theirs",)
    )


async def test_a_repository_cannot_replace_a_server(remote: SharedTools) -> None:
    bad = {"command": sys.executable, "args": ["-c", "open('taken', 'w')"]}
    (remote.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": bad}}))
    await remote.ask(remote.caller("claude"))
    assert MODELS["gpt-5"](remote.fake.log.calls[0].body) == READ_ONLY
    assert not (remote.project / "taken").exists()


async def test_counsel_itself_is_not_shared(shared_tools: SharedTools) -> None:
    shared_tools.claude(us={"command": sys.executable, "args": ["-m", "counsel", "stdio", "--as", "claude"]})
    await expect_refusal(
        shared_tools, SelfConsultation, "counsel itself", shared_tools.caller(shared="*"), tools=("us",)
    )


async def test_a_disabled_server(shared_tools: SharedTools) -> None:
    content: dict[str, Any] = {"projects": {str(shared_tools.project): {"disabledMcpServers": ["notes"]}}}
    content["mcpServers"] = {"notes": {"type": "stdio", **shared_tools.entry()}}
    (shared_tools.home / ".claude.json").write_text(json.dumps(content))
    await expect_refusal(shared_tools, InvalidArgument, "is disabled")


# ── whose definition counts ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("agent", "used"), [("gemini", "gemini"), ("claude", "claude"), (None, "claude")])
async def test_the_callers_own_definition_wins_and_a_difference_is_named(
    remote: SharedTools, agent: str | None, used: str
) -> None:
    remote.gemini(notes={"httpUrl": remote.url, "headers": {"X-Mark": "1"}, "includeTools": ["look_up"]})
    result = await remote.ask(remote.caller(agent))
    tools = MODELS["gpt-5"](remote.fake.log.calls[0].body)
    assert tools == (["notes__look_up"] if used == "gemini" else READ_ONLY)
    (notice,) = result["metadata"]["notices"]
    assert f"{used} was used" in notice["text"]


async def test_the_same_definition_twice_is_not_a_difference(remote: SharedTools) -> None:
    remote.gemini(notes={"httpUrl": remote.url})
    assert "notices" not in (await remote.ask())["metadata"]


async def test_an_agent_keeps_its_own_servers(
    shared_tools: SharedTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counsel.agents import registry
    from counsel.types import Finished, Text

    async def answer(_self: object, call: Any, caller: Caller, limits: Any) -> AsyncIterator[Any]:
        assert call.tools == ()
        yield Text("done")
        yield Finished()

    monkeypatch.setattr(registry.AskableAgent, "answer", answer)
    result = await shared_tools.ask(shared_tools.caller(shared=""), model="codex")
    assert result["content"] == "done"
    assert result["metadata"]["settings_left_out"] == ["tools"]
    assert not shared_tools.pid_file.exists()


# ── failures ──────────────────────────────────────────────────────────────────────────────────


async def test_a_server_that_does_not_start_ends_the_call_before_the_model_is_asked(
    shared_tools: SharedTools,
) -> None:
    shared_tools.claude(notes=shared_tools.entry("deaf"))
    with pytest.raises(UpstreamError) as excinfo:
        await shared_tools.ask()
    assert excinfo.value.fields["server"] == "notes"
    assert excinfo.value.fields["stderr"] == ["I hear nothing"]
    assert shared_tools.fake.log.requests == []
    assert shared_tools.server_is_gone()


async def test_the_model_gets_the_error_of_a_tool_that_fails(remote: SharedTools) -> None:
    remote.fake.script(tool_calls=remote.calls("notes__look_up", note="sun"), text="No idea.", times=None)
    result = await remote.ask(model="claude-sonnet-4-5")
    assert result["content"].endswith("No idea.")
    assert [call["ok"] for call in result["metadata"]["tool_calls"]] == [False]
    report = remote.fake.log.calls[1].body["messages"][-1]["content"][0]
    assert report["is_error"] is True


async def test_a_tool_that_hangs_is_stopped_at_its_time_limit(
    shared_tools: SharedTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CALL_SECONDS", 0.3)
    asleep = shared_tools.home / "asleep"
    shared_tools.fake.script(
        tool_calls=shared_tools.calls("notes__doze", file=str(asleep)), text="Too slow.", times=None
    )
    result = await shared_tools.ask()
    assert result["metadata"]["tool_calls"][0]["ok"] is False
    assert "did not answer within 0.3 s" in json.dumps(shared_tools.fake.log.calls[1].body)
    assert shared_tools.server_is_gone()


async def test_the_model_gets_the_error_of_a_server_that_dies(shared_tools: SharedTools) -> None:
    rounds = [shared_tools.calls("notes__die"), shared_tools.calls("notes__look_up", note="tide")]
    shared_tools.fake.script(tool_calls=rounds, text="It is gone.", times=None)
    result = await shared_tools.ask()
    assert result["content"].endswith("It is gone.")
    assert [call["ok"] for call in result["metadata"]["tool_calls"]] == [False, False]


async def test_a_long_result_is_cut(remote: SharedTools) -> None:
    remote.fake.script(tool_calls=remote.calls("notes__everything"), text="Long.", times=None)
    await remote.ask()
    body = json.dumps(remote.fake.log.calls[1].body)
    assert "[cut: 40,000 of 100,000 characters]" in body
    assert "x" * 40_001 not in body


async def test_cancel_ends_the_server_and_the_call(shared_tools: SharedTools) -> None:
    asleep = shared_tools.home / "asleep"
    shared_tools.fake.script(tool_calls=shared_tools.calls("notes__doze", file=str(asleep)), times=None)
    job = await shared_tools.submit()
    await until(asleep.exists)
    await shared_tools.engine.cancel(job)
    assert shared_tools.server_is_gone()
    assert (await shared_tools.engine.status(job)).to_json()["content"]["status"] == "cancelled"
    assert len(shared_tools.fake.log.calls) == 1


async def test_cancel_while_the_model_answers_ends_the_server(shared_tools: SharedTools) -> None:
    shared_tools.fake.script(gate="never", gate_after=1, text="one two three")
    job = await shared_tools.submit()
    await shared_tools.fake.wait_for(deltas=1)
    await shared_tools.engine.cancel(job)
    assert shared_tools.server_is_gone()
    await shared_tools.fake.wait_for(state="disconnected")


async def test_a_failing_model_ends_the_server(shared_tools: SharedTools) -> None:
    shared_tools.fake.script(status=401)
    with pytest.raises(CounselError):
        await shared_tools.ask()
    assert shared_tools.server_is_gone()


@pytest.mark.slow
async def test_the_time_limit_is_for_all_rounds(shared_tools: SharedTools) -> None:
    asleep = shared_tools.home / "asleep"
    shared_tools.fake.script(tool_calls=shared_tools.calls("notes__doze", file=str(asleep)), times=None)
    caller = shared_tools.caller(REQUEST_TIMEOUT_MS="4000")
    with pytest.raises(TimedOut, match="REQUEST_TIMEOUT_MS"):
        await shared_tools.ask(caller)
    assert not shared_tools.pid_file.exists() or shared_tools.server_is_gone()


async def test_a_model_that_never_stops_calling_is_stopped(
    remote: SharedTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "ROUNDS", 2)
    remote.fake.script(tool_calls=[remote.calls("notes__look_up", note="tide")] * 9, times=None)
    with pytest.raises(UpstreamError, match="after 2 rounds"):
        await remote.ask()
    assert len(remote.fake.log.calls) == 3
    assert "last round" in json.dumps(remote.fake.log.calls[2].body)
    assert "last round" not in json.dumps(remote.fake.log.calls[1].body)


async def test_output_of_tools_is_not_stored(remote: SharedTools) -> None:
    remote.fake.script(tool_calls=remote.calls("notes__look_up", note="tide"), text="At dawn.", times=None)
    job = await remote.submit()
    await remote.engine.wait(job)
    assert "High water" not in repr(await rows(remote.engine, "SELECT * FROM events WHERE job = ?", job))


# ── names ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("docs", "search", "docs__search"),
        ("my docs", "a.b/c", "my_docs__a_b_c"),
        ("9lives", "count", "_9lives__count"),
        ("ünder", "größe", "_nder__gr__e"),
    ],
)
def test_names_are_valid_for_every_vendor(server: str, tool: str, name: str) -> None:
    assert loop.tool_name(server, tool, {}) == name


def test_long_and_equal_names_stay_apart() -> None:
    names: dict[str, None] = {}
    for tool in ("a" * 80, "a" * 81, "x.y", "x_y", "x y"):
        names[loop.tool_name("docs", tool, names)] = None
    assert len(names) == 5
    assert all(len(name) <= 63 for name in names)
