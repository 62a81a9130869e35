"""What we send is what pydantic-ai sends for the same request, field by field, for every model and setting."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

LISTED = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())["body"]


@pytest.mark.parametrize("wire", ["openai_responses", "openai_chat", "anthropic", "gemini"])
async def test_every_model_and_setting(asking: ModuleType, wire: str) -> None:
    async with asking.both_ways() as both:
        unlisted, seen = await compared(asking, both, wire)
    shown = [f"{where} ({len(cases)} times, e.g. {cases[0]})" for where, cases in unlisted.items()]
    assert not unlisted, "\n".join(shown)
    stale = [line for place, line in enumerate(LISTED) if place not in seen and line["wire"] == wire]
    assert not stale, "these differences are not there any more"


async def compared(asking: ModuleType, both: Any, wire: str) -> tuple[dict[str, list[str]], set[int]]:
    unlisted: dict[str, list[str]] = defaultdict(list)
    seen: set[int] = set()
    for asked in asking.questions():
        if asked.provider.wire != wire:
            continue
        ours, theirs = await both.ours(asked), await both.theirs(asked)
        assert ours.path == theirs.path
        for path, mine, other in asking.differences(ours.body, theirs.body):
            place = listed(asked, path)
            if place is None:
                unlisted[f"{asked.provider.name} {path}"].append(f"{asked.name}: {mine} / {other}")
            else:
                seen.add(place)
    return unlisted, seen


def listed(asked: Any, path: str) -> int | None:
    for place, line in enumerate(LISTED):
        providers = line.get("providers", [asked.provider.name])
        if (line["wire"], line["path"]) == (asked.provider.wire, path) and asked.provider.name in providers:
            return place
    return None
