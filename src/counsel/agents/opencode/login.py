"""Whether OpenCode is logged in, from its files and the environment; starts nothing."""

from __future__ import annotations

from pathlib import Path

from counsel.agents.definitions import Workspace, workspace_of
from counsel.agents.detect import Login, first_set, read_json
from counsel.agents.opencode.servers import FORMAT, folder
from counsel.caller import Caller

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


def login(caller: Caller) -> Login:
    env = caller.own_env
    workspace = workspace_of(env, caller.cwd)
    if read_json(_data(workspace) / "auth.json"):
        return True, "its own login"
    for table in FORMAT.tables(workspace):
        config = read_json(table.target.path) if table.scope == "user" else {}
        if config.get("provider") and config.get("model"):
            return True, f"a provider in {folder(workspace)}"
    name = first_set(env, *_KEYS)
    return (True, name) if name else (False, "")


def _data(workspace: Workspace) -> Path:
    override = workspace.env.get("XDG_DATA_HOME", "")
    return (Path(override) if override.startswith("/") else workspace.home / ".local" / "share") / "opencode"
