"""A model's row as the doors show it."""

from __future__ import annotations

from counsel.models import prices
from counsel.models.catalog import Row
from counsel.types import Json


def as_json(row: Row) -> Json:
    model = row.model
    price = prices.per_million(model)
    return {
        "id": model.id,
        "provider": model.provider,
        "wire_id": model.wire_id,
        "label": model.label,
        "aliases": list(model.aliases),
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
