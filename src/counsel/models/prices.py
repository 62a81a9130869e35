"""What a call cost, by genai-prices: bundled data, no network. Its import takes half a second, so it is late."""

from __future__ import annotations

import threading
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any

from counsel.types import Model, Usage

# our provider → genai-prices'; a provider that is not here has no price that we know
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


@cache
def warm() -> None:
    """Begin the import in a thread, once: it goes on while the first answer is on its way."""
    threading.Thread(target=import_module, args=("genai_prices",), name="prices", daemon=True).start()


def cost(model: Model, usage: Usage) -> float | None:
    """Dollars, or None when the price is not known. Never raises: an answer is worth more than its price."""
    if model.provider in _FREE:
        return 0.0
    tokens = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }
    if model.provider == "anthropic" and usage.cache_write:  # our cache marks live for an hour
        tokens["cache_write_1h_tokens"] = usage.cache_write
    found = _calculated(model, {name: count for name, count in tokens.items() if count})
    return float(found.total_price) if found else None


def per_million(model: Model) -> tuple[float, float] | None:
    """Dollars per million tokens of input and of output, at the lowest tier."""
    if model.provider in _FREE:
        return 0.0, 0.0
    found = _calculated(model, {})
    if found is None:
        return None
    return _lowest(found.model_price.input_mtok), _lowest(found.model_price.output_mtok)


def _calculated(model: Model, tokens: dict[str, int]) -> Any:
    try:
        from genai_prices import Usage as Tokens  # noqa: PLC0415
        from genai_prices import calc_price  # noqa: PLC0415

        return calc_price(Tokens(**tokens), model_ref=model.wire_id, provider_id=_PROVIDERS[model.provider])
    except Exception:  # noqa: BLE001 - unknown model or provider, odd counts, a broken installation: no price
        return None


def _lowest(price: Any) -> float:
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else 0.0
