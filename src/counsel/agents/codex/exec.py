"""Ask a Codex without app-server: `codex exec --json`, complete messages instead of live text.

Measured with 0.166.0: `-i` takes a prompt that follows it for another image, so the prompt is sent through stdin (`-`);
an item of type "error" can be a warning, `turn.failed` is the failure; usage after `resume` counts the whole thread, so
it is reported only for a new thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from counsel import json_reader as read
from counsel.agents import failures, images, local_servers, trust
from counsel.agents.codex.servers import FORMAT
from counsel.agents.driver import AgentRequest, AskMethod, Reader, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.types import Finished, Notice, Text, Usage, UsageReport


def command(request: AgentRequest) -> Command:
    settings, model_settings = request.caller.settings, request.call.model_settings
    argv = [str(request.program), "exec", "--json", "--sandbox", request.level]
    # The empty folder for an untrusted project is not a repository.
    if settings.codex_skip_git_check or not request.trusted:
        argv += ["--skip-git-repo-check"]
    if not request.trusted:
        argv += ["-c", f"sandbox_workspace_write.writable_roots={json.dumps([str(request.cwd)])}"]
    options = {"approval_policy": settings.codex_approval_policy}
    if model_settings.effort:
        options["model_reasoning_effort"] = {"minimal": "low", "max": "xhigh"}.get(
            model_settings.effort, model_settings.effort
        )
    if model_settings.verbosity:
        options["model_verbosity"] = model_settings.verbosity
    if model_settings.web_search:
        options["web_search"] = "live"
    for name, value in options.items():
        argv += ["-c", f'{name}="{value}"']
    servers, notes = without_servers(request)
    argv += servers
    if request.model:
        argv += ["--model", request.model]
    image_options = [word for path in images.paths(request) for word in ("--image", str(path))]
    if request.session:
        argv += ["resume", *image_options, request.session, "-"]
    else:
        argv += [*image_options, "-"]
    return Command(tuple(argv), request.start, request.env, request.prompt.encode(), notes=notes)


def without_servers(request: AgentRequest) -> tuple[list[str], tuple[str, ...]]:
    """Options that disable the servers that Codex would start in an untrusted folder, and the notice.

    Inline tables: in a dotted key (`mcp_servers.NAME.enabled`) a name with a dot is split (measured).
    """
    if trust.by_agent("codex", request.workspace) is True:
        return [], ()
    entries = local_servers.entries(FORMAT, request.workspace)
    local_entries = [(table, name) for table, name, entry in entries if local_servers.starts(entry)]
    if not local_entries:
        return [], ()
    servers = [name for table, name in local_entries if table.scope != "plugin"]
    plugins = [
        table.kept_by.removeprefix("the plugin ") for table, _ in local_entries if table.scope == "plugin"
    ]
    options = [
        word
        for key, names in (("mcp_servers", servers), ("plugins", plugins))
        for word in (
            "-c",
            f"{key}={{{', '.join(f'{json.dumps(name)}={{enabled=false}}' for name in dict.fromkeys(names))}}}",
        )
        if names
    ]
    return options, (local_servers.note("codex", [name for _, name in local_entries], request.cwd),)


class ExecReader(Reader):
    def __init__(self, request: AgentRequest) -> None:
        self.request = request
        self.done = False
        self._finished: Finished | None = None
        self._thread: str | None = request.session
        self._has_text = False
        self._started = False

    def feed(self, line: Mapping[str, object]) -> list[Step]:
        kind = line.get("type")
        if kind == "thread.started":
            self._thread = read.text_or_none(line, "thread_id")
        elif kind == "turn.started":
            self._started = True
        elif kind == "item.completed":
            return self._item(read.part(line, "item"))
        elif kind == "turn.failed":
            raise self.request.fail(str(read.part(line, "error").get("message") or ""))
        elif kind == "turn.completed":
            self._finished = Finished("stop", session=self._thread)
            return [] if self.request.session else [UsageReport(_usage(read.part(line, "usage")))]
        return []

    def finish(self, exit_: Exit) -> list[Step]:
        if self.request.session and not self._started and exit_.code == 1:
            raise LostSession
        return finished_or_fail(self.request, self._finished, exit_)

    def _item(self, item: Mapping[str, object]) -> list[Step]:
        text = str(item.get("text") or item.get("message") or "")
        if item.get("type") == "error":
            return [Notice("warning", failures.clean(text, self.request.secrets))]
        if item.get("type") != "agent_message" or not text:
            return []
        gap = "\n\n" if self._has_text else ""
        self._has_text = True
        return [Text(gap + text)]


def _usage(usage: dict[str, object]) -> Usage:
    return Usage(
        input=read.integer(usage, "input_tokens"),
        output=read.integer(usage, "output_tokens"),
        reasoning=read.integer(usage, "reasoning_output_tokens"),
        cache_read=read.integer(usage, "cached_input_tokens"),
        cache_write=read.integer(usage, "cache_write_input_tokens"),
    )


method = AskMethod(command, ExecReader)
