"""Ask OpenCode: `opencode acp`, the Agent Client Protocol (acp.py). `opencode run` prints complete texts only.

Measured with 1.18.33:
- OPENCODE_CONFIG_CONTENT has the highest precedence. Our own agent in it (`counsel`) lists the level's permissions
  last, so that no `permission` of the user or of another agent widens them: at read-only the model is offered read,
  glob and grep, and nothing else;
- each new session asks a model for a title, which costs money: that agent is disabled;
- OPENCODE_DISABLE_PROJECT_CONFIG ignores `opencode.json` and AGENTS.md of the folder but still runs the plugins of its
  `.opencode/`: for an untrusted folder it is started in another one (start_folder.py);
- a prompt that starts with `/` is a command;
- it retries a rate-limited or unreachable model forever, and says so only in its log: counsel ends it at its own limit;
- without a login it would use free models of its own service: then counsel does not ask it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from counsel.agents import acp, driver, failures, images, local_servers
from counsel.agents.definitions import AGENTS
from counsel.agents.driver import AgentRequest
from counsel.agents.opencode.login import login
from counsel.agents.opencode.servers import FORMAT
from counsel.agents.process import Command
from counsel.agents.sandbox import Level

_READS = ("read", "glob", "grep", "list")
LEVELS: dict[Level, tuple[str, ...]] = {
    "read-only": _READS,
    "workspace-write": (*_READS, "edit", "write", "patch"),
    "danger-full-access": ("*",),
}
_WEB = ("webfetch", "websearch")
_LOGGED = re.compile(r'error\.error(?:\.error)?(?:\.message)?=("(?:[^"\\]|\\.)*")').search


def command(request: AgentRequest) -> Command:
    if login(request.caller)[0] is False:
        raise failures.not_logged_in(request.agent)
    images.paths(request)  # stored in the project, as for every agent
    left_out = [] if request.trusted else _started_servers(request)
    argv = (str(request.program), "acp", "--print-logs", "--log-level", "ERROR")
    notes = (_note(left_out, request.cwd),) if left_out else ()
    return Command(
        argv, request.start, _environment(request, left_out), acp.hello(), dialog=True, notes=notes
    )


def _started_servers(request: AgentRequest) -> list[str]:
    entries = local_servers.entries(FORMAT, request.workspace)
    return [name for _, name, entry in entries if local_servers.starts(_with_args(entry))]


def _with_args(entry: Mapping[str, object]) -> Mapping[str, object]:
    command = entry.get("command")
    return {"command": command[0], "args": command[1:]} if isinstance(command, list) and command else entry


def _note(names: list[str], project: Path) -> str:
    return (
        f"No agent has been told to trust {project}, and OpenCode has no trust dialog: your MCP servers that it would start "
        f"({', '.join(names)}) were left out. Trust the folder in Claude Code, Codex or Gemini CLI to use them."
    )


def _environment(request: AgentRequest, left_out: list[str]) -> Mapping[str, str]:
    env = {**request.env, "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    if not request.trusted:
        env |= {"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT": "1"}
        for name in ("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            if not env.get(name, "/").startswith("/"):
                del env[name]
    return {**env, "OPENCODE_CONFIG_CONTENT": json.dumps(_config(request, left_out))}


def _config(request: AgentRequest, left_out: list[str]) -> dict[str, object]:
    """The user's own configuration, overridden by ours."""
    agents = {"counsel": {"mode": "primary", "permission": _permission(request)}, "title": {"disable": True}}
    config: dict[str, object] = {
        **_object(request.env.get("OPENCODE_CONFIG_CONTENT")),
        "default_agent": "counsel",
        "agent": agents,
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
        "lsp": False,  # language servers run the project's programs
    }
    if left_out:
        config["mcp"] = {name: {"enabled": False} for name in left_out}
    return {**config, "model": request.model} if request.model else config


def _object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _permission(request: AgentRequest) -> dict[str, object]:
    """The last matching rule wins, so denying everything comes first."""
    if request.level == "danger-full-access":
        return {"*": "allow"}
    web = _WEB if request.call.model_settings.web_search else ()
    outside = {"*": "deny", **{f"{path}/*": "allow" for path in request.other_folders}}
    permissions = dict.fromkeys((*LEVELS[request.level], *web), "allow")
    return {"*": "deny", **permissions, "external_directory": outside}


class Reader(acp.Reader):
    retry_sign: ClassVar[re.Pattern[str] | None] = re.compile(r'message="stream error"')
    # Several processes that start at once on a new database all try to create its tables.
    busy_sign: ClassVar[re.Pattern[str] | None] = re.compile(
        r"database is locked|SQLITE_BUSY|Failed query|CREATE TABLE|already exists|FOREIGN KEY"
    )

    def retry_message(self, line: str) -> str:
        """The vendor's message in a line of the log."""
        match = _LOGGED(line)
        if match is None:
            return line
        try:
            message = str(json.loads(match[1]))
        except ValueError:
            message = match[1]
        return message.removeprefix("AI_APICallError: ")

    def prompt_text(self) -> str:
        """The prompt, never starting with `/`: that would be a command of OpenCode."""
        text = super().prompt_text()
        return f"The message starts here:\n{text}" if text.lstrip().startswith("/") else text


DRIVER = driver.AgentDriver(
    agent=AGENTS["opencode"],
    command=command,
    reader=Reader,
    login=login,
    supported_settings=frozenset({"web_search"}),
)
