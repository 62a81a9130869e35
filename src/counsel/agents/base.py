"""The agents as a table: names, commands, and the folders that their own variables can move."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from counsel.records import Record

AgentName: TypeAlias = Literal["claude", "codex", "gemini", "cursor"]
Scope: TypeAlias = Literal["user", "local", "project", "plugin", "system", "managed"]
SCOPES: tuple[Scope, ...] = ("user", "local", "project")
# What others keep: plugins and extensions; for all users, weaker than theirs; for all users, stronger than theirs.
OTHERS_SCOPES: tuple[Scope, ...] = ("plugin", "system", "managed")
ROOT = Path("/")


class Agent(Record):
    name: AgentName
    label: str
    command: str  # the program on PATH
    install: str  # how a person gets it
    login: str  # how a person logs in
    scopes: tuple[Scope, ...]  # where it keeps MCP servers
    client_names: tuple[str, ...] = ()  # how it introduces itself as an MCP client


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
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            "gemini",
            "npm install -g @google/gemini-cli",
            "gemini",
            ("user", "project"),
            ("gemini-cli-mcp-client", "gemini-cli", "gemini"),
        ),
        Agent(
            "cursor",
            "Cursor",
            "cursor-agent",
            "curl https://cursor.com/install -fsS | bash",
            "cursor-agent login",
            ("user", "project"),
            ("cursor-vscode", "cursor", "cursor-agent"),
        ),
    )
}


class Place(Record):
    """Where an agent's files are looked for: whose home, which environment, which project.

    A relative folder in a variable starts at the project, where the agent is started.
    """

    home: Path
    env: Mapping[str, str]
    project: Path

    def claude_json(self) -> Path:
        moved = self.env.get("CLAUDE_CONFIG_DIR")
        return self.project / moved / ".claude.json" if moved else self.home / ".claude.json"

    def claude_dir(self) -> Path:
        moved = self.env.get("CLAUDE_CONFIG_DIR")
        return self.project / moved if moved else self.home / ".claude"

    def claude_settings(self) -> list[Path]:
        """User, project and local settings: later ones win. The project's are those of the folder itself."""
        here = self.project / ".claude"
        paths = [self.claude_dir() / "settings.json", here / "settings.json", here / "settings.local.json"]
        return list(dict.fromkeys(paths))

    def codex_dir(self) -> Path:
        moved = self.env.get("CODEX_HOME")
        return self.project / moved if moved else self.home / ".codex"

    def gemini_dir(self) -> Path:
        moved = self.env.get("GEMINI_CLI_HOME")
        return (self.project / moved if moved else self.home) / ".gemini"

    def cursor_dir(self) -> Path:
        return self.home / ".cursor"

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
        moved = self.env.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
        return Path(moved) if moved else self.gemini_managed().with_name("system-defaults.json")


def place(env: Mapping[str, str], project: Path) -> Place:
    return Place(Path(env.get("HOME") or Path.home()), env, project)
