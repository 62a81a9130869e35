"""Asking Cursor: `cursor-agent -p --output-format stream-json`, from its documented interface.

NOT verified with the real program, which cannot be had without an account: the tests run a stand-in that speaks
what cursor.com/docs/cli and public reports say:
- piped stdin is taken as the prompt; a headless run refuses a folder without `--trust`, which grants no tool;
- with `--stream-partial-output` the pieces are the assistant's events that have `timestamp_ms` and no
  `model_call_id`; the others repeat what was already said;
- there is no usage in print mode; on a failure there is no result event but words on stderr and an exit code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from counsel import paths
from counsel.agents import driver, failures, images, prompt
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.agents.detect import first_set, read_json
from counsel.agents.driver import Ask, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.pieces import missing
from counsel.types import Finished, Json, Text, Thinking, ToolCall, ToolUse

LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": ("--mode", "ask"),
    "workspace-write": ("--force", "--sandbox", "enabled"),
    "danger-full-access": ("--force", "--sandbox", "disabled"),
}
# Words on stderr → the HTTP status that means the same. Numbers stand alone: a process id is no status.
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


def command(ask: Ask) -> Command:
    argv = [str(ask.program), "-p", "--output-format", "stream-json", "--stream-partial-output", "--trust"]
    argv += LEVELS[ask.level]
    if ask.model:
        argv += ["--model", ask.model]
    if ask.session:
        argv += ["--resume", ask.session]
    words = ask.prompt
    if pictures := images.paths(ask):
        words = f"{words}\n\n{prompt.images_block(pictures)}"
    return Command(tuple(argv), ask.start, ask.env, words.encode())


class Reader(driver.Reader):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.done = False
        self._session: str | None = ask.session
        self._model: str | None = None
        self._finished: Finished | None = None
        self._pieces = self._worked = False
        self._texts: list[str] = []  # a text for each stretch between its tools' work

    def feed(self, line: Json) -> list[Step]:
        self._session = line.get("session_id") or self._session
        kind = line.get("type")
        if kind == "system":
            self._model = line.get("model") or self._model
        elif kind == "thinking" and line.get("text"):
            return [Thinking(str(line["text"]))]
        elif kind == "assistant":
            return self._said(line)
        elif kind == "tool_call" and line.get("subtype") == "started":
            self._worked = True
            return _tool(line)
        elif kind == "result":
            return self._result(line)
        return []

    def finish(self, ended: Exit) -> list[Step]:
        if self._finished is not None and ended.code == 0:
            return [self._finished]
        if self.ask.session and _LOST(ended.stderr):
            raise LostSession
        words = failures.last_words(ended.stderr)
        for sign, status in _SIGNS:
            if sign.search(words):
                raise self.ask.fail(words, status)
        return finished_or_fail(self.ask, None, ended)

    def _said(self, line: Json) -> list[Step]:
        piece = "timestamp_ms" in line and "model_call_id" not in line
        blocks = (line.get("message") or {}).get("content") or []
        words = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        if not piece and self._pieces:
            words = self._unsaid(words)
        self._pieces = self._pieces or piece
        return self._text(words)

    def _text(self, words: str) -> list[Step]:
        if not words:
            return []
        new = self._worked or not self._texts
        gap = "\n\n" if new and self._texts else ""
        self._worked = False
        if new:
            self._texts.append("")
        self._texts[-1] += words
        return [Text(gap + words)]

    def _unsaid(self, whole: str) -> str:
        """What a message adds that repeats the pieces before it: of its own stretch, or of all of them."""
        everything = "".join(self._texts)
        if everything.strip().endswith(whole.strip()):
            return ""
        if whole.startswith(everything):
            return missing(everything, whole)
        return whole if self._worked else missing(self._texts[-1], whole)

    def _result(self, line: Json) -> list[Step]:
        if line.get("is_error") or line.get("subtype") != "success":
            raise self.ask.fail(str(line.get("result") or line.get("subtype") or ""))
        self._finished = Finished("stop", self._model, session=self._session)
        result = str(line.get("result") or "")
        return [] if result.strip() in "".join(self._texts) else self._text(result)


def _tool(line: Json) -> list[Step]:
    """`{"tool_call": {"readToolCall": {"args": {…}}}}`"""
    called = line.get("tool_call") or {}
    name = next(iter(called), "tool")
    held = called.get(name)
    arguments = held.get("args") if isinstance(held, dict) else None
    return [ToolUse(ToolCall(str(line.get("call_id")), name.removesuffix("ToolCall"), dict(arguments or {})))]


# ── is it logged in ──────────────────────────────────────────────────────────────────────────────────


def login(caller: Caller) -> tuple[bool | None, str]:
    env = caller.own_env
    if name := first_set(env, "CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"):
        return True, name
    where = workspace_of(env, caller.cwd)
    config = Path(env.get("XDG_CONFIG_HOME") or where.home / ".config") / "cursor"
    if paths.exists(config / "auth.json"):
        return True, "its own login"
    folders = (Path(env.get("CURSOR_CONFIG_DIR") or where.cursor_dir()), config)
    if any(read_json(folder / "cli-config.json").get("authInfo") for folder in folders):
        return True, "its own login"
    if sys.platform == "darwin":
        return None, "its login is in the system's keychain"
    return False, ""


def environment(caller: Caller) -> Mapping[str, str | None]:  # noqa: ARG001
    return {"NO_OPEN_BROWSER": "1"}


DRIVER = driver.AgentDriver(
    agent=AGENTS["cursor"], command=command, reader=Reader, login=login, env=environment
)
