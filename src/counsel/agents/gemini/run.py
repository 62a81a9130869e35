"""Ask Gemini CLI: `gemini -o stream-json`, the prompt through stdin.

Measured with 0.61.0:
- the exit code is the HTTP status modulo 256 (400 → 144, 429 → 173); 41: no login, 42: bad input, also for a
  lost session; a bad key is a 400 with that message;
- after a 429 it tries ten times with growing pauses, and reports them on stderr only: counsel ends it at its own limit;
- it refuses folders that it was not told to trust. `--skip-trust` trusts one for this run, with the folder's skills,
  commands, subagents, policies and `.env` (GOOGLE_GEMINI_BASE_URL would get the user's key): so counsel uses it only
  for a folder that the user trusts in another agent, or for an empty one (start_folder.py), where Gemini gets the
  project as an additional folder, from which it loads only GEMINI.md;
- a variable that is set, even to an empty value, is not read from a `.env`;
- `@path`, anywhere in a prompt, includes that file, or the first whose path contains these letters; `\\@` does not;
- in headless mode, tools that need approval are not offered; an admin policy makes that certain;
- it requests a missing answer four times; then an `error` line says why, and the `result` gives no reason. An answer
  that a filter stops in the middle looks like a complete one: nothing in the output tells them apart;
- its tool for reading files refuses images and other files that git ignores (images.py has the workaround).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from counsel import json_reader as read
from counsel.agents import driver, failures, images, local_servers, prompt, start_folder, trust
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.agents.driver import AgentRequest, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.gemini import session_file
from counsel.agents.gemini.login import login
from counsel.agents.gemini.servers import FORMAT
from counsel.agents.process import Command, Exit
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.text import counted, missing
from counsel.types import (
    Finished,
    FinishReason,
    Notice,
    Text,
    ToolCall,
    ToolUse,
    Usage,
    UsageReport,
    Withdrawn,
)

_POLICY = str(Path(__file__).with_name("read_only.toml"))
LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": ("--approval-mode", "default", "--admin-policy", _POLICY),
    "workspace-write": ("--approval-mode", "auto_edit"),
    "danger-full-access": ("--approval-mode", "yolo"),
}
NO_LOGIN, BAD_INPUT = 41, 42
_NO_SERVER = "counsel allows none"  # an empty list would allow all servers
_GAP = "\n\n"
# Every name that a line may assign, anywhere in it: dotenv's white space and line ends are not Python's.
_ASSIGNED_NAMES = re.compile(r"([A-Za-z0-9_.-]+)[^A-Za-z0-9_.-]*?[=:]").findall
_MENTION = re.compile(r"(?<!\\)@(?![ \t\r\n]|\Z)")  # at least all that Gemini CLI finds
_ESCAPE_NOTE = "In this message \\@ stands for a plain @."
_RETRY = re.compile(
    r"Attempt (\d+) failed(?: with (?:status )?(\d{3}))?[:.]?\s*(?:Retrying with backoff\.\.\.)?\s*(?:_ApiError:)?\s*(.*)"
).search
# Why there is no answer, in Gemini CLI's words.
_NO_ANSWER: tuple[tuple[re.Pattern[str], FinishReason], ...] = (
    (re.compile(r"response was blocked|\((?:SAFETY|RECITATION)\)"), "filtered"),
    (re.compile(r"exceeded the token limit|\(MAX_TOKENS\)"), "length"),
    (re.compile(r"^Model stream ended|^The model returned an empty response"), "broken"),
)
_BAD_KEY = re.compile(r"API key not valid|API_KEY_INVALID|API key expired", re.IGNORECASE).search


def command(request: AgentRequest) -> Command:
    argv = [str(request.program), "-o", "stream-json", *LEVELS[request.level]]
    env = dict(request.env)
    notes: tuple[str, ...] = ()
    if not _trusts(request):
        servers, notes = _without_servers(request)
        argv += servers
    if not request.trusted:  # the empty folder has only the user's own `.env`
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    elif not _trusts(request):
        argv += ["--skip-trust"]
        env = {**dict.fromkeys(_variables_of(request), ""), **env}
    if request.model:
        argv += ["--model", request.model]
    if request.session:
        argv += ["--resume", request.session]
    for folder in request.other_folders:
        argv += ["--include-directories", str(start_folder.link(request.workspace, folder))]
    text = request.prompt
    if image_paths := images.paths(request):
        text = f"{text}\n\n{prompt.images_block(image_paths)}"
    return Command(tuple(argv), request.start, env, _as_text(text).encode(), notes=notes)


def _as_text(text: str) -> str:
    """The prompt with `@path` and a leading `/command` as plain text: Gemini CLI would act on them first."""
    safe_text = _MENTION.sub(r"\\@", text)
    if safe_text != text:
        safe_text = f"{_ESCAPE_NOTE}\n\n{safe_text}"
    return f" {safe_text}" if safe_text.startswith("/") else safe_text


def _trusts(request: AgentRequest) -> bool:
    return trust.by_agent("gemini", request.workspace) is True


def _without_servers(request: AgentRequest) -> tuple[list[str], tuple[str, ...]]:
    """Options that allow only remote servers and counsel, which start nothing from the folder, and the notice."""
    entries = list(local_servers.entries(FORMAT, request.workspace))
    local_names = [name for _, name, entry in entries if local_servers.starts(entry)]
    remote = [name for _, name, _ in entries if name not in local_names]
    if not local_names:
        return [], ()
    options = [f"--allowed-mcp-server-names={name}" for name in remote or [_NO_SERVER]]
    return options, (local_servers.note("gemini", local_names, request.cwd),)


def _variables_of(request: AgentRequest) -> list[str]:
    """Names that a `.env` in the folder or above it would set. The one in the home folder is the user's own."""
    home = Path(os.path.realpath(request.workspace.home))
    folders = [parent for parent in (request.cwd, *request.cwd.parents) if parent != home]
    texts = [_text(folder / name) for folder in folders for name in (".gemini/.env", ".env")]
    return [name for text in texts for name in _ASSIGNED_NAMES(text)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Reader(driver.Reader):
    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._session: str | None = request.session
        self._model: str | None = None
        self._finished: Finished | None = None
        self._error: str | None = None
        self._reason = ""  # why the run failed, according to its result
        self._status: int | None = None
        self._started_at = ""  # a timestamp in Gemini's format
        self._texts: list[list[str]] = []  # the text between tool calls
        self._used_tool = False
        self._has_deltas = False

    def stderr_line(self, line: str) -> bool:
        retry = _RETRY(line)
        if retry is None or int(retry[1]) < self.request.limits.attempts:
            return False
        self._status = int(retry[2]) if retry[2] else None
        self._error = f"it failed {counted(int(retry[1]), 'time')}: {retry[3]}".rstrip(": ")
        return True

    def feed(self, line: Mapping[str, object]) -> list[Step]:
        kind = line.get("type")
        if kind == "init":
            self._session, self._model = (
                read.text_or_none(line, "session_id"),
                read.text_or_none(line, "model"),
            )
            self._started_at = str(line.get("timestamp") or "")
        elif kind == "message" and line.get("role") == "assistant":
            return self._text(self._missing_text(line))
        elif kind == "tool_use":
            self._used_tool = True
            call = ToolCall(
                read.text(line, "tool_id"), read.text(line, "tool_name"), read.part(line, "parameters")
            )
            return [ToolUse(call)]
        elif kind == "error" and line.get("severity") == "warning":
            return [Notice("warning", failures.clean(str(line.get("message") or ""), self.request.secrets))]
        elif kind == "error":
            self._reason = str(line.get("message") or "")
        elif kind == "result":
            return self._result(line)
        return []

    def finish(self, exit_: Exit) -> list[Step]:
        if self.request.session and exit_.code == BAD_INPUT and self._error is None:
            raise LostSession
        if self._error is not None and not (self._finished and exit_.code == 0):
            if no_answer := self._no_answer(self._error):
                return [no_answer]
            status = 401 if _BAD_KEY(self._error) else self._status or _status(exit_.code)
            raise self.request.fail(self._error, status)
        if exit_.code == NO_LOGIN:
            raise failures.not_logged_in(self.request.agent)
        last = finished_or_fail(self.request, self._finished if exit_.code == 0 else None, exit_)
        return [*self._correction(), *last]

    def _no_answer(self, error: str) -> Finished | None:
        reason = next((reason for sign, reason in _NO_ANSWER if sign.search(error)), None)
        vendor = {"text": failures.clean(error, self.request.secrets)}
        return Finished(reason, self._model, vendor=vendor) if reason else None

    def _missing_text(self, line: Mapping[str, object]) -> str:
        """What a message adds: a delta itself; of a complete message, the rest that did not arrive in deltas."""
        text = str(line.get("content") or "")
        if line.get("delta") or not self._has_deltas:
            self._has_deltas = self._has_deltas or bool(line.get("delta"))
            return text
        previous = "".join(self._texts[-1]) if self._texts and not self._used_tool else ""
        return missing(previous, text)

    def _text(self, text: str) -> list[Step]:
        """The text, after a blank line if a tool call came before it."""
        if not text:
            return []
        is_new_part, self._used_tool = self._used_tool or not self._texts, False
        gap = _GAP if is_new_part and self._texts else ""
        if is_new_part:
            self._texts.append([])
        self._texts[-1].append(text)
        return [Text(gap + text)]

    def _correction(self) -> list[Step]:
        """The corrected answer, if Gemini restarted its model's stream without saying so."""
        if not (self._started_at and self._session and self._texts):
            return []
        home = workspace_of(self.request.env, self.request.cwd).gemini_dir()
        texts = ["".join(pieces) for pieces in self._texts]
        lengths = session_file.discarded_lengths(
            texts, session_file.messages(home, self._session, self._started_at)
        )
        if lengths is None:
            return []
        final_texts = [text[length:] for text, length in zip(texts, lengths, strict=True)]
        reason = "Gemini CLI lost the model's stream and asked again."
        return [Withdrawn(_GAP.join(texts), reason), Text(_GAP.join(final_texts))]

    def _result(self, line: Mapping[str, object]) -> list[Step]:
        stats = read.part(line, "stats")
        report = UsageReport(_usage(stats))
        if line.get("status") != "success":
            self._error = str(read.part(line, "error").get("message") or self._reason or "it gave no reason")
            return [report] if report.usage.total else []
        models = read.part(stats, "models")
        if models:
            self._model = max(models, key=lambda name: read.integer(read.part(models, name), "output_tokens"))
        self._finished = Finished("stop", self._model, session=self._session)
        steps = [] if self._texts else self._text(str(line.get("response") or ""))
        return [*steps, report]


def _usage(stats: dict[str, object]) -> Usage:
    return Usage(
        input=read.integer(stats, "input_tokens"),
        output=read.integer(stats, "output_tokens"),
        cache_read=read.integer(stats, "cached"),
    )


def _status(code: int) -> int | None:
    status = code + 256
    return status if 400 <= status < 512 else None


def environment(caller: Caller) -> Mapping[str, str | None]:  # noqa: ARG001 (driver.Run)
    return {"NO_BROWSER": "true"}  # a login that needs a browser fails at once instead of waiting


DRIVER = driver.AgentDriver(
    agent=AGENTS["gemini"],
    command=command,
    reader=Reader,
    login=login,
    supported_settings=frozenset({"web_search"}),  # its search tool is always on
    env=environment,
)
