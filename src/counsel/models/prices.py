"""The cost of a call, from the data bundled with genai-prices: no network.

The library takes half a second to import and 0.2 ms for a call, so the prices of the catalog's models are in a table
that is generated from it (`prices.json`; a test compares both). The library is used only for models that are not
listed, and beyond the number of tokens at which a price changes.
"""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from counsel.types import Model, Usage

if TYPE_CHECKING:
    from datetime import datetime

# our provider → genai-prices' name; other providers have no known price
_PROVIDERS = {
    "openai": "openai",
    "google": "google",
    "xai": "x-ai",
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "openrouter": "openrouter",
}
_FREE = frozenset({"local"})


class Rates(NamedTuple):
    """Dollars per million tokens, for calls of fewer than `below` input tokens. If `below` is 0, the price depends on
    the time of day, and the table has the price at noon (UTC), for lists."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    below: int


def warm(model: Model) -> None:
    """If the table lacks the model's price, import the library in a thread while the answer is under way."""
    rates = _table().get(f"{model.provider}/{model.wire_id}")
    if model.provider in _PROVIDERS and _own(model) is None and (rates is None or not rates.below):
        _import_once()


@cache
def _import_once() -> None:
    threading.Thread(target=import_module, args=("genai_prices",), name="prices", daemon=True).start()


def cost(model: Model, usage: Usage) -> float | None:
    """Dollars, or None if the price is unknown. Never raises: a missing price must not lose an answer."""
    if (own := _own(model)) is not None:
        return round((usage.input * own[0] + usage.output * own[1]) / 1_000_000, 10)
    rates = _table().get(f"{model.provider}/{model.wire_id}")
    if rates is None or usage.input >= rates.below:
        return by_library(model, usage)
    uncached = usage.input - usage.cache_read - usage.cache_write
    if uncached < 0:
        return by_library(model, usage)
    dollars = (
        uncached * rates.input
        + usage.cache_read * rates.cache_read
        + usage.cache_write * rates.cache_write
        + usage.output * rates.output
    )
    return round(dollars / 1_000_000, 10)


class Bound(NamedTuple):
    """The most that a call can cost, in dollars: all of its input, and each token of its output."""

    input: float
    per_output_token: float


def bound(model: Model, tokens: int) -> Bound | None:
    """The bound for a call with at most this many tokens of input; None if the price is unknown."""
    input_cost = cost(model, Usage(input=tokens))
    output_cost = cost(model, Usage(input=tokens, output=1_000_000))
    if input_cost is None or output_cost is None:
        return None
    cache_cost = cost(model, Usage(input=tokens, cache_write=tokens)) or 0.0  # Anthropic: twice as much
    return Bound(max(input_cost, cache_cost), (output_cost - input_cost) / 1_000_000)


def is_listed(model: Model) -> bool:
    """Whether `cost` needs no library for a call of usual size."""
    rates = _table().get(f"{model.provider}/{model.wire_id}")
    return _own(model) is not None or bool(rates and rates.below)


def _own(model: Model) -> tuple[float, float] | None:
    """The user's prices (config.toml), or 0 for a model on this machine: dollars per million tokens."""
    if model.input_price is not None and model.output_price is not None:
        return model.input_price, model.output_price
    return (0.0, 0.0) if model.provider in _FREE else None


def per_million(model: Model) -> tuple[float, float] | None:
    """Dollars per million tokens of input and of output, at the lowest tier."""
    if (own := _own(model)) is not None:
        return own
    if rates := _table().get(f"{model.provider}/{model.wire_id}"):
        return rates.input, rates.output
    price = _library_price(model, {})
    if price is None:
        return None
    return _lowest(price.model_price.input_mtok), _lowest(price.model_price.output_mtok)


def by_library(model: Model, usage: Usage, at: datetime | None = None) -> float | None:
    """The cost according to genai-prices itself, now or at another time."""
    tokens = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }
    if model.provider == "anthropic" and usage.cache_write:  # our cache marks live for an hour
        tokens["cache_write_1h_tokens"] = usage.cache_write
    price = _library_price(model, {name: count for name, count in tokens.items() if count}, at)
    return float(price.total_price) if price else None


@cache
def _table() -> dict[str, Rates]:
    text = Path(__file__).with_name("prices.json").read_text(encoding="utf-8")
    return {name: Rates(*row) for name, row in json.loads(text).items()}


def _library_price(model: Model, tokens: dict[str, int], at: datetime | None = None) -> Any:
    try:
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price

        return calc_price(
            Tokens(**tokens),
            model_ref=model.wire_id,
            provider_id=_PROVIDERS[model.provider],
            genai_request_timestamp=at,
        )
    except Exception:  # noqa: BLE001 - unknown model or provider, odd counts, a broken installation: no price
        return None


def _lowest(price: object) -> float:
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else 0.0
