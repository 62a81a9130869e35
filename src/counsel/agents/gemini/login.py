"""Whether Gemini CLI is logged in, from its files and the environment; starts nothing."""

from __future__ import annotations

from counsel import paths
from counsel.agents.definitions import workspace_of
from counsel.agents.detect import Login, first_set, inside, read_json
from counsel.caller import Caller


def login(caller: Caller) -> Login:
    env = caller.own_env
    home = workspace_of(env, caller.cwd).gemini_dir()
    settings = read_json(home / "settings.json")
    auth_type = inside(settings, "security", "auth", "selectedType")
    if auth_type == "oauth-personal" or (auth_type is None and env.get("GOOGLE_GENAI_USE_GCA") == "true"):
        return (True, "its own login") if paths.exists(home / "oauth_creds.json") else (False, "")
    if auth_type == "gemini-api-key" and not env.get("GEMINI_API_KEY"):
        return None, "its key may be in the system's keychain"
    name = first_set(env, "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT")
    if auth_type is None and env.get("GOOGLE_GENAI_USE_VERTEXAI") != "true" and name != "GEMINI_API_KEY":
        return False, ""
    return (True, name) if name else (False, "")
