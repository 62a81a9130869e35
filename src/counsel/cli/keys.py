"""`counsel keys`: store, list and remove providers' keys. A key is never an argument: others could see it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counsel import keychain, paths, settings
from counsel.cli import json_option, output
from counsel.errors import AuthenticationFailed, CounselError, InvalidArgument, NotFound
from counsel.settings import Settings

if TYPE_CHECKING:
    from counsel.models.catalog import Catalog, ProviderRow

_LONGEST = 16_384
_LINE = r"\s*(?:export\s+)?{name}\s*=.*"


def _names(_ctx: click.Context, _param: click.Parameter, prefix: str) -> list[str]:
    rows = _catalog(settings.load()).providers()
    return [
        row.provider.name for row in rows if row.provider.key_envs and row.provider.name.startswith(prefix)
    ]


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
    help="Store it in the system's keychain (needs `counsel[keychain]`).",
)
@click.option(
    "--check/--no-check", default=True, show_default=True, help="Ask the provider whether it accepts the key."
)
@json_option
def set_(provider: str, *, in_keychain: bool, check: bool, as_json: bool) -> None:
    """Store a key, typed without echo or read from standard input.

    It is written to COUNSEL_HOME/.env, which only you can read. Running daemons use it within a second.

        pass show openai | counsel keys set openai
    """
    loaded = settings.load()
    row = _row(provider, loaded)
    name = row.provider.key_envs[0]
    key = _read_key(row)
    accepted = _check(row, name, key) if check else None
    if in_keychain:
        account = keychain.account(name, loaded.home)
        try:
            keychain.store(account, key)
        except keychain.KeychainError as error:
            raise InvalidArgument(f"The key was not stored: {error}.", hint="Omit --keychain.") from None
        _write(loaded.home, name, keychain.PREFIX + account)
    else:
        _write(loaded.home, name, key)
    where = "the system's keychain" if in_keychain else str(loaded.home / ".env")
    if as_json:
        output.document(
            {"provider": row.provider.name, "variable": name, "stored": where, "accepted": accepted}
        )
        return
    output.message(f"{row.provider.label}: the key is stored in {where}.")
    if not _well_formed(row, key):
        output.message(f"note: it does not look like a key of {row.provider.label}")
    if accepted is None and check:
        output.message("note: it could not be checked; `counsel doctor --online` checks it later")
    if shadowing := [each for each in row.provider.key_envs if os.environ.get(each)]:
        output.message(f"note: {shadowing[0]} is set in this shell and takes precedence here")


@keys.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """Show which providers have a key, and where it is stored. Keys are never shown, only their last 4 characters."""
    loaded = settings.load()
    rows = [_listed(row, loaded) for row in _catalog(loaded).providers() if row.provider.key_envs]
    if as_json:
        output.document({"keys": rows, "problems": list(loaded.problems)})
        return
    table = [(row["provider"], row["variable"], row["source"] or "not set", row["ends_with"]) for row in rows]
    output.table(("provider", "variable", "stored in", "ends with"), table)
    for problem in loaded.problems:
        output.message(f"problem: {problem}")


@keys.command()
@_PROVIDER
@json_option
def remove(provider: str, *, as_json: bool) -> None:
    """Remove a provider's key from COUNSEL_HOME/.env and the keychain."""
    loaded = settings.load()
    row = _row(provider, loaded)
    removed = [name for name in row.provider.key_envs if _remove(loaded.home, name)]
    if as_json:
        output.document({"provider": row.provider.name, "removed": removed})
        return
    output.message(f"{row.provider.label}: the key is removed." if removed else "Nothing was changed.")
    if shadowing := [each for each in row.provider.key_envs if os.environ.get(each)]:
        output.message(f"note: {shadowing[0]} is still set in this shell")


# ── providers ──


def _catalog(loaded: Settings) -> Catalog:
    from counsel.models.catalog import Catalog

    return Catalog.load(loaded)


def _row(provider: str, loaded: Settings) -> ProviderRow:
    rows = {row.provider.name: row for row in _catalog(loaded).providers() if row.provider.key_envs}
    for row in rows.values():
        if provider.lower() == row.provider.name or provider in row.provider.key_envs:
            return row
    import difflib  # only a mistyped name needs it

    near = difflib.get_close_matches(provider.lower(), rows, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Providers with a key: {', '.join(rows)}."
    raise NotFound(f"There is no provider {provider[:80]!r} that takes a key.", hint=hint)


def _listed(row: ProviderRow, loaded: Settings) -> dict[str, Any]:
    name = next((each for each in row.provider.key_envs if loaded.env.get(each, "").strip()), None)
    key = loaded.env[name].strip() if name else ""
    source = _source(name, loaded) if name else ("config.toml" if row.key_source else "")
    return {
        "provider": row.provider.name,
        "variable": name or row.provider.key_envs[0],
        "source": source,
        "ends_with": f"…{key[-4:]}" if len(key) >= 20 else "",
        "well_formed": row.key_well_formed if row.key_source else None,
    }


def _source(name: str, loaded: Settings) -> str:
    if loaded.source(name) == "environment":
        return "environment"
    return "keychain" if _stored(loaded.home, name).startswith(keychain.PREFIX) else ".env"


def _well_formed(row: ProviderRow, key: str) -> bool:
    return not row.provider.key_pattern or bool(re.search(row.provider.key_pattern, key))


# ── the key ──


def _read_key(row: ProviderRow) -> str:
    if sys.stdin.isatty():
        where = f" ({row.provider.key_url})" if row.provider.key_url else ""
        text = click.prompt(f"Key of {row.provider.label}{where}", hide_input=True, err=True)
    else:
        text = sys.stdin.read(_LONGEST + 1)
    key = text.strip()
    if not key:
        raise InvalidArgument("No key was given.", hint="Type it, or pipe it into standard input.")
    if len(key) > _LONGEST or not re.fullmatch(
        r"[!#-&(-~]+", key
    ):  # without blanks, quotes and control characters
        raise InvalidArgument(
            "This is not a key: it contains blanks, quotes, line breaks or other characters that no key has.",
            hint="Give the key alone.",
        )
    return key


def _check(row: ProviderRow, name: str, key: str) -> bool | None:
    """True: accepted; None: not known, because the provider could not be reached. Raises for a rejected key."""
    import asyncio  # only this needs it

    env = {**os.environ, **dict.fromkeys(row.provider.key_envs, ""), name: key}
    try:
        endpoint = _catalog(settings.load(env)).endpoint(row.provider.name)
        asyncio.run(_ask(endpoint))
    except AuthenticationFailed:
        raise AuthenticationFailed(
            f"{row.provider.label} does not accept this key; it was not stored.",
            hint="Check it, or store it anyway with --no-check.",
            provider=row.provider.name,
        ) from None
    except CounselError:
        return None
    return True


async def _ask(endpoint: Any) -> None:
    from counsel.doctor.online import KEY_PATHS
    from counsel.models.transport import Transport
    from counsel.models.wires import WIRES
    from counsel.types import Limits

    transport = Transport()
    path = KEY_PATHS.get(endpoint.provider.name) or WIRES[endpoint.provider.wire].models_path
    try:
        await transport.get_json(
            endpoint, path, Limits(total=5.0, connect=3.0, first_event=5.0, idle=5.0, attempts=1)
        )
    finally:
        await transport.close()


# ── COUNSEL_HOME/.env ──


def _stored(home: Path, name: str) -> str:
    from counsel.setting_files import read_dotenv

    return read_dotenv(home / ".env", []).get(name, "")


def _remove(home: Path, name: str) -> bool:
    stored = _stored(home, name)
    if stored.startswith(keychain.PREFIX):
        try:
            keychain.remove(stored.removeprefix(keychain.PREFIX))
        except keychain.KeychainError as error:
            output.message(f"note: {error}; the key may still be in the keychain")
    if not stored:
        return False
    _write(home, name, None)
    return True


def _write(home: Path, name: str, value: str | None) -> None:
    """Replace the variable's line, or add it; every other byte stays. The file is 0600 from its first byte on."""
    from counsel.configfiles.write import disk, locks

    file = Path(os.path.realpath(home / ".env"))
    with disk.explained(file, "written"):
        paths.private_folder(home)
        with locks.own_lock(home, file):
            before = file.read_bytes().decode("utf-8", "surrogateescape") if file.exists() else ""
            after = _with_line(before, name, value)
            if after != before:
                paths.write_private(str(file), after.encode("utf-8", "surrogateescape"), replace=True)


def _with_line(text: str, name: str, value: str | None) -> str:
    lines = text.splitlines(keepends=True)
    own = [at for at, line in enumerate(lines) if re.fullmatch(_LINE.format(name=name), line.rstrip("\r\n"))]
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for at in reversed(own):  # the last one wins when it is read: none may stay behind
        del lines[at]
    if value is not None:
        at = own[0] if own else len(lines)
        if at and not lines[at - 1].endswith(("\n", "\r")):
            lines[at - 1] += end
        lines.insert(at, f"{name}={value}{end}")
    return "".join(lines)
