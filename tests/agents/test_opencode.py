"""OpenCode alone: its configuration for a call, and when it is not asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.rigs import KEY, LIMITS
from counsel.agents import acp
from counsel.agents.driver import AgentRequest, Busy, Send
from counsel.agents.failures import LostSession
from counsel.agents.opencode import run
from counsel.agents.opencode.login import login
from counsel.agents.process import Exit
from counsel.agents.sandbox import Level
from counsel.caller import local_caller
from counsel.errors import AuthenticationFailed, CounselError, ModelNotFound, RateLimited, UpstreamError
from counsel.types import Call, Finished, Notice, Text, Thinking, ToolCall, ToolUse, Turn, Usage, UsageReport


def request_to_opencode(
    tmp_path: Path, words: str = "hello", level: Level = "read-only", **env: str
) -> AgentRequest:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "COUNSEL_HOME": str(home / "counsel"), "OPENAI_API_KEY": KEY, **env}
    return AgentRequest(
        agent=run.DRIVER.agent,
        program=Path("/bin/opencode"),
        call=Call((Turn("user", words),), cwd=tmp_path),
        caller=local_caller("cli", env, tmp_path),
        limits=LIMITS,
        model=None,
        session=None,
        level=level,
        env=env,
        cwd=tmp_path,
        start=tmp_path / "empty",
    )


def config(request: AgentRequest) -> dict[str, object]:
    return json.loads(run.command(request).env["OPENCODE_CONFIG_CONTENT"])  # type: ignore[no-any-return]


def test_no_permission_of_the_users_widens_the_level(tmp_path: Path) -> None:
    """Our own agent's rules come last, and the first of them denies everything."""
    arguments = {
        "permission": {"*": "allow"},
        "agent": {"counsel": {"permission": {"bash": "allow"}}},
        "theme": "x",
    }
    content = config(request_to_opencode(tmp_path, OPENCODE_CONFIG_CONTENT=json.dumps(arguments)))
    assert (content["default_agent"], content["theme"]) == ("counsel", "x")
    permission = content["agent"]["counsel"]["permission"]  # type: ignore[index]
    assert next(iter(permission.items())) == ("*", "deny")
    assert {name for name, value in permission.items() if value == "allow"} == {
        "read",
        "glob",
        "grep",
        "list",
    }
    assert permission["external_directory"] == {"*": "deny", f"{tmp_path}/*": "allow"}


def test_no_setting_of_the_users_runs_the_projects_programs_or_shares_the_session(tmp_path: Path) -> None:
    arguments = {"lsp": {"x": {"command": ["./x"]}}, "autoupdate": True, "snapshot": True, "share": "auto"}
    content = config(request_to_opencode(tmp_path, OPENCODE_CONFIG_CONTENT=json.dumps(arguments)))
    assert {name: content[name] for name in arguments} == {
        "lsp": False,
        "autoupdate": False,
        "snapshot": False,
        "share": "disabled",
    }


def test_the_projects_own_settings_are_read_only_where_it_is_trusted(tmp_path: Path) -> None:
    untrusted_env = run.command(request_to_opencode(tmp_path)).env
    assert untrusted_env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert untrusted_env["OPENCODE_DISABLE_CLAUDE_CODE_PROMPT"] == "1"
    trusted_env = run.command(_in_place(request_to_opencode(tmp_path))).env
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in trusted_env


def test_the_users_own_servers_are_off_in_an_untrusted_folder(tmp_path: Path) -> None:
    request = request_to_opencode(tmp_path)
    file = Path(request.env["HOME"]) / ".config" / "opencode" / "opencode.json"
    file.parent.mkdir(parents=True)
    ours = ["/usr/bin/python3", "-E", "-P", "-m", "counsel", "stdio", "--as", "opencode"]
    servers = {
        "mine": {"type": "local", "command": ["python3", "-m", "x"]},
        "far": {"type": "remote", "url": "http://127.0.0.1:9/"},
        "counsel": {"type": "local", "command": ours},
    }
    file.write_text(json.dumps({"mcp": servers}))
    assert config(request)["mcp"] == {"mine": {"enabled": False}}
    assert "(mine)" in run.command(request).notes[0]


def test_a_prompt_is_not_a_command(tmp_path: Path) -> None:
    reader = run.Reader(request_to_opencode(tmp_path, "/compact"))
    assert reader.prompt_text().startswith("The project is in")  # started elsewhere
    request = request_to_opencode(tmp_path, "  /compact")
    assert run.Reader(_in_place(request)).prompt_text() == "The message starts here:\n  /compact"
    assert run.Reader(_in_place(request_to_opencode(tmp_path, "and/or"))).prompt_text() == "and/or"


def _in_place(request: AgentRequest) -> AgentRequest:
    return replace(request, start=request.cwd)


def test_without_a_login_it_is_not_asked(tmp_path: Path) -> None:
    """Without one it would send the question to free models of its own service."""
    request = request_to_opencode(tmp_path, OPENAI_API_KEY="")
    assert login(request.caller) == (False, "")
    with pytest.raises(AuthenticationFailed, match="not logged in"):
        run.command(request)
    data = Path(request.env["HOME"]) / ".local" / "share" / "opencode"
    data.mkdir(parents=True)
    (data / "auth.json").write_text('{"anthropic": {"type": "api", "key": "k"}}')
    assert login(request.caller) == (True, "its own login")


def test_variables_that_lead_into_an_untrusted_folder_are_left_out(tmp_path: Path) -> None:
    env = run.command(
        request_to_opencode(tmp_path, OPENCODE_CONFIG="evil.json", XDG_CONFIG_HOME=".config")
    ).env
    assert "OPENCODE_CONFIG" not in env
    assert "XDG_CONFIG_HOME" not in env
    assert env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"


# ── the protocol ─────────────────────────────────────────────────────────────────────────────────────


def reader_in_a_turn(tmp_path: Path) -> acp.Reader:
    reader = run.Reader(_in_place(request_to_opencode(tmp_path)))
    (opening,) = reader.feed({"id": 1, "result": {"protocolVersion": 1}})
    assert isinstance(opening, Send)
    assert opening.message["method"] == "session/new"
    (prompt,) = reader.feed({"id": 2, "result": {"sessionId": "ses_1"}})
    assert isinstance(prompt, Send)
    assert prompt.message["method"] == "session/prompt"
    return reader


def chunk(text: str, message: str, session: str = "ses_1") -> dict[str, object]:
    update: dict[str, object] = {"sessionUpdate": "agent_message_chunk", "messageId": message}
    update |= {"content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"sessionId": session, "update": update}}


def test_opencodes_messages_are_separated_and_other_sessions_ignored(tmp_path: Path) -> None:
    reader = reader_in_a_turn(tmp_path)
    lines = [chunk("a", "1"), chunk("b", "1"), chunk("x", "9", "ses_2"), chunk("c", "2")]
    steps = [step for line in lines for step in reader.feed(line)]
    assert [step.delta for step in steps if isinstance(step, Text)] == ["a", "b", "\n\nc"]


def update(kind: str, **fields: object) -> dict[str, object]:
    params = {"sessionId": "ses_1", "update": {"sessionUpdate": kind, **fields}}
    return {"method": "session/update", "params": params}


def test_thoughts_and_tools_are_separate_from_the_answer(tmp_path: Path) -> None:
    reader = reader_in_a_turn(tmp_path)
    tool = {"toolCallId": "t1", "title": "read", "rawInput": {"path": "a"}}
    lines = [
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
        update("agent_thought_chunk", content={"type": "image"}),
        update("tool_call", status="pending", **tool),
        update("tool_call_update", status="in_progress", **tool),
        update("tool_call_update", status="completed", **tool),
        update("agent_message_chunk", content={"type": "image"}),
        update("plan", entries=[], status="in_progress"),
        chunk("Berlin.", "1"),
    ]
    assert [step for line in lines for step in reader.feed(line)] == [
        Thinking("hm"),
        ToolUse(ToolCall("t1", "read", {"path": "a"})),
        Text("Berlin."),
    ]


@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("refusal", "filtered"),
        ("max_turn_requests", "other"),
    ],
)
def test_how_a_turn_ends_and_what_it_used(tmp_path: Path, stop_reason: str, reason: str) -> None:
    """It counts cached and reasoning tokens separately; our counts include them."""
    reader = reader_in_a_turn(tmp_path)
    usage = {
        "inputTokens": 10,
        "outputTokens": 4,
        "cachedReadTokens": 100,
        "cachedWriteTokens": 1000,
        "thoughtTokens": 3,
    }
    (report,) = reader.feed({"id": 3, "result": {"stopReason": stop_reason, "usage": usage}})
    assert report == UsageReport(Usage(input=1110, output=7, reasoning=3, cache_read=100, cache_write=1000))
    assert reader.done
    assert reader.finish(Exit(0)) == [Finished(reason, session="ses_1")]  # type: ignore[arg-type]


def test_a_cancelled_turn_is_not_an_answer(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="ended with cancelled"):
        reader_in_a_turn(tmp_path).feed({"id": 3, "result": {"stopReason": "cancelled"}})


def test_a_session_continues_or_is_lost(tmp_path: Path) -> None:
    reader = run.Reader(replace(_in_place(request_to_opencode(tmp_path)), session="ses_0"))
    (opening,) = reader.feed({"id": 1, "result": {}})
    assert isinstance(opening, Send)
    assert opening.message["method"] == "session/resume"
    assert opening.message["params"]["sessionId"] == "ses_0"
    (prompt,) = reader.feed({"id": 2, "result": {}})  # it repeats the id only for a new session
    assert isinstance(prompt, Send)
    assert prompt.message["params"]["sessionId"] == "ses_0"
    with pytest.raises(LostSession):
        run.Reader(reader.request).feed({"id": 2, "error": {"message": "not found"}})
    with pytest.raises(UpstreamError):  # without a session, none can be lost
        run.Reader(_in_place(request_to_opencode(tmp_path))).feed({"id": 2, "error": {"message": "broken"}})


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("Internal error: 429 Too Many Requests", RateLimited),
        ("Unauthorized: the API key is wrong", AuthenticationFailed),
        ("ProviderModelNotFoundError", ModelNotFound),
        ("it broke", UpstreamError),
    ],
)
def test_opencodes_errors_have_a_message_and_no_status(
    tmp_path: Path, message: str, error: type[CounselError]
) -> None:
    with pytest.raises(error) as excinfo:
        reader_in_a_turn(tmp_path).feed({"id": 3, "error": {"message": message}})
    assert message.removeprefix("Internal error: ") in str(excinfo.value)
    assert "Internal error" not in str(excinfo.value)


def test_opencodes_requests_for_permission_are_refused(tmp_path: Path) -> None:
    reader = reader_in_a_turn(tmp_path)
    options = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
    answer, note = reader.feed(
        {
            "id": 7,
            "method": "session/request_permission",
            "params": {"sessionId": "ses_1", "options": options},
        }
    )
    assert isinstance(answer, Send)
    assert answer.message["result"] == {"outcome": {"outcome": "selected", "optionId": "no"}}
    assert isinstance(note, Notice)
    (refusal,) = reader.feed({"id": 8, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    assert isinstance(refusal, Send)
    assert "error" in refusal.message


def test_a_limit_that_opencode_only_logs_ends_it(tmp_path: Path) -> None:
    reader = reader_in_a_turn(tmp_path)
    line = 'level=ERROR message="stream error" error.error="AI_APICallError: Rate limit reached"'
    assert reader.stderr_line(line)
    with pytest.raises(RateLimited):
        reader.finish(Exit(-15))


def test_opencode_is_restarted_when_another_one_was_creating_its_database(tmp_path: Path) -> None:
    """Measured with eight at once in a new home: those that lose the race for the first tables end with exit code 1."""
    exit_ = Exit(
        1, "DrizzleQueryError: Failed query: CREATE TABLE `workspace` ( … FOREIGN KEY (`project_id`) …"
    )
    with pytest.raises(Busy):
        run.Reader(request_to_opencode(tmp_path)).finish(exit_)
    with pytest.raises(UpstreamError):  # once it was asked, the call may have cost something
        reader_in_a_turn(tmp_path).finish(exit_)
