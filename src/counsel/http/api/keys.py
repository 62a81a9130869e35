"""`/api/keys`: providers' keys by name, stored and removed like `counsel keys` does. No answer contains a key."""

from __future__ import annotations

import asyncio

from counsel import settings
from counsel.argument_schema import Checker
from counsel.errors import AuthenticationFailed
from counsel.http.api.endpoint import ApiCall
from counsel.models import provider_keys
from counsel.models.catalog import ProviderRow
from counsel.settings import Settings

_CHECKER = Checker(
    "keys",
    {
        "type": "object",
        "properties": {
            "key": {"type": "string", "minLength": 1},
            "check": {"type": "boolean"},
            "keychain": {"type": "boolean"},
        },
        "required": ["key"],
        "additionalProperties": False,
    },
)


async def listed(call: ApiCall) -> object:
    return await asyncio.to_thread(_rows, call)


def _rows(call: ApiCall) -> list[dict[str, object]]:
    loaded = _loaded(call)
    return [_shown(row, loaded) for row in provider_keys.rows(loaded)]


def _loaded(call: ApiCall) -> Settings:
    """Read again: a key may have been stored a moment ago."""
    return settings.load(call.context.identity.env)


def _now(call: ApiCall, row: ProviderRow) -> dict[str, object]:
    loaded = _loaded(call)
    return _shown(provider_keys.row_of(row.provider.name, loaded), loaded)


def _shown(row: ProviderRow, loaded: Settings) -> dict[str, object]:
    source = provider_keys.source(row, loaded)
    return {
        "provider": row.provider.name,
        "label": row.provider.label,
        "variable": provider_keys.variable(row, loaded),
        "set": bool(source),
        "source": source or None,
        "required": row.provider.key_required,
        "url": row.provider.key_url,
    }


async def store(call: ApiCall) -> object:
    arguments = _CHECKER.check(call.body)
    loaded = await asyncio.to_thread(_loaded, call)
    row = provider_keys.row_of(call.name, loaded)
    key = provider_keys.parsed(str(arguments["key"]))
    accepted = None
    if arguments.get("check", True):
        try:
            accepted = await provider_keys.is_accepted(row, key, call.context.identity.env)
        except AuthenticationFailed as error:
            error.hint = "Check it, or send check: false to store it anyway."
            raise
    keychain = bool(arguments.get("keychain", False))
    stored = await asyncio.to_thread(provider_keys.store, row, key, loaded.home, in_keychain=keychain)
    call.context.identity.read_again()
    return {
        **await asyncio.to_thread(_now, call, row),
        "stored": stored,
        "accepted": accepted,
        "well_formed": provider_keys.is_well_formed(row, key),
    }


async def remove(call: ApiCall) -> object:
    loaded = await asyncio.to_thread(_loaded, call)
    row = provider_keys.row_of(call.name, loaded)
    removed, notes = await asyncio.to_thread(provider_keys.remove, row, loaded.home)
    call.context.identity.read_again()
    return {**await asyncio.to_thread(_now, call, row), "removed": removed, "notes": notes}
