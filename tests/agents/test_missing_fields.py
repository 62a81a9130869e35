"""What a reader makes of a line in which one field is missing or null (tests/golden/missing_fields.txt).

Releases of an agent add and drop fields. `COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an
intended change.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.reading import request_to
from counsel.agents.claude import run as claude
from counsel.agents.codex import exec as codex_exec
from counsel.agents.codex import run as codex
from counsel.agents.cursor import run as cursor
from counsel.agents.driver import Busy, MethodUnsupported
from counsel.agents.failures import LostSession
from counsel.agents.gemini import run as gemini
from counsel.agents.opencode import run as opencode
from counsel.agents.process import Exit
from counsel.errors import CounselError
from counsel.types import Limits

GOLDEN = Path(__file__).parent.parent / "golden" / "missing_fields.txt"
READERS: dict[str, tuple[str, Any]] = {
    "claude": ("claude", claude.Reader),
    "codex": ("codex", codex.Reader),
    "codex exec": ("codex", codex_exec.ExecReader),
    "cursor": ("cursor", cursor.Reader),
    "gemini": ("gemini", gemini.Reader),
    "opencode": ("opencode", opencode.Reader),
}
SESSION = "5f0c"
REMOVED = object()


def _claude_delta(index: int = 0, **delta: Any) -> dict[str, Any]:
    return {
        "type": "stream_event",
        "event": {"type": "content_block_delta", "index": index, "delta": delta},
    }


def _claude_start(message: str) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": "message_start", "message": {"id": message}}}


def _claude_result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION, **more}


def _claude_refusal() -> dict[str, Any]:
    details = {"category": "cyber", "explanation": "Not this.", "recommended_model": "opus"}
    return {"type": "stream_event", "event": {"type": "message_delta", "delta": {"stop_details": details}}}


def _codex_item(event: str, number: str, kind: str = "agentMessage", **more: Any) -> dict[str, Any]:
    item = {"type": kind, "id": number, **more}
    return {"method": f"item/{event}", "params": {"threadId": "t", "item": item}}


def _codex_delta(number: str, text: str, kind: str = "agentMessage/delta") -> dict[str, Any]:
    return {"method": f"item/{kind}", "params": {"threadId": "t", "itemId": number, "delta": text}}


def _codex_error(**params: Any) -> dict[str, Any]:
    return {"method": "error", "params": {"threadId": "t", **params}}


def _codex_used(total: int, last: int) -> dict[str, Any]:
    names = ("inputTokens", "outputTokens", "reasoningOutputTokens", "cachedInputTokens")
    numbers = {name: last + place for place, name in enumerate((*names, "cacheWriteInputTokens"))}
    usage = {"total": {"inputTokens": total}, "last": numbers}
    return {"method": "thread/tokenUsage/updated", "params": {"turnId": "u", "tokenUsage": usage}}


def _codex_end(status: str = "completed", **turn: Any) -> dict[str, Any]:
    return {"method": "turn/completed", "params": {"threadId": "t", "turn": {"status": status, **turn}}}


CODEX_OPENED: list[dict[str, Any]] = [
    {"id": 1, "result": {}},
    {"id": 3, "result": {"thread": {"id": "t"}, "model": "gpt-5.1"}},
    {"id": 4, "result": {"turn": {"id": "u"}}},
]


def _acp(kind: str, **update: Any) -> dict[str, Any]:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **update}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _acp_text(text: str, message: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
    return _acp(kind, content={"type": "text", "text": text}, messageId=message)


ACP_OPENED: list[dict[str, Any]] = [{"id": 1, "result": {}}, {"id": 2, "result": {"sessionId": SESSION}}]

# Reader, lines, and how its process ended. Together they contain each kind of line that a reader knows.
STREAMS: dict[str, tuple[str, list[dict[str, Any]], Exit]] = {
    "claude: an answer with a tool": (
        "claude",
        [
            _claude_start("m1"),
            _claude_delta(type="thinking_delta", thinking="hm"),
            _claude_delta(type="text_delta", text="I look."),
            {
                "type": "assistant",
                "message": {
                    "id": "m1",
                    "model": "claude-x",
                    "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}},
                    ],
                },
            },
            _claude_start("m2"),
            _claude_delta(0, type="text_delta", text="Ber"),
            _claude_delta(1, type="text_delta", text="lan"),
            {
                "type": "stream_event",
                "event": {"type": "message_stop"},
                "abandoned_blocks": {"from_block_index": 1},
            },
            _claude_start("m3"),
            _claude_delta(type="text_delta", text="lin."),
            {"type": "assistant", "message": {"id": "m4", "model": "<synthetic>", "content": []}},
            _claude_result(
                result="lin.",
                stop_reason="max_tokens",
                usage={
                    "input_tokens": 1,
                    "output_tokens": 20,
                    "cache_read_input_tokens": 300,
                    "cache_creation_input_tokens": 4000,
                    "output_tokens_details": {"thinking_tokens": 7},
                },
                model_usage_since_last_result={"claude-x": {"costUSD": 0.25}, "claude-y": {"costUSD": 0.5}},
            ),
        ],
        Exit(0),
    ),
    "claude: a refusal": ("claude", [_claude_refusal(), _claude_result(stop_reason="refusal")], Exit(0)),
    "claude: its result alone": ("claude", [_claude_result(result="Berlin.", stop_reason="new")], Exit(0)),
    "claude: a retry": (
        "claude",
        [
            {
                "type": "system",
                "subtype": "api_retry",
                "error_status": 529,
                "error": "overloaded",
                "retry_delay_ms": 2600,
            }
        ],
        Exit(1),
    ),
    "claude: a forbidden key": (
        "claude",
        [{"type": "system", "subtype": "api_retry", "error_status": 403, "error": "forbidden"}],
        Exit(1),
    ),
    "claude: a failure": (
        "claude",
        [_claude_result(is_error=True, errors=["first", "second"], result="API Error", api_error_status=429)],
        Exit(1),
    ),
    "claude: its session is gone": (
        "claude",
        [_claude_result(is_error=True, errors=["No conversation found with session ID"])],
        Exit(1),
    ),
    "claude: no login": ("claude", [_claude_result(is_error=True, result="Please run /login")], Exit(1)),
    "claude: logged out": ("claude", [_claude_result(is_error=True, result="Not logged in")], Exit(1)),
    "codex: an answer with tools": (
        "codex",
        [
            *CODEX_OPENED,
            _codex_item("started", "c", phase="commentary"),
            _codex_delta("c", "I look."),
            _codex_item("completed", "c", phase="commentary", text="I look."),
            _codex_delta("r", "hm", "reasoning/summaryTextDelta"),
            _codex_delta("r", "hmm", "reasoning/textDelta"),
            _codex_item("started", "x", "commandExecution", command="ls"),
            _codex_item("started", "f", "fileChange", changes=[{"path": "a"}]),
            _codex_item("started", "w", "webSearch", query="counsel"),
            _codex_item("started", "p", "mcpToolCall", tool="read"),
            _codex_used(10, 10),
            _codex_used(10, 10),
            _codex_used(30, 20),
            _codex_item("started", "m1"),
            _codex_delta("m1", "Ber"),
            _codex_error(error={"message": "Reconnecting... 1/5"}, willRetry=True),
            _codex_item("started", "m2"),
            _codex_delta("m2", "Ber"),
            _codex_item("completed", "m2", text="Berlin."),
            _codex_item("completed", "m3", text="Bonn."),
            _codex_end(items=[{"type": "agentMessage", "id": "m4", "text": "Trier."}]),
        ],
        Exit(0),
    ),
    "codex: comments alone": (
        "codex",
        [
            *CODEX_OPENED,
            _codex_item("completed", "c1", phase="commentary", text="One."),
            _codex_item("completed", "c2", phase="commentary", text="Two."),
            _codex_end(),
        ],
        Exit(0),
    ),
    "codex: the network is gone": (
        "codex",
        [
            *CODEX_OPENED,
            _codex_error(error={"message": "no route", "additionalDetails": "first"}, willRetry=True),
            _codex_error(error={"message": "no route", "additionalDetails": "429 second"}, willRetry=True),
        ],
        Exit(0),
    ),
    "codex: a named failure": (
        "codex",
        [
            *CODEX_OPENED,
            _codex_end("failed", error={"message": "limit", "codexErrorInfo": "usageLimitExceeded"}),
        ],
        Exit(0),
    ),
    "codex: a failure with a status": (
        "codex",
        [
            *CODEX_OPENED,
            _codex_end(
                "failed",
                error={
                    "message": "gone",
                    "codexErrorInfo": {"responseStreamFailed": {"httpStatusCode": 404}},
                },
            ),
        ],
        Exit(0),
    ),
    "codex: a refused thread": (
        "codex",
        [{"id": 3, "error": {"code": -1, "message": "no rollout"}}],
        Exit(1),
    ),
    "codex: a refused turn": ("codex", [{"id": 4, "error": {"code": -1, "message": "too busy"}}], Exit(1)),
    "codex: an unknown method": ("codex", [{"id": 4, "error": {"code": -32601, "message": "?"}}], Exit(1)),
    "codex: a question": ("codex", [{"id": 0, "method": "applyPatchApproval", "params": {}}], Exit(1)),
    "codex exec: an answer": (
        "codex exec",
        [
            {"type": "thread.started", "thread_id": "t"},
            {"type": "turn.started"},
            {"type": "item.completed", "item": {"type": "error", "message": "a warning"}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "I look."}},
            {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "Berlin."}},
            {
                "type": "turn.completed",
                "usage": {
                    "input_tokens": 1,
                    "output_tokens": 2,
                    "reasoning_output_tokens": 3,
                    "cached_input_tokens": 4,
                    "cache_write_input_tokens": 5,
                },
            },
        ],
        Exit(0),
    ),
    "codex exec: a failure": (
        "codex exec",
        [{"type": "turn.started"}, {"type": "turn.failed", "error": {"message": "it broke"}}],
        Exit(1),
    ),
    "codex exec: no turn": ("codex exec", [{"type": "thread.started", "thread_id": "t"}], Exit(1, "gone")),
    "cursor: an answer with a tool": (
        "cursor",
        [
            {"type": "system", "session_id": SESSION, "model": "composer"},
            {"type": "thinking", "text": "hm"},
            {
                "type": "assistant",
                "timestamp_ms": 1,
                "message": {"content": [{"type": "text", "text": "I look."}]},
            },
            {
                "type": "assistant",
                "timestamp_ms": 1,
                "model_call_id": "c",
                "message": {"content": [{"type": "text", "text": "I look. "}]},
            },
            {
                "type": "tool_call",
                "subtype": "started",
                "call_id": "t1",
                "tool_call": {"readToolCall": {"args": {"path": "a"}}},
            },
            {"type": "tool_call", "subtype": "completed", "call_id": "t1"},
            {
                "type": "assistant",
                "timestamp_ms": 2,
                "message": {"content": [{"type": "image"}, {"type": "text", "text": "Ber"}]},
            },
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "I look.Berlin."}]}},
            {"type": "result", "subtype": "success", "is_error": False, "result": "I look.Berlin."},
        ],
        Exit(0),
    ),
    "cursor: its result alone": (
        "cursor",
        [{"type": "result", "subtype": "success", "result": "Berlin.", "session_id": SESSION}],
        Exit(0),
    ),
    "cursor: a failure": ("cursor", [{"type": "result", "subtype": "error", "is_error": True}], Exit(1)),
    "gemini: an answer with a tool": (
        "gemini",
        [
            {"type": "init", "session_id": SESSION, "model": "gemini-x", "timestamp": "2026-01-01"},
            {"type": "message", "role": "user", "content": "look"},
            {"type": "message", "role": "assistant", "content": "I ", "delta": True},
            {"type": "message", "role": "assistant", "content": "I look.", "delta": False},
            {
                "type": "tool_use",
                "tool_id": "t1",
                "tool_name": "read_file",
                "parameters": {"path": "a"},
            },
            {"type": "error", "severity": "warning", "message": "a warning"},
            {"type": "message", "role": "assistant", "content": "Berlin."},
            {
                "type": "result",
                "status": "success",
                "stats": {
                    "input_tokens": 10,
                    "output_tokens": 20,
                    "cached": 5,
                    "models": {"small": {"output_tokens": 2}, "large": {"output_tokens": 18}, "none": {}},
                },
            },
        ],
        Exit(0),
    ),
    "gemini: its result alone": (
        "gemini",
        [{"type": "result", "status": "success", "response": "Berlin."}],
        Exit(0),
    ),
    "gemini: a failure": (
        "gemini",
        [{"type": "result", "status": "error", "error": {"message": "API key not valid"}}],
        Exit(144),
    ),
    "opencode: an answer with a tool": (
        "opencode",
        [
            *ACP_OPENED,
            _acp_text("hm", "1", "agent_thought_chunk"),
            _acp_text("I look.", "1"),
            _acp(
                "tool_call_update",
                status="in_progress",
                toolCallId="t1",
                title="read",
                rawInput={"path": "a"},
            ),
            _acp_text("Ber", "2"),
            _acp_text("lin.", "2"),
            {
                "id": 3,
                "result": {
                    "stopReason": "end_turn",
                    "usage": {
                        "inputTokens": 1,
                        "outputTokens": 20,
                        "cachedReadTokens": 300,
                        "cachedWriteTokens": 4000,
                        "thoughtTokens": 5,
                    },
                },
            },
        ],
        Exit(0),
    ),
    "opencode: a refused session": ("opencode", [{"id": 2, "error": {"message": "none"}}], Exit(1)),
    "opencode: a failure": ("opencode", [*ACP_OPENED, {"id": 3, "error": {"message": "429"}}], Exit(1)),
    "opencode: a question": (
        "opencode",
        [
            *ACP_OPENED,
            {
                "id": 7,
                "method": "session/request_permission",
                "params": {
                    "options": [{"optionId": "y", "kind": "allow"}, {"optionId": "n", "kind": "reject"}]
                },
            },
        ],
        Exit(1),
    ),
}


def outcome(reader: str, lines: list[Any], exit_: Exit, session: str | None) -> list[str]:
    agent, make = READERS[reader]
    request = replace(request_to(agent, session, env={"HOME": "/nowhere"}), limits=Limits(attempts=2))
    line_reader, results = make(request), []
    try:
        for line in lines:
            results += [repr(step) for step in line_reader.feed(line)]
        results += [f"done: {line_reader.done}", *(repr(step) for step in line_reader.finish(exit_))]
    except CounselError as error:
        fields = {name: value for name, value in error.fields.items() if name != "hint"}
        results.append(f"{type(error).__name__} {json.dumps(fields, sort_keys=True, default=str)}")
    except (LostSession, MethodUnsupported, Busy) as error:
        results.append(type(error).__name__)
    except (AttributeError, LookupError, TypeError, ValueError):
        results.append("cannot be read")
    return results


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*place, key)
        yield from places(inner, (*place, key))


def with_value(line: Any, place: tuple[Any, ...], value: object) -> Any:
    line = copy.deepcopy(line)
    parent = line
    for key in place[:-1]:
        parent = parent[key]
    if value is REMOVED:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return line


def variants(lines: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    for number, line in enumerate(lines):
        for place in places(line):
            label = f"line {number + 1}, {'.'.join(map(str, place))}"
            for name, value in (("missing", REMOVED), ("null", None)):
                yield (
                    f"{label} {name}",
                    [*lines[:number], with_value(line, place, value), *lines[number + 1 :]],
                )


def report() -> Iterator[str]:
    for title, (reader, lines, exit_) in STREAMS.items():
        outcomes = {session: outcome(reader, lines, exit_, session) for session in (None, SESSION)}
        for session, base in outcomes.items():
            if session and base == outcomes[None]:
                continue
            yield from ["", f"# {title}{', in its session' if session else ''}", *base]
            problems: dict[str, list[str]] = {}
            for places, other_lines in variants(lines):
                result = outcome(reader, other_lines, exit_, session)
                # not `ndiff`: Python 3.14 orders replaced lines differently
                difference = [*difflib.unified_diff(base, result, n=0, lineterm="")][2:]
                difference = [f"{row[0]} {row[1:]}" for row in difference if row[0] in "+-"]
                problems.setdefault("\n".join(difference), []).append(places)
            yield from (f"## {'; '.join(places)}\n{rows}" for rows, places in problems.items() if rows)


def test_a_missing_or_null_field_has_only_these_effects() -> None:
    text = "\n".join(report()) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
