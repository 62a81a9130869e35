"""Rows of TOML → `Provider` and `Model`, checked field by field.

An invalid row is ignored and named in `problems`; the others work. The shipped tables and the user's
(`[providers.NAME]`, `[models.NAME]` in config.toml) are read by the same code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from counsel.agents.definitions import ASKABLE
from counsel.lazy_dataclass import dataclass
from counsel.models import families
from counsel.models.families import Families
from counsel.settings.files import line_numbers, salvage
from counsel.types import EFFORTS, Model, Provider

Table: TypeAlias = Mapping[str, Any]
WIRES = ("openai_responses", "openai_chat", "anthropic", "gemini")  # `wires.WIRES`, whose import takes 30 ms
RESERVED = frozenset({"auto", *ASKABLE})  # names that do not mean a model


@dataclass(frozen=True, slots=True)
class UserAlias:
    """A row of config.toml's `[aliases]`."""

    name: str
    target: str
    problem: str = ""  # why it is unusable


@dataclass(slots=True)
class Rows:
    """All providers and models, the same for every caller."""

    providers: dict[str, Provider] = field(default_factory=dict)
    defaults: dict[str, Table] = field(default_factory=dict)  # provider → fields of its models
    keys: dict[str, str] = field(default_factory=dict, repr=False)  # provider → a key in config.toml
    efforts: dict[str, Table] = field(default_factory=dict)  # preset → style and levels
    models: dict[str, Model] = field(default_factory=dict)  # id → model
    names: dict[str, str] = field(default_factory=dict)  # folded name or alias → id
    aliases: dict[str, UserAlias] = field(default_factory=dict)  # folded name → the user's alias
    problems: list[str] = field(default_factory=list)
    _families: Families | None = None

    def default_fields(self, provider: str) -> dict[str, Any]:
        """The defaults of this provider's models."""
        return _model_fields(self, self.defaults[provider])

    def copy(self) -> Rows:
        return Rows(
            dict(self.providers),
            dict(self.defaults),
            dict(self.keys),
            dict(self.efforts),
            dict(self.models),
            dict(self.names),
            dict(self.aliases),
            list(self.problems),
        )

    def families(self) -> Families:
        """Computed when first used: it takes some milliseconds, and most commands do not need it."""
        if self._families is None:
            self._families = families.compute(self.models, fold)
        return self._families


_replace_separators = re.compile(r"[\s._-]+").sub


def fold(name: str) -> str:
    """The name for comparisons: case does not matter, and "-", ".", "_" and " " are the same."""
    return _replace_separators("-", name.strip().lower())


@cache
def shipped() -> Rows:
    """The rows of shipped.json, which `make docs` generates: reading the two TOML files takes 10 ms."""
    tables = json.loads(Path(__file__).with_name("shipped.json").read_bytes())
    return _rows(Rows(), tables["providers"], tables["catalog"])


def read(providers_toml: str, catalog_toml: str) -> Rows:
    rows = Rows()
    providers = _parse("providers.toml", providers_toml, rows.problems)
    catalog = _parse("catalog.toml", catalog_toml, rows.problems)
    return _rows(rows, providers, catalog)


def _rows(rows: Rows, providers: Mapping[str, object], catalog: dict[str, object]) -> Rows:
    for name, table in providers.items():
        _try(rows, f"providers.toml [{name}]", _add_provider, name, table)
    for name, table in _table(catalog.pop("efforts", {})).items():
        _try(rows, f"catalog.toml [efforts.{name}]", _add_efforts, name, table)
    for provider, tables in catalog.items():
        for number, row in enumerate(tables if isinstance(tables, list) else [tables], 1):
            location = f"catalog.toml [[{provider}]] {_id_of(row) or number}"
            _try(rows, location, _add_model, provider, row)
    return rows


def with_user_tables(tables: Mapping[str, Any]) -> Rows:
    """The shipped rows, overridden by those of the user's config.toml."""
    rows = shipped()
    if not any(tables.get(name) for name in ("providers", "models", "aliases")):
        return rows
    rows = rows.copy()
    for name, table in tables.get("providers", {}).items():
        _try(rows, f"config.toml [providers.{name}]", _add_user_provider, name, table)
    for name, table in tables.get("models", {}).items():
        _try(rows, f"config.toml [models.{name}]", _add_user_model, name, table)
    for name, target in tables.get("aliases", {}).items():
        _try(rows, f"config.toml [aliases] {name}", _add_alias, name, target)
    return rows


# ── one row ──────────────────────────────────────────────────────────────────────────────────────────


def _try(rows: Rows, location: str, add: Callable[[Rows, str, object], None], name: str, row: object) -> None:
    try:
        add(rows, name, row)
    except (ValueError, TypeError) as error:
        rows.problems.append(f"{location}: {error}; ignored.")


def _add_provider(rows: Rows, name: str, row: object) -> None:
    fields = _checked(_table(row), PROVIDER_FIELDS)
    defaults = fields.pop("defaults", {})
    for key in ("label", "wire", "base_url"):
        if key not in fields:
            raise ValueError(f"{key} is missing")
    _checked(defaults, MODEL_FIELDS)
    rows.providers[name] = Provider(name=name, **fields)
    rows.defaults[name] = defaults


def _add_efforts(rows: Rows, name: str, row: object) -> None:
    table = _table(row)
    if set(table) != {"style", *EFFORTS}:
        raise ValueError(f"it must have style and {', '.join(EFFORTS)}")
    rows.efforts[name] = table


def _add_model(rows: Rows, provider: str, row: object, *, override: bool = False) -> None:
    if provider not in rows.providers:
        raise ValueError(f"unknown provider {provider!r}")
    table = dict(_table(row))
    identity = _string(table.pop("id", None))
    model = Model(id=identity, provider=provider, wire_id=identity)
    fields = _model_fields(rows, {**rows.defaults[provider], **table})
    _register(rows, replace(model, **fields), override=override)


def _add_user_provider(rows: Rows, name: str, row: Any) -> None:
    if name.lower() in RESERVED or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            "the name is reserved"
            if name.lower() in RESERVED
            else "the name must be a single word (letters, digits, _ . -)"
        )
    name = name.lower()
    behaviour = {key: value for key, value in _table(row).items() if key in _MODEL_DEFAULTS}
    _model_fields(rows, behaviour)
    fields = _checked({key: row[key] for key in row if key not in behaviour}, USER_PROVIDER_FIELDS)
    model_ids = fields.pop("models", ())
    key = fields.pop("api_key", "")
    key_env = fields.pop("api_key_env", "")
    provider = rows.providers.get(name)
    if provider is None:
        provider = _new_provider(name, fields, needs_key=bool(key_env))
    if key_env:
        fields["key_envs"] = (key_env,)
    rows.providers[name] = replace(provider, **fields)
    free = {"input_price": 0.0, "output_price": 0.0} if _runs_here(rows.providers[name], key) else {}
    rows.defaults[name] = {**rows.defaults.get(name, {"temperature": [0.0, 2.0]}), **free, **behaviour}
    if key:
        rows.keys[name] = key
    for identity in model_ids:
        _try(rows, f"config.toml [providers.{name}] models", _add_model, name, {"id": identity})


_LOCAL_NAMES = frozenset(
    {"ollama", "lmstudio", "lm-studio", "lm_studio", "llamacpp", "llama-cpp", "llama.cpp"}
)
_LOCAL_PORTS = frozenset({11434, 1234})  # Ollama's and LM Studio's


def _runs_here(provider: Provider, key: str) -> bool:
    """Whether its models run on this machine, free of charge. A loopback address alone may be a gateway's."""
    if key or provider.key_required:
        return False
    parts = urlsplit(provider.base_url)
    if parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
        return False
    return provider.name in _LOCAL_NAMES or parts.port in _LOCAL_PORTS


def _new_provider(name: str, fields: Table, *, needs_key: bool) -> Provider:
    if "base_url" not in fields:
        raise ValueError("base_url is missing")
    return Provider(
        name=name, label=name, wire="openai_chat", base_url=fields["base_url"], key_required=needs_key
    )


def _add_user_model(rows: Rows, name: str, row: object) -> None:
    table = dict(_table(row))
    provider = table.pop("provider", None)
    model = rows.models.get(rows.names.get(fold(name), ""))
    if model is not None and provider in {None, model.provider}:
        fields = _model_fields(rows, table)
        fields["aliases"] = (*model.aliases, *fields.get("aliases", ()))
        _register(rows, replace(model, **fields), override=True)
    elif provider is None:
        raise ValueError("provider is missing")
    else:
        _add_model(rows, _string(provider), {**table, "id": name}, override=True)


def _add_alias(rows: Rows, name: str, target: object) -> None:
    """A user's alias wins over every other name. Its target is checked later, when all names are known."""
    if fold(name) in RESERVED:
        raise ValueError("the name is reserved")
    if not fold(name) or "/" in name:
        raise ValueError("an alias is a name without /")
    if isinstance(target, dict):
        raise ValueError(f'write {name} = "MODEL", without a table')  # noqa: TRY004 - a value of the user's
    try:
        rows.aliases[fold(name)] = UserAlias(name, _string(target))
    except ValueError as error:
        rows.aliases[fold(name)] = UserAlias(name, str(target), f"its model {error}")
        raise


def _model_fields(rows: Rows, table: Table) -> dict[str, Any]:
    fields = _checked(table, MODEL_FIELDS)
    if ("input_price" in fields) != ("output_price" in fields):
        raise ValueError("input_price and output_price belong together")
    efforts = fields.pop("efforts", None)
    if efforts is not None:
        fields |= _effort_fields(rows, efforts)
    for name in ("successor", "specified_context"):
        if value := fields.pop(name, None):
            fields["options"] = {**fields.get("options", {}), name: value}
    return fields


def _effort_fields(rows: Rows, efforts: Any) -> dict[str, object]:
    """The fields of a preset, which is named or written out as a table."""
    if isinstance(efforts, str):
        if efforts not in rows.efforts:
            raise ValueError(f"efforts: unknown preset {efforts!r} (known: {', '.join(rows.efforts)})")
        efforts = rows.efforts[efforts]
    if set(efforts) != {"style", *EFFORTS}:
        raise ValueError(f"efforts must have style and {', '.join(EFFORTS)}")
    levels = {level: efforts[level] for level in EFFORTS}
    return {"effort_style": efforts["style"], "efforts": MappingProxyType(levels)}


def _register(rows: Rows, model: Model, *, override: bool) -> None:
    """Add a model under its names. With `override` (the user's rows) it may take an alias from another model."""
    for name in (model.id, *model.aliases):
        owner = rows.names.get(fold(name), model.id)
        if fold(name) in RESERVED:
            raise ValueError(f"the name {name!r} is reserved")
        if owner != model.id and (not override or fold(name) == fold(owner)):
            raise ValueError(f"the name {name!r} already means {owner}")
    for name in (model.id, *model.aliases):
        _take_alias(rows, fold(name), model.id)
        rows.names[fold(name)] = model.id
    rows.models[model.id] = model


def _take_alias(rows: Rows, folded_name: str, new_owner: str) -> None:
    owner = rows.names.get(folded_name, new_owner)
    if owner != new_owner:
        aliases = tuple(alias for alias in rows.models[owner].aliases if fold(alias) != folded_name)
        rows.models[owner] = replace(rows.models[owner], aliases=aliases)


# ── one field ────────────────────────────────────────────────────────────────────────────────────────


def _checked(row: Table, fields: Mapping[str, Callable[[object], object]]) -> dict[str, Any]:
    values = {}
    for name, value in row.items():
        if name not in fields:
            import difflib

            matches = difflib.get_close_matches(name, fields, n=1)
            raise ValueError(f"unknown field {name}" + (f" (did you mean {matches[0]}?)" if matches else ""))
        try:
            values[name] = fields[name](value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    return values


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("it must be a table")  # noqa: TRY004 - a value of the user's
    return value


def _id_of(row: object) -> str:
    return str(row.get("id", "")) if isinstance(row, dict) else ""


def _string(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    return value.strip()


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of strings")  # noqa: TRY004 - a value of the user's
    return tuple(_string(item) for item in value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - a value of the user's
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("must be a positive whole number")
    return value


def _price(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e6:
        raise ValueError("must be dollars per million tokens, 0 or more")
    return float(value)


def _span(value: object) -> tuple[float, float] | None:
    if value is False:
        return None
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value):
        return float(value[0]), float(value[1])
    raise ValueError("must be false or a range such as [0.0, 1.0]")


def _pattern(value: object) -> str:
    try:
        re.compile(_string(value))
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return str(value)


def address(value: object) -> str:
    """An http(s) URL without a trailing `/`; "" for none."""
    if value == "":
        return ""
    parts = urlsplit(_string(value))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be a URL that starts with https:// or http://")
    return str(value).strip().rstrip("/")


def _headers(value: object) -> Mapping[str, str]:
    table = {_string(name): _string(text) for name, text in _table(value).items()}
    if any(re.search(r"[\r\n\0]", name + text) for name, text in table.items()):
        raise ValueError("must not contain line breaks")
    return MappingProxyType(table)


def _wire(value: object) -> str:
    if value not in WIRES:
        raise ValueError(f"must be one of {', '.join(WIRES)}")
    return str(value)


def _efforts(value: object) -> object:
    return value if isinstance(value, str) else _table(value)


_MODEL_DEFAULTS: dict[str, Callable[[object], object]] = {
    "context": _count,
    "output": _count,
    "vision": _flag,
    "tools": _flag,
    "web_search": _flag,
    "verbosity": _flag,
    "media_resolution": _flag,
    "temperature": _span,
    "efforts": _efforts,
    "input_price": _price,
    "output_price": _price,
}
MODEL_FIELDS: dict[str, Callable[[object], object]] = {
    **_MODEL_DEFAULTS,
    "wire_id": _string,
    "label": _string,
    "aliases": _strings,
    "auto_rank": _count,
    "successor": _string,
    "specified_context": _count,
    "options": _table,
}
_COMMON_PROVIDER_FIELDS: dict[str, Callable[[object], object]] = {
    "label": _string,
    "wire": _wire,
    "base_url": address,
    "headers": _headers,
    "options": _table,
    "discover": _flag,
}
PROVIDER_FIELDS: dict[str, Callable[[object], object]] = {
    **_COMMON_PROVIDER_FIELDS,
    "base_url_env": _string,
    "key_envs": _strings,
    "key_required": _flag,
    "key_pattern": _pattern,
    "key_url": _string,
    "open_models": _flag,
    "defaults": _table,
}
USER_PROVIDER_FIELDS: dict[str, Callable[[object], object]] = {
    **_COMMON_PROVIDER_FIELDS,
    "api_key": _string,
    "api_key_env": _string,
    "key_required": _flag,
    "models": _strings,
}


def _parse(name: str, text: str, problems: list[str]) -> dict[str, object]:
    table, bad_lines = salvage(text)
    if bad_lines:
        problems.append(f"{name}: {line_numbers(bad_lines)} cannot be read; ignored.")
    return table
