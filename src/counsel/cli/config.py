"""`counsel config`: read and change the settings of COUNSEL_HOME/config.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from counsel import settings
from counsel.cli import json_option
from counsel.cli.terminal import output
from counsel.errors import ConfigInvalid, InvalidArgument
from counsel.models import config_file
from counsel.settings import Settings


def _keys(_ctx: click.Context, _param: click.Parameter, prefix: str) -> list[str]:
    return [row.name for row in settings.rows() if row.name.startswith(prefix)]


_KEY = click.argument("key", shell_complete=_keys)


@click.group()
def config() -> None:
    """Show and change settings; docs/use/settings.md lists them."""


@config.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """Show every setting, its value, and where it comes from.

    The environment wins over COUNSEL_HOME/.env, which wins over config.toml, which wins over the default.
    """
    user_settings = settings.load()
    rows = [*_rows(user_settings), *_table_rows(user_settings)]
    if as_json:
        output.document(
            {
                "file": str(user_settings.home / "config.toml"),
                "settings": rows,
                "problems": list(user_settings.problems),
                **({"team": user_settings.team.url} if user_settings.team else {}),
            }
        )
        return
    output.table(
        ("setting", "value", "from"), [(row["name"], _text(row["value"]), _origin(row)) for row in rows]
    )
    _report(user_settings)


@config.command()
@_KEY
@json_option
def get(key: str, *, as_json: bool) -> None:
    """Print a setting's value."""
    user_settings = settings.load()
    rows = [*_rows(user_settings), *_table_rows(user_settings)]
    name = ".".join(config_file.path_of(key))
    row = next((row for row in rows if row["name"] == name), None)
    if row is None:
        raise InvalidArgument(f"{name} is not set.", hint=f"Set it with `counsel config set {name} VALUE`.")
    if as_json:
        output.document(row)
    else:
        output.line(_text(row["value"]))


@config.command("set")
@_KEY
@click.argument("value")
@json_option
def set_(key: str, value: str, *, as_json: bool) -> None:
    """Set a value in config.toml. Lists are separated by commas.

    counsel config set default_model opus

    counsel config set aliases.fast gpt-5-mini

    counsel config set panels.architecture opus,gpt-5
    """
    _change(key, config_file.parsed(key, value), as_json=as_json)


@config.command()
@_KEY
@json_option
def unset(key: str, *, as_json: bool) -> None:
    """Remove a value from config.toml: the default applies."""
    _change(key, config_file.MISSING, as_json=as_json)


@config.command()
def edit() -> None:
    """Open config.toml in $VISUAL or $EDITOR. It is saved only if it is valid."""
    home = settings.load().home
    file = home / "config.toml"
    before = file.read_bytes() if file.exists() else b""
    text = before.decode("utf-8-sig", "replace")
    while True:
        text = _edit(text)
        if text.encode() == before:
            output.message("Nothing was changed.")
            return
        problems = config_file.problems(text)
        if not problems:
            break
        for problem in problems:
            output.message(f"problem: {problem}")
        if not (sys.stdin.isatty() and click.confirm("Edit again?", default=True, err=True)):
            raise ConfigInvalid(
                f"{file} was not changed: {problems[0].rstrip('.')}.",
                hint="Run `counsel config edit` again.",
                file=str(file),
            )
    config_file.replace(home, before, text)
    output.message(f"saved {file}")


def _edit(text: str) -> str:
    result = click.edit(text, extension=".toml", require_save=False)
    return text if result is None else result


def _change(key: str, value: object, *, as_json: bool) -> None:
    path = config_file.path_of(key)
    home = settings.load().home
    changed = config_file.put(home, path, value)
    user_settings = settings.load()
    name = ".".join(path)
    row = next(
        (row for row in (*_rows(user_settings), *_table_rows(user_settings)) if row["name"] == name),
        {"name": name, "value": None, "source": "default"},
    )
    if as_json:
        output.document({**row, "changed": changed, "file": str(home / "config.toml")})
        return
    output.message(f"{name} = {_text(row['value'])} ({_origin(row)})" if changed else "Nothing was changed.")
    if row["source"] in {"environment", ".env"}:
        output.message(f"note: {row['where']} takes precedence over config.toml")


def _rows(user_settings: Settings) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "value": _value(getattr(user_settings, row.name), secret=row.metadata["secret"]),
            "default": _value(row.default),
            "source": _kind(user_settings.source(row.name)),
            "where": user_settings.source(row.name),
            "environment": row.metadata["env"],
            "description": row.metadata["description"],
        }
        for row in settings.rows()
    ]


def _table_rows(user_settings: Settings) -> list[dict[str, Any]]:
    """The leaves of config.toml's tables. Keys and headers may hold secrets and are not shown."""
    where = str(user_settings.home / "config.toml")
    return [
        {"name": ".".join(path), "value": value, "default": None, "source": "config.toml", "where": where}
        for name, table in user_settings.tables.items()
        for path, value in _leaves((name,), table)
    ]


def _leaves(path: tuple[str, ...], value: object) -> list[tuple[tuple[str, ...], object]]:
    if path[-1] in {"api_key", "headers", "env"}:
        return [(path, "(not shown)")]
    if isinstance(value, dict) and len(path) < 3:
        return [leaf for name, member in value.items() for leaf in _leaves((*path, str(name)), member)]
    return [(path, value if isinstance(value, str | int | float | bool | list | dict) else str(value))]


def _value(value: object, *, secret: bool = False) -> object:
    if secret:
        return "(set, not shown)" if value else ""
    return list(value) if isinstance(value, tuple) else value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _kind(source: str) -> str:
    if source.startswith("environment"):
        return "environment"
    if source == "default":
        return "default"
    return ".env" if Path(source.rpartition(": ")[0]).name == ".env" else "config.toml"


def _origin(row: dict[str, Any]) -> str:
    return f"environment ({row['environment']})" if row["source"] == "environment" else str(row["source"])


def _report(user_settings: Settings) -> None:
    if user_settings.team:
        output.message(
            f"team: {user_settings.team.url or 'a login that cannot be read'} (`counsel login --status`, `counsel logout`)"
        )
    for problem in user_settings.problems:
        output.message(f"problem: {problem}")
