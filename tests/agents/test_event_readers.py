"""The events that each agent's reader produces from recorded streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.reading import CLEAN, parts, request_to
from counsel.agents.claude import run as claude
from counsel.agents.codex import exec as codex_exec
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.driver import AgentRequest, MethodUnsupported, Reader, Send, Step
from counsel.agents.failures import LostSession
from counsel.agents.gemini import run as gemini
from counsel.agents.process import Exit
from counsel.caller import Caller
from counsel.errors import AgentUnavailable, AuthenticationFailed, RateLimited, UpstreamError
from counsel.settings import load
from counsel.types import Call, Finished, Notice, Text, Thinking, Turn, UsageReport

STREAMS = Path(__file__).resolve().parents[1] / "golden" / "streams"


def read(reader: Any, stream: str, exit_: Exit = CLEAN) -> list[Step]:
    lines = [json.loads(line) for line in (STREAMS / f"{stream}.jsonl").read_text().splitlines()]
    steps = [step for line in lines for step in reader.feed(line)]
    return [*steps, *reader.finish(exit_)]


TWICE = "It says note.\n\nIt says note."  # the fake sends its text before and after the tool


@pytest.mark.parametrize(
    ("reader", "agent", "stream", "text", "thought", "tools"),
    [
        (claude.Reader, "claude", "claude", "PONG", "", []),
        (claude.Reader, "claude", "claude_partial", TWICE, "hmhm", ["Read"]),
        (codex.Reader, "codex", "codex_app_server", TWICE, "hmhm", ["commandExecution"]),
        (codex_exec.ExecReader, "codex", "codex_exec", "PONG", "", []),
        (gemini.Reader, "gemini", "gemini", "PONG", "", []),
        (gemini.Reader, "gemini", "gemini_tool", TWICE, "", ["read_file"]),
        (cursor.Reader, "cursor", "cursor", "I will look.\n\nIt says note.", "", ["read"]),
    ],
)
def test_a_recorded_answer(
    reader: Callable[[AgentRequest], Any], agent: str, stream: str, text: str, thought: str, tools: list[str]
) -> None:
    steps = read(reader(request_to(agent)), stream)
    assert parts(steps) == (text, thought, tools)
    finished = steps[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "stop"
    assert finished.session
    assert len(finished.session) == 36


@pytest.mark.parametrize(
    ("reader", "agent", "stream", "expected"),
    [
        (claude.Reader, "claude", "claude", (11, 3, 0.000104)),
        (claude.Reader, "claude", "claude_partial", (14, 6, None)),
        (codex.Reader, "codex", "codex_app_server", (16, 6, None)),  # two model calls in one turn
        (codex_exec.ExecReader, "codex", "codex_exec", (11, 3, None)),
        (gemini.Reader, "gemini", "gemini", (22, 6, None)),
    ],
)
def test_usage_is_read_from_each_agents_events(
    reader: Callable[[AgentRequest], Any], agent: str, stream: str, expected: tuple[int, int, float | None]
) -> None:
    steps = read(reader(request_to(agent)), stream)
    usage = [step.usage for step in steps if isinstance(step, UsageReport)][-1]
    assert (usage.input, usage.output) == expected[:2]
    if expected[2]:
        assert usage.cost_usd == pytest.approx(expected[2])


@pytest.mark.parametrize(
    ("reader", "agent", "stream", "exit_"),
    [
        (claude.Reader, "claude", "claude_429", Exit(1)),
        (codex.Reader, "codex", "codex_app_server_429", CLEAN),
        (gemini.Reader, "gemini", "gemini_429", Exit(173)),
    ],
)
def test_a_recorded_rate_limit(
    reader: Callable[[AgentRequest], Any], agent: str, stream: str, exit_: Exit
) -> None:
    with pytest.raises(RateLimited) as excinfo:
        read(reader(request_to(agent)), stream, exit_)
    assert excinfo.value.provider == agent


def test_claudes_success_with_is_error_is_a_failure() -> None:
    """Claude Code's `subtype` says "success" when `is_error` says otherwise."""
    line = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: hush-hush"}
    with pytest.raises(UpstreamError) as excinfo:
        claude.Reader(request_to("claude")).feed(line)
    assert "hush-hush" not in str(excinfo.value)


def test_claude_is_ended_when_its_key_is_refused() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 401, "error": "authentication_failed"}
    with pytest.raises(AuthenticationFailed):
        claude.Reader(request_to("claude")).feed(retry)


def test_a_retry_of_claude_is_announced_with_its_delay() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 529, "retry_delay_ms": 2000}
    (notice,) = claude.Reader(request_to("claude")).feed(retry)
    assert isinstance(notice, Notice)
    assert notice.kind == "retry"


def test_text_of_a_claude_subagent_is_not_the_answer() -> None:
    reply = {"id": "m", "content": [{"type": "text", "text": "inner"}]}
    line = {"type": "assistant", "parent_tool_use_id": "t1", "message": reply}
    assert claude.Reader(request_to("claude")).feed(line) == []


def test_lost_sessions_are_recognised() -> None:
    session = "11111111-1111-4111-8111-111111111111"
    with pytest.raises(LostSession):
        read(claude.Reader(request_to("claude", session)), "claude_lost", Exit(1))
    refusal = {"id": 3, "error": {"code": -32600, "message": "no rollout found for thread id"}}
    with pytest.raises(LostSession):
        codex.Reader(request_to("codex", session)).feed(refusal)
    with pytest.raises(LostSession):
        gemini.Reader(request_to("gemini", session)).finish(Exit(42, "Error resuming session"))
    with pytest.raises(LostSession):
        cursor.Reader(request_to("cursor", session)).finish(Exit(1, "Error: Chat 111 not found"))
    with pytest.raises(LostSession):
        codex_exec.ExecReader(request_to("codex", session)).finish(Exit(1, "no rollout found"))


@pytest.mark.parametrize(
    ("exit_", "words"),
    [
        (Exit(0), "it exited with code 0 before its answer was complete"),
        (Exit(3, "at f\nboom"), "it exited with code 3 before its answer was complete: boom"),
        (Exit(-9), "it was killed by signal 9 before"),
        (Exit(1, garbage=2), "it exited with code 1 after 2 lines that were not JSON before"),
    ],
)
def test_how_an_agent_without_an_answer_ended(exit_: Exit, words: str) -> None:
    for reader, agent in ((claude.Reader, "claude"), (codex.Reader, "codex"), (cursor.Reader, "cursor")):
        with pytest.raises(UpstreamError, match=words):
            reader(request_to(agent)).finish(exit_)


def test_codex_is_never_left_waiting_for_a_person() -> None:
    reader = codex.Reader(request_to("codex"))
    for number, method in enumerate(codex.DECLINE):
        send, notice = reader.feed({"id": number, "method": method, "params": {}})
        assert isinstance(send, Send)
        assert send.message == {"id": number, "result": codex.DECLINE[method]}
        assert isinstance(notice, Notice)
    (send,) = reader.feed({"id": 99, "method": "something/new", "params": {}})
    assert isinstance(send, Send)
    assert send.message["error"]["code"] == -32601


def test_a_codex_without_app_server_is_asked_by_the_fallback_method() -> None:
    with pytest.raises(MethodUnsupported):
        codex.Reader(request_to("codex")).finish(Exit(2, "error: unrecognized subcommand 'app-server'"))


def test_text_of_a_codex_subagent_is_not_the_answer() -> None:
    reader = codex.Reader(request_to("codex"))
    reader.feed({"id": 3, "result": {"thread": {"id": "mine"}}})
    delta = {"threadId": "other", "itemId": "i", "delta": "inner"}
    assert reader.feed({"method": "item/agentMessage/delta", "params": delta}) == []


def test_codexs_commentary_is_thinking_and_not_the_answer() -> None:
    reader = codex.Reader(request_to("codex"))
    reader.feed({"id": 3, "result": {"thread": {"id": "t"}}})
    item = {"type": "agentMessage", "id": "i", "phase": "commentary"}
    reader.feed({"method": "item/started", "params": {"item": item}})
    reply = reader.feed({"method": "item/agentMessage/delta", "params": {"itemId": "i", "delta": "looking"}})
    assert reply == [Thinking("looking")]
    end = {"method": "turn/completed", "params": {"turn": {"status": "completed"}}}
    assert reader.feed(end) == [Text("looking")]  # better than an empty answer


def test_gemini_is_ended_after_our_number_of_attempts() -> None:
    reader = gemini.Reader(request_to("gemini"))
    assert not reader.stderr_line("Attempt 1 failed with status 429. Retrying with backoff...")
    assert reader.stderr_line("Attempt 2 failed with status 429. Retrying with backoff...")
    with pytest.raises(RateLimited) as excinfo:
        reader.finish(Exit(-15))
    assert excinfo.value.message.endswith("it failed 2 times")


def test_only_the_message_of_a_vendors_error_is_shown() -> None:
    reader = gemini.Reader(request_to("gemini"))
    body = '{"error":{"code":429,"message":"Resource has been exhausted.","status":"X"}}'
    assert reader.stderr_line(f"Attempt 2 failed with status 429. Retrying with backoff... _ApiError: {body}")
    with pytest.raises(RateLimited) as excinfo:
        reader.finish(Exit(-15))
    assert excinfo.value.message.endswith("it failed 2 times: Resource has been exhausted.")
    assert 'no {"error": 5}' in request_to("codex").fail('no {"error": 5}').message


@pytest.mark.parametrize(
    ("code", "stderr", "expected"),
    [
        (41, "Please set an Auth method", AuthenticationFailed),
        (0, "", UpstreamError),
        (3, "oops", UpstreamError),
        (-11, "", UpstreamError),
        (127, "env: 'node': No such file or directory", AgentUnavailable),
    ],
)
def test_gemini_ends_without_an_answer(code: int, stderr: str, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        gemini.Reader(request_to("gemini")).finish(Exit(code, stderr))


def test_a_process_id_is_not_a_status() -> None:
    """`(node:14293)` in a warning contains the digits of a status, but is none."""
    reader = cursor.Reader(request_to("cursor"))
    with pytest.raises(UpstreamError):
        reader.finish(Exit(1, "(node:14293) ExperimentalWarning: something"))


def test_unknown_lines_are_passed_over() -> None:
    readers: list[Callable[[AgentRequest], Reader]] = [
        claude.Reader,
        codex.Reader,
        codex_exec.ExecReader,
        gemini.Reader,
        cursor.Reader,
    ]
    names = ["claude", "codex", "codex", "gemini", "cursor"]
    for line in ({}, {"type": "new"}, {"type": None}, {"type": "system"}, {"method": "new/thing"}):
        for reader, name in zip(readers, names, strict=True):
            assert reader(request_to(name)).feed(line) == []


def test_a_prompt_that_an_agent_finds_too_long() -> None:
    """Codex reports its own limit in these words; the vendors' words are read the same way."""
    failure = request_to("codex").fail("Input exceeds the maximum length of 1048576 characters.")
    assert failure.code == "CONTEXT_LENGTH_EXCEEDED"


@pytest.mark.parametrize(
    ("agent", "command"),
    [
        ("claude", claude.command),
        ("codex", codex.command),
        ("codex", codex_exec.command),
        ("gemini", gemini.command),
        ("cursor", cursor.command),
    ],
)
def test_neither_prompt_nor_key_is_on_a_command_line(
    agent: str, command: Callable[[AgentRequest], Any], tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path), "CODEX_API_KEY": "hush-hush", "ANTHROPIC_API_KEY": "hush-hush"}
    call = Call((Turn("user", "a private question"),), system="a private instruction")
    caller = Caller(cwd=tmp_path, settings=load({**env, "COUNSEL_HOME": str(tmp_path / "counsel")}))
    start = command(request_to(agent, call=call, caller=caller, env=env, cwd=tmp_path, start=tmp_path))
    words = " ".join(start.argv)
    assert "private" not in words
    assert "hush" not in words
