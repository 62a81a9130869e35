"""JSON Schemas that counsel itself writes for models."""

from __future__ import annotations

from collections.abc import Mapping


def strict_object(**properties: Mapping[str, object]) -> dict[str, object]:
    """An object schema whose properties are all required, as OpenAI's structured output has no optional ones."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
