"""Asking Codex through `codex app-server`: JSON-RPC lines on stdio, text as it is written.

Measured with 0.166.0 (`codex app-server generate-json-schema` has every shape):
- closing stdin after `turn/completed` ends it within 40 ms, with the thread safely on disk;
- `tokenUsage.total` is the thread's, `last` one model call's: a turn is the sum of its `last`s;
- CODEX_API_KEY is read by `codex exec` only. Here the key goes through `account/login/start` with credentials
  kept in memory (`ephemeral`): nothing is written, the user's own login stays;
- several that start at once in a new home trip over each other's SQLite files: such a start is tried again;
- retries that it counts ("2/5") end by themselves; "waiting for network" would go on for ever and is ended by us;
- in a folder that nobody trusted it leaves out `.codex/config.toml` and hooks, but takes skills and AGENTS.md: there it is
  started elsewhere (startfolder.py). `$name` in a prompt gives the model the user's own skill of that name;
- `on-failure` is no approval policy any more; asked for approval, we decline: nobody is there to say yes.
A Codex without app-server is asked through `codex exec` (exec.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from counsel import __version__, paths
from counsel.agents import driver, failures, images
from counsel.agents.codex import exec as exec_
from counsel.agents.definitions import AGENTS, workspace_of
from counsel.agents.detect import first_set, inside, read_json
from counsel.agents.driver import Ask, Busy, MethodUnsupported, Send, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.caller import Caller
from counsel.configfiles.document import parse
from counsel.errors import ConfigInvalid, Refused
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

WRITABLE = "sandbox_workspace_write.writable_roots"  # counts at this level only
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}
POLICIES = {"on-failure": "on-request"}  # what newer releases call it
# What we answer when Codex asks a person something.
DECLINE: dict[str, Json] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
    "applyPatchApproval": {"decision": "denied"},
    "execCommandApproval": {"decision": "denied"},
}
# Codex's own names of failures → the HTTP status that means the same.
STATUSES = {
    "unauthorized": 401,
    "usageLimitExceeded": 429,
    "rateLimitExceeded": 429,
    "contextWindowExceeded": 413,
    "modelNotFound": 404,
    "serverOverloaded": 503,
    "internalServerError": 500,
}
TOOLS = {"commandExecution": "command", "fileChange": "changes", "webSearch": "query", "mcpToolCall": "tool"}

_COUNTED = re.compile(r"\d+/\d+").search  # "Reconnecting... 2/5"
_HELLO, _LOGIN, _THREAD, _TURN = range(1, 5)  # ids of our requests


def command(ask: Ask) -> Command:
    settings = ask.caller.settings
    if login(ask.caller)[0] is False:  # it would ask without a key, and again, for a quarter of a minute
        raise failures.not_logged_in(ask.agent)
    if not settings.codex_skip_git_check and not _in_git(ask.cwd):
        raise Refused(
            f"{ask.cwd} is not in a git repository, which CODEX_SKIP_GIT_CHECK=false asks for.",
            hint="Run `git init` there, or set CODEX_SKIP_GIT_CHECK=true.",
            agent="codex",
        )
    argv = [str(ask.program), "app-server"]
    if settings.codex_api_key:
        argv += ["-c", 'cli_auth_credentials_store="ephemeral"']
    servers, notes = exec_.without_servers(ask)
    argv += servers
    hello = _request(
        _HELLO,
        "initialize",
        {"clientInfo": {"name": "counsel", "title": "counsel", "version": __version__}},
    )
    return Command(
        tuple(argv), ask.start, ask.env, json.dumps(hello).encode() + b"\n", dialog=True, notes=notes
    )


def _in_git(folder: Path) -> bool:
    return any(paths.exists(each / ".git") for each in (folder, *folder.parents))


def _request(number: int, method: str, params: Json) -> Json:
    return {"id": number, "method": method, "params": params}


class Reader(driver.Reader):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.done = False
        self._finished: Finished | None = None
        self._thread = ""
        self._turn = ""
        self._model: str | None = None
        self._greeted = False
        self._item = ""  # the message that text was last added to
        self._unsure: list[str] = []  # what was said of it, until it is complete
        self._whole = ""  # the last message that is
        self._said: dict[str, list[str]] = {}  # of each message, in pieces or whole
        self._aside: dict[str, list[str]] = {}  # messages that only comment on the work
        self._usage = Usage()
        self._total: Json | None = None
        self._waits = 0  # for a network that is not there

    def feed(self, line: Json) -> list[Step]:
        if "method" in line and "id" in line:
            return self._asked(line)
        if "method" in line:
            return self._told(str(line["method"]), line.get("params") or {})
        return self._answered(line)

    def finish(self, ended: Exit) -> list[Step]:
        if not self._greeted and ended.code == 2:  # what a command line gets wrong, as in `no such command`
            raise MethodUnsupported
        if not self._greeted and "state runtime" in ended.stderr:
            raise Busy
        return finished_or_fail(self.ask, self._finished, ended)

    # ── our requests and their answers, one after the other ──

    def _answered(self, line: Json) -> list[Step]:
        if "error" in line:
            raise self._refused(line)
        if line.get("id") == _HELLO:
            self._greeted = True
            first: Step = Send({"method": "initialized"})
            return [first, self._login() if self.ask.caller.settings.codex_api_key else self._open()]
        if line.get("id") == _LOGIN:
            return [self._open()]
        if line.get("id") == _THREAD:
            result = line.get("result") or {}
            self._thread = str((result.get("thread") or {}).get("id"))
            self._model = result.get("model")
            return [self._begin()]
        if line.get("id") == _TURN:
            self._turn = str(((line.get("result") or {}).get("turn") or {}).get("id"))
        return []

    def _refused(self, line: Json) -> Exception:
        error = line.get("error") or {}
        if line.get("id") == _HELLO or error.get("code") == -32601:
            return MethodUnsupported()
        if line.get("id") == _THREAD and self.ask.session:
            return LostSession()
        return self.ask.fail(str(error.get("message", "")))

    def _login(self) -> Send:
        key = self.ask.caller.settings.codex_api_key
        return Send(_request(_LOGIN, "account/login/start", {"type": "apiKey", "apiKey": key}))

    def _open(self) -> Send:
        call, settings = self.ask.call, self.ask.caller.settings
        policy = settings.codex_approval_policy
        params: Json = {
            "cwd": str(self.ask.start),
            "sandbox": self.ask.level,
            "approvalPolicy": POLICIES.get(policy, policy),
            "config": {
                **({"web_search": "live"} if call.knobs.web_search else {}),
                **({"model_verbosity": call.knobs.verbosity} if call.knobs.verbosity else {}),
                **({} if self.ask.trusted else {WRITABLE: [str(self.ask.cwd)]}),
            },
        }
        if self.ask.model:
            params["model"] = self.ask.model
        if self.ask.session:
            params |= {"threadId": self.ask.session, "excludeTurns": True}
            return Send(_request(_THREAD, "thread/resume", params))
        return Send(_request(_THREAD, "thread/start", params))

    def _begin(self) -> Send:
        pictures = [{"type": "localImage", "path": str(path)} for path in images.paths(self.ask)]
        params: Json = {
            "threadId": self._thread,
            "input": [*pictures, {"type": "text", "text": self.ask.prompt}],
        }
        if self.ask.call.knobs.effort:
            params["effort"] = EFFORTS[self.ask.call.knobs.effort]
        return Send(_request(_TURN, "turn/start", params))

    # ── what Codex asks and tells ──

    def _asked(self, line: Json) -> list[Step]:
        method = str(line["method"])
        if method not in DECLINE:
            refusal = {"code": -32601, "message": "counsel does not do this"}
            return [Send({"id": line["id"], "error": refusal})]
        words = f"Codex asked for permission ({method}) and was refused: nobody is there to approve."
        return [Send({"id": line["id"], "result": DECLINE[method]}), Notice("warning", words)]

    def _told(self, method: str, params: Json) -> list[Step]:
        if params.get("threadId") not in {None, self._thread}:  # a helper's thread is not the answer
            return []
        handle = {
            "item/started": self._started,
            "item/completed": self._completed,
            "item/agentMessage/delta": self._text,
            "item/reasoning/summaryTextDelta": _thought,
            "item/reasoning/textDelta": _thought,
            "thread/tokenUsage/updated": self._used,
            "error": self._trouble,
            "turn/completed": self._ended,
        }.get(method)
        return handle(params) if handle else []

    def _started(self, params: Json) -> list[Step]:
        item = params.get("item") or {}
        kind, number = str(item.get("type")), str(item.get("id"))
        self._close()
        if kind == "agentMessage" and item.get("phase") == "commentary":
            self._aside[number] = []
        if kind in TOOLS:
            return [ToolUse(ToolCall(number, kind, {TOOLS[kind]: item.get(TOOLS[kind])}))]
        return []

    def _completed(self, params: Json) -> list[Step]:
        item = params.get("item") or {}
        steps = self._unsaid(item)
        if str(item.get("id")) == self._item:
            self._close()
        return steps

    def _unsaid(self, item: Json) -> list[Step]:
        """What a whole message adds to the pieces of it that came: all of it, where none did."""
        if item.get("type") != "agentMessage":
            return []
        number, text = str(item.get("id")), str(item.get("text") or "")
        if item.get("phase") == "commentary" and number not in self._said:
            self._aside.setdefault(number, [])
        said = self._aside.get(number) or self._said.get(number) or []
        rest = missing("".join(said), text)
        return self._text({"itemId": number, "delta": rest}) if rest else []

    def _close(self) -> None:
        self._whole, self._unsure = self._item, []

    def _text(self, params: Json) -> list[Step]:
        words, item = str(params.get("delta", "")), str(params.get("itemId"))
        if item in self._aside:
            self._aside[item].append(words)
            return [Thinking(words)]
        gap = "\n\n" if self._item and self._item != item else ""
        self._item = item
        self._said.setdefault(item, []).append(words)
        self._unsure.append(gap + words)
        return [Text(gap + words)]

    def _used(self, params: Json) -> list[Step]:
        told = params.get("tokenUsage") or {}
        if params.get("turnId") != self._turn or told.get("total") == self._total:  # of before, or said again
            return []
        self._total = told.get("total")
        last = told.get("last") or {}
        self._usage = Usage(
            input=self._usage.input + int(last.get("inputTokens") or 0),
            output=self._usage.output + int(last.get("outputTokens") or 0),
            reasoning=self._usage.reasoning + int(last.get("reasoningOutputTokens") or 0),
            cache_read=self._usage.cache_read + int(last.get("cachedInputTokens") or 0),
            cache_write=self._usage.cache_write + int(last.get("cacheWriteInputTokens") or 0),
        )
        return [UsageReport(self._usage)]

    def _trouble(self, params: Json) -> list[Step]:
        """Errors that Codex retries are told; the others come again with the turn's end."""
        error = params.get("error") or {}
        if not params.get("willRetry"):
            return []
        if not _COUNTED(str(error.get("message"))):
            self._waits += 1
        if self._waits >= self.ask.limits.attempts:
            raise self.ask.fail(str(error.get("additionalDetails") or error.get("message")))
        return [*self._lost(), Notice("retry", f"Codex tries again: {self._words(error)}")]

    def _lost(self) -> list[Step]:
        """A message whose stream broke is asked for again, as another item."""
        if self._unsure:
            self._said.pop(self._item, None)
        void, self._unsure, self._item = "".join(self._unsure), [], self._whole
        return [Withdrawn(void, "Codex lost the model's stream and asks again.")] if void else []

    def _ended(self, params: Json) -> list[Step]:
        turn = params.get("turn") or {}
        if turn.get("status") != "completed":
            error = turn.get("error") or {}
            raise failures.by_status(self.ask.agent, _status(error), self._words(error))
        self.done = True
        self._finished = Finished("stop", self._model, session=self._thread)
        steps = [step for item in turn.get("items") or () for step in self._unsaid(item)]
        if not self._item and self._aside:  # nothing but comments: the last one is the answer
            return [*steps, Text("".join(list(self._aside.values())[-1]))]
        return steps

    def _words(self, error: Json) -> str:
        return failures.clean(str(error.get("message") or "the turn did not complete"), self.ask.secrets)


def _thought(params: Json) -> list[Step]:
    return [Thinking(str(params.get("delta", "")))]


def _status(error: Json) -> int | None:
    info = error.get("codexErrorInfo")
    if isinstance(info, str):
        return STATUSES.get(info)
    held: Any = next(iter(info.values()), None) if isinstance(info, dict) else None
    status = held.get("httpStatusCode") if isinstance(held, dict) else None
    return int(status) if status else None


# ── is it logged in ──────────────────────────────────────────────────────────────────────────────────


def login(caller: Caller) -> tuple[bool | None, str]:
    if caller.settings.codex_api_key:
        return True, "CODEX_API_KEY"
    home = workspace_of(caller.env, caller.cwd).codex_dir()
    held = read_json(home / "auth.json")
    if held.get("tokens") or held.get("OPENAI_API_KEY"):
        return True, "its own login"
    config = _config(home / "config.toml")
    if named := config.get("model_provider"):
        return _provider_login(str(named), config, caller)
    if config.get("cli_auth_credentials_store") in {"keyring", "auto"}:
        return None, "its login is in the system's keyring"
    return False, ""


def _provider_login(name: str, config: Json, caller: Caller) -> tuple[bool | None, str]:
    """A provider of the user's own needs its own key, or none."""
    held = inside(config, "model_providers", name)
    if inside(held, "requires_openai_auth") or name == "openai":
        return False, ""
    key = inside(held, "env_key")
    if key and not first_set(caller.own_env, str(key)):
        return False, ""
    return True, f"provider {name}"


def _config(path: Path) -> Json:
    try:
        held: Json = parse(path.read_text(encoding="utf-8"), "toml").value
    except (OSError, ValueError, ConfigInvalid):
        return {}
    return held


DRIVER = driver.AgentDriver(
    agent=AGENTS["codex"],
    command=command,
    reader=Reader,
    login=login,
    takes=frozenset({"effort", "verbosity", "web_search"}),
    fallback=exec_.method,
)
