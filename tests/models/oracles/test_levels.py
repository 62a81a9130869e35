"""The levels of effort in catalog.toml against pydantic-ai's own: where the two disagree, the table says why."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from counsel.models import catalog_rows
from counsel.types import EFFORTS, Call, ModelSettings, Turn

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TABLE = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())["effort"]
LISTED = {(model, level) for line in TABLE for model in line["models"] for level in line["levels"]}


# pydantic-ai asks xAI and Mistral through their own SDKs, which are not installed here.
@pytest.mark.parametrize("name", ["openai", "anthropic", "google", "deepseek", "openrouter"])
async def test_levels_of_effort_agree_or_say_why_not(asking: ModuleType, name: str) -> None:
    provider = catalog_rows.shipped().providers[name]
    models = [model for model in catalog_rows.shipped().models.values() if model.provider == name]
    differ: set[tuple[str, str]] = set()
    async with asking.both_ways() as both:
        for model in models:
            for level in EFFORTS:
                call = Call((Turn("user", "hello"),), model_settings=ModelSettings(effort=level))
                question = asking.Question(f"{model.id}: {level}", model, provider, call)
                reply: dict[str, Any] = {"thinking": level}
                if provider.wire == "anthropic":
                    reply["max_tokens"] = model.output
                ours, theirs = await both.ours(question), await both.theirs(question, reply)
                if sent_effort(provider.wire, ours.body) != sent_effort(provider.wire, theirs.body):
                    differ.add((model.id, level))
    assert differ == {(model, level) for model, level in LISTED if model in {row.id for row in models}}


def sent_effort(wire: str, body: Any) -> Any:
    if wire == "gemini":
        return body.get("generationConfig", {}).get("thinkingConfig", {})
    if wire == "anthropic":
        thinking = {**(body.get("thinking") or {}), "display": None}  # no level: differences.toml has it
        return thinking, body.get("output_config")
    return (body.get("reasoning") or {}).get("effort") or body.get("reasoning_effort")
