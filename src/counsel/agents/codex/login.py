"""Whether Codex is logged in, from its files and the environment; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from counsel.agents.definitions import workspace_of
from counsel.agents.detect import Login, first_set, inside, read_json
from counsel.caller import Caller
from counsel.configfiles.document import parse
from counsel.errors import ConfigInvalid


def login(caller: Caller) -> Login:
    if caller.settings.codex_api_key:
        return True, "CODEX_API_KEY"
    home = workspace_of(caller.env, caller.cwd).codex_dir()
    auth = read_json(home / "auth.json")
    if auth.get("tokens") or auth.get("OPENAI_API_KEY"):
        return True, "its own login"
    config = _config(home / "config.toml")
    if provider := config.get("model_provider"):
        return _provider_login(str(provider), config, caller)
    if config.get("cli_auth_credentials_store") in {"keyring", "auto"}:
        return None, "its login is in the system's keyring"
    return False, ""


def _provider_login(name: str, config: Mapping[str, object], caller: Caller) -> Login:
    """Whether a custom provider has its key; some need none."""
    provider = inside(config, "model_providers", name)
    if inside(provider, "requires_openai_auth") or name == "openai":
        return False, ""
    key = inside(provider, "env_key")
    if key and not first_set(caller.own_env, str(key)):
        return False, ""
    return True, f"provider {name}"


def _config(path: Path) -> dict[str, object]:
    try:
        value: dict[str, object] = parse(path.read_text(encoding="utf-8"), "toml").value
    except (OSError, ValueError, ConfigInvalid):
        return {}
    return value
