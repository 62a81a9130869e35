"""Whether Claude Code is logged in, from its files and the environment; starts nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from counsel.agents.definitions import workspace_of
from counsel.agents.detect import Login, first_set, read_json
from counsel.caller import Caller

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


def login(caller: Caller) -> Login:
    env = caller.own_env
    if own := own_login(caller):
        return True, own
    if name := first_set(env, *_KEYS, *_CLOUDS):
        return True, name
    workspace = workspace_of(env, caller.cwd)
    if read_json(workspace.claude_dir() / "settings.json").get("apiKeyHelper"):
        return True, "apiKeyHelper"
    return False, ""


def own_login(caller: Caller) -> str | None:
    workspace = workspace_of(caller.env, caller.cwd)
    if read_json(workspace.claude_dir() / ".credentials.json").get("claudeAiOauth"):
        return "its own login"
    if sys.platform == "darwin" and _mentions(workspace.claude_json(), b'"oauthAccount"'):
        return "its own login (keychain)"
    return None


def _mentions(path: Path, needle: bytes) -> bool:
    """Whether the file contains the text. It is not parsed: it can be several megabytes long."""
    try:
        return needle in path.read_bytes()
    except OSError:
        return False
