"""Asking OpenCode: `opencode acp`, the Agent Client Protocol (acp.py). `opencode run` tells a text only when it is complete.

Measured with 1.18.33:
- OPENCODE_CONFIG_CONTENT is its strongest configuration. An agent of our own in it (`counsel`) has the level's permissions
  last, so that no `permission` of the user or of another agent widens them: at read-only the model is offered read, glob
  and grep, and nothing else;
- each new session asks a model for a title, which would be paid for: that agent is disabled;
- OPENCODE_DISABLE_PROJECT_CONFIG leaves out `opencode.json` and AGENTS.md of the folder but still runs the plugins of its
  `.opencode/`: in a folder that nobody trusts it is started elsewhere (startfolder.py);
- a prompt that begins with `/` is a command;
- it asks a model again for ever when that is rate limited or unreachable, and says so in its log alone: after our own number
  of tries it is ended;
- without a login it would ask free models of its own service: it is not asked then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from counsel.agents import acp, driver, failures, images, local_servers
from counsel.agents.definitions import AGENTS, Workspace, workspace_of
from counsel.agents.detect import first_set, read_json
from counsel.agents.driver import Ask
from counsel.agents.opencode.servers import FORMAT, folder
from counsel.agents.process import Command
from counsel.agents.sandbox import Level
from counsel.caller import Caller
from counsel.types import Json

_READS = ("read", "glob", "grep", "list")
LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": _READS,
    "workspace-write": (*_READS, "edit", "write", "patch"),
    "danger-full-access": ("*",),
}
_WEB = ("webfetch", "websearch")
_KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENCODE_API_KEY",
    "OPENCODE_AUTH_CONTENT",
)


def command(ask: Ask) -> Command:
    if login(ask.caller)[0] is False:
        raise failures.not_logged_in(ask.agent)
    images.paths(ask)  # kept in the project, as for every agent
    left_out = [] if ask.trusted else _started_servers(ask)
    argv = (str(ask.program), "acp", "--print-logs", "--log-level", "ERROR")
    notes = (_note(left_out, ask.cwd),) if left_out else ()
    return Command(argv, ask.start, _environment(ask, left_out), acp.hello(), dialog=True, notes=notes)


def _started_servers(ask: Ask) -> list[str]:
    held = local_servers.entries(FORMAT, ask.workspace)
    return [name for _, name, entry in held if local_servers.starts(_as_others_write_it(entry))]


def _as_others_write_it(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    words = entry.get("command")
    return {"command": words[0], "args": words[1:]} if isinstance(words, list) and words else entry


def _note(names: list[str], project: Path) -> str:
    return (
        f"Nobody was told to trust {project}, and OpenCode has no such dialog: your MCP servers that it would start "
        f"({', '.join(names)}) were left out. Trust the folder in Claude Code, Codex or Gemini CLI to have them."
    )


def _environment(ask: Ask, left_out: list[str]) -> Mapping[str, str]:
    env = {**ask.env, "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    if not ask.trusted:
        env |= {"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT": "1"}
        for name in ("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            if not env.get(name, "/").startswith("/"):
                del env[name]
    return {**env, "OPENCODE_CONFIG_CONTENT": json.dumps(_config(ask, left_out))}


def _config(ask: Ask, left_out: list[str]) -> Json:
    """The user's own, if there is one, with ours over it."""
    agents = {"counsel": {"mode": "primary", "permission": _permission(ask)}, "title": {"disable": True}}
    config: Json = {
        **_given(ask.env.get("OPENCODE_CONFIG_CONTENT")),
        "default_agent": "counsel",
        "agent": agents,
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
        "lsp": False,  # language servers run what a project brings
    }
    if left_out:
        config["mcp"] = {name: {"enabled": False} for name in left_out}
    return {**config, "model": ask.model} if ask.model else config


def _given(text: str | None) -> Json:
    try:
        held = json.loads(text or "{}")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _permission(ask: Ask) -> Json:
    """The last rule that fits counts, so the refusal of everything stands first."""
    if ask.level == "danger-full-access":
        return {"*": "allow"}
    web = _WEB if ask.call.knobs.web_search else ()
    outside = {"*": "deny", **{f"{path}/*": "allow" for path in ask.other_folders}}
    allowed = dict.fromkeys((*LEVELS[ask.level], *web), "allow")
    return {"*": "deny", **allowed, "external_directory": outside}


class Reader(acp.Reader):
    retry_sign: ClassVar[re.Pattern[str] | None] = re.compile(r'message="stream error"')
    # Several that start at once on a new database each want to make its tables.
    busy_sign: ClassVar[re.Pattern[str] | None] = re.compile(
        r"database is locked|SQLITE_BUSY|Failed query|CREATE TABLE|already exists|FOREIGN KEY"
    )

    def words(self) -> str:
        """A prompt that begins with `/` would be a command of OpenCode's."""
        words = super().words()
        return f"The message begins here:\n{words}" if words.lstrip().startswith("/") else words


# ── is it logged in ──────────────────────────────────────────────────────────────────────────────────


def login(caller: Caller) -> tuple[bool | None, str]:
    env = caller.own_env
    where = workspace_of(env, caller.cwd)
    if read_json(_data(where) / "auth.json"):
        return True, "its own login"
    for home in FORMAT.tables(where):
        held = read_json(home.target.path) if home.scope == "user" else {}
        if held.get("provider") and held.get("model"):
            return True, f"a provider in {folder(where)}"
    name = first_set(env, *_KEYS)
    return (True, name) if name else (False, "")


def _data(where: Workspace) -> Path:
    moved = where.env.get("XDG_DATA_HOME", "")
    return (Path(moved) if moved.startswith("/") else where.home / ".local" / "share") / "opencode"


DRIVER = driver.AgentDriver(
    agent=AGENTS["opencode"],
    command=command,
    reader=Reader,
    login=login,
    takes=frozenset({"web_search"}),
)
