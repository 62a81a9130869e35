"""Reads the settings of one caller from its environment and COUNSEL_HOME's two files."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from counsel.envvars import expanded, is_unexpanded
from counsel.settings.files import read_dotenv, read_toml
from counsel.settings.table import TABLES, Settings, rows
from counsel.settings.values import parse, provider_budgets

if TYPE_CHECKING:
    from counsel.team_login import TeamLogin


def default_home(env: Mapping[str, str]) -> Path:
    setting = env.get("COUNSEL_HOME")
    if setting and not is_unexpanded("COUNSEL_HOME", setting):
        return Path(os.path.expanduser(setting)).absolute()  # noqa: PTH111 - pathlib raises for an unknown user
    user = Path(env.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "counsel"
    data = Path(env.get("XDG_DATA_HOME", ""))  # a relative path would be in the project's folder
    return (data if data.is_absolute() else user / ".local" / "share") / "counsel"


def load(env: Mapping[str, str] | None = None) -> Settings:
    """Settings of one caller: its environment over COUNSEL_HOME's two files."""
    env = expanded(os.environ if env is None else env)
    home = default_home(env)
    problems: list[str] = []
    dotenv = _without_references(read_dotenv(home / ".env", problems), problems)
    config = read_toml(home / "config.toml", problems)
    own = {name: value for name, value in env.items() if value or name not in dotenv}
    combined = {**dotenv, **own}
    sources = {name: "environment" if name in own else str(home / ".env") for name in combined}
    values: dict[str, Any] = {}
    names = {row.name for row in rows()}
    problems += [
        f"{home / 'config.toml'}: unknown setting {name!r}, ignored."
        for name in config
        if name not in names and name not in TABLES
    ]
    problems += [
        f"{home / 'config.toml'}: {name} must be {form}; ignored."
        for name, form in TABLES.items()
        if not isinstance(config.get(name, {}), dict)
    ]
    for row in rows():
        raw, source = _pick(row, env, dotenv, config, home)
        if raw is None:
            continue
        try:
            values[row.name] = parse(row, raw)
            sources[row.name] = source
        except ValueError as error:
            # For a budget, the default (no limit) is not safe: a typing mistake would cost money.
            if row.metadata["unit"] == "usd":
                values[row.name], sources[row.name] = "0", source
                problems.append(f"{source}: {error}; nothing is spent until it is corrected.")
            else:
                problems.append(f"{source}: {error}; the default ({row.default!r}) is used.")
    tables: dict[str, Any] = {name: config[name] for name in TABLES if isinstance(config.get(name), dict)}
    return Settings(
        **values,
        provider_budgets=provider_budgets(
            combined, tables.get("budgets", {}), home / "config.toml", problems
        ),
        team=None if values.get("database") else _team(home),
        home=home,
        env=MappingProxyType(combined),
        tables=MappingProxyType(tables),
        sources=MappingProxyType(sources),
        problems=tuple(problems),
    )


def _team(home: Path) -> TeamLogin | None:
    """The team that this home has joined; the caller does not ask for a team's own server, which joins no other."""
    if not os.path.lexists(home / "team.json"):
        return None
    from counsel import team_login  # rarely needed

    return team_login.read(home)


def _without_references(dotenv: dict[str, str], problems: list[str]) -> dict[str, str]:
    """The variables, with keys read from the system's keychain where the file has a reference."""
    if not any(value.startswith("keychain:") for value in dotenv.values()):
        return dotenv
    from counsel.settings import keychain  # optional, and its backends take long to import

    return keychain.resolved(dotenv, problems)


def _pick(
    row: dataclasses.Field[object],
    env: Mapping[str, str],
    dotenv: Mapping[str, str],
    config: Mapping[str, object],
    home: Path,
) -> tuple[object, str]:
    name = row.metadata["env"]
    if env.get(name, "") != "":
        return env[name], f"environment variable {name}"
    if dotenv.get(name, "") != "":
        return dotenv[name], f"{home / '.env'}: {name}"
    if row.name in config:
        return config[row.name], f"{home / 'config.toml'}: {row.name}"
    return None, "default"
