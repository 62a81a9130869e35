"""The agents as a table: names, commands, capabilities, and the folders that variables can move.

A capability's module is found by the agent's name, and imported at first use:

| capability | module | it defines |
|---|---|---|
| ask | `agents/NAME/run.py` | `DRIVER` (driver.py) |
| servers | `agents/NAME/servers.py` | `FORMAT` (server_format.py) |
| skills | `agents/NAME/skills.py` | `skills`, `user_folder`, `project_folder` (skill_format.py) |
| setup | none: `counsel setup` writes an entry with `FORMAT` | |
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from counsel.records import Record

AgentName: TypeAlias = str
Capability: TypeAlias = Literal["ask", "servers", "skills", "setup"]
EVERYTHING: tuple[Capability, ...] = ("ask", "servers", "skills", "setup")
# Which variables of its own environment a client passes to the servers that it starts.
PassedEnv: TypeAlias = Literal["all", "no secrets", "named"]
Scope: TypeAlias = Literal["user", "local", "project", "plugin", "system", "managed"]
SCOPES: tuple[Scope, ...] = ("user", "local", "project")
# Not the user's own files: those of plugins and extensions, machine-wide defaults, machine-wide overrides.
OTHERS_SCOPES: tuple[Scope, ...] = ("plugin", "system", "managed")
ROOT = Path("/")


class Agent(Record):
    name: AgentName
    label: str
    command: str  # the program on PATH
    install: str  # how to install it
    login: str  # how to log in
    scopes: tuple[Scope, ...]  # where it keeps MCP servers
    client_names: tuple[str, ...] = ()  # its `clientInfo.name` as an MCP client
    can: tuple[Capability, ...] = EVERYTHING
    passed_env: PassedEnv = "all"  # "named": only the variables that a server's entry names


AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude",
            "Claude Code",
            "claude",
            "npm install -g @anthropic-ai/claude-code",
            "claude auth login",
            ("user", "local", "project"),
            ("claude-code", "claude"),
        ),
        Agent(
            "codex",
            "Codex",
            "codex",
            "npm install -g @openai/codex",
            "codex login",
            ("user", "project"),
            ("codex-mcp-client", "codex"),
            passed_env="named",
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            "gemini",
            "npm install -g @google/gemini-cli",
            "gemini",
            ("user", "project"),
            ("gemini-cli-mcp-client", "gemini-cli", "gemini"),
            passed_env="no secrets",
        ),
        Agent(
            "cursor",
            "Cursor",
            "cursor-agent",
            "curl https://cursor.com/install -fsS | bash",
            "cursor-agent login",
            ("user", "project"),
            ("cursor-vscode", "cursor", "cursor-agent"),
            passed_env="named",
        ),
        Agent(
            "opencode",
            "OpenCode",
            "opencode",
            "npm install -g opencode-ai",
            "opencode auth login",
            ("user", "project"),
            ("opencode",),
            can=("ask", "servers", "setup"),
        ),
        Agent(
            "vscode",
            "VS Code",
            "code",
            "https://code.visualstudio.com/download",
            "",
            ("user", "project"),
            ("Visual Studio Code", "vscode"),
            can=("servers", "setup"),
        ),
    )
}


class AgentsWith(Mapping[str, Agent]):
    """The agents with one capability, in the table's order."""

    def __init__(self, capability: Capability) -> None:
        self._capability = capability

    def __getitem__(self, name: str) -> Agent:
        agent = AGENTS[name]
        if self._capability not in agent.can:
            raise KeyError(name)
        return agent

    def __iter__(self) -> Iterator[str]:
        return (name for name, row in AGENTS.items() if self._capability in row.can)

    def __len__(self) -> int:
        return sum(1 for _ in self)


ASKABLE, WITH_SERVERS, WITH_SKILLS, WITH_SETUP = map(AgentsWith, EVERYTHING)


def locate(agent: Agent, env: Mapping[str, str]) -> Path | None:
    """The agent's program on the caller's PATH. Relative entries are ignored: they are inside the current folder."""
    folders = [folder for folder in env.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    candidates = (f"{folder}/{agent.command}" for folder in folders)
    program = next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)  # noqa: PTH113 - never raises
    return Path(program) if program else None


class Workspace(Record):
    """Where an agent finds its files: home, environment and project.

    A relative path in a variable starts at the project, where the agent is started.
    """

    home: Path
    env: Mapping[str, str]
    project: Path

    def claude_json(self) -> Path:
        override = self.env.get("CLAUDE_CONFIG_DIR")
        return self.project / override / ".claude.json" if override else self.home / ".claude.json"

    def claude_dir(self) -> Path:
        override = self.env.get("CLAUDE_CONFIG_DIR")
        return self.project / override if override else self.home / ".claude"

    def codex_dir(self) -> Path:
        override = self.env.get("CODEX_HOME")
        return self.project / override if override else self.home / ".codex"

    def gemini_dir(self) -> Path:
        override = self.env.get("GEMINI_CLI_HOME")
        return (self.project / override if override else self.home) / ".gemini"

    def cursor_dir(self) -> Path:
        return self.home / ".cursor"

    def config_dir(self) -> Path:
        """XDG's folder. The specification forbids a relative one, which would make a project's files the user's."""
        override = self.env.get("XDG_CONFIG_HOME", "")
        return Path(override) if os.path.isabs(override) else self.home / ".config"  # noqa: PTH117 - `Path("")` is the current folder

    def claude_managed(self) -> Path:
        mac = sys.platform == "darwin"
        folder = "Library/Application Support/ClaudeCode" if mac else "etc/claude-code"
        return ROOT / folder / "managed-mcp.json"

    def codex_system(self) -> Path:
        return ROOT / "etc" / "codex"

    def gemini_managed(self) -> Path:
        mac = sys.platform == "darwin"
        folder = "Library/Application Support/GeminiCli" if mac else "etc/gemini-cli"
        return Path(self.env.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or ROOT / folder / "settings.json")

    def gemini_system(self) -> Path:
        override = self.env.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
        return Path(override) if override else self.gemini_managed().with_name("system-defaults.json")


def workspace_of(env: Mapping[str, str], project: Path) -> Workspace:
    return Workspace(Path(env.get("HOME") or Path.home()), env, project)
