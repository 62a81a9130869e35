"""A listing of models for programs: `counsel models --json` and HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from counsel.errors import ModelNotFound
from counsel.models import prices
from counsel.models.catalog import Catalog, ModelRow
from counsel.types import Json


def as_json(row: ModelRow) -> Json:
    """A row as `--json` and HTTP show it."""
    model = row.model
    price = prices.per_million(model)
    return {
        "id": model.id,
        "provider": model.provider,
        "wire_id": model.wire_id,
        "label": model.label,
        "aliases": list(row.names or model.aliases),
        "superseded_by": row.superseded_by or None,
        "available": row.available,
        "reason": row.reason,
        "context": model.context,
        "output": model.output,
        "price_per_million": {"input": price[0], "output": price[1]} if price else None,
        "vision": model.vision,
        "web_search": model.web_search,
        "tools": model.tools,
        "verbosity": model.verbosity,
        "media_resolution": model.media_resolution,
        "temperature": list(model.temperature) if model.temperature else None,
        "efforts": dict(model.efforts),
        "listed": model.listed,
    }


def newest_first(catalog: Catalog, rows: Iterable[ModelRow]) -> list[ModelRow]:
    """The rows by provider, in the catalog's order. The rows of one provider are stored oldest first."""
    position = {row.provider.name: number for number, row in enumerate(catalog.providers())}
    newest = list(reversed(list(rows)))
    return sorted(newest, key=lambda row: position[row.model.provider])


class Listing(TypedDict):
    models: list[Json]
    aliases: list[Json]
    problems: list[str]


def document(catalog: Catalog, rows: Iterable[ModelRow], problems: Iterable[str]) -> Listing:
    return {
        "models": [as_json(row) for row in rows],
        "aliases": aliases(catalog),
        "problems": list(problems),
    }


def aliases(catalog: Catalog) -> list[Json]:
    """The user's aliases, with the model that each means; `problem` if it means none."""
    return [_alias(catalog, alias.name, alias.target) for alias in catalog.aliases]


def _alias(catalog: Catalog, name: str, target: str) -> Json:
    try:
        return {"name": name, "target": target, "model": catalog.lookup(name).id}
    except ModelNotFound as error:
        return {"name": name, "target": target, "model": None, "problem": error.message}
