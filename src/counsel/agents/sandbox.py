"""What a consulted agent may touch: three levels, the same for all. Each agent's `run.py` maps them to its own flags.

| level | reads | writes and runs commands |
|---|---|---|
| read-only (default) | the working folder and the files it was given | nothing |
| workspace-write | the same | edits inside the working folder |
| danger-full-access | everything | everything, without asking: only when the user set it |
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from counsel.agents.definitions import AgentName
from counsel.settings import Settings

Level: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]
DEFAULT: Level = "read-only"

# Claude Code's names for its modes, as in PERMISSION_MODE. A name that is not listed grants nothing.
PERMISSION_MODES: dict[str, Level] = {
    "default": "read-only",
    "manual": "read-only",
    "plan": "read-only",
    "dontAsk": "read-only",
    "acceptEdits": "workspace-write",
    "auto_edit": "workspace-write",
    "bypassPermissions": "danger-full-access",
    "yolo": "danger-full-access",
}
# The setting that belongs to one agent; the others share COUNSEL_AGENT_SANDBOX.
OWN_SETTING: dict[AgentName, str] = {"codex": "codex_sandbox_mode"}


def level(agent: AgentName, settings: Settings) -> Level:
    """The agent's own setting when the user set it, else PERMISSION_MODE's level, else read-only."""
    name = OWN_SETTING.get(agent, "agent_sandbox")
    if settings.source(name) != "default" or not settings.permission_mode:
        return cast(Level, getattr(settings, name))
    return PERMISSION_MODES.get(settings.permission_mode, DEFAULT)
