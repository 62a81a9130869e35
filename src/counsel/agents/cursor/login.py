"""Whether Cursor is logged in, from its files and the environment; starts nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from counsel import paths
from counsel.agents.definitions import workspace_of
from counsel.agents.detect import Login, first_set, read_json
from counsel.caller import Caller


def login(caller: Caller) -> Login:
    env = caller.own_env
    if name := first_set(env, "CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"):
        return True, name
    workspace = workspace_of(env, caller.cwd)
    config = Path(env.get("XDG_CONFIG_HOME") or workspace.home / ".config") / "cursor"
    if paths.exists(config / "auth.json"):
        return True, "its own login"
    folders = (Path(env.get("CURSOR_CONFIG_DIR") or workspace.cursor_dir()), config)
    if any(read_json(folder / "cli-config.json").get("authInfo") for folder in folders):
        return True, "its own login"
    if sys.platform == "darwin":
        return None, "its login is in the system's keychain"
    return False, ""
