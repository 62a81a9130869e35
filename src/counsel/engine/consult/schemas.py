"""JSON Schemas that counsel itself writes for models."""

from __future__ import annotations

from counsel.types import Json


def strict_object(**properties: Json) -> Json:
    """All of them are required: OpenAI's structured output has no optional ones."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
