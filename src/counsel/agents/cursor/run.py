"""Ask Cursor: `cursor-agent -p --output-format stream-json`, from its documented interface.

NOT verified with the real program, which needs an account: the tests run a fake that follows cursor.com/docs/cli and
public reports:
- piped stdin is the prompt; a headless run refuses a folder without `--trust`, which grants no tool;
- with `--stream-partial-output` the deltas are the assistant's events with `timestamp_ms` and without
  `model_call_id`; the others repeat earlier text;
- there is no usage in print mode; on a failure there is no result event, only text on stderr and an exit code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from counsel import json_reader as read
from counsel.agents import driver, failures, images, prompt
from counsel.agents.cursor.login import login
from counsel.agents.definitions import AGENTS
from counsel.agents.driver import AgentRequest, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.text import missing
from counsel.types import Finished, Text, Thinking, ToolCall, ToolUse

LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": ("--mode", "ask"),
    "workspace-write": ("--force", "--sandbox", "enabled"),
    "danger-full-access": ("--force", "--sandbox", "disabled"),
}
# Text on stderr → the equivalent HTTP status. Whole numbers only: a process id is not a status.
_SIGNS: tuple[tuple[re.Pattern[str], int], ...] = (
    (
        re.compile(
            r"not (?:logged in|authenticated)|authentication required|unauthenticated|\b401\b", re.IGNORECASE
        ),
        401,
    ),
    (re.compile(r"rate.?limit|too many requests|resource_exhausted|usage limit|\b429\b", re.IGNORECASE), 429),
)
_LOST = re.compile(
    r"(?:chat|session|conversation).{0,80}(?:not found|does not exist|unknown)", re.IGNORECASE
).search


def command(request: AgentRequest) -> Command:
    argv = [
        str(request.program),
        "-p",
        "--output-format",
        "stream-json",
        "--stream-partial-output",
        "--trust",
    ]
    argv += LEVELS[request.level]
    if request.model:
        argv += ["--model", request.model]
    if request.session:
        argv += ["--resume", request.session]
    text = request.prompt
    if image_paths := images.paths(request):
        text = f"{text}\n\n{prompt.images_block(image_paths)}"
    return Command(tuple(argv), request.start, request.env, text.encode())


class Reader(driver.Reader):
    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._session: str | None = request.session
        self._model: str | None = None
        self._finished: Finished | None = None
        self._has_deltas = self._used_tool = False
        self._texts: list[str] = []  # the text between tool calls

    def feed(self, line: Mapping[str, object]) -> list[Step]:
        self._session = read.text(line, "session_id") or self._session
        kind = line.get("type")
        if kind == "system":
            self._model = read.text(line, "model") or self._model
        elif kind == "thinking" and line.get("text"):
            return [Thinking(str(line["text"]))]
        elif kind == "assistant":
            return self._on_message(line)
        elif kind == "tool_call" and line.get("subtype") == "started":
            self._used_tool = True
            return _tool(line)
        elif kind == "result":
            return self._result(line)
        return []

    def finish(self, exit_: Exit) -> list[Step]:
        if self._finished is not None and exit_.code == 0:
            return [self._finished]
        if self.request.session and _LOST(exit_.stderr):
            raise LostSession
        message = failures.last_lines(exit_.stderr)
        for sign, status in _SIGNS:
            if sign.search(message):
                raise self.request.fail(message, status)
        return finished_or_fail(self.request, None, exit_)

    def _on_message(self, line: Mapping[str, object]) -> list[Step]:
        is_delta = "timestamp_ms" in line and "model_call_id" not in line
        blocks = read.parts(read.part(line, "message"), "content")
        text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
        if not is_delta and self._has_deltas:
            text = self._missing_text(text)
        self._has_deltas = self._has_deltas or is_delta
        return self._text(text)

    def _text(self, text: str) -> list[Step]:
        if not text:
            return []
        is_new_part = self._used_tool or not self._texts
        gap = "\n\n" if is_new_part and self._texts else ""
        self._used_tool = False
        if is_new_part:
            self._texts.append("")
        self._texts[-1] += text
        return [Text(gap + text)]

    def _missing_text(self, message: str) -> str:
        """What a message adds to the deltas that it repeats: those since the last tool call, or all of them."""
        previous = "".join(self._texts)
        if previous.strip().endswith(message.strip()):
            return ""
        if message.startswith(previous):
            return missing(previous, message)
        return message if self._used_tool else missing(self._texts[-1], message)

    def _result(self, line: Mapping[str, object]) -> list[Step]:
        if line.get("is_error") or line.get("subtype") != "success":
            raise self.request.fail(str(line.get("result") or line.get("subtype") or ""))
        self._finished = Finished("stop", self._model, session=self._session)
        result = str(line.get("result") or "")
        return [] if result.strip() in "".join(self._texts) else self._text(result)


def _tool(line: Mapping[str, object]) -> list[Step]:
    """`{"tool_call": {"readToolCall": {"args": {…}}}}`"""
    tool_call = read.part(line, "tool_call")
    name = next(iter(tool_call), "tool")
    arguments = read.part(read.part(tool_call, name), "args")
    return [ToolUse(ToolCall(read.text(line, "call_id"), name.removesuffix("ToolCall"), arguments))]


def environment(caller: Caller) -> Mapping[str, str | None]:  # noqa: ARG001 (driver.Run)
    return {"NO_OPEN_BROWSER": "1"}


DRIVER = driver.AgentDriver(
    agent=AGENTS["cursor"], command=command, reader=Reader, login=login, env=environment
)
