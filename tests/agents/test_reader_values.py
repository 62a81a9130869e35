"""How the readers of Codex and of ACP read single lines: tokens, failures, replies to an agent's questions."""

from __future__ import annotations

from typing import Any

import pytest

from agents.reading import CLEAN, request_to
from counsel.agents import acp
from counsel.agents.codex import run as codex
from counsel.agents.driver import Busy, MethodUnsupported, Send
from counsel.agents.failures import LostSession
from counsel.agents.process import Exit
from counsel.caller import Caller
from counsel.errors import CounselError
from counsel.settings import Settings
from counsel.types import Finished, Notice, Text, Thinking, ToolCall, ToolUse, Usage, UsageReport, Withdrawn


def code_of(excinfo: pytest.ExceptionInfo[CounselError]) -> str:
    return excinfo.value.code


# ── Codex ────────────────────────────────────────────────────────────────────────────────────────────


def codex_in_a_turn(**fields: Any) -> codex.Reader:
    reader = codex.Reader(request_to("codex", **fields))
    reader.feed({"id": 1, "result": {}})
    reader.feed({"id": 3, "result": {"thread": {"id": "th"}, "model": "gpt-5-codex"}})
    reader.feed({"id": 4, "result": {"turn": {"id": "tu"}}})
    return reader


def usage_line(total: int, **last: int) -> dict[str, Any]:
    usage = {"total": {"totalTokens": total}, "last": last}
    return {"method": "thread/tokenUsage/updated", "params": {"turnId": "tu", "tokenUsage": usage}}


def test_codexs_tokens_of_all_calls_of_the_turn_are_added() -> None:
    reader = codex_in_a_turn()
    first = usage_line(
        15,
        inputTokens=10,
        outputTokens=5,
        reasoningOutputTokens=2,
        cachedInputTokens=4,
        cacheWriteInputTokens=1,
    )
    assert reader.feed(first) == [UsageReport(Usage(10, 5, 2, 4, 1))]
    assert reader.feed(first) == [], "the same report again adds nothing"
    second = usage_line(
        40,
        inputTokens=20,
        outputTokens=5,
        reasoningOutputTokens=1,
        cachedInputTokens=8,
        cacheWriteInputTokens=2,
    )
    assert reader.feed(second) == [UsageReport(Usage(30, 10, 3, 12, 3))]
    second["params"]["turnId"] = "before"
    assert (
        reader.feed({**second, "params": {**second["params"], "tokenUsage": {"total": 3, "last": {}}}}) == []
    )


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ("unauthorized", "AUTHENTICATION_FAILED"),
        ("usageLimitExceeded", "RATE_LIMIT_EXCEEDED"),
        ("rateLimitExceeded", "RATE_LIMIT_EXCEEDED"),
        ("contextWindowExceeded", "CONTEXT_LENGTH_EXCEEDED"),
        ("modelNotFound", "MODEL_NOT_FOUND"),
        ("serverOverloaded", "UPSTREAM_ERROR"),
        ({"responseStreamFailed": {"httpStatusCode": 429}}, "RATE_LIMIT_EXCEEDED"),
        ({"responseStreamFailed": {"httpStatusCode": None}}, "UPSTREAM_ERROR"),
        ({}, "UPSTREAM_ERROR"),
        ("somethingNew", "UPSTREAM_ERROR"),
        (None, "UPSTREAM_ERROR"),
    ],
)
def test_why_codexs_turn_failed(info: object, code: str) -> None:
    error = {"message": "It broke.", "codexErrorInfo": info}
    with pytest.raises(CounselError, match=r"It broke\.") as excinfo:
        codex_in_a_turn().feed(
            {"method": "turn/completed", "params": {"turn": {"status": "failed", "error": error}}}
        )
    assert code_of(excinfo) == code
    statuses = {"serverOverloaded": 503}
    if isinstance(info, str) and info in statuses:
        assert excinfo.value.status == statuses[info]


def test_codexs_end_names_the_model_and_the_thread() -> None:
    reader = codex_in_a_turn()
    item = {"type": "agentMessage", "id": "i", "text": "All of it."}
    steps = reader.feed(
        {"method": "turn/completed", "params": {"turn": {"status": "completed", "items": [item]}}}
    )
    assert steps == [Text("All of it.")]
    assert reader.done
    assert reader.finish(CLEAN) == [Finished("stop", "gpt-5-codex", session="th")]


def test_codex_retries_and_withdraws_earlier_text() -> None:
    reader = codex_in_a_turn()
    delta = {"method": "item/agentMessage/delta", "params": {"itemId": "i", "delta": "It sa"}}
    assert reader.feed(delta) == [Text("It sa")]
    broken = {"error": {"message": "Reconnecting... 2/5"}, "willRetry": True}
    withdrawn, notice = reader.feed({"method": "error", "params": broken})
    assert withdrawn == Withdrawn("It sa", "Codex lost the model's stream and asks again.")
    assert notice == Notice("retry", "Codex retries: Reconnecting... 2/5")
    again = {"method": "item/agentMessage/delta", "params": {"itemId": "j", "delta": "It says"}}
    assert reader.feed(again) == [Text("It says")], "no blank line before the first text that stands"
    assert reader.feed({"method": "error", "params": {**broken, "willRetry": False}}) == []


def test_codex_without_a_network_is_ended_after_our_number_of_attempts() -> None:
    reader = codex_in_a_turn()
    waits = {"error": {"message": "no route", "additionalDetails": "a cable"}, "willRetry": True}
    assert len(reader.feed({"method": "error", "params": waits})) == 1
    with pytest.raises(CounselError, match="a cable"):
        reader.feed({"method": "error", "params": waits})


@pytest.mark.parametrize(
    ("line", "session", "expected"),
    [
        ({"id": 1, "error": {"code": 1, "message": "m"}}, None, MethodUnsupported),
        ({"id": 4, "error": {"code": -32601, "message": "m"}}, None, MethodUnsupported),
        ({"id": 3, "error": {"code": 1, "message": "m"}}, "s", LostSession),
        ({"id": 3, "error": {"code": 1, "message": "m"}}, None, CounselError),
        ({"id": 4, "error": {"code": 1, "message": "m"}}, "s", CounselError),
    ],
)
def test_refusals_of_codex(line: dict[str, Any], session: str | None, expected: type[Exception]) -> None:
    line["error"]["message"] = "It broke, because."
    with pytest.raises(expected, match=r"It broke, because\." if expected is CounselError else None):
        codex.Reader(request_to("codex", session)).feed(line)


def test_a_codex_that_does_not_start() -> None:
    with pytest.raises(MethodUnsupported):
        codex.Reader(request_to("codex")).finish(Exit(2, "unknown command"))
    with pytest.raises(Busy):
        codex.Reader(request_to("codex")).finish(Exit(1, "the state runtime is locked"))
    with pytest.raises(CounselError):
        codex_in_a_turn().finish(Exit(2, "state runtime"))


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("commandExecution", "command", "ls"),
        ("fileChange", "changes", ["a"]),
        ("webSearch", "query", "q"),
        ("mcpToolCall", "tool", "t"),
    ],
)
def test_codexs_tools(kind: str, field: str, value: object) -> None:
    item = {"type": kind, "id": "i", field: value}
    steps = codex_in_a_turn().feed({"method": "item/started", "params": {"item": item}})
    assert steps == [ToolUse(ToolCall("i", kind, {field: value}))]


def test_codex_is_told_what_it_may_do_and_which_key_it_has() -> None:
    caller = Caller(settings=Settings(codex_api_key="sk-1", codex_approval_policy="on-failure"))
    reader = codex.Reader(request_to("codex", caller=caller, model="o5"))
    first, login = reader.feed({"id": 1, "result": {}})
    assert isinstance(first, Send)
    assert isinstance(login, Send)
    assert first.message == {"method": "initialized"}
    assert (login.message["method"], login.message["params"]) == (
        "account/login/start", {"type": "apiKey", "apiKey": "sk-1"}
    )  # fmt: skip
    (opening,) = reader.feed({"id": 2, "result": {}})
    assert isinstance(opening, Send)
    params = opening.message["params"]
    assert (params["sandbox"], params["approvalPolicy"], params["model"]) == ("read-only", "on-request", "o5")
    assert opening.message["method"] == "thread/start"


@pytest.mark.parametrize("method", codex.DECLINE)
def test_codexs_questions_are_declined(method: str) -> None:
    answer, notice = codex_in_a_turn().feed({"id": 9, "method": method, "params": {}})
    assert isinstance(answer, Send)
    assert answer.message == {"id": 9, "result": codex.DECLINE[method]}
    assert isinstance(notice, Notice)
    assert method in notice.text
    (refusal,) = codex_in_a_turn().feed({"id": 9, "method": "new/question", "params": {}})
    assert isinstance(refusal, Send)
    assert refusal.message["error"]["code"] == -32601


# ── the agent client protocol ────────────────────────────────────────────────────────────────────────


def acp_in_a_turn(**fields: Any) -> acp.Reader:
    reader = acp.Reader(request_to("opencode", **fields))
    reader.feed({"id": acp._HELLO, "result": {}})
    reader.feed({"id": acp._SESSION, "result": {"sessionId": "s1"}})
    return reader


def update(kind: str, session: str = "s1", **fields: object) -> dict[str, Any]:
    return {
        "method": "session/update",
        "params": {"sessionId": session, "update": {"sessionUpdate": kind, **fields}},
    }


def test_tokens_of_an_agent_that_counts_cached_input_apart() -> None:
    usage = {
        "inputTokens": 10,
        "outputTokens": 5,
        "thoughtTokens": 3,
        "cachedReadTokens": 4,
        "cachedWriteTokens": 2,
    }
    steps = acp_in_a_turn().feed({"id": acp._TURN, "result": {"stopReason": "end_turn", "usage": usage}})
    assert steps == [UsageReport(Usage(16, 8, 3, 4, 2))]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "filtered"), ("max_turn_requests", "other")],
)
def test_how_an_agents_turn_ended(reason: str, finish: str) -> None:
    reader = acp_in_a_turn()
    assert reader.feed({"id": acp._TURN, "result": {"stopReason": reason}}) == []
    assert reader.done
    assert reader.finish(CLEAN) == [Finished(finish, session="s1")]  # type: ignore[arg-type]


def test_an_agents_cancelled_turn_is_a_failure() -> None:
    with pytest.raises(CounselError, match="its turn ended with cancelled"):
        acp_in_a_turn().feed({"id": acp._TURN, "result": {"stopReason": "cancelled"}})


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Internal error: Rate limit reached", "RATE_LIMIT_EXCEEDED"),
        ("429 Too many requests", "RATE_LIMIT_EXCEEDED"),
        ("Invalid API key", "AUTHENTICATION_FAILED"),
        ("HTTP 401", "AUTHENTICATION_FAILED"),
        ("ProviderModelNotFoundError", "MODEL_NOT_FOUND"),
        ("model gpt-9 was not found", "MODEL_NOT_FOUND"),
        ("process 14290 ended", "UPSTREAM_ERROR"),
        ("", "UPSTREAM_ERROR"),
    ],
)
def test_why_an_agents_turn_failed(message: str, code: str) -> None:
    with pytest.raises(CounselError) as excinfo:
        acp_in_a_turn().feed({"id": acp._TURN, "error": {"message": message}})
    assert code_of(excinfo) == code
    assert "Internal error:" not in excinfo.value.message


def test_a_session_that_is_gone() -> None:
    with pytest.raises(LostSession):
        acp.Reader(request_to("opencode", "old")).feed({"id": acp._SESSION, "error": {"message": "m"}})
    with pytest.raises(CounselError):
        acp.Reader(request_to("opencode")).feed({"id": acp._SESSION, "error": {"message": "m"}})
    (opening,) = acp.Reader(request_to("opencode", "old")).feed({"id": acp._HELLO, "result": {}})
    assert isinstance(opening, Send)
    assert (opening.message["method"], opening.message["params"]["sessionId"]) == ("session/resume", "old")


def test_what_an_agent_says_thinks_and_does() -> None:
    reader = acp_in_a_turn()
    lines = [
        update("agent_message_chunk", content={"type": "text", "text": "I look."}, messageId="a"),
        update("agent_message_chunk", content={"type": "text", "text": ""}, messageId="b"),
        update("agent_message_chunk", content={"type": "image"}, messageId="b"),
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
        update(
            "tool_call_update", status="in_progress", toolCallId="t", title="read", rawInput={"path": "a"}
        ),
        update("tool_call_update", status="in_progress", toolCallId="t", title="read", rawInput=["a"]),
        update("tool_call_update", status="completed", toolCallId="t", title="read"),
        update("agent_message_chunk", content={"type": "text", "text": "It says"}, messageId="b"),
        update("agent_message_chunk", content={"type": "text", "text": " note."}, messageId="b"),
        update("agent_message_chunk", "other", content={"type": "text", "text": "no"}, messageId="b"),
        {"method": "something/else", "params": {}},
    ]
    assert [step for line in lines for step in reader.feed(line)] == [
        Text("I look."),
        Thinking("hm"),
        ToolUse(ToolCall("t", "read", {"path": "a"})),
        ToolUse(ToolCall("t", "read", {})),
        Text("\n\nIt says"),
        Text(" note."),
    ]


def test_an_agents_questions_are_refused() -> None:
    options = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
    line = {"id": 9, "method": "session/request_permission", "params": {"options": options}}
    answer, notice = acp_in_a_turn().feed(line)
    assert isinstance(answer, Send)
    assert answer.message["result"] == {"outcome": {"outcome": "selected", "optionId": "no"}}
    assert isinstance(notice, Notice)
    line["params"] = {"options": options[:1]}
    answer, _ = acp_in_a_turn().feed(line)
    assert isinstance(answer, Send)
    assert answer.message["result"] == {"outcome": {"outcome": "cancelled"}}
    (refusal,) = acp_in_a_turn().feed({"id": 9, "method": "fs/read_text_file", "params": {}})
    assert isinstance(refusal, Send)
    assert refusal.message["error"]["code"] == -32601
