"""Ask Codex through `codex app-server`: JSON-RPC lines on stdio, live text.

Measured with 0.166.0 (`codex app-server generate-json-schema` prints all schemas):
- closing stdin after `turn/completed` ends it within 40 ms, with the thread safely on disk;
- `tokenUsage.total` counts the thread, `last` one model call: a turn is the sum of its `last`s;
- CODEX_API_KEY is read by `codex exec` only. Here the key is sent in `account/login/start` with credentials kept in
  memory (`ephemeral`): nothing is written, and the user's own login stays;
- several processes that start at once in a new home conflict over SQLite files: such a start is retried;
- retries that it counts ("2/5") end by themselves; "waiting for network" would last forever, so counsel ends it;
- in an untrusted folder it ignores `.codex/config.toml` and hooks, but loads skills and AGENTS.md: so it is started in
  another folder (start_folder.py). `$name` in a prompt gives the model the user's own skill of that name;
- `on-failure` is no longer an approval policy; requests for approval are declined: no user is present to approve them.
A Codex without app-server is asked through `codex exec` (exec.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from counsel import __version__, paths
from counsel import json_reader as read
from counsel.agents import driver, failures, images
from counsel.agents.codex import exec as exec_
from counsel.agents.codex.login import login
from counsel.agents.definitions import AGENTS
from counsel.agents.driver import AgentRequest, Busy, MethodUnsupported, Send, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.errors import Refused
from counsel.text import missing
from counsel.types import Finished, Notice, Text, Thinking, ToolCall, ToolUse, Usage, UsageReport, Withdrawn

WRITABLE = "sandbox_workspace_write.writable_roots"  # applies at this level only
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}
POLICIES = {"on-failure": "on-request"}  # the name in newer releases
# Our responses when Codex asks the user something.
DECLINE: dict[str, dict[str, object]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
    "applyPatchApproval": {"decision": "denied"},
    "execCommandApproval": {"decision": "denied"},
}
# Codex's names of failures → the equivalent HTTP status.
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

_RETRY_COUNT = re.compile(r"\d+/\d+").search  # "Reconnecting... 2/5"
_HELLO, _LOGIN, _THREAD, _TURN = range(1, 5)  # ids of our requests
_CUT = "reason: max_output_tokens"  # in the message of a turn that failed because of its length


def command(request: AgentRequest) -> Command:
    settings = request.caller.settings
    if login(request.caller)[0] is False:  # Codex would retry for 15 seconds
        raise failures.not_logged_in(request.agent)
    if not settings.codex_skip_git_check and not _in_git(request.cwd):
        raise Refused(
            f"{request.cwd} is not in a git repository, which CODEX_SKIP_GIT_CHECK=false requires.",
            hint="Run `git init` there, or set CODEX_SKIP_GIT_CHECK=true.",
            agent="codex",
        )
    argv = [str(request.program), "app-server"]
    if settings.codex_api_key:
        argv += ["-c", 'cli_auth_credentials_store="ephemeral"']
    servers, notes = exec_.without_servers(request)
    argv += servers
    hello = _request(
        _HELLO,
        "initialize",
        {"clientInfo": {"name": "counsel", "title": "counsel", "version": __version__}},
    )
    return Command(
        tuple(argv), request.start, request.env, json.dumps(hello).encode() + b"\n", dialog=True, notes=notes
    )


def _in_git(folder: Path) -> bool:
    return any(paths.exists(parent / ".git") for parent in (folder, *folder.parents))


def _request(number: int, method: str, params: Mapping[str, object]) -> dict[str, object]:
    return {"id": number, "method": method, "params": params}


class Reader(driver.Reader):
    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._finished: Finished | None = None
        self._thread = ""
        self._turn = ""
        self._model: str | None = None
        self._initialized = False
        self._item = ""  # the message that text was last added to
        self._unfinished: list[str] = []  # its text, until it is complete
        self._last_complete = ""  # the last complete message
        self._texts: dict[str, list[str]] = {}  # text of each message
        self._comments: dict[str, list[str]] = {}  # messages with phase `commentary`
        self._usage = Usage()
        self._total: object = None
        self._network_waits = 0

    def feed(self, line: Mapping[str, object]) -> list[Step]:
        if "method" in line and "id" in line:
            return self._on_request(line)
        if "method" in line:
            return self._on_notification(str(line["method"]), read.part(line, "params"))
        return self._on_response(line)

    def finish(self, exit_: Exit) -> list[Step]:
        if not self._initialized and exit_.code == 2:  # a usage error, such as an unknown command
            raise MethodUnsupported
        if not self._initialized and "state runtime" in exit_.stderr:
            raise Busy
        return finished_or_fail(self.request, self._finished, exit_)

    # ── our requests and their responses, in order ──

    def _on_response(self, line: Mapping[str, object]) -> list[Step]:
        if "error" in line:
            raise self._refused(line)
        if line.get("id") == _HELLO:
            self._initialized = True
            first: Step = Send({"method": "initialized"})
            return [first, self._login() if self.request.caller.settings.codex_api_key else self._open()]
        if line.get("id") == _LOGIN:
            return [self._open()]
        if line.get("id") == _THREAD:
            result = read.part(line, "result")
            self._thread = read.text(read.part(result, "thread"), "id")
            self._model = read.text_or_none(result, "model")
            return [self._begin()]
        if line.get("id") == _TURN:
            self._turn = str(read.part(read.part(line, "result"), "turn").get("id"))
        return []

    def _refused(self, line: Mapping[str, object]) -> Exception:
        error = read.part(line, "error")
        if line.get("id") == _HELLO or error.get("code") == -32601:
            return MethodUnsupported()
        if line.get("id") == _THREAD and self.request.session:
            return LostSession()
        return self.request.fail(str(error.get("message") or ""))

    def _login(self) -> Send:
        key = self.request.caller.settings.codex_api_key
        return Send(_request(_LOGIN, "account/login/start", {"type": "apiKey", "apiKey": key}))

    def _open(self) -> Send:
        call, settings = self.request.call, self.request.caller.settings
        policy = settings.codex_approval_policy
        params: dict[str, object] = {
            "cwd": str(self.request.start),
            "sandbox": self.request.level,
            "approvalPolicy": POLICIES.get(policy, policy),
            "config": {
                **({"web_search": "live"} if call.model_settings.web_search else {}),
                **(
                    {"model_verbosity": call.model_settings.verbosity}
                    if call.model_settings.verbosity
                    else {}
                ),
                **({} if self.request.trusted else {WRITABLE: [str(self.request.cwd)]}),
            },
        }
        if self.request.model:
            params["model"] = self.request.model
        if self.request.session:
            params |= {"threadId": self.request.session, "excludeTurns": True}
            return Send(_request(_THREAD, "thread/resume", params))
        return Send(_request(_THREAD, "thread/start", params))

    def _begin(self) -> Send:
        image_inputs = [{"type": "localImage", "path": str(path)} for path in images.paths(self.request)]
        params: dict[str, object] = {
            "threadId": self._thread,
            "input": [*image_inputs, {"type": "text", "text": self.request.prompt}],
        }
        if self.request.call.model_settings.effort:
            params["effort"] = EFFORTS[self.request.call.model_settings.effort]
        return Send(_request(_TURN, "turn/start", params))

    # ── Codex's requests and notifications ──

    def _on_request(self, line: Mapping[str, object]) -> list[Step]:
        method = str(line["method"])
        if method not in DECLINE:
            refusal = {"code": -32601, "message": "counsel does not support this"}
            return [Send({"id": line["id"], "error": refusal})]
        message = f"Codex asked for permission ({method}) and was refused: no user is present to approve it."
        return [Send({"id": line["id"], "result": DECLINE[method]}), Notice("warning", message)]

    def _on_notification(self, method: str, params: dict[str, object]) -> list[Step]:
        if params.get("threadId") not in {None, self._thread}:  # a subagent's thread is not the answer
            return []
        handle = {
            "item/started": self._started,
            "item/completed": self._completed,
            "item/agentMessage/delta": self._text,
            "item/reasoning/summaryTextDelta": _thought,
            "item/reasoning/textDelta": _thought,
            "thread/tokenUsage/updated": self._usage_updated,
            "error": self._on_error,
            "turn/completed": self._on_turn_end,
        }.get(method)
        return handle(params) if handle else []

    def _started(self, params: dict[str, object]) -> list[Step]:
        item = read.part(params, "item")
        kind, identity = str(item.get("type")), str(item.get("id"))
        self._close()
        if kind == "agentMessage" and item.get("phase") == "commentary":
            self._comments[identity] = []
        if kind in TOOLS:
            return [ToolUse(ToolCall(read.text(item, "id"), kind, {TOOLS[kind]: item.get(TOOLS[kind])}))]
        return []

    def _completed(self, params: dict[str, object]) -> list[Step]:
        item = read.part(params, "item")
        steps = self._missing_text(item)
        if str(item.get("id")) == self._item:
            self._close()
        return steps

    def _missing_text(self, item: dict[str, object]) -> list[Step]:
        """The rest of a complete message that did not arrive in pieces."""
        if item.get("type") != "agentMessage":
            return []
        identity, text = str(item.get("id")), str(item.get("text") or "")
        if item.get("phase") == "commentary" and identity not in self._texts:
            self._comments.setdefault(identity, [])
        pieces = self._comments.get(identity) or self._texts.get(identity) or []
        rest = missing("".join(pieces), text)
        return self._text({"itemId": identity, "delta": rest}) if rest else []

    def _close(self) -> None:
        self._last_complete, self._unfinished = self._item, []

    def _text(self, params: Mapping[str, object]) -> list[Step]:
        text, item = str(params.get("delta") or ""), str(params.get("itemId"))
        if item in self._comments:
            self._comments[item].append(text)
            return [Thinking(text)]
        gap = "\n\n" if self._item and self._item != item else ""
        self._item = item
        self._texts.setdefault(item, []).append(text)
        self._unfinished.append(gap + text)
        return [Text(gap + text)]

    def _usage_updated(self, params: dict[str, object]) -> list[Step]:
        usage = read.part(params, "tokenUsage")
        if params.get("turnId") != self._turn or usage.get("total") == self._total:
            return []  # of an earlier turn, or repeated
        self._total = usage.get("total")
        last = read.part(usage, "last")
        self._usage = Usage(
            input=self._usage.input + read.integer(last, "inputTokens"),
            output=self._usage.output + read.integer(last, "outputTokens"),
            reasoning=self._usage.reasoning + read.integer(last, "reasoningOutputTokens"),
            cache_read=self._usage.cache_read + read.integer(last, "cachedInputTokens"),
            cache_write=self._usage.cache_write + read.integer(last, "cacheWriteInputTokens"),
        )
        return [UsageReport(self._usage)]

    def _on_error(self, params: dict[str, object]) -> list[Step]:
        """Report errors that Codex retries; the others are repeated at the end of the turn."""
        error = read.part(params, "error")
        if not params.get("willRetry"):
            return []
        if not _RETRY_COUNT(str(error.get("message"))):
            self._network_waits += 1
        if self._network_waits >= self.request.limits.attempts:
            raise self.request.fail(str(error.get("additionalDetails") or error.get("message")))
        return [*self._withdraw(), Notice("retry", f"Codex retries: {self._message_of(error)}")]

    def _withdraw(self) -> list[Step]:
        """Withdraw a message whose stream broke: Codex requests it again, as another item."""
        if self._unfinished:
            self._texts.pop(self._item, None)
        withdrawn, self._unfinished, self._item = "".join(self._unfinished), [], self._last_complete
        return [Withdrawn(withdrawn, "Codex lost the model's stream and asks again.")] if withdrawn else []

    def _on_turn_end(self, params: dict[str, object]) -> list[Step]:
        turn = read.part(params, "turn")
        error = read.part(turn, "error")
        is_cut = _CUT in str(error.get("message"))
        if turn.get("status") != "completed" and not is_cut:
            raise failures.by_status(self.request.agent, _status(error), self._message_of(error))
        self.done = True
        self._finished = Finished("length" if is_cut else "stop", self._model, session=self._thread or None)
        steps = [step for item in read.parts(turn, "items") for step in self._missing_text(item)]
        if not self._item and self._comments:  # only comments: the last one is the answer
            return [*steps, Text("".join(list(self._comments.values())[-1]))]
        return steps

    def _message_of(self, error: dict[str, object]) -> str:
        return failures.clean(str(error.get("message") or "the turn did not complete"), self.request.secrets)


def _thought(params: Mapping[str, object]) -> list[Step]:
    return [Thinking(str(params.get("delta") or ""))]


def _status(error: dict[str, object]) -> int | None:
    info = error.get("codexErrorInfo")
    if isinstance(info, str):
        return STATUSES.get(info)
    details = next(iter(read.as_object(info).values()), None)
    return read.integer(read.as_object(details), "httpStatusCode") or None


DRIVER = driver.AgentDriver(
    agent=AGENTS["codex"],
    command=command,
    reader=Reader,
    login=login,
    supported_settings=frozenset({"effort", "verbosity", "web_search"}),
    fallback=exec_.method,
)
