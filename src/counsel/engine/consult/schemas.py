"""JSON Schemas that counsel itself writes for models."""

from __future__ import annotations

from collections.abc import Mapping


def strict_object(**properties: Mapping[str, object]) -> dict[str, object]:
    """All of them are required: OpenAI's structured output has no optional ones."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
