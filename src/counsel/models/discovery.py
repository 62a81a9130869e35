"""The models that a provider's own server lists (`counsel models --discover`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from counsel.models.catalog import Catalog
from counsel.models.wires import WIRES
from counsel.types import Endpoint, Limits, Model


class GetsJson(Protocol):
    """The part of the transport that discovery needs."""

    async def get_json(self, endpoint: Endpoint, path: str, limits: Limits = ...) -> object: ...


_MAX_LISTED = 5_000  # models of one server; OpenRouter has some 400
_MAX_ID_LENGTH = 200
_LIMITS = Limits(total=5.0, connect=3.0, first_event=5.0, idle=5.0)


async def discover(transport: GetsJson, catalog: Catalog, provider: str) -> list[Model]:
    """The models that a provider's server lists, with the catalog's facts where it has a row for them."""
    endpoint = catalog.endpoint(provider)
    answer = await transport.get_json(endpoint, WIRES[endpoint.provider.wire].models_path, _LIMITS)
    rows: Any = answer.get("data", answer.get("models", ())) if isinstance(answer, dict) else answer
    entries = rows[:_MAX_LISTED] if isinstance(rows, list) else ()
    pairs = [(_id_of(entry), entry) for entry in entries if isinstance(entry, dict)]
    return [catalog.discovered(provider, identity, **_window(entry)) for identity, entry in pairs if identity]


def _id_of(entry: Mapping[str, object]) -> str:
    return str(entry.get("id") or entry.get("name") or "")[:_MAX_ID_LENGTH].removeprefix("models/")


def _window(entry: dict[str, Any]) -> dict[str, int]:
    """The context window, under the names that OpenRouter, vLLM, LM Studio, Anthropic and Google give it."""
    names = ("context_length", "max_model_len", "max_context_length", "max_input_tokens", "inputTokenLimit")
    for name in names:
        if isinstance(entry.get(name), int) and entry[name] > 0:
            return {"context": entry[name]}
    return {}
