"""src/counsel/models/prices.json: the catalog's models as genai-prices has them today."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from counsel.models import catalog_rows, prices
from counsel.types import Model, Usage

PROBES = (1_000, 32_000, 100_000, 127_000, 199_000, 255_000, 900_000)  # vendors' steps lie between these


def table() -> str:
    prices = {f"{model.provider}/{model.wire_id}": rates for model in _models() if (rates := _rates(model))}
    lines = [f"  {json.dumps(name)}: {json.dumps(rates)}" for name, rates in sorted(prices.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _models() -> list[Model]:
    return list(catalog_rows.with_user_tables({}).models.values())


def _rates(model: Model) -> list[float] | None:
    """Dollars per million tokens, and the prompt's size up to which they apply. None: free or unknown."""
    row = {
        "input": Usage(input=1_000),
        "output": Usage(output=1_000),
        "cache_read": Usage(input=1_000, cache_read=1_000),
        "cache_write": Usage(input=1_000, cache_write=1_000),
    }
    if model.provider == "local":
        return None
    noon = datetime.now(UTC).replace(hour=12, minute=0)
    costs = {name: prices.by_library(model, usage, noon) for name, usage in row.items()}
    if costs["input"] is None or costs["output"] is None:
        return None
    dollars = [round((cost or 0.0) * 1_000, 6) for cost in costs.values()]
    below = 0 if model.provider == "deepseek" else _below(model, dollars[0])  # DeepSeek is cheaper at night
    return [*dollars, below]


def _below(model: Model, per_million: float) -> int:
    for count in PROBES:
        cost = prices.by_library(model, Usage(input=count))
        if cost is None or abs(cost - count * per_million / 1e6) > 1e-9:
            return PROBES[max(0, PROBES.index(count) - 1)]
    return 1_000_000_000
