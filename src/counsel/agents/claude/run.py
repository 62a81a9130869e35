"""Asking Claude Code: `claude -p`, JSON lines both ways.

Measured with 2.1.325:
- the prompt goes through stdin, so pictures can go with it and no process list shows it;
- on an API error `subtype` still says "success": `is_error` and `api_error_status` tell the truth;
- it tries a refused key eleven times in three minutes (`api_retry` events): a 401 ends the run at once;
- in a folder that nobody trusted it runs the folder's own hooks (those of skills, too), starts its servers and obeys its
  `env`, an ANTHROPIC_BASE_URL for the user's key included. `--setting-sources user` stops all of that, CLAUDE.md and what
  `--add-dir` brings included; and it is started elsewhere (startfolder.py), which keeps the user's own servers from it;
- it acts on a message's last block if that is text: `@path` there is read before any permission is asked for, `/name` runs a
  command, `@server:uri` reads a resource. Blocks before the last are only passed on, so the last one is ours;
- a lost session is a `result` with `errors: ["No conversation found …"]` and exit 1.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from counsel.agents import driver, failures, images, local_servers, trust
from counsel.agents.claude.servers import FORMAT
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.agents.detect import first_set, read_json
from counsel.agents.driver import Ask, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.errors import FileNotAllowed
from counsel.pieces import missing
from counsel.types import (
    Finished,
    Json,
    Notice,
    Text,
    Thinking,
    ToolCall,
    ToolUse,
    Usage,
    UsageReport,
    Withdrawn,
)

# `dontAsk` refuses what would need a question. The list of tools bounds what the user's own settings may allow.
LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": ("--permission-mode", "dontAsk"),
    "workspace-write": ("--permission-mode", "acceptEdits"),
    "danger-full-access": ("--permission-mode", "bypassPermissions"),
}
BROUGHT = (".claude", ".mcp.json", "CLAUDE.md", "CLAUDE.local.md")  # what Claude Code takes from a folder
CLOSING = "Please answer the message above."
READING = ("Read", "Grep", "Glob")
WEB = ("WebSearch", "WebFetch")
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "max": "max"}
REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "filtered"}

# What it shows in the place of an answer that was empty.
_PLACEHOLDERS = frozenset({"(no content)", "No response requested."})
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


def command(ask: Ask) -> Command:
    argv = [str(ask.program), "-p", "--verbose", "--include-partial-messages"]
    argv += ["--input-format", "stream-json", "--output-format", "stream-json", *LEVELS[ask.level]]
    web = WEB if ask.call.knobs.web_search else ()
    if ask.level == "read-only":
        argv += ["--tools", ",".join((*READING, *web))]
    if web:
        argv += ["--allowedTools", ",".join(web)]
    if ask.call.knobs.effort:
        argv += ["--effort", EFFORTS[ask.call.knobs.effort]]
    if ask.model:
        argv += ["--model", ask.model]
    if ask.session:
        argv += ["--resume", ask.session]
    for folder in ask.other_folders:
        argv += ["--add-dir", str(folder)]
    notes: tuple[str, ...] = ()
    strange = [folder for folder in (ask.cwd, *ask.other_folders) if not _trusts(ask, folder)]
    brought = [(folder, found) for folder in strange if (found := _brought(folder, ask))]
    if ask.cwd in strange or brought:  # `--add-dir` brings skills, too
        argv += ["--setting-sources", "user"]
        notes = tuple(_note(folder, found) for folder, found in brought[:1])
    if ask.cwd in strange:
        servers, left_out = _without_servers(ask)
        argv += servers
        notes += left_out
    with suppress(
        FileNotAllowed
    ):  # the bytes go along: where nothing can be kept Claude sees them all the same
        images.paths(ask)
    message = json.dumps(_message(ask)).encode() + b"\n"
    return Command(tuple(argv), ask.start, ask.env, message, notes=notes)


def _trusts(ask: Ask, folder: Path) -> bool:
    return not trust.moved_inside("claude", ask.workspace) and bool(trust.by_claude(ask.workspace, folder))


def _brought(folder: Path, ask: Ask) -> Path | None:
    """Something that Claude Code would have taken from the folder or one above it. The home folder's is the user's own."""
    home = Path(os.path.realpath(ask.workspace.home))
    folders = [each for each in (folder, *folder.parents) if each != home]
    found = (each / name for each in folders for name in BROUGHT)
    return next((path for path in found if os.path.lexists(path)), None)


def _note(folder: Path, found: Path) -> str:
    words = f"Claude Code was never told to trust {folder}: what it brings ({found}) was left out."
    return f"{words} Run `claude` there once to trust it."


def _without_servers(ask: Ask) -> tuple[list[str], tuple[str, ...]]:
    """No server but counsel: there is no way to leave out only those that Claude Code starts. And what is said of it."""
    at = workspace_of(ask.env, ask.cwd)
    kept = local_servers.kept_of_ours(FORMAT, at)
    names = [name for _, name, _ in local_servers.entries(FORMAT, at) if name not in kept]
    options = ["--mcp-config", json.dumps({"mcpServers": kept})] if kept else []
    note = (local_servers.note("claude", names, ask.cwd),) if names else ()
    return [*options, "--strict-mcp-config"], note


def _message(ask: Ask) -> Json:
    pictures = [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": image.media_type,
                "data": base64.b64encode(image.data).decode(),
            },
        }
        for image in ask.images
    ]
    content = [*pictures, {"type": "text", "text": ask.prompt}, {"type": "text", "text": CLOSING}]
    return {"type": "user", "message": {"role": "user", "content": content}}


class Reader(driver.Reader):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.done = False
        self._finished: Finished | None = None
        self._said: dict[str, str] = {}  # the text of each message so far
        self._matched: dict[str, int] = {}  # how much of it came whole, too
        self._vendor: dict[str, str] = {}  # why the model refused
        self._message = ""
        self._pieces: list[tuple[int, str]] = []  # of this message: the block, and what was said
        self._model: str | None = None
        self._spoke = 0  # characters

    def feed(self, line: Json) -> list[Step]:
        handle = {
            "system": self._system,
            "stream_event": self._piece,
            "assistant": self._whole,
            "result": self._result,
        }.get(str(line.get("type")))
        if handle is None or line.get("parent_tool_use_id"):  # a helper's words are not the answer
            return []
        return handle(line)

    def finish(self, ended: Exit) -> list[Step]:
        return finished_or_fail(self.ask, self._finished, ended)

    def _system(self, line: Json) -> list[Step]:
        if line.get("subtype") != "api_retry":
            return []
        status = line.get("error_status")
        if status in {401, 403}:
            raise self.ask.fail(str(line.get("error", "")), status)
        seconds = float(line.get("retry_delay_ms") or 0) / 1000
        words = f"Claude Code tries again in {seconds:.0f} s ({line.get('error')})."
        return [Notice("retry", words, {"status": status})]

    def _piece(self, line: Json) -> list[Step]:
        event = line.get("event") or {}
        if event.get("type") == "message_start":
            self._message = str((event.get("message") or {}).get("id"))
            self._pieces = []
        if lost := line.get("abandoned_blocks"):
            return self._abandon(int(lost.get("from_block_index") or 0))
        delta = event.get("delta") or {}
        if delta.get("type") == "text_delta":
            steps = self._text(str(delta.get("text", "")))
            self._pieces += [(int(event.get("index") or 0), step.delta) for step in steps]
            return [*steps]
        if details := delta.get("stop_details"):
            told = {"reason": details.get("category"), "text": details.get("explanation")}
            told["recommended_model"] = details.get("recommended_model")
            self._vendor = {name: str(value) for name, value in told.items() if value}
        if delta.get("type") == "thinking_delta":
            return [Thinking(str(delta.get("thinking", "")))]
        return []

    def _text(self, words: str) -> list[Text]:
        """A new message after another is set off, since tools were used in between."""
        if not words:
            return []
        gap = "\n\n" if self._spoke and self._message not in self._said else ""
        self._said[self._message] = self._said.get(self._message, "") + words
        self._spoke += len(gap + words)
        return [Text(gap + words)]

    def _unsaid(self, text: str) -> str:
        """What a whole block adds to the pieces of it that came. The blocks of a message come one after the other."""
        start = self._matched.get(self._message, 0)
        self._matched[self._message] = start + len(text)
        said = self._said.get(self._message, "")[start:]
        return "" if said.startswith(text) else missing(said, text)

    def _abandon(self, first: int) -> list[Step]:
        """The stream of this message broke: it is asked for again from this block on, under another id."""
        void = "".join(words for block, words in self._pieces if block >= first)
        kept = "".join(words for block, words in self._pieces if block < first)
        self._said[self._message] = kept.removeprefix("\n\n")
        self._pieces = []
        self._spoke -= len(void)
        return [Withdrawn(void, "Claude Code lost the model's stream and asks again.")] if void else []

    def _whole(self, line: Json) -> list[Step]:
        message = line.get("message") or {}
        if message.get("model") == "<synthetic>":  # Claude Code's own words about a failure
            return []
        self._model = message.get("model") or self._model
        steps: list[Step] = []
        self._message = str(message.get("id"))
        for block in message.get("content") or []:
            if block.get("type") == "tool_use":
                call = ToolCall(str(block.get("id")), str(block.get("name")), dict(block.get("input") or {}))
                steps.append(ToolUse(call))
            elif block.get("type") == "text":
                steps += self._text(self._unsaid(str(block.get("text", ""))))
        return steps

    def _result(self, line: Json) -> list[Step]:
        self.done = True
        if line.get("is_error") or line.get("subtype") != "success":
            raise self._failure(line)
        steps = self._last(str(line.get("result") or ""))
        reason: Any = REASONS.get(
            str(line.get("stop_reason")), "other" if line.get("stop_reason") else "stop"
        )
        self._finished = Finished(
            reason,
            self._model,
            session=line.get("session_id"),
            vendor=self._vendor or {"reason": str(line.get("stop_reason") or reason)},
        )
        return [*steps, UsageReport(_usage(line))]

    def _last(self, result: str) -> list[Step]:
        """The last message once more, or for the first time."""
        if result.strip() in _PLACEHOLDERS or any(result.strip() in said for said in self._said.values()):
            return []
        self._message = "result"
        return [*self._text(result)]

    def _failure(self, line: Json) -> Exception:
        errors = [str(each) for each in line.get("errors") or []]
        words = "; ".join(errors) or str(line.get("result") or line.get("subtype") or "")
        if self.ask.session and "No conversation found" in words:
            return LostSession()
        if "Please run /login" in words or "Not logged in" in words:
            return failures.not_logged_in(self.ask.agent)
        return self.ask.fail(words, line.get("api_error_status"))


def _usage(line: Json) -> Usage:
    used: Mapping[str, Any] = line.get("usage") or {}
    read = int(used.get("cache_read_input_tokens") or 0)
    written = int(used.get("cache_creation_input_tokens") or 0)
    details = used.get("output_tokens_details") or {}
    return Usage(
        input=int(used.get("input_tokens") or 0) + read + written,
        output=int(used.get("output_tokens") or 0),
        reasoning=int(details.get("thinking_tokens") or 0),
        cache_read=read,
        cache_write=written,
        cost_usd=_cost(line),
    )


def _cost(line: Json) -> float | None:
    """Of this turn: `total_cost_usd` is the session's, while `usage` beside it is the turn's."""
    turns = line.get("model_usage_since_last_result")
    if isinstance(turns, dict):
        return sum(float(each.get("costUSD") or 0) for each in turns.values())
    return None


# ── is it logged in, and with what ───────────────────────────────────────────────────────────────────


def login(caller: Caller) -> tuple[bool | None, str]:
    env = caller.own_env
    if own := _own_login(caller):
        return True, own
    if name := first_set(env, *_KEYS, *_CLOUDS):
        return True, name
    where = workspace_of(env, caller.cwd)
    if read_json(where.claude_dir() / "settings.json").get("apiKeyHelper"):
        return True, "apiKeyHelper"
    return False, ""


def _own_login(caller: Caller) -> str | None:
    where = workspace_of(caller.env, caller.cwd)
    if read_json(where.claude_dir() / ".credentials.json").get("claudeAiOauth"):
        return "its own login"
    if sys.platform == "darwin" and _mentions(where.claude_json(), b'"oauthAccount"'):
        return "its own login (keychain)"
    return None


def _mentions(path: Path, words: bytes) -> bool:
    """Without parsing: this file can be megabytes large."""
    try:
        return words in path.read_bytes()
    except OSError:
        return False


def environment(caller: Caller) -> Mapping[str, str | None]:
    """Claude Code prefers a key over its own login, so counsel's key for the API would be billed by mistake:
    it is left out when there is a login, unless an address goes with it."""
    env = caller.own_env
    added: dict[str, str | None] = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}
    if not env.get("CLAUDE_CODE_MAX_RETRIES"):
        added["CLAUDE_CODE_MAX_RETRIES"] = str(caller.settings.max_attempts - 1)
    if _own_login(caller) and not env.get("ANTHROPIC_BASE_URL"):
        added["ANTHROPIC_API_KEY"] = None
    return added


DRIVER = driver.AgentDriver(
    agent=AGENTS["claude"],
    command=command,
    reader=Reader,
    login=login,
    takes=frozenset({"effort", "web_search"}),
    env=environment,
)
