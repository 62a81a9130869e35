"""Ask Claude Code: `claude -p`, JSON lines both ways.

Measured with 2.1.325:
- the prompt is sent through stdin, so images can go with it and no process list shows it;
- on an API error `subtype` is still "success": `is_error` and `api_error_status` are reliable;
- it retries a rejected key eleven times in three minutes (`api_retry` events), so counsel ends the run at the first
  401;
- in an untrusted folder it runs the folder's own hooks (those of skills, too), starts its servers and applies its
  `env`, including an ANTHROPIC_BASE_URL for the user's key. `--setting-sources user` prevents all of that, and also
  leaves out CLAUDE.md and what `--add-dir` adds; and counsel starts it in another folder (start_folder.py), so the
  user's own servers do not start there;
- it interprets a message's last block if that is text: `@path` is read without a permission check, `/name` runs a
  command, `@server:uri` reads a resource. Earlier blocks are only passed on, so counsel adds a last block of its own;
- a lost session is a `result` with `errors: ["No conversation found …"]` and exit 1;
- when the model refuses, it asks once more, and then another model (`model_refusal_fallback`, which retracts the text
  so far). If that one refuses, too, the `result` is an error with `stop_reason: refusal` and Claude Code's own text.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from counsel import json_reader as read
from counsel.agents import driver, failures, images, local_servers, trust
from counsel.agents.claude.login import login, own_login
from counsel.agents.claude.servers import FORMAT
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.agents.driver import AgentRequest, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.errors import FileNotAllowed
from counsel.text import missing
from counsel.types import (
    Finished,
    FinishReason,
    Notice,
    Text,
    Thinking,
    ToolCall,
    ToolUse,
    Usage,
    UsageReport,
    Withdrawn,
)

# `dontAsk` refuses whatever needs approval. The list of tools limits what the user's own settings may allow.
LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": ("--permission-mode", "dontAsk"),
    "workspace-write": ("--permission-mode", "acceptEdits"),
    "danger-full-access": ("--permission-mode", "bypassPermissions"),
}
# What Claude Code reads from a folder.
PROJECT_FILES = (".claude", ".mcp.json", "CLAUDE.md", "CLAUDE.local.md")
CLOSING = "Please answer the message above."
READING = ("Read", "Grep", "Glob")
WEB = ("WebSearch", "WebFetch")
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "max": "max"}
REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "refusal": "filtered",
}

# What it prints instead of an empty answer.
_PLACEHOLDERS = frozenset({"(no content)", "No response requested."})


def command(request: AgentRequest) -> Command:
    argv = [str(request.program), "-p", "--verbose", "--include-partial-messages"]
    argv += ["--input-format", "stream-json", "--output-format", "stream-json", *LEVELS[request.level]]
    web = WEB if request.call.model_settings.web_search else ()
    if request.level == "read-only":
        argv += ["--tools", ",".join((*READING, *web))]
    if web:
        argv += ["--allowedTools", ",".join(web)]
    if request.call.model_settings.effort:
        argv += ["--effort", EFFORTS[request.call.model_settings.effort]]
    if request.model:
        argv += ["--model", request.model]
    if request.session:
        argv += ["--resume", request.session]
    for folder in request.other_folders:
        argv += ["--add-dir", str(folder)]
    notes: tuple[str, ...] = ()
    untrusted_folders = [
        folder for folder in (request.cwd, *request.other_folders) if not _trusts(request, folder)
    ]
    project_files = [
        (folder, path) for folder in untrusted_folders if (path := _project_file(folder, request))
    ]
    if request.cwd in untrusted_folders or project_files:  # `--add-dir` also loads skills
        argv += ["--setting-sources", "user"]
        notes = tuple(_note(folder, path) for folder, path in project_files[:1])
    if request.cwd in untrusted_folders:
        servers, server_notes = _without_servers(request)
        argv += servers
        notes += server_notes
    with suppress(FileNotAllowed):  # Claude gets the bytes in the message, even if they cannot be stored
        images.paths(request)
    message = json.dumps(_message(request)).encode() + b"\n"
    return Command(tuple(argv), request.start, request.env, message, notes=notes)


def _trusts(request: AgentRequest, folder: Path) -> bool:
    return not trust.moved_inside("claude", request.workspace) and bool(
        trust.by_claude(request.workspace, folder)
    )


def _project_file(folder: Path, request: AgentRequest) -> Path | None:
    """A file that Claude Code would read from the folder or one above it, except those in the home folder."""
    home = Path(os.path.realpath(request.workspace.home))
    folders = [parent for parent in (folder, *folder.parents) if parent != home]
    candidates = (parent / name for parent in folders for name in PROJECT_FILES)
    return next((path for path in candidates if os.path.lexists(path)), None)


def _note(folder: Path, path: Path) -> str:
    message = (
        f"Claude Code has not been told to trust {folder}: the folder's own settings ({path}) were left out."
    )
    return f"{message} Run `claude` there once to trust it."


def _without_servers(request: AgentRequest) -> tuple[list[str], tuple[str, ...]]:
    """Options that leave out all servers but counsel (it cannot leave out local ones alone), and the notice."""
    workspace = workspace_of(request.env, request.cwd)
    own = local_servers.own_entries(FORMAT, workspace)
    names = [name for _, name, _ in local_servers.entries(FORMAT, workspace) if name not in own]
    options = ["--mcp-config", json.dumps({"mcpServers": own})] if own else []
    note = (local_servers.note("claude", names, request.cwd),) if names else ()
    return [*options, "--strict-mcp-config"], note


def _message(request: AgentRequest) -> dict[str, object]:
    image_blocks = [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": image.media_type,
                "data": base64.b64encode(image.data).decode(),
            },
        }
        for image in request.images
    ]
    content = [*image_blocks, {"type": "text", "text": request.prompt}, {"type": "text", "text": CLOSING}]
    return {"type": "user", "message": {"role": "user", "content": content}}


class Reader(driver.Reader):
    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._finished: Finished | None = None
        self._texts: dict[str, str] = {}  # text of each message so far
        self._matched: dict[str, int] = {}  # by message: how much of its text also arrived as complete blocks
        self._vendor: dict[str, str] = {}  # why the model refused
        self._message = ""
        self._pieces: list[tuple[int, str]] = []  # of the current message: block number and text
        self._model: str | None = None
        self._length = 0  # characters

    def feed(self, line: Mapping[str, object]) -> list[Step]:
        handle = {
            "system": self._on_system,
            "stream_event": self._on_delta,
            "assistant": self._on_message,
            "result": self._on_result,
        }.get(str(line.get("type")))
        if handle is None or line.get("parent_tool_use_id"):  # a subagent's text is not the answer
            return []
        return handle(line)

    def finish(self, exit_: Exit) -> list[Step]:
        return finished_or_fail(self.request, self._finished, exit_)

    def _on_system(self, line: Mapping[str, object]) -> list[Step]:
        if line.get("subtype") == "model_refusal_fallback":
            return self._on_fallback(line)
        if line.get("subtype") != "api_retry":
            return []
        status = read.integer_or_none(line, "error_status")
        if status in {401, 403}:
            raise self.request.fail(str(line.get("error") or ""), status)
        seconds = read.number(line, "retry_delay_ms") / 1000
        message = f"Claude Code retries in {seconds:.0f} s ({line.get('error')})."
        return [Notice("retry", message, {"status": status})]

    def _on_fallback(self, line: Mapping[str, object]) -> list[Step]:
        """A model refused, and Claude Code asks another one."""
        model = str(line.get("original_model") or "Its model")
        category = line.get("api_refusal_category")
        reason = f"{model} refused{f' ({category})' if category else ''}"
        notice = f"{reason}: Claude Code asks {line.get('fallback_model') or 'another model'}."
        withdrawals = self._abandon(0, notice) if read.values(line, "retracted_message_uuids") else []
        return [*withdrawals, Notice("warning", notice)]

    def _on_delta(self, line: Mapping[str, object]) -> list[Step]:
        event = read.part(line, "event")
        if event.get("type") == "message_start":
            self._message = str(read.part(event, "message").get("id"))
            self._pieces = []
            self._vendor = {}
        if abandoned_blocks := read.part(line, "abandoned_blocks"):
            return self._abandon(
                read.integer(abandoned_blocks, "from_block_index"),
                "Claude Code lost the model's stream and asks again.",
            )
        delta = read.part(event, "delta")
        if delta.get("type") == "text_delta":
            steps = self._text(str(delta.get("text") or ""))
            self._pieces += [(read.integer(event, "index"), step.delta) for step in steps]
            return [*steps]
        if details := read.part(delta, "stop_details"):
            refusal = {"reason": details.get("category"), "text": details.get("explanation")}
            refusal["recommended_model"] = details.get("recommended_model")
            self._vendor = {name: str(value) for name, value in refusal.items() if value}
        if delta.get("type") == "thinking_delta":
            return [Thinking(str(delta.get("thinking") or ""))]
        return []

    def _text(self, text: str) -> list[Text]:
        """The text. A blank line separates it from an earlier message: tools were used in between."""
        if not text:
            return []
        gap = "\n\n" if self._length and self._message not in self._texts else ""
        self._texts[self._message] = self._texts.get(self._message, "") + text
        self._length += len(gap + text)
        return [Text(gap + text)]

    def _missing_text(self, text: str) -> str:
        """The rest of a complete block that did not arrive in pieces. The blocks of a message arrive in order."""
        start = self._matched.get(self._message, 0)
        self._matched[self._message] = start + len(text)
        previous = self._texts.get(self._message, "")[start:]
        return "" if previous.startswith(text) else missing(previous, text)

    def _abandon(self, first: int, reason: str) -> list[Step]:
        """Withdraw this message from this block on: Claude Code requests it again, under another id."""
        withdrawn = "".join(text for block, text in self._pieces if block >= first)
        remaining = "".join(text for block, text in self._pieces if block < first)
        self._texts[self._message] = remaining.removeprefix("\n\n")
        self._pieces = []
        self._length -= len(withdrawn)
        return [Withdrawn(withdrawn, reason)] if withdrawn else []

    def _on_message(self, line: Mapping[str, object]) -> list[Step]:
        message = read.part(line, "message")
        if message.get("model") == "<synthetic>":  # Claude Code's own text about a failure
            return []
        self._model = read.text(message, "model") or self._model
        steps: list[Step] = []
        self._message = str(message.get("id"))
        for block in read.parts(message, "content"):
            if block.get("type") == "tool_use":
                call = ToolCall(read.text(block, "id"), read.text(block, "name"), read.part(block, "input"))
                steps.append(ToolUse(call))
            elif block.get("type") == "text":
                steps += self._text(self._missing_text(str(block.get("text") or "")))
        return steps

    def _on_result(self, line: Mapping[str, object]) -> list[Step]:
        self.done = True
        stop = read.text(line, "stop_reason")
        is_refusal = stop == "refusal" and line.get("subtype") == "success"
        if not is_refusal and (line.get("is_error") or line.get("subtype") != "success"):
            raise self._failure(line)
        steps = [] if line.get("is_error") else self._last_message(str(line.get("result") or ""))
        reason = REASONS.get(stop, "other" if stop else "stop")
        self._finished = Finished(
            reason,
            self._model,
            session=read.text_or_none(line, "session_id"),
            vendor=self._vendor or {"reason": stop or reason},
        )
        return [*steps, UsageReport(_usage(line))]

    def _last_message(self, result: str) -> list[Step]:
        """The last message, unless it has arrived before."""
        if result.strip() in _PLACEHOLDERS or any(result.strip() in text for text in self._texts.values()):
            return []
        self._message = "result"
        return [*self._text(result)]

    def _failure(self, line: Mapping[str, object]) -> Exception:
        errors = [str(error) for error in read.values(line, "errors")]
        message = "; ".join(errors) or str(line.get("result") or line.get("subtype") or "")
        if self.request.session and "No conversation found" in message:
            return LostSession()
        if "Please run /login" in message or "Not logged in" in message:
            return failures.not_logged_in(self.request.agent)
        return self.request.fail(message, read.integer_or_none(line, "api_error_status"))


def _usage(line: Mapping[str, object]) -> Usage:
    usage = read.part(line, "usage")
    cache_read = read.integer(usage, "cache_read_input_tokens")
    cache_write = read.integer(usage, "cache_creation_input_tokens")
    details = read.part(usage, "output_tokens_details")
    return Usage(
        input=read.integer(usage, "input_tokens") + cache_read + cache_write,
        output=read.integer(usage, "output_tokens"),
        reasoning=read.integer(details, "thinking_tokens"),
        cache_read=cache_read,
        cache_write=cache_write,
        cost_usd=_cost(line),
    )


def _cost(line: Mapping[str, object]) -> float | None:
    """The turn's cost: `total_cost_usd` is the session's, although `usage` beside it is the turn's."""
    turns = line.get("model_usage_since_last_result")
    if isinstance(turns, dict):
        return sum(float(turn.get("costUSD") or 0) for turn in turns.values())
    return None


def environment(caller: Caller) -> Mapping[str, str | None]:
    """Claude Code prefers an API key to its own login, so counsel's key would be billed by mistake. If there is a
    login, the key is left out, unless a base URL is set with it."""
    env = caller.own_env
    variables: dict[str, str | None] = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}
    if not env.get("CLAUDE_CODE_MAX_RETRIES"):
        variables["CLAUDE_CODE_MAX_RETRIES"] = str(caller.settings.max_attempts - 1)
    if own_login(caller) and not env.get("ANTHROPIC_BASE_URL"):
        variables["ANTHROPIC_API_KEY"] = None
    return variables


DRIVER = driver.AgentDriver(
    agent=AGENTS["claude"],
    command=command,
    reader=Reader,
    login=login,
    supported_settings=frozenset({"effort", "web_search"}),
    env=environment,
)
