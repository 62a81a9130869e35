"""`counsel keys`: store, list and remove providers' keys. A key is never an argument: other users could see it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from counsel import settings
from counsel.cli import json_option
from counsel.cli.terminal import output
from counsel.settings import Settings

if TYPE_CHECKING:
    from counsel.models.catalog import ProviderRow


def _names(_ctx: click.Context, _param: click.Parameter, prefix: str) -> list[str]:
    from counsel.models import provider_keys

    names = (row.provider.name for row in provider_keys.rows(settings.load()))
    return [name for name in names if name.startswith(prefix)]


_PROVIDER = click.argument("provider", shell_complete=_names)


@click.group()
def keys() -> None:
    """Store, list and remove the keys of providers."""


@keys.command("set")
@_PROVIDER
@click.option(
    "--keychain",
    "in_keychain",
    is_flag=True,
    help="Store the key in the system's keychain (needs `counsel[keychain]`).",
)
@click.option(
    "--check/--no-check", default=True, show_default=True, help="Ask the provider whether it accepts the key."
)
@json_option
def set_(provider: str, *, in_keychain: bool, check: bool, as_json: bool) -> None:
    """Store a key, typed without echo or read from standard input.

    The key is written to COUNSEL_HOME/.env, which only you can read. Running daemons use it within a second.

        pass show openai | counsel keys set openai
    """
    from counsel.models import provider_keys

    user_settings = settings.load()
    row = provider_keys.row_of(provider, user_settings)
    key = provider_keys.parsed(_read_key(row))
    accepted = _check(row, key) if check else None
    where = provider_keys.store(row, key, user_settings.home, in_keychain=in_keychain)
    if as_json:
        name = row.provider.key_envs[0]
        output.document(
            {"provider": row.provider.name, "variable": name, "stored": where, "accepted": accepted}
        )
        return
    output.message(f"{row.provider.label}: the key is stored in {where}.")
    if not provider_keys.is_well_formed(row, key):
        output.message(f"note: it does not look like a key from {row.provider.label}")
    if accepted is None and check:
        output.message("note: the key could not be checked; `counsel doctor --online` checks it later")
    if shadowing := provider_keys.shadowing(row, os.environ):
        output.message(f"note: {shadowing} is set in this shell and takes precedence here")


@keys.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """Show which providers have a key, and where it is stored. Only the last 4 characters of a key are shown."""
    from counsel.models import provider_keys

    user_settings = settings.load()
    rows = [_key_fields(row, user_settings) for row in provider_keys.rows(user_settings)]
    if as_json:
        output.document({"keys": rows, "problems": list(user_settings.problems)})
        return
    table = [(row["provider"], row["variable"], row["source"] or "not set", row["ends_with"]) for row in rows]
    output.table(("provider", "variable", "stored in", "ends with"), table)
    for problem in user_settings.problems:
        output.message(f"problem: {problem}")


@keys.command()
@_PROVIDER
@json_option
def remove(provider: str, *, as_json: bool) -> None:
    """Remove a provider's key from COUNSEL_HOME/.env and the keychain."""
    from counsel.models import provider_keys

    user_settings = settings.load()
    row = provider_keys.row_of(provider, user_settings)
    removed, notes = provider_keys.remove(row, user_settings.home)
    for note in notes:
        output.message(f"note: {note}")
    if as_json:
        output.document({"provider": row.provider.name, "removed": removed})
        return
    output.message(f"{row.provider.label}: the key is removed." if removed else "Nothing was changed.")
    if shadowing := provider_keys.shadowing(row, os.environ):
        output.message(f"note: {shadowing} is still set in this shell")


def _key_fields(row: ProviderRow, user_settings: Settings) -> dict[str, Any]:
    from counsel.models import provider_keys

    return {
        "provider": row.provider.name,
        "variable": provider_keys.variable(row, user_settings),
        "source": provider_keys.source(row, user_settings),
        "ends_with": provider_keys.ending(row, user_settings),
        "well_formed": row.key_well_formed if row.key_source else None,
    }


def _read_key(row: ProviderRow) -> str:
    from counsel.models import provider_keys

    if not sys.stdin.isatty():
        return sys.stdin.read(provider_keys.LONGEST + 1)
    url = f" ({row.provider.key_url})" if row.provider.key_url else ""
    return str(click.prompt(f"{row.provider.label} key{url}", hide_input=True, err=True))


def _check(row: ProviderRow, key: str) -> bool | None:
    import asyncio  # only the check needs it

    from counsel.models import provider_keys

    return asyncio.run(provider_keys.is_accepted(row, key, os.environ))
