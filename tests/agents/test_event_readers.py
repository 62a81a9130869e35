"""The readers over recorded streams: what each agent said, as our events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.agents.claude import run as claude
from counsel.agents.codex import exec as codex_exec
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.definitions import AGENTS
from counsel.agents.driver import AgentRequest, MethodUnsupported, Reader, Send, Step
from counsel.agents.failures import LostSession
from counsel.agents.gemini import run as gemini
from counsel.agents.process import Exit
from counsel.caller import Caller
from counsel.errors import AgentUnavailable, AuthenticationFailed, RateLimited, UpstreamError
from counsel.settings import load
from counsel.types import (
    Call,
    Finished,
    Limits,
    Notice,
    Text,
    Thinking,
    ToolUse,
    Turn,
    UsageReport,
    Withdrawn,
)

STREAMS = Path(__file__).resolve().parents[1] / "golden" / "streams"
CLEAN = Exit(0)


def asked(agent: str, session: str | None = None, **said: Any) -> AgentRequest:
    call = Call((Turn("user", "look"),), session=session)
    base: dict[str, Any] = {
        "agent": AGENTS[agent],
        "program": Path("/bin/agent"),
        "call": call,
        "caller": Caller(),
        "limits": Limits(attempts=2),
        "model": None,
        "session": session,
        "level": "read-only",
        "env": {"SOME_API_KEY": "hush-hush"},
    }
    return AgentRequest(**(base | said))


def read(reader: Any, stream: str, ended: Exit = CLEAN) -> list[Step]:
    lines = [json.loads(line) for line in (STREAMS / f"{stream}.jsonl").read_text().splitlines()]
    steps = [step for line in lines for step in reader.feed(line)]
    return [*steps, *reader.finish(ended)]


def told(steps: list[Step]) -> tuple[str, str, list[str]]:
    text = "".join(step.delta for step in steps if isinstance(step, Text))
    thought = "".join(step.delta for step in steps if isinstance(step, Thinking))
    return text, thought, [step.call.name for step in steps if isinstance(step, ToolUse)]


TWICE = "It says note.\n\nIt says note."  # the fake says its text before and after the tool


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
    steps = read(reader(asked(agent)), stream)
    assert told(steps) == (text, thought, tools)
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
def test_usage(
    reader: Callable[[AgentRequest], Any], agent: str, stream: str, expected: tuple[int, int, float | None]
) -> None:
    steps = read(reader(asked(agent)), stream)
    used = [step.usage for step in steps if isinstance(step, UsageReport)][-1]
    assert (used.input, used.output) == expected[:2]
    if expected[2]:
        assert used.cost_usd == pytest.approx(expected[2])


@pytest.mark.parametrize(
    ("reader", "agent", "stream", "ended"),
    [
        (claude.Reader, "claude", "claude_429", Exit(1)),
        (codex.Reader, "codex", "codex_app_server_429", CLEAN),
        (gemini.Reader, "gemini", "gemini_429", Exit(173)),
    ],
)
def test_a_recorded_rate_limit(
    reader: Callable[[AgentRequest], Any], agent: str, stream: str, ended: Exit
) -> None:
    with pytest.raises(RateLimited) as failed:
        read(reader(asked(agent)), stream, ended)
    assert failed.value.provider == agent


def test_success_that_is_none() -> None:
    """Claude Code's `subtype` says "success" when `is_error` says otherwise."""
    line = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: hush-hush"}
    with pytest.raises(UpstreamError) as failed:
        claude.Reader(asked("claude")).feed(line)
    assert "hush-hush" not in str(failed.value)


def test_claude_is_not_waited_for_when_its_key_is_refused() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 401, "error": "authentication_failed"}
    with pytest.raises(AuthenticationFailed):
        claude.Reader(asked("claude")).feed(retry)


def test_claude_says_when_it_tries_again() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 529, "retry_delay_ms": 2000}
    (notice,) = claude.Reader(asked("claude")).feed(retry)
    assert isinstance(notice, Notice)
    assert notice.kind == "retry"


def test_a_helper_of_claude_is_not_the_answer() -> None:
    said = {"id": "m", "content": [{"type": "text", "text": "inner"}]}
    line = {"type": "assistant", "parent_tool_use_id": "t1", "message": said}
    assert claude.Reader(asked("claude")).feed(line) == []


def test_lost_sessions() -> None:
    session = "11111111-1111-4111-8111-111111111111"
    with pytest.raises(LostSession):
        read(claude.Reader(asked("claude", session)), "claude_lost", Exit(1))
    refused = {"id": 3, "error": {"code": -32600, "message": "no rollout found for thread id"}}
    with pytest.raises(LostSession):
        codex.Reader(asked("codex", session)).feed(refused)
    with pytest.raises(LostSession):
        gemini.Reader(asked("gemini", session)).finish(Exit(42, "Error resuming session"))
    with pytest.raises(LostSession):
        cursor.Reader(asked("cursor", session)).finish(Exit(1, "Error: Chat 111 not found"))
    with pytest.raises(LostSession):
        codex_exec.ExecReader(asked("codex", session)).finish(Exit(1, "no rollout found"))


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Exit(0), "it exited with code 0 before its answer was complete"),
        (Exit(3, "at f\nboom"), "it exited with code 3 before its answer was complete: boom"),
        (Exit(-9), "it was killed by signal 9 before"),
        (Exit(1, garbage=2), "it exited with code 1 after 2 lines that were not JSON before"),
    ],
)
def test_how_an_agent_without_an_answer_ended(ended: Exit, words: str) -> None:
    for reader, agent in ((claude.Reader, "claude"), (codex.Reader, "codex"), (cursor.Reader, "cursor")):
        with pytest.raises(UpstreamError, match=words):
            reader(asked(agent)).finish(ended)


def test_codex_is_never_left_waiting_for_a_person() -> None:
    reader = codex.Reader(asked("codex"))
    for number, method in enumerate(codex.DECLINE):
        send, notice = reader.feed({"id": number, "method": method, "params": {}})
        assert isinstance(send, Send)
        assert send.message == {"id": number, "result": codex.DECLINE[method]}
        assert isinstance(notice, Notice)
    (send,) = reader.feed({"id": 99, "method": "something/new", "params": {}})
    assert isinstance(send, Send)
    assert send.message["error"]["code"] == -32601


def test_a_codex_without_app_server_is_asked_the_other_way() -> None:
    with pytest.raises(MethodUnsupported):
        codex.Reader(asked("codex")).finish(Exit(2, "error: unrecognized subcommand 'app-server'"))


def test_a_thread_of_a_helper_of_codex_is_not_the_answer() -> None:
    reader = codex.Reader(asked("codex"))
    reader.feed({"id": 3, "result": {"thread": {"id": "mine"}}})
    delta = {"threadId": "other", "itemId": "i", "delta": "inner"}
    assert reader.feed({"method": "item/agentMessage/delta", "params": delta}) == []


def test_what_codex_says_while_it_works_is_thought_not_answer() -> None:
    reader = codex.Reader(asked("codex"))
    reader.feed({"id": 3, "result": {"thread": {"id": "t"}}})
    item = {"type": "agentMessage", "id": "i", "phase": "commentary"}
    reader.feed({"method": "item/started", "params": {"item": item}})
    said = reader.feed({"method": "item/agentMessage/delta", "params": {"itemId": "i", "delta": "looking"}})
    assert said == [Thinking("looking")]
    done = {"method": "turn/completed", "params": {"turn": {"status": "completed"}}}
    assert reader.feed(done) == [Text("looking")]  # better than an empty answer


def test_gemini_is_ended_after_our_number_of_tries() -> None:
    reader = gemini.Reader(asked("gemini"))
    assert not reader.stderr_line("Attempt 1 failed with status 429. Retrying with backoff...")
    assert reader.stderr_line("Attempt 2 failed with status 429. Retrying with backoff...")
    with pytest.raises(RateLimited) as failed:
        reader.finish(Exit(-15))
    assert failed.value.message.endswith("it failed 2 times")


def test_only_the_message_of_a_vendors_error_is_shown() -> None:
    reader = gemini.Reader(asked("gemini"))
    body = '{"error":{"code":429,"message":"Resource has been exhausted.","status":"X"}}'
    assert reader.stderr_line(f"Attempt 2 failed with status 429. Retrying with backoff... _ApiError: {body}")
    with pytest.raises(RateLimited) as failed:
        reader.finish(Exit(-15))
    assert failed.value.message.endswith("it failed 2 times: Resource has been exhausted.")
    assert 'no {"error": 5}' in asked("codex").fail('no {"error": 5}').message


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
        gemini.Reader(asked("gemini")).finish(Exit(code, stderr))


def test_a_process_id_is_no_status() -> None:
    """`(node:14293)` in a warning holds the digits of a status; it means nothing."""
    reader = cursor.Reader(asked("cursor"))
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
            assert reader(asked(name)).feed(line) == []


def test_a_prompt_that_an_agent_finds_too_long() -> None:
    """Codex's own limit, as it says it; the vendors' words are read the same way."""
    failure = asked("codex").fail("Input exceeds the maximum length of 1048576 characters.")
    assert failure.code == "CONTEXT_LENGTH_EXCEEDED"


def _claude_piece(message: str, block: int, words: str) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": words}
    event = {"type": "content_block_delta", "index": block, "delta": delta}
    return {"type": "stream_event", "event": event, "api_message_id": message}


def _claude_event(kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": kind, "message": {"id": message}}, **more}


@pytest.mark.parametrize(("first", "void", "again"), [(0, "One. Tw", "Two."), (1, "Tw", "\n\nTwo.")])
def test_claude_takes_back_the_blocks_that_it_abandons(first: int, void: str, again: str) -> None:
    """As 2.x says it when a stream breaks: from this block on the message is asked for again, as another one."""
    reader = claude.Reader(asked("claude"))
    lost = {"abandoned_blocks": {"api_message_id": "m1", "from_block_index": first}}
    lines = [
        _claude_event("message_start", "m1"),
        _claude_piece("m1", 0, "One. "),
        _claude_piece("m1", 1, "Tw"),
        _claude_event("message_stop", "m1", **lost),
        _claude_event("message_start", "m2"),
        _claude_piece("m2", 0, "Two."),
    ]
    steps = [step for line in lines for step in reader.feed(line)]
    said = [step.text if isinstance(step, Withdrawn) else step.delta for step in steps]  # type: ignore[union-attr]
    assert said == ["One. ", "Tw", void, again]
    assert isinstance(steps[2], Withdrawn)


def _codex(method: str, item: str = "", **params: Any) -> dict[str, Any]:
    held = {"item": {"type": "agentMessage", "id": item}} if method.startswith("item/") else {}
    return {"method": method, "params": {"itemId": item, **held, **params}}


@pytest.mark.parametrize(("whole", "void", "again"), [(False, ["One."], "Two."), (True, [], "\n\nTwo.")])
def test_codex_takes_back_a_message_that_was_not_complete(whole: bool, void: list[str], again: str) -> None:
    reader = codex.Reader(asked("codex"))
    lines = [
        _codex("item/started", "m1"),
        _codex("item/agentMessage/delta", "m1", delta="One."),
        *([_codex("item/completed", "m1")] if whole else []),
        _codex("error", error={"message": "Reconnecting... 1/3"}, willRetry=True),
        _codex("item/started", "m2"),
        _codex("item/agentMessage/delta", "m2", delta="Two."),
    ]
    steps = [step for line in lines for step in reader.feed(line)]
    assert [step.text for step in steps if isinstance(step, Withdrawn)] == void
    assert [step.delta for step in steps if isinstance(step, Text)] == ["One.", again]


RECORD = [
    {
        "type": "gemini",
        "id": "0",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "content": "good",
    },  # an earlier turn's
    {"type": "user", "id": "1", "timestamp": "2026-01-02T00:00:01.000Z", "content": [{"text": "look"}]},
    {"type": "gemini", "id": "2", "timestamp": "2026-01-02T00:00:02.000Z", "content": "I look."},
    {
        "type": "gemini",
        "id": "2",
        "timestamp": "2026-01-02T00:00:02.000Z",
        "content": "I look.",
        "toolCalls": [],
    },
    {"type": "gemini", "id": "3", "timestamp": "2026-01-02T00:00:03.000Z", "content": ""},
    {"type": "gemini", "id": "4", "timestamp": "2026-01-02T00:00:04.000Z", "content": "good"},
]


@pytest.mark.parametrize(
    ("pieces", "right"),
    [
        (["I look.", None, "void ", "good\n"], "I look.\n\ngood\n"),
        (["I lo", "I look.", None, "good"], "I look.\n\ngood"),
        (["I look.", None, " good "], None),  # as it was
        (["I look.", None, "void ", "another"], None),  # the record tells another story
        (["void ", "good"], None),
    ],
)
@pytest.mark.parametrize("half", [b"", b'{"type": "gem', b"[1]\n\xff"])
def test_gemini_is_corrected_by_its_own_record(
    tmp_path: Path, pieces: Any, right: str | None, half: bytes
) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "project" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-01-02T00-00-other000.jsonl").write_text(json.dumps(RECORD[0]))
    lines = b"\n".join(json.dumps(entry).encode() for entry in RECORD)
    (chats / "session-2026-01-02T00-00-abcdef01.jsonl").write_bytes(lines + b"\n" + half)
    reader = gemini.Reader(asked("gemini", env={"HOME": str(tmp_path)}, cwd=tmp_path))
    session = {"session_id": "abcdef01-0000", "timestamp": "2026-01-02T00:00:00.500Z"}
    reader.feed({"type": "init", **session})
    for piece in pieces:
        kind = {"type": "message", "role": "assistant", "content": piece} if piece else {"type": "tool_use"}
        reader.feed(kind)
    reader.feed({"type": "result", "status": "success"})
    steps = reader.finish(CLEAN)
    assert [step.delta for step in steps if isinstance(step, Text)] == ([right] if right else [])
    assert len([step for step in steps if isinstance(step, Withdrawn)]) == bool(right)


# ── in pieces, whole, or both ──


def fed(reader: Any, *lines: dict[str, Any]) -> list[Step]:
    steps = [step for line in lines for step in reader.feed(line)]
    return [*steps, *reader.finish(CLEAN)]


def codex_lines(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": 1, "result": {}},
        {"id": 3, "result": {"thread": {"id": "t"}, "model": "gpt-5.1"}},
        *items,
        {"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "u", "status": "completed"}}},
    ]


def codex_item(text: str, number: str = "m1", event: str = "completed", **more: Any) -> dict[str, Any]:
    item = {"type": "agentMessage", "id": number, "text": text, **more}
    return {"method": f"item/{event}", "params": {"threadId": "t", "item": item}}


def codex_piece(text: str, number: str = "m1") -> dict[str, Any]:
    return {
        "method": "item/agentMessage/delta",
        "params": {"threadId": "t", "itemId": number, "delta": text},
    }


@pytest.mark.parametrize(
    "items",
    [
        [codex_item("Ber", event="started"), codex_piece("Ber"), codex_piece("lin."), codex_item("Berlin.")],
        [codex_item("Berlin.")],
        [codex_piece("Ber"), codex_item("Berlin.")],
        [codex_item("Hm.", "m0", phase="commentary"), codex_item("Berlin.")],
        [codex_item("Berlin.", phase="commentary")],
    ],
    ids=["pieces and whole", "whole", "a part in pieces", "after a comment", "nothing but a comment"],
)
def test_codex_says_the_same_in_pieces_and_whole(items: list[dict[str, Any]]) -> None:
    assert told(fed(codex.Reader(asked("codex")), *codex_lines(*items)))[0] == "Berlin."


def test_codex_messages_of_a_turns_end_count() -> None:
    lines = codex_lines(codex_piece("One.", "m0"), codex_item("One.", "m0"))
    lines[-1]["params"]["turn"]["items"] = [
        {"type": "agentMessage", "id": "m0", "text": "One."},
        {"type": "agentMessage", "id": "m1", "text": "Two."},
    ]
    assert told(fed(codex.Reader(asked("codex")), *lines))[0] == "One.\n\nTwo."


def claude_piece(text: str, message: str = "a") -> list[dict[str, Any]]:
    start = {"type": "message_start", "message": {"id": message}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return [{"type": "stream_event", "event": event} for event in (start, delta)]


def claude_whole(*texts: str, message: str = "a") -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "assistant", "message": {"id": message, "model": "claude", "content": content}}


def claude_result(text: str, stop: str = "end_turn") -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, "stop_reason": stop}


@pytest.mark.parametrize(
    "lines",
    [
        [*claude_piece("Berlin."), claude_whole("Berlin."), claude_result("Berlin.")],
        [claude_whole("Berlin."), claude_result("Berlin.")],
        [*claude_piece("Ber"), claude_whole("Berlin."), claude_result("Berlin.")],
        [claude_result("Berlin.")],
        [*claude_piece("Ber"), claude_whole("Ber"), claude_whole("lin."), claude_result("Berlin.")],
    ],
    ids=["pieces and whole", "whole", "a part in pieces", "the result alone", "a block in no piece"],
)
def test_claude_says_the_same_in_pieces_and_whole(lines: list[dict[str, Any]]) -> None:
    assert told(fed(claude.Reader(asked("claude")), *lines))[0] == "Berlin."


def test_a_last_message_of_claude_that_came_with_the_result_alone_counts() -> None:
    lines = [*claude_piece("I look."), claude_whole("I look."), claude_result("Berlin.")]
    assert told(fed(claude.Reader(asked("claude")), *lines))[0] == "I look.\n\nBerlin."


@pytest.mark.parametrize("words", ["", " ", "(no content)", "No response requested."])
def test_what_claude_shows_for_no_answer_is_none(words: str) -> None:
    assert not told(fed(claude.Reader(asked("claude")), claude_result(words)))[0].strip()


def test_a_refusal_of_claude_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No.", "recommended_model": "opus"}
    delta = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    lines = ({"type": "stream_event", "event": delta}, claude_result("", "refusal"))
    finished = fed(claude.Reader(asked("claude")), *lines)[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "filtered"
    assert finished.vendor == {"reason": "cyber", "text": "No.", "recommended_model": "opus"}


@pytest.mark.parametrize(
    "said",
    [
        [("Ber", True), ("lin.", True), ("Berlin.", None)],
        [("Berlin.", None)],
        [("Ber", None), ("lin.", None)],
        [("Ber", True), ("Berlin.", False)],
        [],
    ],
)
def test_gemini_says_the_same_in_pieces_and_whole(said: list[tuple[str, bool | None]]) -> None:
    lines = [
        {"type": "message", "role": "assistant", "content": text}
        | ({} if delta is None else {"delta": delta})
        for text, delta in said
    ]
    last = {"type": "result", "status": "success", "stats": {}, "response": "Berlin."}
    assert told(fed(gemini.Reader(asked("gemini")), *lines, last))[0] == "Berlin."


def cursor_said(text: str, *, piece: bool) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message} | ({"timestamp_ms": 1} if piece else {})


@pytest.mark.parametrize(
    "lines",
    [
        [
            cursor_said("Ber", piece=True),
            cursor_said("lin.", piece=True),
            cursor_said("Berlin.", piece=False),
        ],
        [cursor_said("Berlin.", piece=False)],
        [cursor_said("Ber", piece=True), cursor_said("Berlin.", piece=False)],
        [],
    ],
    ids=["pieces and whole", "whole", "a part in pieces", "the result alone"],
)
def test_cursor_says_the_same_in_pieces_and_whole(lines: list[dict[str, Any]]) -> None:
    last = {"type": "result", "subtype": "success", "is_error": False, "result": "Berlin."}
    assert told(fed(cursor.Reader(asked("cursor")), *lines, last))[0] == "Berlin."


def test_whole_text_of_cursor_after_its_tools_counts() -> None:
    tool = {"type": "tool_call", "subtype": "started", "call_id": "1", "tool_call": {"readToolCall": {}}}
    lines = [
        cursor_said("I look.", piece=True),
        cursor_said("I look.", piece=False),
        tool,
        cursor_said("Berlin.", piece=False),
    ]
    last = {"type": "result", "subtype": "success", "is_error": False, "result": "I look.Berlin."}
    assert told(fed(cursor.Reader(asked("cursor")), *lines, last))[0] == "I look.\n\nBerlin."


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
    started = command(asked(agent, call=call, caller=caller, env=env, cwd=tmp_path, start=tmp_path))
    words = " ".join(started.argv)
    assert "private" not in words
    assert "hush" not in words
