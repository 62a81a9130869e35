"""`/api/settings`: every setting with its value and source, and the providers' keys by name. No key is ever shown."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from counsel import redaction
from counsel import settings as settings_
from counsel.argument_schema import Checker
from counsel.errors import InvalidArgument
from counsel.http.api.endpoint import ApiCall
from counsel.models.catalog import Catalog
from counsel.request_rules import RULES
from counsel.settings import Settings
from counsel.settings import values as setting_values

_CHECKER = Checker(
    "settings",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1}},
        "required": ["name"],
        "additionalProperties": False,
    },
)
_ALIAS = Checker(
    "aliases",
    {
        "type": "object",
        "properties": {"model": {"type": "string", "minLength": 1}},
        "required": ["model"],
        "additionalProperties": False,
    },
)
_PANEL = Checker(
    "panels",
    {
        "type": "object",
        "properties": {"models": RULES["models"]},
        "required": ["models"],
        "additionalProperties": False,
    },
)
_TYPES = {"int": "integer", "bool": "boolean", "str": "string", "tuple[str, ...]": "strings"}


async def show(call: ApiCall) -> object:
    call.context.identity.read_again()  # people look right after they have edited a file
    return await asyncio.to_thread(document, call.settings)


async def change(call: ApiCall) -> object:
    """Write one setting like `counsel config set`: validated, with comments kept. Secrets are refused."""
    arguments = _CHECKER.check({name: value for name, value in call.body.items() if name != "value"})
    return await asyncio.to_thread(_change, call, str(arguments["name"]), call.body.get("value"))


def _change(call: ApiCall, name: str, value: object) -> dict[str, object]:
    from counsel.models import config_file

    row = config_file.row_named(name)
    if row is None:
        raise config_file.unknown(name)
    if value is None:
        value = config_file.MISSING
    else:
        _check(row, value)
    changed = config_file.put(call.settings.home, (row.name,), value)
    call.context.identity.read_again()
    settings = settings_.load(call.context.identity.env)
    return {"changed": changed, "setting": _setting(row, settings)}


def _check(row: dataclasses.Field[object], value: object) -> None:
    from counsel.models import config_file

    if row.metadata["secret"]:
        config_file.parsed(row.name, "")  # raises: secrets are refused
    try:
        setting_values.parse(row, value)
    except ValueError as error:
        raise InvalidArgument(f"{error}.", hint=str(row.metadata["description"])) from None


# ── aliases ──


async def set_alias(call: ApiCall) -> object:
    arguments = _ALIAS.check(dict(call.body))
    return await asyncio.to_thread(_put_alias, call, str(arguments["model"]).strip())


async def remove_alias(call: ApiCall) -> object:
    return await asyncio.to_thread(_put_alias, call, None)


def _put_alias(call: ApiCall, model: str | None) -> dict[str, object]:
    """Write the alias. The writer refuses one that names no model, and one that hides another name."""
    from counsel.models import config_file, listing

    name = call.name.strip()
    if not name:
        raise InvalidArgument("The alias has no name.", hint="Give a short name without spaces.")
    value = config_file.MISSING if model is None else model
    changed = config_file.put(call.settings.home, ("aliases", name), value)
    call.context.identity.read_again()
    catalog = Catalog.load(settings_.load(call.context.identity.env))
    return {"changed": changed, "aliases": listing.aliases(catalog)}


# ── panels ──


async def set_panel(call: ApiCall) -> object:
    arguments = _PANEL.check(dict(call.body))
    models: Any = arguments["models"]
    return await asyncio.to_thread(_put_panel, call, models)


async def remove_panel(call: ApiCall) -> object:
    return await asyncio.to_thread(_put_panel, call, None)


def _put_panel(call: ApiCall, models: list[object] | None) -> dict[str, object]:
    """Write the panel. The writer refuses an invalid name, a panel in a panel, and an unknown model."""
    from counsel.models import config_file

    name = call.name.strip()
    if not name:
        raise InvalidArgument("The panel has no name.", hint="Give a short name without spaces.")
    value = config_file.MISSING if models is None else models
    changed = config_file.put(call.settings.home, ("panels", name), value)
    call.context.identity.read_again()
    return {"changed": changed, "panels": _panels(settings_.load(call.context.identity.env))}


def _panels(settings: Settings) -> list[dict[str, object]]:
    from counsel.models import panels

    return [
        {
            "name": name,
            "models": entries if isinstance(entries, list) else [],
            **({"problem": reason} if (reason := panels.problem(name, entries)) else {}),
        }
        for name, entries in settings.tables.get("panels", {}).items()
    ]


# ── the document ──


def document(settings: Settings) -> dict[str, object]:
    return {
        "settings": [_setting(row, settings) for row in settings_.rows()],
        "keys": [
            {
                "provider": row.provider.name,
                "label": row.provider.label,
                "names": list(row.provider.key_envs),
                "set": bool(row.key_source),
                "source": row.key_source or None,
                "required": row.provider.key_required,
                "url": row.provider.key_url,
            }
            for row in Catalog.load(settings).providers()
        ],
        "panels": _panels(settings),
        "problems": list(settings.problems),
        "home": str(settings.home),
        "team": _team(settings),
    }


def _team(settings: Settings) -> dict[str, object] | None:
    login = settings.team
    if login is None:
        return None
    return {
        "url": login.url,
        "person": login.name,
        "role": login.role,
        "problem": login.problem or None,
    }


def _setting(row: dataclasses.Field[object], settings: Settings) -> dict[str, object]:
    metadata = row.metadata
    value = getattr(settings, row.name)
    return {
        "name": row.name,
        "env": metadata["env"],
        "description": metadata["description"],
        "type": _TYPES[str(row.type)],
        "value": None if metadata["secret"] else _redacted(value),
        "default": None if metadata["secret"] else _redacted(row.default),
        "source": settings.source(row.name),
        "secret": metadata["secret"],
        "set": settings.source(row.name) != "default",
        "choices": list(metadata["choices"]),
        "minimum": metadata["min"],
        "maximum": metadata["max"],
        "unit": metadata["unit"],
    }


def _redacted(value: object) -> object:
    if isinstance(value, tuple):
        return [redaction.redact(str(part)) for part in value]
    return redaction.redact(value) if isinstance(value, str) else value
