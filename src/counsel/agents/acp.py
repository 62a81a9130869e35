"""The Agent Client Protocol, version 1, as a consulted agent speaks it: lines of JSON-RPC on stdin and stdout.

`initialize`, a session (new or resumed), one prompt; the answer arrives in `session/update` notifications. The agent
may use its own tools only: it is offered no file system and no terminal, and requests for permission are refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from counsel import __version__
from counsel import json_reader as read
from counsel.agents import driver, failures
from counsel.agents.driver import AgentRequest, Busy, Send, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Exit
from counsel.types import Finished, Notice, Text, Thinking, ToolCall, ToolUse, Usage, UsageReport

_HELLO, _SESSION, _TURN = range(1, 4)  # ids of our requests
_Reason: TypeAlias = Literal["stop", "length", "filtered", "other"]
_REASONS: dict[str, _Reason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "filtered",
    "max_turn_requests": "other",
}
# Errors have no status in this protocol: text of the message → the equivalent HTTP status.
_SIGNS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"rate.?limit|too many requests|usage limit|\b429\b", re.IGNORECASE), 429),
    (
        re.compile(
            r"api.?key|unauthorized|unauthenticated|authentication|not logged in|\b401\b", re.IGNORECASE
        ),
        401,
    ),
    (re.compile(r"model.{0,40}not found|unknown model|ProviderModelNotFound", re.IGNORECASE), 404),
)


def hello() -> bytes:
    """The first message."""
    client_info = {"name": "counsel", "version": __version__}
    params = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client_info}
    return json.dumps(_request(_HELLO, "initialize", params)).encode() + b"\n"


def _request(number: int, method: str, params: Mapping[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Reader(driver.Reader):
    """`retry_sign`: what the agent writes to stderr each time it asks its model again.
    `busy_sign`: what it writes when it cannot start because another instance is starting."""

    retry_sign: ClassVar[re.Pattern[str] | None] = None
    busy_sign: ClassVar[re.Pattern[str] | None] = None

    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._session = request.session or ""
        self._prompt_sent = False
        self._finished: Finished | None = None
        self._message: object = None  # the message that text was last added to
        self._has_text = False
        self._retries: list[str] = []

    def stderr_line(self, line: str) -> bool:
        if self.retry_sign and self.retry_sign.search(line):
            self._retries.append(line)
        return len(self._retries) >= self.request.limits.attempts

    def feed(self, line: Mapping[str, object]) -> list[Step]:
        if "method" in line and "id" in line:
            return self._on_request(line)
        if "method" in line:
            return self._on_notification(line) if line["method"] == "session/update" else []
        return self._on_response(line)

    def finish(self, exit_: Exit) -> list[Step]:
        if self._finished is None and len(self._retries) >= self.request.limits.attempts:
            raise self._failure(self.retry_message(self._retries[-1]))
        self._refuse_busy(exit_.stderr)
        return finished_or_fail(self.request, self._finished, exit_)

    def _refuse_busy(self, message: str) -> None:
        if not self._prompt_sent and self.busy_sign and self.busy_sign.search(message):
            raise Busy

    def retry_message(self, line: str) -> str:
        """The failure that a line of stderr with the `retry_sign` reports."""
        return line

    def prompt_text(self) -> str:
        """The prompt in a form that this agent reads as plain text."""
        return self.request.prompt

    # ── our requests and their responses, in order ──

    def _on_response(self, line: Mapping[str, object]) -> list[Step]:
        number = line.get("id")
        if "error" in line:
            error = read.part(line, "error")
            self._refuse_busy(json.dumps(error))
            if number == _SESSION and self.request.session:
                raise LostSession
            raise self._failure(str(error.get("message") or ""))
        result = read.part(line, "result")
        if number == _HELLO:
            return [self._open()]
        if number == _SESSION:
            self._session = str(result.get("sessionId") or self._session)
            return [self._prompt()]
        return self._on_end(result) if number == _TURN else []

    def _open(self) -> Send:
        params: dict[str, object] = {"cwd": str(self.request.start), "mcpServers": []}
        if self.request.session:
            return Send(_request(_SESSION, "session/resume", {**params, "sessionId": self.request.session}))
        return Send(_request(_SESSION, "session/new", params))

    def _prompt(self) -> Send:
        images = [
            {
                "type": "image",
                "mimeType": image.media_type,
                "data": base64.b64encode(image.data).decode(),
            }
            for image in self.request.images
        ]
        self._prompt_sent = True
        parts = [{"type": "text", "text": self.prompt_text()}, *images]
        return Send(_request(_TURN, "session/prompt", {"sessionId": self._session, "prompt": parts}))

    def _on_end(self, result: dict[str, object]) -> list[Step]:
        reason = str(result.get("stopReason"))
        if reason not in _REASONS:
            raise self.request.fail(f"its turn ended with {reason}")
        self.done = True
        self._finished = Finished(_REASONS[reason], session=self._session)
        usage = read.part(result, "usage")
        return [UsageReport(_usage(usage))] if usage else []

    def _failure(self, message: str) -> Exception:
        status = next((status for sign, status in _SIGNS if sign.search(message)), None)
        return failures.by_status(
            self.request.agent,
            status,
            failures.clean(message.removeprefix("Internal error: "), self.request.secrets),
        )

    # ── the agent's requests and notifications ──

    def _on_request(self, line: Mapping[str, object]) -> list[Step]:
        if line["method"] != "session/request_permission":
            refusal = {"code": -32601, "message": "counsel does not support this"}
            return [Send({"jsonrpc": "2.0", "id": line["id"], "error": refusal})]
        options = read.parts(read.part(line, "params"), "options")
        refusals = [
            option.get("optionId") for option in options if str(option.get("kind")).startswith("reject")
        ]
        outcome = {"outcome": "selected", "optionId": refusals[0]} if refusals else {"outcome": "cancelled"}
        message = f"{self.request.agent.label} asked for permission and was refused: no user is present to approve it."
        answer = {"jsonrpc": "2.0", "id": line["id"], "result": {"outcome": outcome}}
        return [Send(answer), Notice("warning", message)]

    def _on_notification(self, line: Mapping[str, object]) -> list[Step]:
        params = read.part(line, "params")
        update = read.part(params, "update")
        if params.get("sessionId") != self._session:
            return []
        kind, content = update.get("sessionUpdate"), read.part(update, "content")
        if kind == "agent_message_chunk" and content.get("type") == "text":
            return self._text(str(content.get("text") or ""), update.get("messageId"))
        if kind == "agent_thought_chunk" and content.get("type") == "text":
            return [Thinking(str(content.get("text") or ""))]
        if kind == "tool_call_update" and update.get("status") == "in_progress":
            raw_input = update.get("rawInput")
            arguments = dict(raw_input) if isinstance(raw_input, dict) else {}
            call = ToolCall(read.text(update, "toolCallId"), read.text(update, "title"), arguments)
            return [ToolUse(call)]
        return []

    def _text(self, text: str, message: object) -> list[Step]:
        if not text:
            return []
        gap = "\n\n" if self._has_text and message != self._message else ""
        self._message, self._has_text = message, True
        return [Text(gap + text)]


def _usage(usage: dict[str, object]) -> Usage:
    """The agent reports cached input separately; our `input` includes it."""
    cache_read, cache_write = (
        read.integer(usage, "cachedReadTokens"),
        read.integer(usage, "cachedWriteTokens"),
    )
    reasoning = read.integer(usage, "thoughtTokens")
    return Usage(
        input=read.integer(usage, "inputTokens") + cache_read + cache_write,
        output=read.integer(usage, "outputTokens") + reasoning,
        reasoning=reasoning,
        cache_read=cache_read,
        cache_write=cache_write,
    )
