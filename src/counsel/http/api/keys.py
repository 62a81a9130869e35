"""`/api/keys`: providers' keys by name, stored and removed like `counsel keys` does. No answer contains a key."""

from __future__ import annotations

import asyncio

from counsel import settings as settings_
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


async def list_keys(call: ApiCall) -> object:
    return await asyncio.to_thread(_rows, call)


def _rows(call: ApiCall) -> list[dict[str, object]]:
    settings = _settings(call)
    return [_document(row, settings) for row in provider_keys.rows(settings)]


def _settings(call: ApiCall) -> Settings:
    """Load the settings again: a key may have been stored a moment ago."""
    return settings_.load(call.context.identity.env)


def _current(call: ApiCall, row: ProviderRow) -> dict[str, object]:
    settings = _settings(call)
    return _document(provider_keys.row_of(row.provider.name, settings), settings)


def _document(row: ProviderRow, settings: Settings) -> dict[str, object]:
    source = provider_keys.source(row, settings)
    return {
        "provider": row.provider.name,
        "label": row.provider.label,
        "variable": provider_keys.variable(row, settings),
        "set": bool(source),
        "source": source or None,
        "required": row.provider.key_required,
        "url": row.provider.key_url,
    }


async def store(call: ApiCall) -> object:
    arguments = _CHECKER.check(call.body)
    settings = await asyncio.to_thread(_settings, call)
    row = provider_keys.row_of(call.name, settings)
    key = provider_keys.parsed(str(arguments["key"]))
    accepted = None
    if arguments.get("check", True):
        try:
            accepted = await provider_keys.is_accepted(row, key, call.context.identity.env)
        except AuthenticationFailed as error:
            error.hint = "Check the key, or send `check: false` to store it anyway."
            raise
    keychain = bool(arguments.get("keychain", False))
    place = await asyncio.to_thread(provider_keys.store, row, key, settings.home, in_keychain=keychain)
    call.context.identity.read_again()
    return {
        **await asyncio.to_thread(_current, call, row),
        "stored": place,
        "accepted": accepted,
        "well_formed": provider_keys.is_well_formed(row, key),
    }


async def remove(call: ApiCall) -> object:
    settings = await asyncio.to_thread(_settings, call)
    row = provider_keys.row_of(call.name, settings)
    variables, notes = await asyncio.to_thread(provider_keys.remove, row, settings.home)
    call.context.identity.read_again()
    return {**await asyncio.to_thread(_current, call, row), "removed": variables, "notes": notes}
