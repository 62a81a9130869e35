"""Asking Gemini CLI: `gemini -o stream-json`, the prompt through stdin.

Measured with 0.61.0:
- the exit code is the HTTP status modulo 256 (400 → 144, 429 → 173); 41: no way to log in, 42: bad input, which
  a lost session is, too; a bad key is a 400 that says so;
- it tries a 429 ten times with growing pauses and tells so on stderr only: after our own number of tries it is ended;
- it refuses folders that it was not told to trust. `--skip-trust` lets it in for this one run, with the folder's skills,
  commands, subagents and policies, and with its `.env` (GOOGLE_GEMINI_BASE_URL would get the user's key): so it is given
  for a folder that the user trusts otherwise, or for an empty one (startfolder.py), from where it reads the project as a
  further folder. Of that it takes GEMINI.md only;
- a variable that is already there, were it empty, is not taken from a `.env`;
- `@path`, anywhere in a prompt, is read into it, or the first file whose path has these letters; `\\@` is not;
- in headless mode tools that would need a question are left away; an admin policy makes that certain;
- pictures and files that git ignores are refused by its reading tool (images.py has the way around it).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counsel import paths
from counsel.agents import driver, failures, images, local_servers, prompt, start_folder, trust
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.agents.detect import first_set, inside, read_json
from counsel.agents.driver import Ask, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.gemini import session_file
from counsel.agents.gemini.servers import FORMAT
from counsel.agents.process import Command, Exit
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.pieces import missing
from counsel.types import Finished, Json, Notice, Text, ToolCall, ToolUse, Usage, UsageReport, Withdrawn

_POLICY = str(Path(__file__).with_name("read_only.toml"))
LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": ("--approval-mode", "default", "--admin-policy", _POLICY),
    "workspace-write": ("--approval-mode", "auto_edit"),
    "danger-full-access": ("--approval-mode", "yolo"),
}
NO_LOGIN, BAD_INPUT = 41, 42
_NO_SERVER = "counsel allows none"  # an empty list would allow all
_GAP = "\n\n"
# Every name that could be assigned, wherever it stands: dotenv's own rules have other blanks and line ends than Python's.
_ASSIGNED = re.compile(r"([A-Za-z0-9_.-]+)[^A-Za-z0-9_.-]*?[=:]").findall
_MENTION = re.compile(r"(?<!\\)@(?![ \t\r\n]|\Z)")  # as it finds them, or more
_ESCAPED = "In this message \\@ stands for a plain @."
_RETRY = re.compile(
    r"Attempt (\d+) failed(?: with (?:status )?(\d{3}))?[:.]?\s*(?:Retrying with backoff\.\.\.)?\s*(?:_ApiError:)?\s*(.*)"
).search
_BAD_KEY = re.compile(r"API key not valid|API_KEY_INVALID|API key expired", re.IGNORECASE).search


def command(ask: Ask) -> Command:
    argv = [str(ask.program), "-o", "stream-json", *LEVELS[ask.level]]
    env = dict(ask.env)
    notes: tuple[str, ...] = ()
    if not _trusts(ask):
        servers, notes = _without_servers(ask)
        argv += servers
    if not ask.trusted:  # the empty folder: nothing is there but the user's own `.env`
        env["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    elif not _trusts(ask):
        argv += ["--skip-trust"]
        env = {**dict.fromkeys(_variables_of(ask), ""), **env}
    if ask.model:
        argv += ["--model", ask.model]
    if ask.session:
        argv += ["--resume", ask.session]
    for folder in ask.other_folders:
        argv += ["--include-directories", str(start_folder.link(ask.workspace, folder))]
    words = ask.prompt
    if pictures := images.paths(ask):
        words = f"{words}\n\n{prompt.images_block(pictures)}"
    return Command(tuple(argv), ask.start, env, _as_text(words).encode(), notes=notes)


def _as_text(words: str) -> str:
    """A prompt in which `@path` and a leading `/command` are words: Gemini CLI would act on them before its model sees any."""
    plain = _MENTION.sub(r"\\@", words)
    if plain != words:
        plain = f"{_ESCAPED}\n\n{plain}"
    return f" {plain}" if plain.startswith("/") else plain


def _trusts(ask: Ask) -> bool:
    return trust.by("gemini", ask.workspace) is True


def _without_servers(ask: Ask) -> tuple[list[str], tuple[str, ...]]:
    """Options that allow only the servers which are not started here, and what is said of the others."""
    held = list(local_servers.entries(FORMAT, ask.workspace))
    started = [name for _, name, entry in held if local_servers.starts(entry)]
    remote = [name for _, name, _ in held if name not in started]
    if not started:
        return [], ()
    allowed = [f"--allowed-mcp-server-names={name}" for name in remote or [_NO_SERVER]]
    return allowed, (local_servers.note("gemini", started, ask.cwd),)


def _variables_of(ask: Ask) -> list[str]:
    """Names that a `.env` of the folder, or of one above it, would set. The home folder's is the user's own."""
    home = Path(os.path.realpath(ask.workspace.home))
    folders = [each for each in (ask.cwd, *ask.cwd.parents) if each != home]
    texts = [_text(folder / name) for folder in folders for name in (".gemini/.env", ".env")]
    return [name for text in texts for name in _ASSIGNED(text)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Reader(driver.Reader):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.done = False
        self._session: str | None = ask.session
        self._model: str | None = None
        self._finished: Finished | None = None
        self._error: str | None = None
        self._status: int | None = None
        self._began = ""  # when, as Gemini writes it
        self._said: list[list[str]] = []  # a text for each stretch between its tools' work
        self._worked = False
        self._in_pieces = False

    def heard(self, line: str) -> bool:
        found = _RETRY(line)
        if found is None or int(found[1]) < self.ask.limits.attempts:
            return False
        self._status = int(found[2]) if found[2] else None
        self._error = f"it was tried {found[1]} times: {found[3]}".rstrip(": ")
        return True

    def feed(self, line: Json) -> list[Step]:
        kind = line.get("type")
        if kind == "init":
            self._session, self._model = line.get("session_id"), line.get("model")
            self._began = str(line.get("timestamp") or "")
        elif kind == "message" and line.get("role") == "assistant":
            return self._text(self._unsaid(line))
        elif kind == "tool_use":
            self._worked = True
            call = ToolCall(
                str(line.get("tool_id")), str(line.get("tool_name")), dict(line.get("parameters") or {})
            )
            return [ToolUse(call)]
        elif kind == "error" and line.get("severity") == "warning":
            return [Notice("warning", failures.clean(str(line.get("message", "")), self.ask.secrets))]
        elif kind == "result":
            return self._result(line)
        return []

    def finish(self, ended: Exit) -> list[Step]:
        if self.ask.session and ended.code == BAD_INPUT and self._error is None:
            raise LostSession
        if self._error is not None and not (self._finished and ended.code == 0):
            status = 401 if _BAD_KEY(self._error) else self._status or _status(ended.code)
            raise self.ask.fail(self._error, status)
        if ended.code == NO_LOGIN:
            raise failures.not_logged_in(self.ask.agent)
        last = finished_or_fail(self.ask, self._finished if ended.code == 0 else None, ended)
        return [*self._corrected(), *last]

    def _unsaid(self, line: Json) -> str:
        """What a message adds: a piece itself; a whole one what of it did not come in pieces."""
        words = str(line.get("content") or "")
        if line.get("delta") or not self._in_pieces:
            self._in_pieces = self._in_pieces or bool(line.get("delta"))
            return words
        said = "".join(self._said[-1]) if self._said and not self._worked else ""
        return missing(said, words)

    def _text(self, words: str) -> list[Step]:
        """Words after a tool's work are set off from those before it."""
        if not words:
            return []
        new, self._worked = self._worked or not self._said, False
        gap = _GAP if new and self._said else ""
        if new:
            self._said.append([])
        self._said[-1].append(words)
        return [Text(gap + words)]

    def _corrected(self) -> list[Step]:
        """All of the answer once more, from where Gemini had its model begin again without a sign."""
        if not (self._began and self._session and self._said):
            return []
        home = workspace_of(self.ask.env, self.ask.cwd).gemini_dir()
        said = ["".join(pieces) for pieces in self._said]
        void = session_file.voids(said, session_file.messages(home, self._session, self._began))
        if void is None:
            return []
        right = [text[length:] for text, length in zip(said, void, strict=True)]
        why = "Gemini CLI lost the model's stream and asked again."
        return [Withdrawn(_GAP.join(said), why), Text(_GAP.join(right))]

    def _result(self, line: Json) -> list[Step]:
        if line.get("status") != "success":
            self._error = str((line.get("error") or {}).get("message") or "it did not say why")
            return []
        stats: Mapping[str, Any] = line.get("stats") or {}
        models = stats.get("models") or {}
        if models:
            self._model = max(models, key=lambda name: int(models[name].get("output_tokens") or 0))
        self._finished = Finished("stop", self._model, session=self._session)
        used = Usage(
            input=int(stats.get("input_tokens") or 0),
            output=int(stats.get("output_tokens") or 0),
            cache_read=int(stats.get("cached") or 0),
        )
        whole = [] if self._said else self._text(str(line.get("response") or ""))
        return [*whole, UsageReport(used)]


def _status(code: int) -> int | None:
    status = code + 256
    return status if 400 <= status < 512 else None


# ── is it logged in ──────────────────────────────────────────────────────────────────────────────────


def login(caller: Caller) -> tuple[bool | None, str]:
    env = caller.own_env
    home = workspace_of(env, caller.cwd).gemini_dir()
    settings = read_json(home / "settings.json")
    chosen = inside(settings, "security", "auth", "selectedType")
    if chosen == "oauth-personal" or (chosen is None and env.get("GOOGLE_GENAI_USE_GCA") == "true"):
        return (True, "its own login") if paths.exists(home / "oauth_creds.json") else (False, "")
    if chosen == "gemini-api-key" and not env.get("GEMINI_API_KEY"):
        return None, "its key may be in the system's keychain"
    name = first_set(env, "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT")
    if chosen is None and env.get("GOOGLE_GENAI_USE_VERTEXAI") != "true" and name != "GEMINI_API_KEY":
        return False, ""
    return (True, name) if name else (False, "")


def environment(caller: Caller) -> Mapping[str, str | None]:  # noqa: ARG001
    return {"NO_BROWSER": "true"}  # a login that wants a browser fails at once instead of waiting


DRIVER = driver.AgentDriver(
    agent=AGENTS["gemini"],
    command=command,
    reader=Reader,
    login=login,
    takes=frozenset({"web_search"}),  # its search tool is always there
    env=environment,
)
