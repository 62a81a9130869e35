"""Providers' keys: where each is stored, whether its provider accepts it; storing and removing one. No key is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counsel import paths
from counsel import settings as settings_
from counsel.errors import AuthenticationFailed, CounselError, InvalidArgument, NotFound
from counsel.models.catalog import Catalog, ProviderRow
from counsel.settings import Settings, keychain
from counsel.settings.files import read_dotenv
from counsel.types import Limits

if TYPE_CHECKING:
    from counsel.types import Endpoint

LONGEST = 16_384
# Where a key is tested, if the list of models needs none.
TEST_PATHS = {"openrouter": "/key"}
_LINE = r"\s*(?:export\s+)?{name}\s*=.*"


# ── which providers have a key ───────────────────────────────────────────────────────────────────────


def rows(settings: Settings) -> list[ProviderRow]:
    """The providers that take a key."""
    return [row for row in Catalog.load(settings).providers() if row.provider.key_envs]


def row_of(provider: str, settings: Settings) -> ProviderRow:
    """The provider with this name, or with this variable for its key."""
    by_name = {row.provider.name: row for row in rows(settings)}
    for row in by_name.values():
        if provider.lower() == row.provider.name or provider in row.provider.key_envs:
            return row
    import difflib  # only a mistyped name needs it

    matches = difflib.get_close_matches(provider.lower(), by_name, n=1)
    hint = f"Did you mean {matches[0]}?" if matches else f"Providers with a key: {', '.join(by_name)}."
    raise NotFound(f"There is no provider {provider[:80]!r} that takes a key.", hint=hint)


def variable(row: ProviderRow, settings: Settings) -> str:
    """The variable that holds the key, or the one to set."""
    return _key_variable(row, settings) or row.provider.key_envs[0]


def source(row: ProviderRow, settings: Settings) -> str:
    """`environment`, `.env`, `keychain` or `config.toml`; "" if there is no key."""
    name = _key_variable(row, settings)
    if name is None:
        return "config.toml" if row.key_source else ""
    if settings.source(name) == "environment":
        return "environment"
    return "keychain" if _stored(settings.home, name).startswith(keychain.PREFIX) else ".env"


def ending(row: ProviderRow, settings: Settings) -> str:
    """The key's last 4 characters; "" for a key of fewer than 20 characters."""
    name = _key_variable(row, settings)
    key = settings.env[name].strip() if name else ""
    return f"…{key[-4:]}" if len(key) >= 20 else ""


def _key_variable(row: ProviderRow, settings: Settings) -> str | None:
    return next((name for name in row.provider.key_envs if settings.env.get(name, "").strip()), None)


def is_well_formed(row: ProviderRow, key: str) -> bool:
    return not row.provider.key_pattern or bool(re.search(row.provider.key_pattern, key))


# ── the key ──────────────────────────────────────────────────────────────────────────────────────────


def parsed(text: str, kind: str = "key") -> str:
    """The key, or token, that was typed, piped or sent."""
    key = text.strip()
    if not key:
        raise InvalidArgument(f"No {kind} was given.", hint="Type it, or pipe it into standard input.")
    # printable ASCII without blanks and quotes
    if len(key) > LONGEST or not re.fullmatch(r"[!#-&(-~]+", key):
        raise InvalidArgument(
            f"This is not a {kind}: it contains blanks, quotes, line breaks or other characters that no {kind} has.",
            hint=f"Give the {kind} alone.",
        )
    return key


async def is_accepted(row: ProviderRow, key: str, env: Mapping[str, str]) -> bool | None:
    """True: accepted; None: not known, because the provider could not be reached. Raises for a rejected key."""
    name = row.provider.key_envs[0]
    variables = {**env, **dict.fromkeys(row.provider.key_envs, ""), name: key}
    try:
        await _ask(Catalog.load(replace(settings_.load(variables), team=None)).endpoint(row.provider.name))
    except AuthenticationFailed:
        raise AuthenticationFailed(
            f"{row.provider.label} does not accept this key; it was not stored.",
            hint="Check it, or store it anyway with --no-check.",
            provider=row.provider.name,
        ) from None
    except CounselError:
        return None
    return True


async def _ask(endpoint: Endpoint) -> None:
    from counsel.models.transport import Transport
    from counsel.models.wires import WIRES

    transport = Transport()
    path = TEST_PATHS.get(endpoint.provider.name) or WIRES[endpoint.provider.wire].models_path
    try:
        await transport.get_json(endpoint, path, Limits(total=5.0, connect=3.0, first_event=5.0, idle=5.0))
    finally:
        await transport.close()


# ── COUNSEL_HOME/.env and the keychain ───────────────────────────────────────────────────────────────


def store(row: ProviderRow, key: str, home: Path, *, in_keychain: bool = False) -> str:
    """Store the key. Returns where, in words."""
    name = row.provider.key_envs[0]
    if not in_keychain:
        _write(home, name, key)
        return str(home / ".env")
    account = keychain.account(name, home)
    try:
        keychain.store(account, key)
    except keychain.KeychainError as error:
        raise InvalidArgument(f"The key was not stored: {error}.", hint="Omit --keychain.") from None
    _write(home, name, keychain.PREFIX + account)
    return "the system's keychain"


def remove(row: ProviderRow, home: Path) -> tuple[list[str], list[str]]:
    """Remove the key. Returns the variables that were removed, and notes about what could not be removed."""
    removed, notes = list[str](), list[str]()
    for name in row.provider.key_envs:
        value = _stored(home, name)
        if value.startswith(keychain.PREFIX):
            try:
                keychain.remove(value.removeprefix(keychain.PREFIX))
            except keychain.KeychainError as error:
                notes.append(f"{error}; the key may still be in the keychain")
        if value:
            _write(home, name, None)
            removed.append(name)
    return removed, notes


def _stored(home: Path, name: str) -> str:
    return read_dotenv(home / ".env", []).get(name, "")


def _write(home: Path, name: str, value: str | None) -> None:
    """Replace, add or (for None) delete the variable's line; every other byte stays. The file is created as 0600."""
    from counsel.configfiles.write import disk, locks

    file = Path(os.path.realpath(home / ".env"))
    with disk.translated_errors(file, "written"):
        paths.private_folder(home)
        with locks.own_lock(home, file):
            before = file.read_bytes().decode("utf-8", "surrogateescape") if file.exists() else ""
            after = _with_line(before, name, value)
            if after != before:
                paths.write_private(str(file), after.encode("utf-8", "surrogateescape"), replace=True)


def _with_line(text: str, name: str, value: str | None) -> str:
    lines = text.splitlines(keepends=True)
    positions = [
        at for at, line in enumerate(lines) if re.fullmatch(_LINE.format(name=name), line.rstrip("\r\n"))
    ]
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    for at in reversed(positions):  # delete all: the last one wins when the file is read
        del lines[at]
    if value is not None:
        at = positions[0] if positions else len(lines)
        if at and not lines[at - 1].endswith(("\n", "\r")):
            lines[at - 1] += end
        lines.insert(at, f"{name}={value}{end}")
    return "".join(lines)


def shadowing(row: ProviderRow, env: Mapping[str, Any]) -> str | None:
    """A variable of this environment that wins over the stored key."""
    return next((name for name in row.provider.key_envs if env.get(name)), None)
