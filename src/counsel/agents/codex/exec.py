"""Asking a Codex that has no app-server: `codex exec --json`, whole messages instead of live text.

Measured with 0.166.0: an `-i` before the prompt swallows it, so the prompt comes from stdin (`-`); an item of
type "error" can be a mere warning, `turn.failed` is the failure; usage after `resume` counts the whole thread,
so it is told only for a thread that begins here.
"""

from __future__ import annotations

import json

from counsel.agents import failures, images, local_servers, trust
from counsel.agents.codex.servers import FORMAT
from counsel.agents.driver import Ask, AskMethod, Reader, Step, finished_or_fail
from counsel.agents.failures import LostSession
from counsel.agents.process import Command, Exit
from counsel.types import Finished, Json, Notice, Text, Usage, UsageReport


def command(ask: Ask) -> Command:
    settings, knobs = ask.caller.settings, ask.call.knobs
    argv = [str(ask.program), "exec", "--json", "--sandbox", ask.level]
    if (
        settings.codex_skip_git_check or not ask.trusted
    ):  # an empty folder is no repository; ours was looked at
        argv += ["--skip-git-repo-check"]
    if not ask.trusted:
        argv += ["-c", f"sandbox_workspace_write.writable_roots={json.dumps([str(ask.cwd)])}"]
    options = {"approval_policy": settings.codex_approval_policy}
    if knobs.effort:
        options["model_reasoning_effort"] = {"minimal": "low", "max": "xhigh"}.get(knobs.effort, knobs.effort)
    if knobs.verbosity:
        options["model_verbosity"] = knobs.verbosity
    if knobs.web_search:
        options["web_search"] = "live"
    for name, value in options.items():
        argv += ["-c", f'{name}="{value}"']
    servers, notes = without_servers(ask)
    argv += servers
    if ask.model:
        argv += ["--model", ask.model]
    pictures = [word for path in images.paths(ask) for word in ("--image", str(path))]
    if ask.session:
        argv += ["resume", *pictures, ask.session, "-"]
    else:
        argv += [*pictures, "-"]
    return Command(tuple(argv), ask.start, ask.env, ask.prompt.encode(), notes=notes)


def without_servers(ask: Ask) -> tuple[list[str], tuple[str, ...]]:
    """Options that switch off the servers which Codex would start in a folder that it does not trust, and what is said.

    Inline tables: in a dotted key (`mcp_servers.NAME.enabled`) a name with a dot is taken apart (measured).
    """
    if trust.by("codex", ask.workspace) is True:
        return [], ()
    known = local_servers.entries(FORMAT, ask.workspace)
    held = [(table, name) for table, name, entry in known if local_servers.starts(entry)]
    if not held:
        return [], ()
    servers = [name for table, name in held if table.scope != "plugin"]
    plugins = [table.kept_by.removeprefix("the plugin ") for table, _ in held if table.scope == "plugin"]
    options = [
        word
        for key, names in (("mcp_servers", servers), ("plugins", plugins))
        for word in (
            "-c",
            f"{key}={{{', '.join(f'{json.dumps(one)}={{enabled=false}}' for one in dict.fromkeys(names))}}}",
        )
        if names
    ]
    return options, (local_servers.note("codex", [name for _, name in held], ask.cwd),)


class ExecReader(Reader):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.done = False
        self._finished: Finished | None = None
        self._thread: str | None = ask.session
        self._spoke = False
        self._begun = False

    def feed(self, line: Json) -> list[Step]:
        kind = line.get("type")
        if kind == "thread.started":
            self._thread = str(line.get("thread_id"))
        elif kind == "turn.started":
            self._begun = True
        elif kind == "item.completed":
            return self._item(line.get("item") or {})
        elif kind == "turn.failed":
            raise self.ask.fail(str((line.get("error") or {}).get("message", "")))
        elif kind == "turn.completed":
            self._finished = Finished("stop", session=self._thread)
            return [] if self.ask.session else [UsageReport(_usage(line.get("usage") or {}))]
        return []

    def finish(self, ended: Exit) -> list[Step]:
        if self.ask.session and not self._begun and ended.code == 1:
            raise LostSession
        return finished_or_fail(self.ask, self._finished, ended)

    def _item(self, item: Json) -> list[Step]:
        words = str(item.get("text") or item.get("message") or "")
        if item.get("type") == "error":
            return [Notice("warning", failures.clean(words, self.ask.secrets))]
        if item.get("type") != "agent_message" or not words:
            return []
        gap = "\n\n" if self._spoke else ""
        self._spoke = True
        return [Text(gap + words)]


def _usage(used: Json) -> Usage:
    return Usage(
        input=int(used.get("input_tokens") or 0),
        output=int(used.get("output_tokens") or 0),
        reasoning=int(used.get("reasoning_output_tokens") or 0),
        cache_read=int(used.get("cached_input_tokens") or 0),
        cache_write=int(used.get("cache_write_input_tokens") or 0),
    )


method = AskMethod(command, ExecReader)
