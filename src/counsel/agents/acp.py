"""The Agent Client Protocol, version 1, as a consulted agent speaks it: JSON-RPC by lines on stdin and stdout.

`initialize`, a session (new or resumed), one prompt; the answer comes in `session/update` notifications. The agent may use
its own tools only: it is offered no file system and no terminal, and what it asks permission for is refused.
"""

from __future__ import annotations

import base64
import json
import re
from typing import ClassVar, Literal, TypeAlias

from counsel import __version__
from counsel.agents import driver, failures
from counsel.agents.driver import Ask, Busy, Send, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Exit
from counsel.types import Finished, Json, Notice, Text, Thinking, ToolCall, ToolUse, Usage, UsageReport

_HELLO, _SESSION, _TURN = range(1, 4)  # ids of our requests
_Reason: TypeAlias = Literal["stop", "length", "filtered", "other"]
_REASONS: dict[str, _Reason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "filtered",
    "max_turn_requests": "other",
}
# An error has no status in this protocol: its words → the HTTP status that means the same.
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
    """The first message, which starts the conversation."""
    about = {"name": "counsel", "version": __version__}
    params = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": about}
    return json.dumps(_request(_HELLO, "initialize", params)).encode() + b"\n"


def _request(number: int, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class Reader(driver.Reader):
    """`retry_sign`: what the agent writes to stderr each time that it asks its model again.
    `busy_sign`: what it says when it cannot start because another one is starting."""

    retry_sign: ClassVar[re.Pattern[str] | None] = None
    busy_sign: ClassVar[re.Pattern[str] | None] = None

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.done = False
        self._session = ask.session or ""
        self._asked_it = False
        self._finished: Finished | None = None
        self._message: object = None  # the message that text was last added to
        self._spoke = False
        self._retries: list[str] = []

    def heard(self, line: str) -> bool:
        if self.retry_sign and self.retry_sign.search(line):
            self._retries.append(line)
        return len(self._retries) >= self.ask.limits.attempts

    def feed(self, line: Json) -> list[Step]:
        if "method" in line and "id" in line:
            return self._asked(line)
        if "method" in line:
            return self._told(line) if line["method"] == "session/update" else []
        return self._answered(line)

    def finish(self, ended: Exit) -> list[Step]:
        if self._finished is None and len(self._retries) >= self.ask.limits.attempts:
            raise self._failure(self._retries[-1])
        self._refuse_busy(ended.stderr)
        return finished_or_fail(self.ask, self._finished, ended)

    def _refuse_busy(self, words: str) -> None:
        if not self._asked_it and self.busy_sign and self.busy_sign.search(words):
            raise Busy

    def words(self) -> str:
        """The prompt as this agent takes it for text."""
        return self.ask.prompt

    # ── our requests and their answers, one after the other ──

    def _answered(self, line: Json) -> list[Step]:
        number = line.get("id")
        if "error" in line:
            error = line["error"] or {}
            self._refuse_busy(json.dumps(error))
            if number == _SESSION and self.ask.session:
                raise LostSession
            raise self._failure(str(error.get("message", "")))
        result = line.get("result") or {}
        if number == _HELLO:
            return [self._open()]
        if number == _SESSION:
            self._session = str(result.get("sessionId") or self._session)
            return [self._prompt()]
        return self._ended(result) if number == _TURN else []

    def _open(self) -> Send:
        params: Json = {"cwd": str(self.ask.start), "mcpServers": []}
        if self.ask.session:
            return Send(_request(_SESSION, "session/resume", {**params, "sessionId": self.ask.session}))
        return Send(_request(_SESSION, "session/new", params))

    def _prompt(self) -> Send:
        pictures = [
            {
                "type": "image",
                "mimeType": image.media_type,
                "data": base64.b64encode(image.data).decode(),
            }
            for image in self.ask.images
        ]
        self._asked_it = True
        parts = [{"type": "text", "text": self.words()}, *pictures]
        return Send(_request(_TURN, "session/prompt", {"sessionId": self._session, "prompt": parts}))

    def _ended(self, result: Json) -> list[Step]:
        why = str(result.get("stopReason"))
        if why not in _REASONS:
            raise self.ask.fail(f"its turn ended with {why}")
        self.done = True
        self._finished = Finished(_REASONS[why], session=self._session)
        used = result.get("usage")
        return [UsageReport(_usage(used))] if used else []

    def _failure(self, words: str) -> Exception:
        status = next((status for sign, status in _SIGNS if sign.search(words)), None)
        return failures.by_status(
            self.ask.agent,
            status,
            failures.clean(words.removeprefix("Internal error: "), self.ask.secrets),
        )

    # ── what the agent asks and tells ──

    def _asked(self, line: Json) -> list[Step]:
        if line["method"] != "session/request_permission":
            refusal = {"code": -32601, "message": "counsel does not do this"}
            return [Send({"jsonrpc": "2.0", "id": line["id"], "error": refusal})]
        offered = (line.get("params") or {}).get("options") or []
        refusals = [one.get("optionId") for one in offered if str(one.get("kind")).startswith("reject")]
        outcome = {"outcome": "selected", "optionId": refusals[0]} if refusals else {"outcome": "cancelled"}
        words = f"{self.ask.agent.label} asked for permission and was refused: nobody is there to approve."
        answer = {"jsonrpc": "2.0", "id": line["id"], "result": {"outcome": outcome}}
        return [Send(answer), Notice("warning", words)]

    def _told(self, line: Json) -> list[Step]:
        params = line.get("params") or {}
        update = params.get("update") or {}
        if params.get("sessionId") != self._session:
            return []
        kind, content = update.get("sessionUpdate"), update.get("content") or {}
        if kind == "agent_message_chunk" and content.get("type") == "text":
            return self._text(str(content.get("text", "")), update.get("messageId"))
        if kind == "agent_thought_chunk" and content.get("type") == "text":
            return [Thinking(str(content.get("text", "")))]
        if kind == "tool_call_update" and update.get("status") == "in_progress":
            held = update.get("rawInput")
            arguments = dict(held) if isinstance(held, dict) else {}
            return [ToolUse(ToolCall(str(update.get("toolCallId")), str(update.get("title")), arguments))]
        return []

    def _text(self, words: str, message: object) -> list[Step]:
        if not words:
            return []
        gap = "\n\n" if self._spoke and message != self._message else ""
        self._message, self._spoke = message, True
        return [Text(gap + words)]


def _usage(told: Json) -> Usage:
    """Cached input is told beside the rest of it; ours counts all."""
    read, written = int(told.get("cachedReadTokens") or 0), int(told.get("cachedWriteTokens") or 0)
    reasoning = int(told.get("thoughtTokens") or 0)
    return Usage(
        input=int(told.get("inputTokens") or 0) + read + written,
        output=int(told.get("outputTokens") or 0) + reasoning,
        reasoning=reasoning,
        cache_read=read,
        cache_write=written,
    )
